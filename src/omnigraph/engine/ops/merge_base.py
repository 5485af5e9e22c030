"""The base of a merge: the state that both sides are measured from.

Usually one commit. Two branches that took from each other by different ways have several last
commits in common, and then no single one will do: what one side took from another base would look
new, and a row that the other side has removed since would come back. Their base is all of these
merged, worked out for what changed only; where they contradict each other, the first one counts.
A commit that went with its branch is known by what the two merges that brought it had in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.images import (
    Images,
    Sides,
    add_changes,
    among,
    changed_ids,
    choose_cells,
    differing_cells,
    find_difference,
    join_ids,
    keep_rows,
    list_changes,
)
from omnigraph.engine.ops.reconcile import Granularity, no_decisions, reconcile
from omnigraph.engine.ops.row_equality import Mask, equal_rows
from omnigraph.engine.ops.type_changes import DeltaSource, TypeChanges, find_changes
from omnigraph.engine.state.snapshot import Entry, Snapshot, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType


@dataclass(frozen=True, slots=True)
class Beside:
    """Another last commit in common, and what it and the first one have in common."""

    snapshot: Snapshot
    parting: MergeBase


@dataclass(frozen=True, slots=True)
class Bringing:
    """A merge of the past: the state before it, the one that it made, and the entities that its
    caller decided about, by type and id."""

    before: Snapshot
    after: Snapshot
    decided: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PureBringing:
    """A merge that took nothing but a commit in common, and where that one and its side parted.

    `is_ahead` says that the commit came after the first one of the base.
    """

    merge: Bringing
    since: MergeBase
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class BroughtToBoth:
    """The merges by which the two sides took what can no longer be read, and those of them that
    took nothing else."""

    by_source: Bringing
    by_target: Bringing
    pure: tuple[PureBringing, ...]


@dataclass(frozen=True, slots=True)
class MergeBase:
    """What both sides have in common; what was brought to both comes oldest first."""

    first: Snapshot
    beside: tuple[Beside, ...]
    brought: tuple[BroughtToBoth, ...]

    @property
    def is_one_commit(self) -> bool:
        """Whether the first commit is all of the base."""
        return not (self.beside or self.brought)

    def find_changes(
        self, to: Entry | None, *, declared: NodeType | EdgeType, tables: DeltaSource
    ) -> TypeChanges:
        """What leads from the base to a state of a type."""
        states = _TypeStates(declared, tables)
        changes = states.from_entry(self.first, to)
        if self.is_one_commit:
            return changes
        taken = [_find_taken(self.first, each, states) for each in self.beside]
        nothing = states.changes(self.first, self.first)
        base = reduce(_join, taken, nothing)
        for each in self.brought:
            base = add_changes(base, _find_agreed(self.first, base, each, states))
            for pure in each.pure:
                base = add_changes(base, _find_brought(self.first, base, pure, states))
        return find_difference(base, changes)


def one_commit(snapshot: Snapshot) -> MergeBase:
    """A base that is a single state."""
    return MergeBase(snapshot, (), ())


@dataclass(frozen=True, slots=True)
class _TypeStates:
    """The rows of one type in the states of a graph."""

    declared: NodeType | EdgeType
    tables: DeltaSource

    def changes(self, old: Snapshot, new: Snapshot) -> TypeChanges:
        return self.from_entry(old, new.entries.get(table_key_of(self.declared)))

    def changes_since(self, base: MergeBase, new: Snapshot) -> TypeChanges:
        entry = new.entries.get(table_key_of(self.declared))
        return base.find_changes(entry, declared=self.declared, tables=self.tables)

    def from_entry(self, old: Snapshot, new: Entry | None) -> TypeChanges:
        start = old.entries.get(table_key_of(self.declared))
        return find_changes(start, new, declared=self.declared, tables=self.tables)


# Several last commits


def _join(earlier: TypeChanges, later: TypeChanges) -> TypeChanges:
    """Changes of one base together; an id that both have follows the earlier."""
    known = changed_ids(earlier)

    def join(above: pa.Table, below: pa.Table) -> pa.Table:
        return pa.concat_tables([above, keep_rows(below, known)])

    return TypeChanges(
        inserted=join(earlier.inserted, later.inserted),
        before=join(earlier.before, later.before),
        after=join(earlier.after, later.after),
        deleted=join(earlier.deleted, later.deleted),
    )


def _find_taken(first: Snapshot, beside: Beside, states: _TypeStates) -> TypeChanges:
    """What the first base lacks of another one."""
    sides = Sides(
        source=states.changes_since(beside.parting, beside.snapshot),
        target=states.changes_since(beside.parting, first),
    )
    taken = reconcile(
        states.declared,
        source=sides.source,
        target=sides.target,
        granularity=Granularity.PROPERTY,
        decisions=no_decisions(states.declared),
    )
    before = Images.of(taken.put["id"].combine_chunks(), sides).target
    is_known = before["id"].is_valid()
    return TypeChanges(
        inserted=taken.put.filter(pc.invert(is_known)),
        before=before.filter(is_known),
        after=taken.put.filter(is_known),
        deleted=Images.of(taken.removed, sides).target,
    )


# Commits that went with their branch


def _find_agreed(
    first: Snapshot, base: TypeChanges, brought: BroughtToBoth, states: _TypeStates
) -> TypeChanges:
    """What leads from a base, which is the first state and some changes, to one that also has what
    two merges did alike: what only one of them did may be its own side's."""
    merges = (brought.by_source, brought.by_target)
    written = join_ids([changed_ids(states.changes(each.before, each.after)) for each in merges])
    source, target = (find_difference(base, states.changes(first, each.after)) for each in merges)
    sides = Sides(source, target)
    in_both = among(sides.source_ids, sides.target_ids)
    images = Images.of(among(in_both, pc.unique(written)), sides)
    is_alike = equal_rows(images.source, images.target)
    may_be_mixed = ~is_alike & ~_is_decided(images.ids, merges, states) & _are_there(images)
    agreed, mixed = images.filter(is_alike), images.filter(may_be_mixed)
    is_apart = differing_cells(states.declared, mixed.source, mixed.target)
    return _join(
        list_changes(agreed.base, agreed.source),
        list_changes(mixed.base, _choose(mixed.base, mixed.source, is_apart)),
    )


def _find_brought(
    first: Snapshot, base: TypeChanges, pure: PureBringing, states: _TypeStates
) -> TypeChanges:
    """The same for what one merge did that took nothing but what both sides have."""
    merge = pure.merge
    written = states.changes(merge.before, merge.after)
    ids = changed_ids(written)
    ids = ids.filter(pa.array(~_is_decided(ids, (merge,), states)))
    lacking = find_difference(base, states.changes(first, merge.after))
    images = Images.of(ids, Sides(written, written))
    was = _look_back(ids, lacking, images.source)
    # Properties that the merge left alone may be its side's own: these are as they were before.
    if pure.is_ahead:
        start = _look_back(ids, states.changes_since(pure.since, merge.after), images.source)
    else:
        start = was
    is_new = ~_are_there(Images(ids, start, images.base, images.source))
    changed = differing_cells(states.declared, images.base, images.source)
    changed = {name: each | is_new for name, each in changed.items()}
    return list_changes(was, _choose(images.source, start, changed))


def _look_back(ids: pa.Array, changes: TypeChanges, rows: pa.Table) -> pa.Table:
    """The rows of ids before some changes that led to these rows."""
    before = Images.of(ids, Sides(changes, changes)).base
    is_changed = pc.is_in(ids, value_set=changed_ids(changes)).to_numpy(zero_copy_only=False)
    return _choose(before, rows, dict.fromkeys(rows.column_names, is_changed))


def _choose(one: pa.Table, other: pa.Table, is_one: Mapping[str, Mask]) -> pa.Table:
    columns = [choose_cells(one[name], other[name], is_one[name]) for name in one.column_names]
    return pa.table(columns, schema=one.schema)


def _are_there(images: Images) -> Mask:
    """The entities that are there in all three states."""
    states = (images.base, images.source, images.target)
    found: Mask = np.logical_and.reduce([each["id"].is_valid().to_numpy() for each in states])
    return found


def _is_decided(ids: pa.Array, merges: Iterable[Bringing], states: _TypeStates) -> Mask:
    """The entities that a caller decided about, so that their rows say nothing of others."""
    name = states.declared.name
    decided = sorted({id for each in merges for type, id in each.decided if type == name})
    found: Mask = pc.is_in(ids, value_set=pa.array(decided, pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found
