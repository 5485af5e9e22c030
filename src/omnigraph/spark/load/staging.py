"""Staging on executors: input partitions become data files that no version references.

Reading, value rules and ids are those of a load in process. A staged row is identified by
partition, type and ordinal, and this position never changes, even if other rows are left out later.
Positions ascend in input order. A committed row is identified by its address. A task that Spark
runs twice leaves only unreferenced files. Commits are not known here.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.commit.integrity.values import find_value_faults
from omnigraph.engine.commit.integrity.violations import RowNumbers
from omnigraph.engine.commit.prepared_write import TableChange
from omnigraph.engine.input.arrow import ColumnSource, keep_column, read_batches
from omnigraph.engine.input.batches import (
    NOTHING_YET,
    InputLocation,
    ReadContext,
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
from omnigraph.engine.state.manifest import get_type, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import EmbeddingError, LimitExceededError, RequestError, Violation
from omnigraph.model.limits import (
    FRAGMENT_ROWS_MAX,
    PARTITIONS_MAX,
    STAGED_BYTES_MAX,
    VIOLATIONS_MAX,
)
from omnigraph.model.runtime import encode_ids
from omnigraph.model.source import Source
from omnigraph.spark.errors import carried_errors
from omnigraph.storage.external_files import ExternalBlobs, ExternalFiles
from omnigraph.storage.ports import FragmentDeletions, NewFile, TableBranchFolder, TablePart
from omnigraph.storage.tables import scan_file, scan_part, take_rows, write_deletions, write_files

Declared = NodeType | EdgeType

_NUMBER_BYTES = 4
_INPUT_BITS, _PARTITION_BITS, _ROW_BITS = 6, 16, 30

INPUTS_MAX = 1 << _INPUT_BITS
"""How many inputs one job can have."""

POSITION_BITS = _INPUT_BITS + _PARTITION_BITS + _ROW_BITS
"""The number of bits of a row position."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionKey:
    """An input of a job, by its order, and the number of a partition of it."""

    source: int
    number: int

    def position(self, ordinal: int) -> int:
        """The position of a row of a type; positions ascend in input order."""
        assert self.number < 1 << _PARTITION_BITS, "the number fits in a position"
        return ((self.source << _PARTITION_BITS | self.number) << _ROW_BITS) + ordinal


def parse_position(position: int) -> tuple[PartitionKey, int]:
    """The partition that contains a position, and the ordinal of the row in it."""
    partition, ordinal = divmod(position, 1 << _ROW_BITS)
    return PartitionKey(*divmod(partition, 1 << _PARTITION_BITS)), ordinal


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one type in a partition.

    Unless `has_given_id` (some row has an id, given or made from its key), every id is new.
    `dropped` are the ordinals of rows that were left out of the files, ascending. `checksum` covers
    the ids and endpoints of all rows.
    """

    table_key: str
    files: tuple[NewFile, ...]
    has_given_id: bool
    dropped: tuple[int, ...]
    checksum: int

    @property
    def row_count(self) -> int:
        """How many rows the files contain."""
        return sum(each.row_count for each in self.files)


@dataclass(frozen=True, slots=True)
class ViolatedRule:
    """A rule that rows of a type violate: the number of violations, and the first of them.

    `rank` is the order of the rule among those checked for the type. `positions` belong to the
    reported rows, and are None for rows that are not of the job.
    """

    table_key: str
    rank: int
    count: int
    violations: tuple[Violation, ...]
    positions: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row is rejected."""

    rule: str
    message: str


def reason_of(violation: Violation) -> Reason:
    """The reason to reject the row of a violation."""
    return Reason(violation.rule, violation.message)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that was left out or could not be read: the reason, its location and its original text.

    Records and lines are counted from the start of the split with that number in the partition.
    """

    type: str | None
    reason: Reason
    split: int
    place: InputLocation
    original: str


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The result of staging a partition.

    `counts` are the records and lines of each of its splits. `fault` is the split, if any, at which
    reading stopped because a row cannot be converted; later splits were not read. `unembedded` is
    the reason why rows got no vectors, if staging stopped for that; otherwise it is empty.
    """

    key: PartitionKey
    rows: tuple[StagedRows, ...]
    counts: tuple[tuple[int, int], ...]
    fault: int | None
    problem: str
    violated: tuple[ViolatedRule, ...]
    rejected: tuple[RejectedRow, ...]
    unembedded: str


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file of a partition's rows; `start` is the number of rows in the files before it."""

    folder: TableBranchFolder
    file: NewFile
    partition: PartitionKey
    start: int
    dropped: tuple[int, ...]

    @property
    def row_count(self) -> int:
        """How many rows the file contains."""
        return self.file.row_count

    def positions(self) -> pa.Array:
        """The position of each row in the input."""
        end = self.start + self.file.row_count
        numbers = np.arange(end + len(self.dropped))
        if self.dropped:
            numbers = np.delete(numbers, np.array(self.dropped, np.int64))
        return pa.array(numbers[self.start : end] + self.partition.position(0))

    def find(self, ordinal: int) -> int | None:
        """The offset in the file of a row of the partition; None if it is in another file."""
        offset = ordinal - bisect_left(self.dropped, ordinal) - self.start
        return offset if 0 <= offset < self.file.row_count else None


StoredRows = Sequence[StagedFile | TablePart]


def files_of(
    partition: PartitionKey, rows: StagedRows, folder: TableBranchFolder
) -> Iterator[StagedFile]:
    """The files of a type's rows in a partition."""
    start = 0
    for file in rows.files:
        yield StagedFile(folder, file, partition, start, rows.dropped)
        start += file.row_count


def read_stored(stored: StoredRows, *, columns: Sequence[str], with_place: bool) -> pa.Table:
    """Some columns of rows; if requested, also `position` if staged or `_rowaddr` if committed."""
    tables: list[pa.Table] = []
    for each in stored:
        match each:
            case TablePart():
                batches = scan_part(each, columns=columns, predicate=None, with_address=with_place)
                tables += [pa.Table.from_batches([batch]) for batch in batches]
            case StagedFile():
                rows = pa.Table.from_batches(scan_file(each.folder, each.file, columns=columns))
                if with_place:
                    rows = rows.add_column(0, "position", each.positions())
                tables.append(rows)
    return _join(tables)


def take_positions(
    stored: Sequence[StagedFile], positions: Sequence[int], *, columns: Sequence[str]
) -> pa.Table:
    """Some columns of the rows at the given positions, at least one, in the given order."""
    by_partition: dict[PartitionKey, list[StagedFile]] = {}
    for each in stored:
        by_partition.setdefault(each.partition, []).append(each)
    file_by_start: dict[tuple[PartitionKey, int], StagedFile] = {}
    places_by_start: dict[tuple[PartitionKey, int], list[tuple[int, int]]] = {}
    for index, position in enumerate(positions):
        partition, ordinal = parse_position(position)
        file, offset = next(
            (each, offset)
            for each in by_partition[partition]
            if (offset := each.find(ordinal)) is not None
        )
        file_by_start[partition, file.start] = file
        places_by_start.setdefault((partition, file.start), []).append((offset, index))
    parts: list[pa.Table] = []
    indexes: list[int] = []
    for start, places in places_by_start.items():
        file = file_by_start[start]
        offsets, found = zip(*sorted(places), strict=True)
        parts.append(take_rows(file.folder, file.file, offsets, columns=columns))
        indexes += found
    return _join(parts).take(np.argsort(indexes))


def group_addresses(
    addresses: npt.NDArray[np.uint64], folder: TableBranchFolder, version: int
) -> list[tuple[TablePart, tuple[int, ...]]]:
    """The fragments of committed rows of a version, given by addresses, and their offsets there."""
    if not len(addresses):
        return []
    ordered = np.sort(addresses)
    numbers, starts = np.unique(ordered >> np.uint64(32), return_index=True)
    offsets = np.split(ordered & np.uint64(0xFFFF_FFFF), starts[1:])
    return [
        (TablePart(folder, version, (number,), len(each)), tuple(each.tolist()))
        for number, each in zip(numbers.tolist(), offsets, strict=True)
    ]


def delete_rows(rows: tuple[TablePart, Sequence[int]]) -> FragmentDeletions:
    """Write a deletion file for committed rows of one fragment."""
    return write_deletions(*rows)


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    # The schema of a file whose rows lack required values is nullable, unlike those of other files.
    return pa.concat_tables(tables, promote_options="default")


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """The parameters of every task of a job.

    Relative paths start in `folder`. `first_id` is the number of the first id that the job may
    generate. A tolerant task leaves out rows that cannot be read or violate a value rule.
    `left_out` are rows, by partition, type and number, that were rejected after they were staged.
    `before` are the earlier results of the partitions with such rows, so that no vector is computed
    twice; if there are any, only these partitions are staged.
    """

    schema: str
    folders: Mapping[str, TableBranchFolder]
    external: ExternalBlobs
    storage_options: Mapping[str, str] = field(repr=False)
    folder: str
    first_id: int
    is_tolerant: bool
    left_out: Mapping[PartitionKey, Mapping[str, Mapping[int, Reason | None]]]
    # An embedder may hold an API key, which its repr does not show.
    vectors: VectorPolicy
    before: Mapping[PartitionKey, StagedPartition]

    def includes(self, key: PartitionKey) -> bool:
        """Whether a partition has to be staged."""
        return not self.before or key in self.before

    def read_context(self) -> ReadContext:
        """The context for reading rows."""
        catalog = compile_schema(Source("<schema>", self.schema))
        files = ExternalFiles(self.storage_options, folder=self.folder)
        return ReadContext(catalog, self.external, files)


def stage_splits(plan: StagingPlan, task: tuple[PartitionKey, Sequence[Split]]) -> StagedPartition:
    """Stage the rows of some splits of files, in a task."""
    key, splits = task
    context = plan.read_context()
    staging = _PartitionStager(plan, key)
    for number, split in enumerate(splits):
        counter = RowCounter(NOTHING_YET)
        report = staging.reject if plan.is_tolerant else None
        rows = read_split(split, context=context, counter=counter, report=report)
        if not staging.add_split(number, rows, counter):
            break
    return staging.finish()


def stage_frame(
    plan: StagingPlan, source: int, table_key: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage a partition of a frame of one type, in a task."""
    context = TaskContext.get()
    assert context is not None, "only a task calls this"
    key = PartitionKey(source, context.partitionId())
    with carried_errors():
        if plan.includes(key):
            staged = stage_batches(plan, key, table_key, batches)
            yield pa.record_batch({"staged": [pickle.dumps(staged)]})


def stage_batches(
    plan: StagingPlan, key: PartitionKey, table_key: str, batches: Iterable[pa.RecordBatch]
) -> StagedPartition:
    """Stage rows of one type that come in batches; they are identified by their numbers."""
    if key.number >= PARTITIONS_MAX:
        raise LimitExceededError(
            resource="the partitions of a frame", limit=PARTITIONS_MAX, found=key.number + 1
        )
    context = plan.read_context()
    staging = _PartitionStager(plan, key)
    counter = RowCounter(NOTHING_YET)
    source = ColumnSource(get_type(table_key, context.catalog), "", keep_column)
    report = staging.reject if plan.is_tolerant else None
    rows = read_batches(batches, source, context=context, counter=counter, report=report)
    staging.add_split(0, rows, counter)
    return staging.finish()


def stage_rows_read(
    plan: StagingPlan, key: PartitionKey, pieces: Iterable[RowBatch], faults: Iterable[RowError]
) -> StagedPartition:
    """Stage rows that were read in this process; `faults` are the unreadable ones."""
    staging = _PartitionStager(plan, key)
    for fault in faults:
        staging.reject(fault)
    staging.add_split(0, pieces, RowCounter(NOTHING_YET))
    return staging.finish()


class _PartitionStager:
    """Stages the rows of a partition as they arrive."""

    def __init__(self, plan: StagingPlan, key: PartitionKey) -> None:
        self._plan, self._key = plan, key
        self._rows_by_key: dict[str, _TypeStager] = {}
        self._rejected: list[RejectedRow] = []
        self._counts: list[tuple[int, int]] = []
        self._split = 0
        self._fault: int | None = None
        self._problem = self._unembedded = ""

    def add_split(self, number: int, pieces: Iterable[RowBatch], counter: RowCounter) -> bool:
        """Stage the rows of a split; returns whether the next split can be read."""
        self._split = number
        try:
            for piece in pieces:
                self._add(piece)
        except RequestError as error:
            # The driver knows the counts before this split, and reads it again for the exact error.
            self._fault, self._problem = number, str(error)
        except EmbeddingError as error:
            # Returned, not raised: Spark would retry the task, and files of other tasks would be
            # left behind.
            self._unembedded = error.reason
        else:
            self._counts.append((counter.counted.records, counter.counted.lines))
        return self._fault is None and not self._unembedded

    def reject(self, fault: RowError) -> None:
        """Record a row that could not be read."""
        message = fault.message.removeprefix(str(fault.place)).lstrip(",: ")
        original = fault.original.decode(errors="replace")
        reason = Reason("value", message)
        self._rejected.append(RejectedRow(None, reason, self._split, fault.place, original))

    def finish(self) -> StagedPartition:
        """Write the remaining rows and return the result."""
        return StagedPartition(
            key=self._key,
            rows=tuple(self._rows_by_key[key].finish(key) for key in sorted(self._rows_by_key)),
            counts=tuple(self._counts),
            fault=self._fault,
            problem=self._problem,
            violated=tuple(
                each for key, rows in self._rows_by_key.items() for each in rows.violated(key)
            ),
            # Unreadable records are reported before the rows around them arrive.
            rejected=tuple(sorted(self._rejected, key=lambda row: (row.split, row.place.record))),
            unembedded=self._unembedded,
        )

    def _add(self, piece: RowBatch) -> None:
        table_key = table_key_of(piece.declared)
        rows = self._rows_by_key.get(table_key)
        if rows is None:
            rows = _TypeStager(self._plan, self._key, piece.declared)
            self._rows_by_key[table_key] = rows
        for row, reason in sorted(rows.add(piece).items()):
            if reason is not None:
                original = piece.origin.original(row).decode(errors="replace")
                self._rejected.append(
                    RejectedRow(
                        piece.declared.name, reason, self._split, piece.origin.locate(row), original
                    )
                )


class _TypeStager:
    """The rows of one type in a partition: checked, given ids, and written in large files."""

    def __init__(self, plan: StagingPlan, key: PartitionKey, declared: Declared) -> None:
        self._plan, self._declared = plan, declared
        table_key = table_key_of(declared)
        self._folder = plan.folders[table_key]
        self._left_out = plan.left_out.get(key, {}).get(table_key, {})
        self._left_out_numbers = sorted(self._left_out)
        self._first_position = key.position(0)
        before = plan.before[key].rows if key in plan.before else ()
        self._files_before = tuple(
            file
            for rows in before
            if rows.table_key == table_key
            for file in files_of(key, rows, self._folder)
        )
        self._seen = 0
        self._has_given_id = False
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._files: list[NewFile] = []
        self._checksum = 0
        self._dropped: list[int] = []
        self._counts: list[int] = []
        self._found: list[list[tuple[Violation, int]]] = []

    def add(self, piece: RowBatch) -> Mapping[int, Reason | None]:
        """Add rows; returns the rows that are left out, with a reason if the row is at fault."""
        rows = self._with_ids(piece.rows)
        self._checksum = _add_checksum(rows, self._checksum)
        first = bisect_left(self._left_out_numbers, self._seen)
        end = bisect_left(self._left_out_numbers, self._seen + rows.num_rows)
        dropped = {
            each - self._seen: self._left_out[each] for each in self._left_out_numbers[first:end]
        }
        self._check(rows, dropped)
        positions = np.arange(rows.num_rows) + self._seen
        self._seen += rows.num_rows
        if dropped:
            numbers = np.sort(np.fromiter(dropped, np.int64))
            self._dropped += positions[numbers].tolist()
            positions = np.delete(positions, numbers)
            rows = rows.take(positions - self._seen + piece.rows.num_rows)
        self._embed(rows, positions + self._first_position)
        return dropped

    def _embed(self, rows: pa.Table, positions: RowNumbers) -> None:
        """Queue rows for writing, with missing vectors filled in."""
        # Rows that violate a rule fail the load, so no vectors are needed.
        if any(self._counts):
            self._queue(rows)
            return
        lacking = find_lacking(self._declared, rows, self._plan.vectors)
        row_bytes = sum(each.target.dimension for each in lacking) * _NUMBER_BYTES
        # Only as many rows at a time as have vectors that fit in memory.
        share = max(1, STAGED_BYTES_MAX // row_bytes) if row_bytes else max(1, rows.num_rows)
        for start in range(0, rows.num_rows, share):
            some = rows.slice(start, share)
            try:
                filled = self._fill(some, positions[start : start + share])
            except EmbeddingError:
                # Every row that was read has to be in a file, so that the reported counts add up.
                self._queue(rows.slice(start))
                raise
            self._queue(filled)

    def _fill(self, rows: pa.Table, positions: RowNumbers) -> pa.Table:
        """The rows with their vectors, from files that contain them or from the provider."""
        if not self._files_before:
            return fill_rows(self._declared, rows, self._plan.vectors)
        for found in find_lacking(self._declared, rows, self._plan.vectors):
            column = found.target.column
            places = positions[found.numbers].tolist()
            vectors = take_positions(self._files_before, places, columns=[column])[column]
            rows = put_vectors(rows, found.target, found.numbers, vectors.combine_chunks())
        return rows

    def _queue(self, rows: pa.Table) -> None:
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

    def violated(self, table_key: str) -> Iterator[ViolatedRule]:
        """The value rules that rows violate."""
        for rank, (count, found) in enumerate(zip(self._counts, self._found, strict=True)):
            if count:
                violations, positions = zip(*found, strict=True)
                yield ViolatedRule(table_key, rank, count, violations, positions)

    def _with_ids(self, rows: pa.Table) -> pa.Table:
        ids = rows["id"]
        self._has_given_id |= ids.null_count < len(ids)
        if not ids.null_count:
            return rows
        first_id = self._plan.first_id + self._first_position + self._seen
        generated = pa.array(encode_ids(first_id, rows.num_rows), pa.string())
        filled = pc.coalesce(ids, pa.chunked_array([generated]))
        return rows.set_column(0, rows.schema.field("id"), filled)

    def _check(self, rows: pa.Table, dropped: dict[int, Reason | None]) -> None:
        promised = promise_vectors(self._declared, rows, self._plan.vectors)
        change = TableChange(
            self._declared, promised, pa.array([], pa.string()), is_overwrite=False
        )
        for rank, faults in enumerate(find_value_faults(change)):
            if rank == len(self._counts):
                self._counts.append(0)
                self._found.append([])
            if not len(faults.rows):
                continue
            faulty = faults.rows
            if dropped:
                faulty = faulty[~np.isin(faulty, np.fromiter(dropped, np.int64))]
            if self._plan.is_tolerant:
                dropped |= {row: reason_of(faults.describe(row)) for row in faulty.tolist()}
                continue
            self._counts[rank] += len(faulty)
            room = VIOLATIONS_MAX - len(self._found[rank])
            start = self._first_position + self._seen
            for row in faulty[:room].tolist():
                self._found[rank].append((faults.describe(row), start + row))

    def _write(self) -> None:
        rows = pa.concat_tables(self._waiting) if self._waiting else None
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        if rows is None or not rows.num_rows:
            return
        if any(rows[field.name].null_count for field in rows.schema if not field.nullable):
            # Rows without required values are rejected in the end, but are written until then.
            nullable = pa.schema([field.with_nullable(True) for field in rows.schema])  # noqa: FBT003
            rows = rows.cast(nullable)
        self._files += write_files(self._folder, rows)


def _add_checksum(rows: pa.Table, checksum: int) -> int:
    ends = [name for name in ("id", "src", "dst") if name in rows.schema.names]
    for chunk in (chunk for name in ends for chunk in rows[name].chunks):
        _, offsets, texts = chunk.buffers()
        start, end = np.frombuffer(offsets, np.int32)[[chunk.offset, chunk.offset + len(chunk)]]
        if texts is not None:
            checksum = crc32(memoryview(texts)[start:end], checksum)
    return checksum
