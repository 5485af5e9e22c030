"""The merge base: the common state from which both sides of a merge are measured.

The base is usually one commit. After criss-cross merges it combines several common ancestors,
computed only for changed rows, and the nearest ancestor decides where they contradict each other.
A common commit whose branch was deleted is reconstructed from the merges that brought it to both
sides. The newest commits are read first, and the whole history only if they are not sufficient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.merge.reconcile import (
    Granularity,
    RowVersions,
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
    no_decisions,
    reconcile,
)
from omnigraph.engine.ops.diff import DeltaSource, Mask, TypeChanges, equal_rows, find_changes
from omnigraph.engine.state.ancestry import (
    Ancestry,
    SharedPast,
    find_common_ancestors,
    find_past,
    find_shared_past,
    follow_first_parents,
    gather_ancestry,
    list_brought,
)
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.history import Ancestor
from omnigraph.engine.state.manifest import ManifestState, Snapshot, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import CorruptError, NotFoundError
from omnigraph.model.limits import MERGE_BASE_DEPTH, MERGE_BASE_VERSIONS
from omnigraph.model.names import BranchName


@dataclass(frozen=True, slots=True)
class CrissCrossBase:
    """Another last common commit, and the merge base of it and the first one."""

    snapshot: Snapshot
    merge_base: MergeBase


@dataclass(frozen=True, slots=True)
class PastMerge:
    """A past merge: the states before and after it.

    `decided` contains the entities that its caller decided about, by type and id.
    """

    before: Snapshot
    after: Snapshot
    decided: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PastFastForward:
    """A merge that brought only a common commit, and the merge base of that commit and its side.

    With `is_ahead`, the commit is a descendant of the first commit of the base.
    """

    merge: PastMerge
    since: MergeBase
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class SharedMerges:
    """The merges that brought commits that are no longer readable to the two sides.

    `pure` lists the ones that brought nothing else.
    """

    by_source: PastMerge
    by_target: PastMerge
    pure: tuple[PastFastForward, ...]


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The state that both sides have in common; `brought` is ordered oldest first."""

    first: Snapshot
    other_bases: tuple[CrissCrossBase, ...]
    brought: tuple[SharedMerges, ...]

    @property
    def is_one_commit(self) -> bool:
        """Whether the base consists of the first commit only."""
        return not (self.other_bases or self.brought)

    def find_changes(
        self, to: Snapshot, *, declared: NodeType | EdgeType, tables: DeltaSource
    ) -> TypeChanges:
        """The changes from the base to a state of a type."""
        states = _TypeStates(declared, tables)
        changes = states.changes(self.first, to)
        if self.is_one_commit:
            return changes
        taken = [_find_taken(self.first, each, states) for each in self.other_bases]
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
        start, end = (each.entries.get(table_key_of(self.declared)) for each in (old, new))
        return find_changes(start, end, declared=self.declared, tables=self.tables)

    def changes_since(self, base: MergeBase, new: Snapshot) -> TypeChanges:
        return base.find_changes(new, declared=self.declared, tables=self.tables)


# Criss-cross merges


def _join(earlier: TypeChanges, later: TypeChanges) -> TypeChanges:
    """The union of two changes of one base; for an id in both, the earlier one takes precedence."""
    known = changed_ids(earlier)

    def join(above: pa.Table, below: pa.Table) -> pa.Table:
        return pa.concat_tables([above, keep_rows(below, known)])

    return TypeChanges(
        inserted=join(earlier.inserted, later.inserted),
        before=join(earlier.before, later.before),
        after=join(earlier.after, later.after),
        deleted=join(earlier.deleted, later.deleted),
    )


def _find_taken(first: Snapshot, other: CrissCrossBase, states: _TypeStates) -> TypeChanges:
    """The changes of another base that the first base lacks."""
    sides = Sides(
        source=states.changes_since(other.merge_base, other.snapshot),
        target=states.changes_since(other.merge_base, first),
    )
    taken = reconcile(
        states.declared,
        source=sides.source,
        target=sides.target,
        granularity=Granularity.PROPERTY,
        decisions=no_decisions(states.declared),
    )
    before = RowVersions.of(taken.put["id"].combine_chunks(), sides).target
    is_known = before["id"].is_valid()
    return TypeChanges(
        inserted=taken.put.filter(pc.invert(is_known)),
        before=before.filter(is_known),
        after=taken.put.filter(is_known),
        deleted=RowVersions.of(taken.removed, sides).target,
    )


# Commits of deleted branches


def _find_agreed(
    first: Snapshot, base: TypeChanges, brought: SharedMerges, states: _TypeStates
) -> TypeChanges:
    """The changes from a base to one that also has the equal effects of two merges.

    The base is the first state plus some changes. An effect that only one of the merges has may
    originate from its side only.
    """
    merges = (brought.by_source, brought.by_target)
    written = join_ids([changed_ids(states.changes(each.before, each.after)) for each in merges])
    source, target = (find_difference(base, states.changes(first, each.after)) for each in merges)
    sides = Sides(source, target)
    in_both = among(sides.source_ids, sides.target_ids)
    versions = RowVersions.of(among(in_both, pc.unique(written)), sides)
    is_alike = equal_rows(versions.source, versions.target)
    is_decided = _is_decided(versions.ids, merges, states)
    may_be_mixed = ~is_alike & ~is_decided & versions.exist_everywhere
    agreed, mixed = versions.filter(is_alike), versions.filter(may_be_mixed)
    is_apart = differing_cells(states.declared, mixed.source, mixed.target)
    return _join(
        list_changes(agreed.base, agreed.source),
        list_changes(mixed.base, _choose(mixed.base, mixed.source, is_apart)),
    )


def _find_brought(
    first: Snapshot, base: TypeChanges, pure: PastFastForward, states: _TypeStates
) -> TypeChanges:
    """The same for the effects of one merge that brought only commits that both sides have."""
    merge = pure.merge
    written = states.changes(merge.before, merge.after)
    ids = changed_ids(written)
    ids = ids.filter(pa.array(~_is_decided(ids, (merge,), states)))
    lacking = find_difference(base, states.changes(first, merge.after))
    versions = RowVersions.of(ids, Sides(written, written))
    was = _look_back(ids, lacking, versions.source)
    # Properties that the merge did not change may originate from its side only, so they keep their
    # earlier values.
    if pure.is_ahead:
        start = _look_back(ids, states.changes_since(pure.since, merge.after), versions.source)
    else:
        start = was
    is_new = ~RowVersions(ids, start, versions.base, versions.source).exist_everywhere
    changed = differing_cells(states.declared, versions.base, versions.source)
    changed = {name: each | is_new for name, each in changed.items()}
    return list_changes(was, _choose(versions.source, start, changed))


def _look_back(ids: pa.Array, changes: TypeChanges, rows: pa.Table) -> pa.Table:
    """The rows with the given ids before the changes that led to the given rows."""
    before = RowVersions.of(ids, Sides(changes, changes)).base
    is_changed = pc.is_in(ids, value_set=changed_ids(changes)).to_numpy(zero_copy_only=False)
    return _choose(before, rows, dict.fromkeys(rows.column_names, is_changed))


def _choose(one: pa.Table, other: pa.Table, is_one: Mapping[str, Mask]) -> pa.Table:
    columns = [choose_cells(one[name], other[name], is_one[name]) for name in one.column_names]
    return pa.table(columns, schema=one.schema)


def _is_decided(ids: pa.Array, merges: Iterable[PastMerge], states: _TypeStates) -> Mask:
    """The entities that a caller decided about; their rows do not indicate common changes."""
    name = states.declared.name
    decided = sorted({id for each in merges for type, id in each.decided if type == name})
    is_decided = pc.is_in(ids, value_set=pa.array(decided, pa.string()))
    found: Mask = is_decided.to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class MergeAncestry:
    """The merge base of two branches, and the commits that are new to the target.

    With `is_at_target`, the target has not changed since the base.
    """

    base: MergeBase
    is_at_target: bool
    brought: tuple[Ancestor, ...]


def find_merge_ancestry(
    source: Basis, target: Basis, *, noted: list[ManifestState], branch_states: BranchStates
) -> MergeAncestry | None:
    """The merge base of two branches; None if the target already contains the source.

    The states that the base consists of are noted, so that they can be checked again.
    """
    source_id, target_id = source.head.id, target.head.id
    deleted_branches: set[str] = set()
    for version_count in (*MERGE_BASE_VERSIONS, None):
        by_source = _read_past(source, version_count, branch_states)
        by_target = _read_past(target, version_count, branch_states)
        known = {**by_source, **by_target}
        if version_count is None:
            past: SharedPast | None = find_shared_past(source_id, target_id, known=known)
        else:
            past = find_common_ancestors(source_id, target_id, source=by_source, target=by_target)
        if past is None:
            continue
        last_ids = [each.id for each in past.last]
        if source_id in last_ids:
            return None
        states = _PastStates(target, branch_states, noted, known, deleted_branches)
        found = states.open_base(past, (source_id, target_id), depth=MERGE_BASE_DEPTH)
        # The substitute for an unreadable commit is correct only if the whole history is known.
        if found is not None and not (found.has_lost and version_count is not None):
            brought = list_brought(source_id, known=known, target=by_target)
            return MergeAncestry(found.base, target_id in last_ids, brought)
    raise CorruptError(
        subject=f"the history of '{source.branch}' and '{target.branch}'",
        problem="they have no commit in common that can be read",
    )


def _read_past(
    basis: Basis, version_count: int | None, branch_states: BranchStates
) -> dict[str, Ancestor]:
    if version_count == 0:
        return gather_ancestry([basis.head])
    since = 0 if version_count is None else basis.state.at.version - version_count
    return gather_ancestry(branch_states.commits_at(basis.state, since=since))


@dataclass(frozen=True, slots=True)
class _OpenedBase:
    """A base, and whether it substitutes something for commits that are not readable."""

    base: MergeBase
    has_lost: bool


@dataclass(frozen=True, slots=True)
class _PastStates:
    """The states that known commits published, as long as their branches exist."""

    target: Basis
    branch_states: BranchStates
    noted: list[ManifestState]
    known: Ancestry
    deleted_branches: set[str]

    def open_base(
        self, past: SharedPast, ends: tuple[str, str], *, depth: int
    ) -> _OpenedBase | None:
        """The readable merge base of two commits; None if no common commit is readable.

        At depth 0, it is the nearest common commit. Otherwise, further common commits are compared
        with their merge bases.
        """
        last, lost = self._open_last(past)
        if not last:
            return None
        (first_id, first), *others = last
        if not depth:
            return _OpenedBase(one_commit(first), has_lost=bool(lost))
        other_bases = []
        for id, snapshot in others:
            shared = find_shared_past(first_id, id, known=self.known)
            opened = self.open_base(shared, (first_id, id), depth=depth - 1)
            if opened is not None:
                other_bases.append(CrissCrossBase(snapshot, opened.base))
        brought = self._open_merges(lost, ends, first_id, depth=depth) if lost else ()
        return _OpenedBase(MergeBase(first, tuple(other_bases), brought), has_lost=bool(lost))

    def _open_last(self, past: SharedPast) -> tuple[list[tuple[str, Snapshot]], frozenset[str]]:
        """The last readable common commits, and the unreadable ones that precede none of them.

        The readable ones are ordered nearest first.
        """
        opened: dict[str, Snapshot] = {}
        lost: set[str] = set()
        waiting = [each.id for each in past.last]
        while waiting:
            id = waiting.pop()
            if id in opened or id in lost or id not in self.known:
                continue
            snapshot = self._find(self.known[id])
            if snapshot is None:
                lost.add(id)
                waiting += self.known[id].parent_ids
            else:
                opened[id] = snapshot
        before = find_past(opened, known=self.known)
        nearest_first = [each.id for each in (*past.last, *past.earlier)]
        last = [(id, opened[id]) for id in nearest_first if id in opened and id not in before]
        return last, frozenset(lost - before)

    def _open_merges(
        self, lost: frozenset[str], ends: tuple[str, str], first_id: str, *, depth: int
    ) -> tuple[SharedMerges, ...]:
        """The merges that brought unreadable commits to both sides, oldest first."""
        source, target = (follow_first_parents(each, known=self.known) for each in ends)
        places = {
            id: (source.place_by_brought[id], target.place_by_brought[id])
            for id in lost
            if id in source.place_by_brought and id in target.place_by_brought
        }
        found = []
        for place in sorted(set(places.values())):
            commits = source.commits[place[0]], target.commits[place[1]]
            left, right = map(self._open_merge, commits)
            if left is None or right is None:
                continue
            pure = []
            for merge, commit in zip((left, right), commits, strict=True):
                parent_id, merged_id = commit.parent_ids
                # A merge of a common commit brought only what both sides have in common.
                if places.get(merged_id) == place:
                    past = find_shared_past(parent_id, merged_id, known=self.known)
                    since = self.open_base(past, (parent_id, merged_id), depth=depth - 1)
                    is_ahead = first_id in find_past([merged_id], known=self.known)
                    if since is not None:
                        pure.append(PastFastForward(merge, since.base, is_ahead=is_ahead))
            found.append(SharedMerges(left, right, tuple(pure)))
        return tuple(found)

    def _open_merge(self, merge: Ancestor) -> PastMerge | None:
        after = self._find_state(merge)
        before = self._find(self.known[merge.parent_ids[0]])
        if after is None or before is None:
            return None
        decided = frozenset((each.type, each.id) for each in after.head.notes.resolutions)
        return PastMerge(before, after.snapshot, decided)

    def _find(self, commit: Ancestor) -> Snapshot | None:
        if commit.id == self.target.head.id:
            return self.target.snapshot
        state = self._find_state(commit)
        return None if state is None else state.snapshot

    def _find_state(self, commit: Ancestor) -> ManifestState | None:
        if commit.branch in self.deleted_branches:
            return None
        try:
            state = self.branch_states.state_of(
                commit.id, branch=commit.branch, version=commit.manifest_version
            )
        except NotFoundError:
            if not self.branch_states.has_branch(BranchName(commit.branch)):
                self.deleted_branches.add(commit.branch)
            return None
        self.noted.append(state)
        return state
