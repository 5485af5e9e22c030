"""Optimizing: types that lie in few files, and indexes that know every row, as one commit.

Nothing that a query answers changes, and nothing is deleted: earlier versions stay until they are
cleaned up. The list of commits is put into few files too, which is layout only and no commit. A
type that others write meanwhile is planned anew; one that something outside of OmniGraph wrote to
is left alone, and told of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.publish import join_manifest
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.indexes import find_buildable, list_pending
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import OptimizeReport
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry, line_of, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.names import BranchName
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.table_layout import IndexSpec, Layout

OPTIMIZE_ACTOR = "omnigraph:optimize"

DRIFTED = "drift_needs_repair"
INHERITED = "inherited_from_another_branch"


@dataclass(frozen=True, slots=True)
class _Looked:
    """One type, and what is to be done about how it lies; no layout if it is left alone."""

    declared: NodeType | EdgeType
    entry: Entry
    wanted: tuple[IndexSpec, ...]
    layout: Layout | None
    skipped: str | None


@dataclass(frozen=True, slots=True)
class _PreparedLayout:
    write: PreparedWrite
    looked: tuple[_Looked, ...]


def optimize(
    branch: BranchName, *, authorship: Authorship, path: WritePath
) -> tuple[OptimizeReport, ...]:
    """Lay out a branch's own tables anew where that pays, and report on every type."""

    def prepare(basis: Basis, committed: SnapshotRows) -> _PreparedLayout:
        del committed  # the layout is found in the tables themselves
        looked = tuple(_look(basis, path))
        return _PreparedLayout(_plan_write(looked), looked)

    own = replace(authorship, actor=authorship.actor or OPTIMIZE_ACTOR)
    done, commit = write_on(branch, prepare=prepare, authorship=own, path=path)
    basis = path.authority.pin(branch)
    join_manifest(basis.state, authority=path.authority, tables=path.stores.tables)
    return tuple(
        _report(each, basis, path, is_committed=commit is not None) for each in done.looked
    )


def count_moved(basis: Basis, *, path: WritePath) -> int:
    """About how many rows of a branch would be written again, or indexed."""
    return sum(each.layout.rows_moved for each in _look(basis, path) if each.layout is not None)


def _look(basis: Basis, path: WritePath) -> Iterator[_Looked]:
    own_line = line_of(basis.branch)
    tables = path.stores.tables
    for declared in basis.catalog.stored_types():
        entry = basis.snapshot.get(table_key_of(declared))
        if entry.branch != own_line:
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
        placement=dict.fromkeys(changes, Placement.LAYOUT),
        read_set=frozenset(),
        # It means the same wherever the branch is: it is planned anew there.
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
