"""Replaying: what leads from one snapshot to another, done to a third, as a prepared write.

Merging, reverting and picking a commit are this one thing with different snapshots. Every type is
reconciled and the result is checked by the one evaluator of rules, so that all conflicts are known
together. Pure but for reads: nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.changes import ChangeSet, Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.integrity.evaluate import find_violations
from omnigraph.engine.commit.integrity.violations import show_text
from omnigraph.engine.ops.images import Sides, join_ids
from omnigraph.engine.ops.merge_base import MergeBase
from omnigraph.engine.ops.reconcile import (
    ConflictKind,
    Decisions,
    Granularity,
    Reconciled,
    no_decisions,
    reconcile,
)
from omnigraph.engine.ops.terms import Decided, Terms, read_decisions
from omnigraph.engine.ops.type_changes import DeltaSource
from omnigraph.engine.read.json_rows import entity_as_json
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import CommitNotes
from omnigraph.engine.state.snapshot import Entry, Snapshot, make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import Conflict, Violation
from omnigraph.model.limits import CONFLICT_EDGES_SHOWN_MAX
from omnigraph.model.runtime import Runtime
from omnigraph.storage.ports import TableStore

_KIND_BY_RULE = {
    "endpoint": ConflictKind.ORPHAN_EDGE,
    "unique": ConflictKind.UNIQUE_VIOLATION,
    "cardinality": ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class Replay:
    """Which way is to be gone again, on what terms, and what the commit will say of it."""

    base: MergeBase
    source: Snapshot
    terms: Terms
    merged_parent_id: str | None
    notes: CommitNotes


@dataclass(frozen=True, slots=True)
class PreparedReplay:
    """What a replay does to the target, unless there are conflicts."""

    write: PreparedWrite
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class ThreeStates:
    """The three states of the graph."""

    base: MergeBase
    source: Snapshot
    target: Snapshot

    def is_settled(self, key: str) -> bool:
        """Whether the target is as it should be, by the look of versions."""
        base, source, target = (
            each.entries.get(key) for each in (self.base.first, self.source, self.target)
        )
        return _is_same(source, target) or (_is_same(base, source) and self.base.is_one_commit)

    def find_sides(self, declared: NodeType | EdgeType, tables: DeltaSource) -> Sides:
        """What leads from the base to each of the others."""
        key = table_key_of(declared)
        source, target = (
            self.base.find_changes(each.entries.get(key), declared=declared, tables=tables)
            for each in (self.source, self.target)
        )
        return Sides(source, target)

    def reconcile(
        self,
        declared: NodeType | EdgeType,
        decisions: Decisions,
        *,
        granularity: Granularity,
        tables: DeltaSource,
    ) -> Reconciled:
        """What the target has to do to the rows of a type."""
        sides = self.find_sides(declared, tables)
        return reconcile(
            declared,
            source=sides.source,
            target=sides.target,
            granularity=granularity,
            decisions=decisions,
        )


@dataclass(frozen=True, slots=True)
class OpenType:
    """A type that a replay may change, and what the caller decided about its entities."""

    key: str
    declared: NodeType | EdgeType
    decisions: Decisions


@dataclass(frozen=True, slots=True)
class BegunReplay:
    """A replay onto a state, as far as it is known without a row of it."""

    replay: Replay
    onto: Basis
    decided: Decided
    states: ThreeStates

    @property
    def types(self) -> tuple[OpenType, ...]:
        """The types that the source changed or the caller decided about, nodes first, by name."""
        listed = _list_types(self.onto.catalog)
        return tuple(each for declared in listed for each in self._open(declared))

    def _open(self, declared: NodeType | EdgeType) -> Iterator[OpenType]:
        key = table_key_of(declared)
        decisions = self.decided.by_table.get(key)
        if decisions is not None or not self.states.is_settled(key):
            yield OpenType(key, declared, decisions or no_decisions(declared))


def begin_replay(replay: Replay, *, onto: Basis, runtime: Runtime) -> BegunReplay:
    """Read what a caller decided, and see which types are open."""
    decided = read_decisions(replay.terms, catalog=onto.catalog, runtime=runtime)
    states = ThreeStates(replay.base, replay.source, onto.snapshot)
    return BegunReplay(replay, onto, decided, states)


def prepare_replay(
    replay: Replay, *, onto: Basis, committed: SnapshotRows, tables: TableStore, runtime: Runtime
) -> PreparedReplay:
    """Work out what a replay does; conflicts are collected, not raised."""
    begun = begin_replay(replay, onto=onto, runtime=runtime)
    outcomes = {
        each.key: (
            each.declared,
            begun.states.reconcile(
                each.declared, each.decisions, granularity=replay.terms.granularity, tables=tables
            ),
        )
        for each in begun.types
    }
    changes = {
        key: _change_of(declared, outcome)
        for key, (declared, outcome) in sorted(outcomes.items())
        if outcome.put.num_rows or len(outcome.removed)
    }
    conflicts = [each for _, outcome in outcomes.values() for each in outcome.conflicts]
    rules = find_violations(changes, catalog=onto.catalog, committed=committed).found
    conflicts += tell_broken(
        rules, conflicts, changes, begun=begun, committed=committed, tables=tables
    )
    placement = {key: _place(outcomes[key][1]) for key in changes}
    write = make_write(begun, changes, placement, committed=committed)
    return PreparedReplay(write, tuple(conflicts))


def make_write(
    begun: BegunReplay,
    changes: ChangeSet,
    placement: Mapping[str, Placement],
    *,
    committed: SnapshotRows,
) -> PreparedWrite:
    """The write of a replay that changes this."""
    replay = begun.replay
    return PreparedWrite(
        changes=changes,
        placement=placement,
        # What the target had done to a type decided what becomes of it, even if that is nothing.
        read_set=committed.read_set | {each.key for each in begun.types},
        # The meaning of a replay does not depend on where the target is: it is worked out anew.
        is_strict=False,
        merged_parent_id=replay.merged_parent_id,
        notes=replace(replay.notes, resolutions=begun.decided.resolutions),
    )


def _list_types(catalog: Catalog) -> list[NodeType | EdgeType]:
    return [
        *(catalog.nodes[name] for name in sorted(catalog.nodes)),
        *(catalog.edges[name] for name in sorted(catalog.edges)),
    ]


def _is_same(left: Entry | None, right: Entry | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.at == right.at


def _change_of(declared: NodeType | EdgeType, outcome: Reconciled) -> TableChange:
    return TableChange(type=declared, put=outcome.put, removed=outcome.removed, is_overwrite=False)


def _place(outcome: Reconciled) -> Placement:
    if not outcome.put.num_rows:
        return Placement.REMOVE
    if len(outcome.removed):
        return Placement.EXCHANGE
    return Placement.APPEND if outcome.is_adding else Placement.MERGE


# Rules that the result would break


def tell_broken(
    violations: Iterable[Violation],
    conflicts: Iterable[Conflict],
    changes: ChangeSet,
    *,
    begun: BegunReplay,
    committed: SnapshotRows,
    tables: TableStore,
) -> Iterator[Conflict]:
    """The broken rules that are not merely the echo of an undecided row, as conflicts."""
    catalog = begun.onto.catalog
    undecided = {(each.type, each.id) for each in conflicts}
    for each in _name_edges(violations, changes, committed):
        if undecided.isdisjoint(_concerned(each, catalog)):
            yield _tell_one(each, begun.states, tables, catalog)


def _name_edges(
    violations: Iterable[Violation], changes: ChangeSet, committed: SnapshotRows
) -> Iterator[Violation]:
    """The violations, those of a cardinality with the edges that a caller may decide about."""
    by_key: dict[str, pa.Table] = {}
    for each in violations:
        if each.rule != "cardinality":
            yield each
            continue
        key = make_table_key(TypeKind.EDGE, each.type)
        if key not in by_key:
            by_key[key] = _list_touched(changes[key], committed)
        touched = by_key[key]
        ids = pc.unique(touched.filter(pc.equal(touched["src"], each.id))["id"]).sort()
        shown = ", ".join(show_text(id) for id in ids[:CONFLICT_EDGES_SHOWN_MAX].to_pylist())
        more = len(ids) - CONFLICT_EDGES_SHOWN_MAX
        rest = f" and {more} more" if more > 0 else ""
        yield replace(each, message=f"{each.message}; decide about its edges {shown}{rest}")


def _list_touched(change: TableChange, committed: SnapshotRows) -> pa.Table:
    """The edges that a replay puts or removes, each with where it starts and where it started."""
    put = change.put.select(["id", "src"])
    ids = join_ids([put["id"], change.removed])
    key = table_key_of(change.type)
    return pa.concat_tables([put, committed.find_rows(key, "id", ids, columns=["id", "src"])])


def _concerned(violation: Violation, catalog: Catalog) -> set[tuple[str, str]]:
    """The entities whose images decide whether a rule is broken."""
    found = {(violation.type, violation.id)}
    edge = catalog.edges.get(violation.type)
    if violation.rule == "endpoint" and edge is not None:
        node = edge.source if violation.property == "src" else edge.target
        found.add((node, str(violation.value)))
    return found


def _tell_one(
    violation: Violation, states: ThreeStates, tables: TableStore, catalog: Catalog
) -> Conflict:
    kind = _KIND_BY_RULE.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
    # A cardinality is broken by a node's edges together, and its id is the node's.
    declared = None if kind is ConflictKind.CARDINALITY_VIOLATION else violation.type
    base, source, target = (
        _find_image(declared, violation.id, each, tables, catalog)
        for each in (states.base.first, states.source, states.target)
    )
    return Conflict(
        type=violation.type,
        id=violation.id,
        kind=kind,
        message=violation.message,
        base=base,
        source=source,
        target=target,
    )


def _find_image(
    type_name: str | None, id: str, snapshot: Snapshot, tables: TableStore, catalog: Catalog
) -> Mapping[str, object] | None:
    declared = type_name and (catalog.nodes.get(type_name) or catalog.edges.get(type_name))
    entry = declared and snapshot.entries.get(table_key_of(declared))
    if not declared or not entry:
        return None
    columns = tables.schema(entry.at).names
    found = tables.find_rows(entry.at, ids=pa.array([id]), columns=columns)
    return entity_as_json(declared, found) if found.num_rows else None
