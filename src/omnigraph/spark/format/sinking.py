"""Writes of a DataFrame: tasks stage rows in files, and one process makes all of them one commit.

That process has no session, so it asks the rules itself, of the keys of the staged rows; the rows
stay where they are. A batch of a stream is told in its commit, and one that history has already is
not written again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from ulid import ULID

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.forks import needs_fork
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import is_refused, write_on
from omnigraph.engine.ops.lines import open_lines
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.ops.reading.frames import ColumnSource, keep_column, read_batches
from omnigraph.engine.ops.reading.pieces import NOTHING_YET, Means, Tally
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import CommitNotes, StreamBatch
from omnigraph.engine.state.snapshot import Entry, line_of, table_key_of, type_name_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import (
    GraphError,
    KeyConflictError,
    LimitExceededError,
    SchemaChangedError,
)
from omnigraph.model.limits import CLAIMED_ROWS_MAX, PORTIONS_MAX
from omnigraph.model.names import BranchName, parse_branch_name
from omnigraph.spark.format.key_checks import read_keys, require_rules
from omnigraph.spark.format.options import WriteOptions
from omnigraph.spark.loading.inputs import LocalInput
from omnigraph.spark.loading.refusals import require_read
from omnigraph.spark.loading.staged import POSITION_BITS, PortionKey, StagedPortion
from omnigraph.spark.loading.staging import StagingPlan, stage_batches
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_parts import scan_part, strike
from omnigraph.storage.ports import TableRef
from omnigraph.storage.table_parts import LineFolder, NewFile, StruckFragment, TablePart

# How many times more of history is looked at when a batch was not found in what was.
_FURTHER = 64
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What every process of a write is told; `line` is that of the branch, there or not yet."""

    options: WriteOptions
    table_key: str
    line: TableRef
    schema_hash: str
    plan: StagingPlan

    @property
    def branch(self) -> BranchName:
        """The branch that gets the rows."""
        return parse_branch_name(self.options.branch)

    @property
    def folder(self) -> LineFolder:
        """Where the rows are staged."""
        return self.plan.folders[self.table_key]


@dataclass(frozen=True, slots=True)
class _Prepared:
    write: PreparedWrite


def open_job(options: WriteOptions, columns: pa.Schema) -> WriteJob:
    """Plan a write of rows with some columns by what is true now."""
    opened = _open(options)
    branch = parse_branch_name(options.branch)
    basis = opened.authority.capture(branch)
    declared = get_type(options.type_name, basis.catalog)
    _require_fitting(columns, declared, opened.means_of(basis))
    table_key = table_key_of(declared)
    line = TableRef(basis.snapshot.get(table_key).path, line_of(branch))
    plan = StagingPlan(
        schema=basis.contract.source,
        folders={table_key: opened.stores.tables.folder(line)},
        external=opened.settings.external_blobs,
        storage_options=opened.settings.location.storage_options,
        folder="",
        first_id=0,
        is_tolerant=False,
        left_out={},
    )
    place = replace(options.place, uri=opened.settings.location.uri)
    schema_hash = basis.contract.schema_hash
    return WriteJob(replace(options, place=place), table_key, line, schema_hash, plan)


def stage_rows(job: WriteJob, number: int, batches: Iterable[pa.RecordBatch]) -> StagedPortion:
    """Write the rows of a partition, by its number, into files that nobody refers to."""
    if number >= PORTIONS_MAX:
        raise LimitExceededError(
            resource="the partitions of a frame", limit=PORTIONS_MAX, found=number + 1
        )
    # Made here, because a stream plans once for all of its batches: each has ids of its own.
    first_id = int(ULID()) >> POSITION_BITS << POSITION_BITS
    plan = replace(job.plan, first_id=first_id)
    return stage_batches(plan, PortionKey(0, number), job.table_key, batches)


def commit_rows(
    job: WriteJob, portions: Sequence[StagedPortion], *, batch: StreamBatch | None
) -> None:
    """Make staged rows one commit, or change nothing; a batch that was committed stays so."""
    opened = _open(job.options)
    ordered = sorted(portions, key=lambda each: each.key)
    try:
        is_needed = _Committing(job, ordered, batch, opened).run()
    except GraphError as error:
        if is_refused(error):
            discard_rows(job, ordered)
        raise
    if not is_needed:
        discard_rows(job, ordered)


def discard_rows(job: WriteJob, portions: Iterable[StagedPortion]) -> None:
    """Remove staged files, which must not be part of any version."""
    try:
        _open(job.options).stores.tables.delete_files(job.line, _files_of(portions))
    except GraphError as error:
        # Nobody names them, and `cleanup` finds them.
        _LOG.warning("files of a write stay: %s", error)


class _Committing:
    """One write, from staged rows to a commit."""

    def __init__(
        self,
        job: WriteJob,
        portions: Sequence[StagedPortion],
        batch: StreamBatch | None,
        opened: OpenGraph,
    ) -> None:
        self._job, self._portions, self._batch, self._opened = job, portions, batch, opened
        self._files = _files_of(portions)
        self._mode = job.options.mode

    def run(self) -> bool:
        """Whether the rows became a commit."""
        job, opened = self._job, self._opened
        basis = opened.authority.capture(job.branch)
        require_read(self._portions, [LocalInput((), ())], means=opened.means_of(basis))
        if self._mode is LoadMode.MERGE and needs_fork(self._entry(basis), job.branch):
            # What is gone is written down where the branch will look for it.
            open_lines([job.table_key], branch=job.branch, path=opened.writes)
        _, commit = write_on(
            job.branch,
            prepare=self._prepare,
            authorship=opened.author(job.options.actor, WriterKind.LOAD, expected_head=None),
            path=opened.writes,
        )
        return commit is not None

    def _prepare(self, basis: Basis, committed: SnapshotRows) -> _Prepared:
        if basis.contract.schema_hash != self._job.schema_hash:
            raise SchemaChangedError(reason="the schema changed while rows were written; try again")
        is_overwrite = self._mode is LoadMode.OVERWRITE
        if self._is_known(basis) or not (self._files or is_overwrite):
            return _Prepared(PreparedWrite({}, {}, frozenset(), is_strict=False))
        declared = get_type(self._job.table_key, basis.catalog)
        keys = read_keys(declared, self._files, self._job.folder)
        change = TableChange(declared, keys, pa.array([], pa.string()), is_overwrite=is_overwrite)
        known = self._find_known(keys, committed)
        require_rules(change, self._portions, catalog=basis.catalog, committed=committed)
        write = PreparedWrite(
            changes={
                self._job.table_key: replace(
                    change,
                    put=table_schema(declared).empty_table(),
                    files=self._files,
                    struck=self._strike(known, basis),
                )
            },
            placement={self._job.table_key: Placement.FILES},
            read_set=committed.read_set,
            is_strict=is_overwrite,
            notes=CommitNotes(batch=self._batch),
        )
        return _Prepared(write)

    def _is_known(self, basis: Basis) -> bool:
        """Whether the branch has the batch already: batches of a query come one after another."""
        if self._batch is None:
            return False
        newest = basis.state.at.version
        looked_at = 1
        # A query that runs has told of a batch lately: who looks further has not run for long.
        while looked_at < newest:
            looked_at *= _FURTHER
            since = newest - looked_at
            for each in reversed(self._opened.authority.commits_at(basis.state, since=since)):
                told = each.notes.batch
                if told is not None and told.query_id == self._batch.query_id:
                    return told.batch_id >= self._batch.batch_id
        return False

    def _find_known(self, keys: pa.Table, committed: SnapshotRows) -> pa.Array:
        """The ids that are there already, and are to be replaced."""
        has_given_id = any(rows.has_given_id for each in self._portions for rows in each.rows)
        if self._mode is LoadMode.OVERWRITE or not has_given_id:
            return pa.array([], pa.string())
        ids = keys["id"].combine_chunks()
        known = committed.find_ids(self._job.table_key, ids)
        if len(known) and self._mode is LoadMode.APPEND:
            name = type_name_of(self._job.table_key)
            raise KeyConflictError(type=name, id=min(known.to_pylist()))
        return known

    def _strike(self, known: pa.Array, basis: Basis) -> tuple[StruckFragment, ...]:
        """Write down which committed rows are gone, fragment by fragment."""
        if not len(known):
            return ()
        entry = self._entry(basis)
        tables = self._opened.stores.tables
        parts = tables.parts(entry.at, rows_max=CLAIMED_ROWS_MAX)
        found = [_find_addresses(part, known) for part in parts]
        addresses = np.sort(np.concatenate(found))
        numbers, starts = np.unique(addresses >> np.uint64(32), return_index=True)
        offsets = np.split(addresses & np.uint64(0xFFFF_FFFF), starts[1:])
        return tuple(
            strike(TablePart(self._job.folder, entry.version, (number,), len(own)), own.tolist())
            for number, own in zip(numbers.tolist(), offsets, strict=True)
        )

    def _entry(self, basis: Basis) -> Entry:
        return basis.snapshot.get(self._job.table_key)


def _open(options: WriteOptions) -> OpenGraph:
    place = options.place
    settings = make_settings(place.uri, storage_options=place.storage_options, durability="full")
    return OpenGraph(settings, open_stores(settings), actor=options.actor, is_read_only=False)


def _require_fitting(columns: pa.Schema, declared: NodeType | EdgeType, means: Means) -> None:
    """Raise if rows with these columns would all be refused: better before they are staged."""
    source = ColumnSource(declared, "", keep_column)
    none = pa.RecordBatch.from_pylist([], schema=columns)
    for _ in read_batches([none], source, means=means, tally=Tally(NOTHING_YET), report=None):
        pass


def _files_of(portions: Iterable[StagedPortion]) -> tuple[NewFile, ...]:
    return tuple(file for each in portions for rows in each.rows for file in rows.files)


def _find_addresses(part: TablePart, ids: pa.Array) -> npt.NDArray[np.uint64]:
    found = [
        batch.filter(pc.is_in(batch["id"], value_set=ids))["_rowaddr"].to_numpy()
        for batch in scan_part(part, columns=["id"], predicate=None, with_address=True)
    ]
    return np.concatenate(found) if found else np.empty(0, np.uint64)
