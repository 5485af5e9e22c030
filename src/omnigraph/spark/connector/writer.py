"""Batch and stream writes of the data source: tasks stage rows, the driver makes one commit.

A write is one commit or changes nothing. A stream batch is recorded in its commit, so a batch that
is delivered again is not written twice. The committing process has no Spark session and checks
rules across rows over the keys of the staged rows, which must fit in memory. Staged files of a
failed write are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from ulid import ULID

from omnigraph.engine.commit.integrity.check import find_violations_except_values
from omnigraph.engine.commit.integrity.violations import Violations
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.commit.staging import discard_files, needs_fork
from omnigraph.engine.context import GraphContext
from omnigraph.engine.input.arrow import ColumnSource, keep_column, read_batches
from omnigraph.engine.input.batches import NOTHING_YET, ReadContext, RowCounter
from omnigraph.engine.ops.embeddings import KEEP_VECTORS
from omnigraph.engine.ops.load import LoadMode
from omnigraph.engine.ops.refs import create_table_branches
from omnigraph.engine.ops.retry import Prepared, is_refused, run_write
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.history import CommitNotes, StreamBatch
from omnigraph.engine.state.manifest import (
    Entry,
    get_type,
    table_branch_of,
    table_key_of,
    type_name_of,
)
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import GraphError, IntegrityError, KeyConflictError, SchemaChangedError
from omnigraph.model.limits import CLAIMED_ROWS_MAX
from omnigraph.model.names import BranchName, parse_branch_name
from omnigraph.spark.connector.options import WriteOptions, refuse_option
from omnigraph.spark.load.inputs import LocalInput
from omnigraph.spark.load.key_claims import key_columns
from omnigraph.spark.load.rejections import gather_values, require_read
from omnigraph.spark.load.staging import (
    POSITION_BITS,
    PartitionKey,
    StagedPartition,
    StagingPlan,
    delete_rows,
    group_addresses,
    stage_batches,
)
from omnigraph.storage.ports import FragmentDeletions, NewFile, TableBranchFolder, TableRef
from omnigraph.storage.row_files import table_schema
from omnigraph.storage.tables import scan_file, scan_part

# The factor by which the searched history grows if a batch was not found.
_FURTHER = 64


@dataclass(frozen=True, slots=True)
class WriteJob:
    """A write as every process sees it; its table branch may not exist yet."""

    options: WriteOptions
    table_key: str
    table_branch: TableRef
    schema_hash: str
    plan: StagingPlan

    @property
    def branch(self) -> BranchName:
        """The branch that receives the rows."""
        return parse_branch_name(self.options.branch)

    @property
    def folder(self) -> TableBranchFolder:
        """The folder in which the rows are staged."""
        return self.plan.folders[self.table_key]


def plan_write(options: WriteOptions, columns: pa.Schema) -> WriteJob:
    """Plan a write of rows with the given columns against the current state."""
    opened = _open(options)
    branch = parse_branch_name(options.branch)
    basis = opened.branch_states.capture(branch)
    declared = get_type(options.type_name, basis.catalog)
    _require_loadable(columns, declared, opened.read_context(basis))
    table_key = table_key_of(declared)
    table_branch = TableRef(basis.snapshot.get(table_key).path, table_branch_of(branch))
    plan = StagingPlan(
        schema=basis.accepted_schema.source,
        folders={table_key: opened.stores.tables.folder(table_branch)},
        external=opened.settings.external_blobs,
        storage_options=opened.settings.location.storage_options,
        folder="",
        first_id=0,
        is_tolerant=False,
        left_out={},
        # The processes of the write read no environment variables, so they have no provider.
        vectors=KEEP_VECTORS,
        before={},
    )
    place = replace(options.place, uri=opened.settings.location.uri)
    schema_hash = basis.accepted_schema.schema_hash
    return WriteJob(replace(options, place=place), table_key, table_branch, schema_hash, plan)


def stage_rows(job: WriteJob, number: int, batches: Iterable[pa.RecordBatch]) -> StagedPartition:
    """Write the rows of a partition, given by its number, to unreferenced files."""
    # Set per task, because a stream plans once for all its batches and each needs new ids.
    first_id = int(ULID()) >> POSITION_BITS << POSITION_BITS
    plan = replace(job.plan, first_id=first_id)
    return stage_batches(plan, PartitionKey(0, number), job.table_key, batches)


def commit_rows(
    job: WriteJob, partitions: Sequence[StagedPartition], *, batch: StreamBatch | None
) -> None:
    """Commit staged rows as one commit, or change nothing.

    A batch that was already committed is not committed again.
    """
    opened = _open(job.options)
    ordered = sorted(partitions, key=lambda each: each.key)
    try:
        is_needed = _Committing(job, ordered, batch, opened).run()
    except GraphError as error:
        if is_refused(error):
            discard_rows(job, ordered)
        raise
    if not is_needed:
        discard_rows(job, ordered)


def discard_rows(job: WriteJob, partitions: Iterable[StagedPartition]) -> None:
    """Delete staged files, which must not be part of any version."""
    tables = _open(job.options).stores.tables
    discard_files(job.table_branch, _files_of(partitions), tables=tables)


class _Committing:
    """One write, from staged rows to a commit."""

    def __init__(
        self,
        job: WriteJob,
        partitions: Sequence[StagedPartition],
        batch: StreamBatch | None,
        opened: GraphContext,
    ) -> None:
        self._job, self._partitions, self._batch, self._opened = job, partitions, batch, opened
        self._files = _files_of(partitions)
        self._mode = job.options.mode

    def run(self) -> bool:
        """Commit the rows and return whether a commit was made."""
        job, opened = self._job, self._opened
        basis = opened.branch_states.capture(job.branch)
        require_read(self._partitions, [LocalInput((), ())], context=opened.read_context(basis))
        if self._mode is LoadMode.MERGE and needs_fork(self._entry(basis), job.branch):
            # Deletion files have to be in the folder that the branch reads.
            create_table_branches([job.table_key], branch=job.branch, path=opened.writes)
        done = run_write(
            job.branch,
            prepare=self._prepare,
            codec=None,
            inputs=None,
            authorship=opened.author(job.options.actor, WriterKind.LOAD, expected_head=None),
            path=opened.writes,
        )
        return done.commit is not None

    def _prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[None]:
        if basis.accepted_schema.schema_hash != self._job.schema_hash:
            raise SchemaChangedError(reason="the schema changed while rows were written; retry")
        is_overwrite = self._mode is LoadMode.OVERWRITE
        if self._is_known(basis) or not (self._files or is_overwrite):
            return Prepared(PreparedWrite({}, {}, frozenset(), is_strict=False), None)
        declared = get_type(self._job.table_key, basis.catalog)
        keys = self._read_keys(declared)
        change = TableChange(declared, keys, pa.array([], pa.string()), is_overwrite=is_overwrite)
        known = self._find_known(keys, committed)
        self._require_rules(change, basis.catalog, committed)
        write = PreparedWrite(
            changes={
                self._job.table_key: replace(
                    change,
                    put=table_schema(declared).empty_table(),
                    files=self._files,
                    deletions=self._write_deletions(known, basis),
                )
            },
            placement={self._job.table_key: StagingMode.FILES},
            read_set=committed.read_set,
            is_strict=is_overwrite,
            notes=CommitNotes(batch=self._batch),
        )
        return Prepared(write, None)

    def _read_keys(self, declared: NodeType | EdgeType) -> pa.Table:
        """The columns of the staged rows that cross-row rules use, in the order of the files."""
        columns = key_columns(declared)
        schema = pa.schema([table_schema(declared).field(name) for name in columns])
        batches = [
            batch
            for file in self._files
            for batch in scan_file(self._job.folder, file, columns=columns)
        ]
        return pa.table(pa.Table.from_batches(batches, schema=schema).columns, schema=schema)

    def _require_rules(
        self, change: TableChange, catalog: Catalog, committed: SnapshotRows
    ) -> None:
        """Raise `IntegrityError` unless every rule holds once the rows are committed.

        Violations of value rules were found when the rows were staged.
        """
        values = [
            Violations(each.violations, each.count) for each in gather_values(self._partitions)
        ]
        violations = find_violations_except_values(
            lambda _: iter(values),
            changes={self._job.table_key: change},
            catalog=catalog,
            committed=committed,
        )
        if violations.count:
            raise IntegrityError(violations=violations.found, count=violations.count)

    def _is_known(self, basis: Basis) -> bool:
        """Whether the branch already contains the batch.

        The batches of a query arrive in order.
        """
        if self._batch is None:
            return False
        newest = basis.state.at.version
        looked_at = 1
        # A running query has recorded a batch recently; a longer search is needed only if it was
        # stopped for a long time.
        while looked_at < newest:
            looked_at *= _FURTHER
            since = newest - looked_at
            for each in reversed(self._opened.branch_states.commits_at(basis.state, since=since)):
                recorded = each.notes.batch
                if recorded is not None and recorded.query_id == self._batch.query_id:
                    return recorded.batch_id >= self._batch.batch_id
        return False

    def _find_known(self, keys: pa.Table, committed: SnapshotRows) -> pa.Array:
        """The ids that already exist and have to be replaced."""
        has_given_id = any(rows.has_given_id for each in self._partitions for rows in each.rows)
        if self._mode is LoadMode.OVERWRITE or not has_given_id:
            return pa.array([], pa.string())
        ids = keys["id"].combine_chunks()
        known = committed.find_ids(self._job.table_key, ids)
        if len(known) and self._mode is LoadMode.APPEND:
            name = type_name_of(self._job.table_key)
            raise KeyConflictError(type=name, id=min(known.to_pylist()))
        return known

    def _write_deletions(self, known: pa.Array, basis: Basis) -> tuple[FragmentDeletions, ...]:
        """Write deletions of committed rows, fragment by fragment."""
        if not len(known):
            return ()
        entry = self._entry(basis)
        parts = self._opened.stores.tables.parts(entry.at, rows_max=CLAIMED_ROWS_MAX)
        found = [
            batch.filter(pc.is_in(batch["id"], value_set=known))["_rowaddr"].to_numpy()
            for part in parts
            for batch in scan_part(part, columns=["id"], predicate=None, with_address=True)
        ]
        rows = group_addresses(np.concatenate(found), self._job.folder, entry.version)
        return tuple(map(delete_rows, rows))

    def _entry(self, basis: Basis) -> Entry:
        return basis.snapshot.get(self._job.table_key)


def _open(options: WriteOptions) -> GraphContext:
    place = options.place
    settings = make_settings(place.uri, storage_options=place.storage_options, durability="full")
    return GraphContext(settings, open_stores(settings), actor=options.actor, is_read_only=False)


def _require_loadable(
    columns: pa.Schema, declared: NodeType | EdgeType, context: ReadContext
) -> None:
    """Raise before staging if rows with these columns would all be rejected."""
    source = ColumnSource(declared, "", keep_column)
    none = pa.RecordBatch.from_pylist([], schema=columns)
    for _ in read_batches(
        [none], source, context=context, counter=RowCounter(NOTHING_YET), report=None
    ):
        pass


def _files_of(partitions: Iterable[StagedPartition]) -> tuple[NewFile, ...]:
    return tuple(file for each in partitions for rows in each.rows for file in rows.files)


Messages = list[WriterCommitMessage | None]

# Set by Spark for every task of a stream; unchanged when a query is restarted.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class CommitMessage(WriterCommitMessage):
    """The message of a task to the committing process: the staged rows, their job and query."""

    job: WriteJob
    partition: StagedPartition
    query_id: str | None


def _write_task(job: WriteJob, batches: Iterator[pa.RecordBatch]) -> CommitMessage:
    """Stage the rows of this task."""
    context = TaskContext.get()
    assert context is not None, "only a task writes"
    partition = stage_rows(job, context.partitionId(), batches)
    return CommitMessage(job, partition, context.getLocalProperty(_QUERY_ID))


class BatchWriter(DataSourceArrowWriter):
    """Commits the rows of a DataFrame as one commit."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CommitMessage:
        return _write_task(self._job, iterator)

    def commit(self, messages: Messages) -> None:
        commit_rows(self._job, _partitions(messages), batch=None)

    def abort(self, messages: Messages) -> None:
        _abort(self._job, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Commits each batch of a stream as one commit, exactly once."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> CommitMessage:
        return _write_task(self._job, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        # The job of the tasks counts: this process may have planned with another schema.
        staged = [each for each in messages if isinstance(each, CommitMessage)]
        if not staged:
            return
        job = staged[0].job
        query_id = job.options.query_id or staged[0].query_id
        if query_id is None:
            raise refuse_option("queryId", "Spark does not provide it; set an id for the stream")
        commit_rows(job, _partitions(messages), batch=StreamBatch(query_id, batchId))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803  # Spark's name
        _abort(self._job, messages)


def _partitions(messages: Messages) -> list[StagedPartition]:
    return [each.partition for each in messages if isinstance(each, CommitMessage)]


def _abort(job: WriteJob, messages: Messages) -> None:
    # If every task has sent a message, a commit was attempted and has handled the files itself.
    # Files that may be part of a version are never deleted.
    if None in messages:
        discard_rows(job, _partitions(messages))
