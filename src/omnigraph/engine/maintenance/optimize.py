"""Optimize: compacts files and builds missing indexes, as one commit.

No query result changes, and no version is deleted. Only the tables that the branch itself has
written are optimized. A table that changes meanwhile is planned again; a table that has drifted is
skipped and reported. The compaction policy decides when automatic optimization is worth a commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.engine.commit.prepared_write import (
    PreparedWrite,
    StagingMode,
    TableChange,
    TableChanges,
)
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.publish import join_manifest
from omnigraph.engine.ops.retry import Prepared, run_write
from omnigraph.engine.results import IndexReport, OptimizeReport, PendingIndex
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, Snapshot, table_branch_of, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, Index, Key, NodeType
from omnigraph.model.limits import SMALL_FILES_MIN, UNINDEXED_SHARE_MIN
from omnigraph.model.names import BranchName
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import IndexKind, IndexSpec, Layout, TableReader, TableStore
from omnigraph.storage.predicates import IsPresent
from omnigraph.storage.row_files import table_schema


def ensure_indexes(
    branch: BranchName, *, authorship: Authorship, path: WritePath
) -> tuple[IndexReport, ...]:
    """Build the indexes that a branch's own tables lack, as one commit, and report on all."""
    tables = path.stores.tables

    def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[TableChanges]:
        del committed  # indexes are built from the tables themselves
        write = prepare_indexes(basis.snapshot, catalog=basis.catalog, tables=tables)
        return Prepared(write, write.changes)

    done = run_write(
        branch, prepare=prepare, codec=None, inputs=None, authorship=authorship, path=path
    )
    if done.commit is None:
        # A call that builds nothing passes the same failpoint, and leaves nothing to recover.
        path.failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT)
    basis = path.branch_states.pin(branch)
    return report_indexes(done.result, basis.snapshot, catalog=basis.catalog, tables=tables)


def prepare_indexes(snapshot: Snapshot, *, catalog: Catalog, tables: TableReader) -> PreparedWrite:
    """The write that builds the missing indexes of a branch's own tables."""
    changes: dict[str, TableChange] = {}
    for declared, entry in _own_tables(snapshot, catalog):
        existing = tables.indexes(entry.at)
        wanted = find_buildable(declared, entry, tables)
        buildable = tuple(each for each in wanted if each not in existing)
        if buildable:
            changes[entry.table_key] = TableChange(
                type=declared,
                put=table_schema(declared).empty_table(),
                removed=pa.array([], pa.string()),
                is_overwrite=False,
                indexes=buildable,
            )
    return PreparedWrite(
        changes=dict(sorted(changes.items())),
        placement=dict.fromkeys(changes, StagingMode.INDEX),
        read_set=frozenset(),
        is_strict=False,
    )


def count_unindexed(basis: Basis, *, tables: TableReader) -> int:
    """The number of rows of the types whose missing indexes can be built."""
    write = prepare_indexes(basis.snapshot, catalog=basis.catalog, tables=tables)
    return sum(basis.snapshot.get(key).row_count for key in write.changes)


def report_indexes(
    changes: TableChanges, snapshot: Snapshot, *, catalog: Catalog, tables: TableReader
) -> tuple[IndexReport, ...]:
    """The state of every wanted index of a snapshot, type by type, after building."""
    reports = []
    for declared in catalog.stored_types():
        entry = snapshot.get(table_key_of(declared))
        rows_by_spec = tables.indexes(entry.at)
        change = changes.get(entry.table_key)
        built = frozenset() if change is None else frozenset(change.indexes)
        for column, specs in _by_column(declared).items():
            absences = (_explain_absence(each, rows_by_spec, entry, snapshot) for each in specs)
            report = IndexReport(
                type=declared.name,
                column=column,
                kind=specs[-1].kind,
                is_built=not built.isdisjoint(specs),
                rows=entry.row_count,
                rows_covered=min(rows_by_spec.get(each, 0) for each in specs),
                pending_reason=next(filter(None, absences), None),
            )
            reports.append(report)
    return tuple(reports)


def choose_indexes(declared: NodeType | EdgeType) -> tuple[IndexSpec, ...]:
    """The indexes that a type should have."""
    if isinstance(declared, EdgeType):
        return tuple(IndexSpec(column, IndexKind.BTREE) for column in ("id", "src", "dst"))
    named = dict.fromkeys(
        constraint.columns[0]
        for constraint in declared.constraints
        if isinstance(constraint, Key | Index) and len(constraint.columns) == 1
    )
    wanted = [IndexSpec("id", IndexKind.BTREE)]
    for column in named:
        kinds = _kinds_for(declared.properties[column].type)
        wanted += [IndexSpec(column, kind) for kind in kinds]
    return tuple(wanted)


def _by_column(declared: NodeType | EdgeType) -> dict[str, list[IndexSpec]]:
    specs_by_column: dict[str, list[IndexSpec]] = {}
    for spec in choose_indexes(declared):
        specs_by_column.setdefault(spec.column, []).append(spec)
    return specs_by_column


def _kinds_for(type: PropertyType) -> tuple[IndexKind, ...]:
    if type.is_vector:
        return (IndexKind.VECTOR,)
    if type.is_list or type.is_blob:
        return ()
    if type.element is Scalar.STRING and type.enum_values is None:
        # Lance answers comparisons from the first and text searches from the second.
        return (IndexKind.BTREE, IndexKind.INVERTED)
    return (IndexKind.BTREE,)


def _own_tables(
    snapshot: Snapshot, catalog: Catalog
) -> Iterator[tuple[NodeType | EdgeType, Entry]]:
    """The types that have rows, and whose rows are on a table branch of the branch itself."""
    own = table_branch_of(snapshot.branch)
    for declared in catalog.stored_types():
        entry = snapshot.get(table_key_of(declared))
        if entry.branch == own and entry.row_count:
            yield declared, entry


def find_buildable(
    declared: NodeType | EdgeType, entry: Entry, tables: TableReader
) -> tuple[IndexSpec, ...]:
    """The indexes that a type should have and that can be built: on stored columns with values."""
    if not entry.row_count:
        return ()
    stored = frozenset(tables.schema(entry.at).names)
    wanted = [each for each in choose_indexes(declared) if each.column in stored]
    return tuple(
        each
        for each in wanted
        if each.kind is not IndexKind.VECTOR
        or tables.count(entry.at, predicate=IsPresent(each.column))
    )


def list_pending(
    declared: NodeType | EdgeType, entry: Entry, snapshot: Snapshot, tables: TableReader
) -> tuple[PendingIndex, ...]:
    """The indexes that a type should have and lacks, each with the reason."""
    rows_by_spec = tables.indexes(entry.at)
    reasons = {
        spec.column: _explain_absence(spec, rows_by_spec, entry, snapshot)
        for spec in choose_indexes(declared)
    }
    return tuple(PendingIndex(column, reason) for column, reason in reasons.items() if reason)


def _explain_absence(
    spec: IndexSpec, rows_by_spec: Mapping[IndexSpec, int], entry: Entry, snapshot: Snapshot
) -> str | None:
    if spec in rows_by_spec:
        return None
    if not entry.row_count:
        return "the type has no rows"
    if entry.branch != table_branch_of(snapshot.branch):
        return "the branch has not written the type; its rows are those of another branch"
    return "no row has a value yet"


OPTIMIZE_ACTOR = "omnigraph:optimize"

DRIFTED = "drift_needs_repair"
INHERITED = "inherited_from_another_branch"


@dataclass(frozen=True, slots=True)
class _Looked:
    """One type and its planned layout; `layout` is None if the type is skipped."""

    declared: NodeType | EdgeType
    entry: Entry
    wanted: tuple[IndexSpec, ...]
    layout: Layout | None
    skipped: str | None


def optimize(
    branch: BranchName, *, authorship: Authorship, path: WritePath
) -> tuple[OptimizeReport, ...]:
    """Compact and index a branch's own tables where that is worthwhile, and report on all types."""

    def prepare(basis: Basis, committed: SnapshotRows) -> Prepared[tuple[_Looked, ...]]:
        del committed  # the layout is planned from the tables themselves
        looked = tuple(_look(basis, path))
        return Prepared(_plan_write(looked), looked)

    own = replace(authorship, actor=authorship.actor or OPTIMIZE_ACTOR)
    done = run_write(branch, prepare=prepare, codec=None, inputs=None, authorship=own, path=path)
    basis = path.branch_states.pin(branch)
    join_manifest(basis.state, branch_states=path.branch_states, tables=path.stores.tables)
    return tuple(
        _report(each, basis, path, is_committed=done.commit is not None) for each in done.result
    )


def count_moved(basis: Basis, *, path: WritePath) -> int:
    """The approximate number of rows of a branch that would be rewritten or indexed."""
    return sum(each.layout.rows_moved for each in _look(basis, path) if each.layout is not None)


def _look(basis: Basis, path: WritePath) -> Iterator[_Looked]:
    own = table_branch_of(basis.branch)
    tables = path.stores.tables
    for declared in basis.catalog.stored_types():
        entry = basis.snapshot.get(table_key_of(declared))
        if entry.branch != own:
            yield _Looked(declared, entry, (), None, INHERITED)
        elif path.has_drifted(entry):
            yield _Looked(declared, entry, (), None, DRIFTED)
        else:
            wanted = find_buildable(declared, entry, tables)
            layout = tables.plan_layout(entry.at, wanted=wanted)
            yield _Looked(declared, entry, wanted, layout, None)


def _plan_write(looked: tuple[_Looked, ...]) -> PreparedWrite:
    changes = {
        each.entry.table_key: TableChange(
            type=each.declared,
            put=table_schema(each.declared).empty_table(),
            removed=pa.array([], pa.string()),
            is_overwrite=False,
            indexes=each.wanted,
            layout=each.layout.steps,
        )
        for each in looked
        if each.layout is not None and each.layout.steps
    }
    return PreparedWrite(
        changes=dict(sorted(changes.items())),
        placement=dict.fromkeys(changes, StagingMode.LAYOUT),
        read_set=frozenset(),
        # The layout is planned again if the branch moves, so the write does not depend on the head.
        is_strict=False,
    )


def _report(
    looked: _Looked, basis: Basis, path: WritePath, *, is_committed: bool
) -> OptimizeReport:
    tables, layout = path.stores.tables, looked.layout
    entry = basis.snapshot.get(looked.entry.table_key)
    removed = layout.fragments_removed if layout else 0
    left = len(tables.fragment_row_counts(entry.at))
    return OptimizeReport(
        type=looked.declared.name,
        table_key=entry.table_key,
        fragments_removed=removed,
        fragments_added=max(0, left - (layout.fragments - removed)) if removed and layout else 0,
        committed=is_committed and layout is not None and bool(layout.steps),
        skipped=looked.skipped,
        manifest_version=entry.version,
        lance_head_version=tables.find_head(entry.at.ref),
        pending_indexes=list_pending(looked.declared, entry, basis.snapshot, tables),
    )


def needs_optimize(basis: Basis, *, tables: TableStore) -> bool:
    """Whether a type written by the branch has too many files, or an index covers too few rows."""
    for declared, entry in _own_tables(basis.snapshot, basis.catalog):
        wanted = find_buildable(declared, entry, tables)
        covered = tables.indexes(entry.at)
        enough = entry.row_count * (1 - UNINDEXED_SHARE_MIN)
        if any(each not in covered or covered[each] < enough for each in wanted):
            return True
        if tables.plan_layout(entry.at, wanted=wanted).fragments_removed >= SMALL_FILES_MIN:
            return True
    return False
