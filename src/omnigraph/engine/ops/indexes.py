"""Indexes: which ones a type should have, which it has, and building those that are missing.

An index is layout: it changes no answer, only what a look-up costs. Building is a write like any
other, one version a type and one commit; what exists is left alone, also where rows came later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import IndexReport, PendingIndex
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, Snapshot, line_of, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, Index, Key, NodeType
from omnigraph.model.names import BranchName
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import TableStore
from omnigraph.storage.table_layout import IndexKind, IndexSpec


@dataclass(frozen=True, slots=True)
class PreparedIndexes:
    """The indexes to build."""

    write: PreparedWrite


def ensure_indexes(
    branch: BranchName, *, authorship: Authorship, path: WritePath
) -> tuple[IndexReport, ...]:
    """Build the indexes that a branch's own tables lack, as one commit, and report on all."""
    tables = path.stores.tables

    def prepare(basis: Basis, committed: SnapshotRows) -> PreparedIndexes:
        del committed  # indexes are built from the tables themselves
        return prepare_indexes(basis.snapshot, catalog=basis.catalog, tables=tables)

    done, commit = write_on(branch, prepare=prepare, authorship=authorship, path=path)
    if commit is None:
        # Whoever builds nothing comes past the same place, and leaves nothing to recover.
        path.failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT)
    basis = path.authority.pin(branch)
    return report_indexes(done, basis.snapshot, catalog=basis.catalog, tables=tables)


def prepare_indexes(snapshot: Snapshot, *, catalog: Catalog, tables: TableStore) -> PreparedIndexes:
    """What building the missing indexes of a branch's own tables would change."""
    changes: dict[str, TableChange] = {}
    for declared, entry in _own_tables(snapshot, catalog):
        existing = {state.spec for state in tables.indexes(entry.at)}
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
    write = PreparedWrite(
        changes=dict(sorted(changes.items())),
        placement=dict.fromkeys(changes, Placement.INDEX),
        read_set=frozenset(),
        is_strict=False,
    )
    return PreparedIndexes(write)


def count_unindexed(basis: Basis, *, tables: TableStore) -> int:
    """How many rows the types have whose missing indexes can be built."""
    prepared = prepare_indexes(basis.snapshot, catalog=basis.catalog, tables=tables)
    return sum(basis.snapshot.get(key).row_count for key in prepared.write.changes)


def report_indexes(
    prepared: PreparedIndexes, snapshot: Snapshot, *, catalog: Catalog, tables: TableStore
) -> tuple[IndexReport, ...]:
    """The state of every wanted index of a snapshot, type by type, after building."""
    reports = []
    for declared in catalog.stored_types():
        entry = snapshot.get(table_key_of(declared))
        rows_by_spec = {each.spec: each.rows_covered for each in tables.indexes(entry.at)}
        change = prepared.write.changes.get(entry.table_key)
        reports += [
            IndexReport(
                type=declared.name,
                column=spec.column,
                kind=spec.kind,
                is_built=change is not None and spec in change.indexes,
                rows=entry.row_count,
                rows_covered=rows_by_spec.get(spec, 0),
                pending_reason=_explain_absence(spec, rows_by_spec, entry, snapshot),
            )
            for spec in choose_indexes(declared)
        ]
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
        kind = _kind_for(declared.properties[column].type)
        if kind is not None:
            wanted.append(IndexSpec(column, kind))
    return tuple(wanted)


def _kind_for(type: PropertyType) -> IndexKind | None:
    if type.is_vector:
        return IndexKind.VECTOR
    if type.is_list or type.is_blob:
        return None
    if type.element is Scalar.STRING and type.enum_values is None:
        return IndexKind.INVERTED
    return IndexKind.BTREE


def _own_tables(
    snapshot: Snapshot, catalog: Catalog
) -> Iterator[tuple[NodeType | EdgeType, Entry]]:
    """The types whose rows are on a line of the branch's own, and that have rows."""
    own = line_of(snapshot.branch)
    for declared in catalog.stored_types():
        entry = snapshot.get(table_key_of(declared))
        if entry.branch == own and entry.row_count:
            yield declared, entry


def find_buildable(
    declared: NodeType | EdgeType, entry: Entry, tables: TableStore
) -> tuple[IndexSpec, ...]:
    """The indexes that a type should have and can: of columns that it has, with values."""
    if not entry.row_count:
        return ()
    stored = frozenset(tables.schema(entry.at).names)
    wanted = [each for each in choose_indexes(declared) if each.column in stored]
    return tuple(each for each in wanted if not _is_without_vectors(each, entry, tables))


def list_pending(
    declared: NodeType | EdgeType, entry: Entry, snapshot: Snapshot, tables: TableStore
) -> tuple[PendingIndex, ...]:
    """The indexes that a type should have and lacks, each with the reason."""
    rows_by_spec = {each.spec: each.rows_covered for each in tables.indexes(entry.at)}
    reasons = {
        spec.column: _explain_absence(spec, rows_by_spec, entry, snapshot)
        for spec in choose_indexes(declared)
    }
    return tuple(PendingIndex(column, reason) for column, reason in reasons.items() if reason)


def _is_without_vectors(spec: IndexSpec, entry: Entry, tables: TableStore) -> bool:
    if spec.kind is not IndexKind.VECTOR:
        return False
    return not tables.count(entry.at, predicate=f"`{spec.column}` IS NOT NULL")


def _explain_absence(
    spec: IndexSpec, rows_by_spec: Mapping[IndexSpec, int], entry: Entry, snapshot: Snapshot
) -> str | None:
    if spec in rows_by_spec:
        return None
    if not entry.row_count:
        return "the type has no rows"
    if entry.branch != line_of(snapshot.branch):
        return "the branch has not written the type; its rows are those of another branch"
    return "no row has a value yet"
