"""Three-way apply: the changes between two snapshots, applied to a third, as a prepared write.

Merges, reverts and cherry-picks are three-way applies with different snapshots. Every type is
reconciled, and the same integrity check as for other writes validates the result, so that all
conflicts are reported together. Reads, but writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.check import find_violations
from omnigraph.engine.commit.prepared_write import (
    PreparedWrite,
    StagingMode,
    TableChange,
    TableChanges,
)
from omnigraph.engine.merge.base import MergeBase
from omnigraph.engine.merge.options import Decided, MergeOptions, read_decisions
from omnigraph.engine.merge.reconcile import (
    Decisions,
    Reconciled,
    Sides,
    join_ids,
    no_decisions,
    reconcile,
)
from omnigraph.engine.ops.diff import DeltaSource
from omnigraph.engine.ops.export import read_entity
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.history import CommitNotes
from omnigraph.engine.state.manifest import Snapshot, make_table_key, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import Conflict, ConflictKind, Violation, show_text
from omnigraph.model.limits import CONFLICT_EDGES_SHOWN_MAX
from omnigraph.model.runtime import Runtime
from omnigraph.storage.ports import TableReader

_KIND_BY_RULE = {
    "endpoint": ConflictKind.ORPHAN_EDGE,
    "unique": ConflictKind.UNIQUE_VIOLATION,
    "cardinality": ConflictKind.CARDINALITY_VIOLATION,
}


@dataclass(frozen=True, slots=True)
class ThreeWayApply:
    """The changes to apply, the merge options, and the notes of the commit."""

    base: MergeBase
    source: Snapshot
    options: MergeOptions
    merged_parent_id: str | None
    notes: CommitNotes


@dataclass(frozen=True, slots=True)
class PreparedApply:
    """The write of a three-way apply, which is valid only without conflicts."""

    write: PreparedWrite
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class ThreeStates:
    """The three states of the graph."""

    base: MergeBase
    source: Snapshot
    target: Snapshot

    def is_unchanged(self, key: str) -> bool:
        """Whether the table versions alone show that a type of the target needs no change."""
        base, source, target = (
            each.entries[key].at if key in each.entries else None
            for each in (self.base.first, self.source, self.target)
        )
        return source == target or (base == source and self.base.is_one_commit)

    def find_sides(self, declared: NodeType | EdgeType, tables: DeltaSource) -> Sides:
        """The changes from the base to each of the other two states."""
        source, target = (
            self.base.find_changes(each, declared=declared, tables=tables)
            for each in (self.source, self.target)
        )
        return Sides(source, target)


@dataclass(frozen=True, slots=True)
class OpenType:
    """A type that the apply may change, and the caller's decisions about its entities."""

    key: str
    declared: NodeType | EdgeType
    decisions: Decisions


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """A three-way apply onto a state, before any row is read."""

    apply: ThreeWayApply
    onto: Basis
    decided: Decided
    states: ThreeStates

    @property
    def types(self) -> tuple[OpenType, ...]:
        """The types that the source changed or the caller decided about; nodes first, by name."""
        found = []
        listed = self.onto.catalog.stored_types()
        for declared in sorted(listed, key=lambda each: (each.kind is TypeKind.EDGE, each.name)):
            key = table_key_of(declared)
            decisions = self.decided.by_table.get(key)
            if decisions is not None or not self.states.is_unchanged(key):
                found.append(OpenType(key, declared, decisions or no_decisions(declared)))
        return tuple(found)


def plan_apply(apply: ThreeWayApply, *, onto: Basis, runtime: Runtime) -> ApplyPlan:
    """Parse the caller's decisions, and determine which types may change."""
    decided = read_decisions(apply.options, catalog=onto.catalog, runtime=runtime)
    states = ThreeStates(apply.base, apply.source, onto.snapshot)
    return ApplyPlan(apply, onto, decided, states)


def prepare_apply(
    apply: ThreeWayApply,
    *,
    onto: Basis,
    committed: SnapshotRows,
    tables: TableReader,
    runtime: Runtime,
) -> PreparedApply:
    """Compute the write of a three-way apply; conflicts are collected, not raised."""
    plan = plan_apply(apply, onto=onto, runtime=runtime)
    conflicts: list[Conflict] = []
    changes: dict[str, TableChange] = {}
    placement: dict[str, StagingMode] = {}
    for each in plan.types:
        sides = plan.states.find_sides(each.declared, tables)
        outcome = reconcile(
            each.declared,
            source=sides.source,
            target=sides.target,
            granularity=apply.options.granularity,
            decisions=each.decisions,
        )
        conflicts += outcome.conflicts
        put, removed = outcome.put, outcome.removed
        if put.num_rows or len(removed):
            changes[each.key] = TableChange(each.declared, put, removed, is_overwrite=False)
            placement[each.key] = _place(outcome)
    changes = dict(sorted(changes.items()))
    rules = find_violations(changes, catalog=onto.catalog, committed=committed).found
    conflicts += find_rule_conflicts(
        rules, conflicts, changes, plan=plan, committed=committed, tables=tables
    )
    write = make_write(plan, changes, placement, committed=committed)
    return PreparedApply(write, tuple(conflicts))


def make_write(
    plan: ApplyPlan,
    changes: TableChanges,
    placement: Mapping[str, StagingMode],
    *,
    committed: SnapshotRows,
) -> PreparedWrite:
    """The prepared write with the given changes."""
    apply = plan.apply
    return PreparedWrite(
        changes=changes,
        placement=placement,
        # The target's changes of a type determined the result, even if nothing changes.
        read_set=committed.read_set | {each.key for each in plan.types},
        # The meaning does not depend on the target's head: if that moves, the apply is computed
        # again.
        is_strict=False,
        merged_parent_id=apply.merged_parent_id,
        notes=replace(apply.notes, resolutions=plan.decided.resolutions),
    )


def _place(outcome: Reconciled) -> StagingMode:
    if not outcome.put.num_rows:
        return StagingMode.REMOVE
    if len(outcome.removed):
        return StagingMode.EXCHANGE
    return StagingMode.APPEND if outcome.is_adding else StagingMode.MERGE


# Integrity violations of the result


def find_rule_conflicts(
    violations: Iterable[Violation],
    conflicts: Iterable[Conflict],
    changes: TableChanges,
    *,
    plan: ApplyPlan,
    committed: SnapshotRows,
    tables: TableReader,
) -> Iterator[Conflict]:
    """The violations that do not merely follow from a row in conflict, as conflicts."""
    catalog = plan.onto.catalog
    undecided = {(each.type, each.id) for each in conflicts}
    for each in _name_edges(violations, changes, committed):
        if undecided.isdisjoint(_concerned(each, catalog)):
            yield _make_conflict(each, plan.states, tables, catalog)


def _name_edges(
    violations: Iterable[Violation], changes: TableChanges, committed: SnapshotRows
) -> Iterator[Violation]:
    """The violations; those of a cardinality list the edges that the caller can decide about."""
    by_key: dict[str, pa.Table] = {}
    for each in violations:
        if each.rule != "cardinality":
            yield each
            continue
        key = make_table_key(TypeKind.EDGE, each.type)
        if key not in by_key:
            # The edges that the apply puts or removes, with both their new and their old `src`.
            put = changes[key].put.select(["id", "src"])
            ids = join_ids([put["id"], changes[key].removed])
            old = committed.find_rows(key, "id", ids, columns=["id", "src"])
            by_key[key] = pa.concat_tables([put, old])
        touched = by_key[key]
        ids = pc.unique(touched.filter(pc.equal(touched["src"], each.id))["id"]).sort()
        shown = ", ".join(show_text(id) for id in ids[:CONFLICT_EDGES_SHOWN_MAX].to_pylist())
        more = len(ids) - CONFLICT_EDGES_SHOWN_MAX
        rest = f" and {more} more" if more > 0 else ""
        yield replace(each, message=f"{each.message}; resolve its edges {shown}{rest}")


def _concerned(violation: Violation, catalog: Catalog) -> set[tuple[str, str]]:
    """The entities whose row versions determine whether a rule is violated."""
    found = {(violation.type, violation.id)}
    edge = catalog.edges.get(violation.type)
    if violation.rule == "endpoint" and edge is not None:
        found.add((edge.ends[str(violation.property)], str(violation.value)))
    return found


def _make_conflict(
    violation: Violation, states: ThreeStates, tables: TableReader, catalog: Catalog
) -> Conflict:
    kind = _KIND_BY_RULE.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
    # A cardinality is violated by all edges of a node together, and the id is the node's.
    declared = None if kind is ConflictKind.CARDINALITY_VIOLATION else violation.type
    base, source, target = (
        _find_row(declared, violation.id, each, tables, catalog)
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


def _find_row(
    type_name: str | None, id: str, snapshot: Snapshot, tables: TableReader, catalog: Catalog
) -> Mapping[str, object] | None:
    declared = type_name and (catalog.nodes.get(type_name) or catalog.edges.get(type_name))
    return read_entity(declared, id, snapshot=snapshot, tables=tables) if declared else None
