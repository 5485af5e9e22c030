"""Staging on executors: input partitions become data files that no version references.

Reading, value rules and ids are those of a load in process. A task that Spark runs twice leaves
only unreferenced files. Partitions with rejected rows are staged again without them, and every
written file is recorded, so obsolete files can be deleted. Commits are not known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.commit.integrity.values import find_value_faults
from omnigraph.engine.commit.integrity.violations import RowNumbers
from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.engine.input.arrow import ColumnSource, keep_column, read_batches
from omnigraph.engine.input.batches import (
    NOTHING_YET,
    ReadContext,
    Report,
    RowBatch,
    RowCounter,
    RowError,
)
from omnigraph.engine.input.sources import read_split
from omnigraph.engine.input.splits import Split
from omnigraph.engine.ops.embeddings import (
    VectorPolicy,
    fill_rows,
    find_lacking,
    promise_vectors,
    put_vectors,
)
from omnigraph.engine.ops.load import Progress
from omnigraph.engine.state.manifest import get_type, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import (
    EmbeddingError,
    LimitExceededError,
    RequestError,
    UnavailableError,
    Violation,
)
from omnigraph.model.limits import (
    FRAGMENT_ROWS_MAX,
    QUARANTINED_ROWS_MAX,
    SPLITS_MAX,
    STAGED_BYTES_MAX,
    VIOLATIONS_MAX,
)
from omnigraph.model.runtime import encode_ids
from omnigraph.model.source import Source
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.jobs import decode, encode, run_job
from omnigraph.spark.load.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.load.staged import (
    Broken,
    Reason,
    RejectedRow,
    SplitKey,
    StagedFile,
    StagedRows,
    StagedSplit,
    files_of,
    parse_position,
    take_positions,
)
from omnigraph.storage.external_files import ExternalBlobs, ExternalFiles
from omnigraph.storage.ports import NewFile, TableBranchFolder
from omnigraph.storage.tables import write_files

Declared = NodeType | EdgeType

_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """The parameters of every task of a job.

    Relative paths start in `folder`. `first_id` is the number of the first id that the job may
    generate. A tolerant task leaves out rows that cannot be read or violate a value rule.
    `left_out` are rows, by partition, type and number, that were rejected after they were staged.
    `before` are the earlier results of the partitions with such rows, so that no vector is computed
    twice.
    """

    schema: str
    folders: Mapping[str, TableBranchFolder]
    external: ExternalBlobs
    storage_options: Mapping[str, str] = field(repr=False)
    folder: str
    first_id: int
    is_tolerant: bool
    left_out: Mapping[SplitKey, Mapping[str, Mapping[int, Reason | None]]]
    # An embedder may hold an API key, which its repr does not show.
    vectors: VectorPolicy
    before: Mapping[SplitKey, StagedSplit]

    def context(self) -> ReadContext:
        """The context for reading rows."""
        catalog = compile_schema(Source("<schema>", self.schema))
        files = ExternalFiles(self.storage_options, folder=self.folder)
        return ReadContext(catalog, self.external, files)


def stage_splits(plan: StagingPlan, key: SplitKey, splits: Sequence[Split]) -> StagedSplit:
    """Stage the rows of some splits of files."""
    context = plan.context()
    staging = _Staging(plan, key)
    counts: list[tuple[int, int]] = []
    for number, split in enumerate(splits):
        counter = RowCounter(NOTHING_YET)
        staging.split = number
        try:
            for piece in read_split(split, context=context, counter=counter, report=staging.report):
                staging.add(piece)
        except RequestError as error:
            # The driver knows the counts before this split, and reads it again for the exact error.
            return staging.finish(counts, fault=number, problem=str(error))
        except EmbeddingError as error:
            # Returned, not raised: Spark would retry the task, and files of other tasks would be
            # left behind.
            return staging.fail(counts, error)
        counts.append((counter.counted.records, counter.counted.lines))
    return staging.finish(counts, fault=None, problem="")


def stage_batches(
    plan: StagingPlan, key: SplitKey, table_key: str, batches: Iterable[pa.RecordBatch]
) -> StagedSplit:
    """Stage rows of one type that come in batches; they are identified by their numbers."""
    context = plan.context()
    staging = _Staging(plan, key)
    counter = RowCounter(NOTHING_YET)
    source = ColumnSource(get_type(table_key, context.catalog), "", keep_column)
    try:
        for piece in read_batches(
            batches, source, context=context, counter=counter, report=staging.report
        ):
            staging.add(piece)
    except RequestError as error:
        return staging.finish([], fault=0, problem=str(error))
    except EmbeddingError as error:
        return staging.fail([(counter.counted.records, 0)], error)
    return staging.finish([(counter.counted.records, 0)], fault=None, problem="")


def stage_pieces(
    plan: StagingPlan, key: SplitKey, pieces: Iterable[RowBatch], faults: Iterable[RowError]
) -> StagedSplit:
    """Stage rows that were read in this process; `faults` are the unreadable ones."""
    staging = _Staging(plan, key)
    for fault in faults:
        staging.reject(fault)
    try:
        for piece in pieces:
            staging.add(piece)
    except EmbeddingError as error:
        return staging.fail([], error)
    return staging.finish([], fault=None, problem="")


class _Staging:
    """Stages the rows of a partition as they arrive."""

    def __init__(self, plan: StagingPlan, key: SplitKey) -> None:
        self._plan, self._key = plan, key
        self._left_out = plan.left_out.get(key, {})
        self._rows_by_key: dict[str, _TypeRows] = {}
        self._rejected: list[RejectedRow] = []
        self._unembedded = ""
        self.split = 0
        self.report: Report | None = self.reject if plan.is_tolerant else None

    def add(self, piece: RowBatch) -> None:
        """Add rows."""
        table_key = table_key_of(piece.declared)
        rows = self._rows_by_key.get(table_key)
        if rows is None:
            first_id = self._plan.first_id + self._key.position(0)
            folder = self._plan.folders[table_key]
            rows = _TypeRows(
                piece.declared,
                folder,
                first_id,
                self._key.position(0),
                left_out=self._left_out.get(table_key, {}),
                vectors=_Filling(self._plan.vectors, self._find_before(table_key)),
            )
            self._rows_by_key[table_key] = rows
        reasons = rows.add(piece, is_tolerant=self._plan.is_tolerant)
        for row, reason in sorted(reasons.items()):
            if reason is not None:
                self._reject_row(piece, row, reason)

    def fail(self, counts: Sequence[tuple[int, int]], error: EmbeddingError) -> StagedSplit:
        """Report the files written before rows failed to get vectors."""
        self._unembedded = error.reason
        return self.finish(counts, fault=None, problem="")

    def finish(
        self, counts: Sequence[tuple[int, int]], *, fault: int | None, problem: str
    ) -> StagedSplit:
        """Write the remaining rows and return the result."""
        return StagedSplit(
            key=self._key,
            rows=tuple(self._rows_by_key[key].finish(key) for key in sorted(self._rows_by_key)),
            counts=tuple(counts),
            fault=fault,
            problem=problem,
            broken=tuple(
                each for key, rows in self._rows_by_key.items() for each in rows.broken(key)
            ),
            # Unreadable records are reported before the rows around them arrive.
            rejected=tuple(sorted(self._rejected, key=lambda row: (row.split, row.place.record))),
            unembedded=self._unembedded,
        )

    def reject(self, fault: RowError) -> None:
        """Record a row that could not be read."""
        message = fault.message.removeprefix(str(fault.place)).lstrip(",: ")
        original = fault.original.decode(errors="replace")
        reason = Reason("value", message)
        self._rejected.append(RejectedRow(None, reason, self.split, fault.place, original))

    def _find_before(self, table_key: str) -> tuple[StagedFile, ...]:
        """The files in which rows of a type were staged before some were left out."""
        portion = self._plan.before.get(self._key)
        staged = () if portion is None else portion.rows
        folder = self._plan.folders[table_key]
        own = (rows for rows in staged if rows.table_key == table_key)
        return tuple(file for rows in own for file in files_of(self._key, rows, folder))

    def _reject_row(self, piece: RowBatch, row: int, reason: Reason) -> None:
        original = piece.original(row).decode(errors="replace")
        place = piece.locate(row)
        name = piece.declared.name
        self._rejected.append(RejectedRow(name, reason, self.split, place, original))


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills in missing vectors, from files that contain them or from the provider."""

    policy: VectorPolicy
    before: tuple[StagedFile, ...]

    def fill(self, declared: Declared, rows: pa.Table, positions: RowNumbers) -> pa.Table:
        """The rows with their vectors; `positions` are the positions of the rows in the input."""
        if not self.before:
            return fill_rows(declared, rows, self.policy)
        for found in find_lacking(declared, rows, self.policy):
            column = found.target.column
            wanted = positions[found.numbers].tolist()
            made = take_positions(self.before, wanted, columns=[column])[column]
            rows = put_vectors(rows, found.target, found.numbers, made.combine_chunks())
        return rows

    def share(self, declared: Declared, rows: pa.Table) -> int:
        """How many rows to fill at a time so that their vectors fit in memory."""
        lacking = find_lacking(declared, rows, self.policy)
        row_bytes = sum(each.target.dimension for each in lacking) * _NUMBER_BYTES
        return max(1, STAGED_BYTES_MAX // row_bytes) if row_bytes else max(1, rows.num_rows)


class _TypeRows:
    """The rows of one type in a partition: checked, given ids, and written in large files."""

    def __init__(
        self,
        declared: Declared,
        folder: TableBranchFolder,
        first_id: int,
        first_position: int,
        *,
        left_out: Mapping[int, Reason | None],
        vectors: _Filling,
    ) -> None:
        self._declared, self._folder, self._vectors = declared, folder, vectors
        self._left_out, self._left_out_numbers = left_out, sorted(left_out)
        self._first_id, self._first_position = first_id, first_position
        self._seen = 0
        self._has_given_id = False
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._files: list[NewFile] = []
        self._checksum = 0
        self._dropped: list[int] = []
        self._counts: list[int] = []
        self._found: list[list[tuple[Violation, int]]] = []

    def add(self, piece: RowBatch, *, is_tolerant: bool) -> Mapping[int, Reason | None]:
        """Add rows; returns the rows that are left out, with a reason if the row is at fault."""
        rows = self._identify(piece.rows)
        self._checksum = _add_checksum(rows, self._checksum)
        first = bisect_left(self._left_out_numbers, self._seen)
        end = bisect_left(self._left_out_numbers, self._seen + rows.num_rows)
        dropped = {
            each - self._seen: self._left_out[each] for each in self._left_out_numbers[first:end]
        }
        self._check(rows, dropped, is_tolerant=is_tolerant)
        positions = np.arange(rows.num_rows) + self._seen
        self._seen += rows.num_rows
        if dropped:
            numbers = np.sort(np.fromiter(dropped, np.int64))
            self._dropped += positions[numbers].tolist()
            positions = np.delete(positions, numbers)
            rows = rows.take(positions - self._seen + piece.rows.num_rows)
        self._keep(rows, positions + self._first_position)
        return dropped

    def _keep(self, rows: pa.Table, positions: RowNumbers) -> None:
        """Queue rows for writing, with missing vectors filled in."""
        # Rows that violate a rule fail the load, so no vectors are needed.
        if any(self._counts):
            self._await(rows)
            return
        share = self._vectors.share(self._declared, rows)
        for start in range(0, rows.num_rows, share):
            some = rows.slice(start, share)
            try:
                filled = self._vectors.fill(self._declared, some, positions[start : start + share])
            except EmbeddingError:
                # Every row that was read has to be in a file, so that the reported counts add up.
                self._await(rows.slice(start))
                raise
            self._await(filled)

    def _await(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > STAGED_BYTES_MAX or self._waiting_rows >= FRAGMENT_ROWS_MAX:
            self._write()

    def finish(self, table_key: str) -> StagedRows:
        """Write the remaining rows and return their files."""
        self._write()
        written = sum(each.row_count for each in self._files)
        assert written + len(self._dropped) == self._seen, "every row is in a file or left out"
        return StagedRows(
            table_key=table_key,
            files=tuple(self._files),
            has_given_id=self._has_given_id,
            dropped=tuple(self._dropped),
            checksum=self._checksum,
        )

    def broken(self, table_key: str) -> Iterator[Broken]:
        """The value rules that rows violate."""
        for rank, (count, found) in enumerate(zip(self._counts, self._found, strict=True)):
            if count:
                violations, positions = zip(*found, strict=True)
                yield Broken(table_key, rank, count, violations, positions)

    def _identify(self, rows: pa.Table) -> pa.Table:
        ids = rows["id"]
        self._has_given_id |= ids.null_count < len(ids)
        if not ids.null_count:
            return rows
        made = encode_ids(self._first_id + self._seen, rows.num_rows)
        filled = pc.coalesce(ids, pa.chunked_array([pa.array(made, pa.string())]))
        return rows.set_column(0, rows.schema.field("id"), filled)

    def _check(
        self, rows: pa.Table, dropped: dict[int, Reason | None], *, is_tolerant: bool
    ) -> None:
        promised = promise_vectors(self._declared, rows, self._vectors.policy)
        change = TableChange(
            self._declared, promised, pa.array([], pa.string()), is_overwrite=False
        )
        for rank, faults in enumerate(find_value_faults(change)):
            if rank == len(self._counts):
                self._counts.append(0)
                self._found.append([])
            if not len(faults.rows):
                continue
            broken = _without(faults.rows, dropped) if dropped else faults.rows
            if is_tolerant:
                dropped |= {row: _reason(faults.describe(row)) for row in broken.tolist()}
                continue
            self._counts[rank] += len(broken)
            room = VIOLATIONS_MAX - len(self._found[rank])
            start = self._first_position + self._seen
            for row in broken[:room].tolist():
                self._found[rank].append((faults.describe(row), start + row))

    def _write(self) -> None:
        rows = pa.concat_tables(self._waiting) if self._waiting else None
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        if rows is not None and rows.num_rows:
            self._files += write_files(self._folder, _with_holes(rows))


def _with_holes(rows: pa.Table) -> pa.Table:
    """Rows with a nullable schema if required values are missing.

    Such rows are rejected in the end, but they have to be written until then.
    """
    if not any(rows[field.name].null_count for field in rows.schema if not field.nullable):
        return rows
    return rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))  # noqa: FBT003


def _add_checksum(rows: pa.Table, checksum: int) -> int:
    ends = [name for name in ("id", "src", "dst") if name in rows.schema.names]
    for chunk in (chunk for name in ends for chunk in rows[name].chunks):
        _, offsets, texts = chunk.buffers()
        start, end = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
        if texts is not None:
            checksum = crc32(memoryview(texts)[start:end], checksum)
    return checksum


def _without(rows: RowNumbers, dropped: Mapping[int, object]) -> RowNumbers:
    return rows[~np.isin(rows, np.fromiter(dropped, np.int64))]


def _reason(violation: Violation) -> Reason:
    return Reason(violation.rule, violation.message)


_RESULT = "staged string"


def stage_inputs(
    spark: SparkSession,
    plan: StagingPlan,
    inputs: Sequence[JobInput],
    *,
    only: frozenset[SplitKey] | None,
) -> tuple[StagedSplit, ...]:
    """Stage all partitions of some inputs, or only some of them; results are in input order."""
    found: list[StagedSplit] = []
    for source, each in enumerate(inputs):
        if only is not None and all(key.source != source for key in only):
            continue
        if isinstance(each, LocalInput):
            found.append(stage_pieces(plan, SplitKey(source, 0), each.pieces, each.faults))
            continue
        # Each input has its own job, because a task knows its partition number only within its job.
        rows = _plan_input(spark, plan, source, each, only).collect()
        found += sorted((decode(StagedSplit, row["staged"]) for row in rows), key=_key_of)
    return tuple(found)


def _key_of(portion: StagedSplit) -> SplitKey:
    return portion.key


def _plan_input(
    spark: SparkSession,
    plan: StagingPlan,
    source: int,
    given: FileInput | FrameInput,
    only: frozenset[SplitKey] | None,
) -> DataFrame:
    match given:
        case FileInput(portions):
            chosen = tuple(
                (SplitKey(source, number), splits)
                for number, splits in enumerate(portions)
                if only is None or SplitKey(source, number) in only
            )
            numbers = spark.range(0, len(chosen), 1, max(len(chosen), 1))
            return numbers.mapInArrow(partial(_stage_files, plan, chosen), _RESULT)
        case FrameInput(table_key, frame):
            return frame.mapInArrow(partial(_stage_frame, plan, source, table_key, only), _RESULT)


# On executors


def _stage_files(
    plan: StagingPlan,
    chosen: Sequence[tuple[SplitKey, Sequence[Split]]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                key, splits = chosen[number]
                yield _as_batch(stage_splits(plan, key, splits))


def _stage_frame(
    plan: StagingPlan,
    source: int,
    table_key: str,
    only: frozenset[SplitKey] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    key = SplitKey(source, context.partitionId())
    with carried_errors():
        if key.number >= SPLITS_MAX:
            raise LimitExceededError(
                resource="the partitions of a frame", limit=SPLITS_MAX, found=key.number + 1
            )
        if only is None or key in only:
            yield _as_batch(stage_batches(plan, key, table_key, batches))


def _as_batch(portion: StagedSplit) -> pa.RecordBatch:
    return pa.record_batch({"staged": [encode(portion)]})


LeftOut = Mapping[str, Mapping[int, Reason | None]]
"""Rows by table key and position, each with a reason if the row is at fault."""


class JobStaging:
    """The staged partitions of a job."""

    def __init__(
        self,
        spark: SparkSession,
        plan: StagingPlan,
        inputs: Sequence[JobInput],
        *,
        progress: Progress,
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self._spark, self._progress = spark, progress
        self._portion_by_key: dict[SplitKey, StagedSplit] = {}
        self._obsolete: dict[str, list[NewFile]] = {}

    @property
    def portions(self) -> tuple[StagedSplit, ...]:
        """The result of each partition, in input order."""
        return tuple(self._portion_by_key[key] for key in sorted(self._portion_by_key))

    def stage(self) -> None:
        """Stage all partitions."""
        staged = self._run(only=None)
        assert len({each.key for each in staged}) == len(staged), "a portion is staged once"
        self._portion_by_key = {each.key: each for each in staged}

    def leave_out(self, left_out: LeftOut) -> None:
        """Stage the partitions of some rows again without these rows."""
        merged = {key: dict(rows) for key, rows in self.plan.left_out.items()}
        for table_key, reasons in left_out.items():
            for position, reason in reasons.items():
                portion, ordinal = parse_position(position)
                by_type = merged.setdefault(portion, {})
                by_type[table_key] = {**by_type.get(table_key, {}), ordinal: reason}
        affected = frozenset(
            parse_position(position)[0] for rows in left_out.values() for position in rows
        )
        # Vectors of the remaining rows are copied from the files that contain them.
        before = {key: self._portion_by_key[key] for key in affected}
        self.plan = replace(self.plan, left_out=merged, before=before)
        for staged in self._run(only=affected):
            replaced = self._portion_by_key[staged.key]
            _require_same(replaced, staged)
            for rows in replaced.rows:
                self._obsolete.setdefault(rows.table_key, []).extend(rows.files)
            self._portion_by_key[staged.key] = staged

    def obsolete_files(self) -> Mapping[str, Sequence[NewFile]]:
        """The files that other files have replaced, by table key."""
        return self._obsolete

    def all_files(self) -> Iterator[tuple[str, Sequence[NewFile]]]:
        """Every file that was written, by table key."""
        yield from self._obsolete.items()
        for portion in self._portion_by_key.values():
            for rows in portion.rows:
                yield rows.table_key, rows.files

    def _run(self, *, only: frozenset[SplitKey] | None) -> tuple[StagedSplit, ...]:
        return run_job(
            self._spark,
            lambda: stage_inputs(self._spark, self.plan, self.inputs, only=only),
            stage="read",
            progress=self._progress,
        )


def require_few_rejected(portions: Sequence[StagedSplit]) -> None:
    """Raise if so many rows were left out that the whole input is probably wrong."""
    rejected = sum(len(each.rejected) for each in portions)
    if rejected > QUARANTINED_ROWS_MAX:
        raise LimitExceededError(
            resource="the rows that one load leaves out", limit=QUARANTINED_ROWS_MAX, found=rejected
        )


def _require_same(before: StagedSplit, after: StagedSplit) -> None:
    if [*map(_identify, before.rows)] != [*map(_identify, after.rows)]:
        raise UnavailableError(
            action="leave out rows that cannot be loaded, so the graph is unchanged",
            reason="the input gave other rows when it was read again; persist a frame that does",
        )


def _identify(rows: StagedRows) -> tuple[str, int, int]:
    return rows.table_key, rows.row_count + len(rows.dropped), rows.checksum
