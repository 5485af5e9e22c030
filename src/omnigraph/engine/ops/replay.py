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
from omnigraph.engine.ops.images import join_ids
from omnigraph.engine.ops.merge_base import MergeBase
from omnigraph.engine.ops.reconcile import ConflictKind, Reconciled, no_decisions, reconcile
from omnigraph.engine.ops.terms import Decided, Terms, read_decisions
from omnigraph.engine.ops.type_changes import TypeChanges
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


def prepare_replay(
    replay: Replay, *, onto: Basis, committed: SnapshotRows, tables: TableStore, runtime: Runtime
) -> PreparedReplay:
    """Work out what a replay does; conflicts are collected, not raised."""
    decided = read_decisions(replay.terms, catalog=onto.catalog, runtime=runtime)
    images = _Snapshots(replay.base, replay.source, onto.snapshot, tables)
    outcomes = dict(_reconcile_all(replay.terms, decided, images, onto.catalog))
    changes = {
        key: _change_of(declared, outcome)
        for key, (declared, outcome) in sorted(outcomes.items())
        if outcome.put.num_rows or len(outcome.removed)
    }
    conflicts = [each for _, outcome in outcomes.values() for each in outcome.conflicts]
    violations = find_violations(changes, catalog=onto.catalog, committed=committed).found
    conflicts += _tell_broken(
        _name_edges(violations, changes, committed), conflicts, images, onto.catalog
    )
    write = PreparedWrite(
        changes=changes,
        placement={key: _place(outcomes[key][1]) for key in changes},
        # What the target had done to a type decided what becomes of it, even if that is nothing.
        read_set=committed.read_set | outcomes.keys(),
        # The meaning of a replay does not depend on where the target is: it is worked out anew.
        is_strict=False,
        merged_parent_id=replay.merged_parent_id,
        notes=replace(replay.notes, resolutions=decided.resolutions),
    )
    return PreparedReplay(write, tuple(conflicts))


@dataclass(frozen=True, slots=True)
class _Snapshots:
    """The three states of the graph, and where their rows are."""

    base: MergeBase
    source: Snapshot
    target: Snapshot
    tables: TableStore

    def is_settled(self, key: str) -> bool:
        """Whether the target is as it should be, by the look of versions."""
        base, source, target = (
            each.entries.get(key) for each in (self.base.first, self.source, self.target)
        )
        return _is_same(source, target) or (_is_same(base, source) and self.base.is_one_commit)

    def changes(self, to: Snapshot, declared: NodeType | EdgeType) -> TypeChanges:
        """What leads from the base to one of the others."""
        entry = to.entries.get(table_key_of(declared))
        return self.base.find_changes(entry, declared=declared, tables=self.tables)


def _reconcile_all(
    terms: Terms, decided: Decided, images: _Snapshots, catalog: Catalog
) -> Iterator[tuple[str, tuple[NodeType | EdgeType, Reconciled]]]:
    """The types that the source changed or the caller decided about, nodes first, by name."""
    for declared in _list_types(catalog):
        key = table_key_of(declared)
        decisions = decided.by_table.get(key)
        if decisions is None and images.is_settled(key):
            continue
        outcome = reconcile(
            declared,
            source=images.changes(images.source, declared),
            target=images.changes(images.target, declared),
            granularity=terms.granularity,
            decisions=decisions or no_decisions(declared),
        )
        yield key, (declared, outcome)


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


def _tell_broken(
    violations: Iterable[Violation],
    conflicts: Iterable[Conflict],
    images: _Snapshots,
    catalog: Catalog,
) -> Iterator[Conflict]:
    """The broken rules that are not merely the echo of an undecided row."""
    undecided = {(each.type, each.id) for each in conflicts}
    for each in violations:
        if undecided.isdisjoint(_concerned(each, catalog)):
            yield _tell_one(each, images, catalog)


def _concerned(violation: Violation, catalog: Catalog) -> set[tuple[str, str]]:
    """The entities whose images decide whether a rule is broken."""
    found = {(violation.type, violation.id)}
    edge = catalog.edges.get(violation.type)
    if violation.rule == "endpoint" and edge is not None:
        node = edge.source if violation.property == "src" else edge.target
        found.add((node, str(violation.value)))
    return found


def _tell_one(violation: Violation, images: _Snapshots, catalog: Catalog) -> Conflict:
    kind = _KIND_BY_RULE.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)
    # A cardinality is broken by a node's edges together, and its id is the node's.
    declared = None if kind is ConflictKind.CARDINALITY_VIOLATION else violation.type
    base, source, target = (
        _find_image(declared, violation.id, each, images.tables, catalog)
        for each in (images.base.first, images.source, images.target)
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
