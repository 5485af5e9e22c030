"""Loads: commits rows of multiple types, in one of three modes, as one write.

`append` adds rows whose ids are new, `merge` puts rows by id, and
`overwrite` replaces all rows of every type in the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.commit.integrity.check import require_integrity
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.input.batches import ReceivedRows
from omnigraph.engine.ops.embeddings import WriteVectors
from omnigraph.engine.ops.recorded_responses import LOAD_CODEC
from omnigraph.engine.ops.refs import ensure_branch
from omnigraph.engine.ops.retry import Prepared, run_write
from omnigraph.engine.results import LoadResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows, keep_last
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import type_name_of
from omnigraph.model.catalog import NodeType, TypeKind
from omnigraph.model.errors import KeyConflictError
from omnigraph.model.names import BranchName


class LoadMode(StrEnum):
    """The treatment of existing rows by a load."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


Progress = Callable[[str, int, int | None], None]
"""Called with the name of a stage, the amount done, and the total amount if it is known.

An exception that it raises aborts the load, and nothing is written.
"""


@dataclass(frozen=True, slots=True)
class InlineLoad:
    """A load of rows that this process has read.

    With `is_new_branch`, this call created the target from `base`, and the caller can no longer
    abort the load.
    """

    received: Mapping[str, ReceivedRows]
    mode: LoadMode
    target: BranchName
    base: BranchName | None
    is_new_branch: bool
    vectors: WriteVectors
    progress: Progress

    @property
    def row_count(self) -> int:
        """The number of received rows."""
        return sum(each.rows.num_rows for each in self.received.values())

    def prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[LoadResult]:
        """Compute and check the write of the load; it is incomplete while vectors are due.

        Raises `KeyConflictError` if an appended id already exists. `IntegrityError` contains every
        violation.
        """
        changes: dict[str, TableChange] = {}
        placement: dict[str, StagingMode] = {}
        for table_key, each in self.received.items():
            rows = _coalesce(each, self.mode)
            if not rows.num_rows and self.mode is not LoadMode.OVERWRITE:
                continue
            placement[table_key] = self._place(table_key, each, rows, committed)
            changes[table_key] = TableChange(
                type=each.type,
                put=rows,
                removed=pa.array([], pa.string()),
                is_overwrite=self.mode is LoadMode.OVERWRITE,
            )
        changes = self.vectors.fill(changes)
        require_integrity(changes, catalog=basis.catalog, committed=committed)
        if self.vectors.is_due:
            self.progress("embed", 0, self.vectors.text_count)
        elif not self.is_new_branch:
            # The last progress report before something is written: the callback can still abort
            # the load.
            self.progress("commit", 0, self.row_count)
        write = PreparedWrite(
            changes=changes,
            placement=placement,
            read_set=committed.read_set,
            is_strict=self.mode is LoadMode.OVERWRITE,
        )
        return Prepared(
            write,
            LoadResult(
                nodes_loaded=_count(changes, TypeKind.NODE),
                edges_loaded=_count(changes, TypeKind.EDGE),
                commit_id=None,
                branch=self.target,
                base_branch=self.base,
                branch_created=self.is_new_branch,
                engine="inline",
            ),
        )

    def _place(
        self, table_key: str, received: ReceivedRows, rows: pa.Table, committed: SnapshotRows
    ) -> StagingMode:
        if self.mode is LoadMode.OVERWRITE:
            return StagingMode.OVERWRITE
        if not received.has_given_id:
            return StagingMode.APPEND
        known = committed.find_ids(table_key, rows["id"].combine_chunks())
        if not len(known):
            return StagingMode.APPEND
        if self.mode is LoadMode.APPEND:
            raise KeyConflictError(type=type_name_of(table_key), id=min(known.to_pylist()))
        return StagingMode.MERGE


def run_load(load: InlineLoad, *, authorship: Authorship, path: WritePath) -> LoadResult:
    """Commit a load, or change nothing."""
    done = run_write(
        load.target,
        prepare=load.prepare,
        codec=LOAD_CODEC,
        inputs=load.vectors,
        authorship=authorship,
        path=path,
    )
    return replace(done.result, commit_id=done.commit_id)


def create_and_load(
    load: InlineLoad, *, base: BranchName, start: Basis, authorship: Authorship, path: WritePath
) -> LoadResult:
    """Create the branch of a load from another branch, and commit the load there.

    Rows that are rejected on the base would also be rejected on the branch, so they are checked
    before it is created.
    """
    load.prepare(start, SnapshotRows(start.snapshot, tables=path.stores.tables))
    if load.vectors.is_due:
        load.vectors.request()
        load.progress("commit", 0, load.row_count)
    is_new = ensure_branch(load.target, base=base, if_head=authorship.expected_head, path=path)
    return run_load(replace(load, is_new_branch=is_new), authorship=authorship, path=path)


def _coalesce(received: ReceivedRows, mode: LoadMode) -> pa.Table:
    has_key = isinstance(received.type, NodeType) and received.type.key
    # A repeated key is an error in the input; an id that a merge contains twice is an edit.
    return keep_last(received.rows) if mode is LoadMode.MERGE and not has_key else received.rows


def _count(changes: Mapping[str, TableChange], kind: TypeKind) -> dict[str, int]:
    chosen = [each for each in changes.values() if each.type.kind is kind]
    return {each.type.name: each.put.num_rows for each in chosen}
