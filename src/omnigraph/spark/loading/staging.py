"""Staging on executors: portions of the input become files of rows that no version names.

Runs in Spark's Python workers, with the reader, the value rules and the ids of a load in process.
A task that runs twice leaves files that nobody hears of. Knows nothing of commits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.commit.changes import TableChange
from omnigraph.engine.commit.integrity.values import find_value_faults
from omnigraph.engine.commit.integrity.violations import RowNumbers
from omnigraph.engine.ops.reading.frames import ColumnSource, keep_column, read_batches
from omnigraph.engine.ops.reading.pieces import NOTHING_YET, Fault, Means, Piece, Report, Tally
from omnigraph.engine.ops.reading.split_rows import read_split
from omnigraph.engine.ops.reading.splits import Split
from omnigraph.engine.ops.reading.type_names import get_type
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import RequestError, Violation
from omnigraph.model.limits import FRAGMENT_ROWS_MAX, STAGED_BYTES_MAX, VIOLATIONS_MAX
from omnigraph.model.runtime import encode_ids
from omnigraph.model.source import Source
from omnigraph.spark.loading.staged import (
    Broken,
    PortionKey,
    Reason,
    RejectedRow,
    StagedPortion,
    StagedRows,
)
from omnigraph.storage.external_blobs import ExternalBlobs
from omnigraph.storage.lance_parts import write_files
from omnigraph.storage.outside_files import OutsideFiles
from omnigraph.storage.table_parts import LineFolder, NewFile

Declared = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """What every task of a job is told.

    Paths that are not absolute begin in `folder`. `first_id` is the number of the first id that the
    job may make. A tolerant task leaves rows out that cannot be read or break a value rule.
    `left_out` are rows, by portion, type and number, that were found wrong since they were staged.
    """

    schema: str
    folders: Mapping[str, LineFolder]
    external: ExternalBlobs
    storage_options: Mapping[str, str] = field(repr=False)
    folder: str
    first_id: int
    is_tolerant: bool
    left_out: Mapping[PortionKey, Mapping[str, Mapping[int, Reason | None]]]

    def means(self) -> Means:
        """What reading takes."""
        catalog = compile_schema(Source("<schema>", self.schema))
        files = OutsideFiles(self.storage_options, folder=self.folder)
        return Means(catalog, self.external, files)


def stage_splits(plan: StagingPlan, key: PortionKey, splits: Sequence[Split]) -> StagedPortion:
    """Stage the rows of some splits of files."""
    means = plan.means()
    staging = _Staging(plan, key)
    counts: list[tuple[int, int]] = []
    for number, split in enumerate(splits):
        tally = Tally(NOTHING_YET)
        staging.split = number
        try:
            for piece in read_split(split, means=means, tally=tally, report=staging.report):
                staging.add(piece)
        except RequestError as error:
            # The driver knows what comes before in the file, and reads it again to tell.
            return staging.finish(counts, fault=number, problem=str(error))
        counts.append((tally.counted.records, tally.counted.lines))
    return staging.finish(counts, fault=None, problem="")


def stage_batches(
    plan: StagingPlan, key: PortionKey, table_key: str, batches: Iterable[pa.RecordBatch]
) -> StagedPortion:
    """Stage rows of one type that come in batches; they are known by their numbers."""
    means = plan.means()
    staging = _Staging(plan, key)
    tally = Tally(NOTHING_YET)
    source = ColumnSource(get_type(table_key, means.catalog), "", keep_column)
    try:
        for piece in read_batches(batches, source, means=means, tally=tally, report=staging.report):
            staging.add(piece)
    except RequestError as error:
        return staging.finish([], fault=0, problem=str(error))
    return staging.finish([(tally.counted.records, 0)], fault=None, problem="")


def stage_pieces(
    plan: StagingPlan, key: PortionKey, pieces: Iterable[Piece], faults: Iterable[Fault]
) -> StagedPortion:
    """Stage rows that were read in this process; `faults` are those that could not be."""
    staging = _Staging(plan, key)
    for fault in faults:
        staging.reject(fault)
    for piece in pieces:
        staging.add(piece)
    return staging.finish([], fault=None, problem="")


class _Staging:
    """The rows of a portion as they come."""

    def __init__(self, plan: StagingPlan, key: PortionKey) -> None:
        self._plan, self._key = plan, key
        self._left_out = plan.left_out.get(key, {})
        self._rows_by_key: dict[str, _TypeRows] = {}
        self._rejected: list[RejectedRow] = []
        self.split = 0
        self.report: Report | None = self.reject if plan.is_tolerant else None

    def add(self, piece: Piece) -> None:
        """Take some more rows."""
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
            )
            self._rows_by_key[table_key] = rows
        reasons = rows.add(piece, is_tolerant=self._plan.is_tolerant)
        for row, reason in sorted(reasons.items()):
            if reason is not None:
                self._reject_row(piece, row, reason)

    def finish(
        self, counts: Sequence[tuple[int, int]], *, fault: int | None, problem: str
    ) -> StagedPortion:
        """Write what is left, and tell of all."""
        return StagedPortion(
            key=self._key,
            rows=tuple(self._rows_by_key[key].finish(key) for key in sorted(self._rows_by_key)),
            counts=tuple(counts),
            fault=fault,
            problem=problem,
            broken=tuple(
                each for key, rows in self._rows_by_key.items() for each in rows.broken(key)
            ),
            # What cannot be read is reported before the rows around it come.
            rejected=tuple(sorted(self._rejected, key=lambda row: (row.split, row.place.record))),
        )

    def reject(self, fault: Fault) -> None:
        """Keep a record that could not be read."""
        message = fault.message.removeprefix(str(fault.place)).lstrip(",: ")
        original = fault.original.decode(errors="replace")
        reason = Reason("value", message)
        self._rejected.append(RejectedRow(None, reason, self.split, fault.place, original))

    def _reject_row(self, piece: Piece, row: int, reason: Reason) -> None:
        original = piece.original(row).decode(errors="replace")
        place = piece.locate(row)
        name = piece.declared.name
        self._rejected.append(RejectedRow(name, reason, self.split, place, original))


class _TypeRows:
    """The rows of one type of a portion: checked, given ids, and written when they are many."""

    def __init__(
        self,
        declared: Declared,
        folder: LineFolder,
        first_id: int,
        first_position: int,
        *,
        left_out: Mapping[int, Reason | None],
    ) -> None:
        self._declared, self._folder = declared, folder
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

    def add(self, piece: Piece, *, is_tolerant: bool) -> Mapping[int, Reason | None]:
        """Take more rows; those of them that are left out, with the reason if it is a fault."""
        rows = self._identify(piece.rows)
        self._checksum = _add_checksum(rows, self._checksum)
        first = bisect_left(self._left_out_numbers, self._seen)
        end = bisect_left(self._left_out_numbers, self._seen + rows.num_rows)
        dropped = {
            each - self._seen: self._left_out[each] for each in self._left_out_numbers[first:end]
        }
        self._check(rows, dropped, is_tolerant=is_tolerant)
        self._seen += rows.num_rows
        if dropped:
            numbers = np.sort(np.fromiter(dropped, np.int64))
            self._dropped += (numbers + self._seen - rows.num_rows).tolist()
            rows = rows.take(np.delete(np.arange(rows.num_rows), numbers))
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > STAGED_BYTES_MAX or self._waiting_rows >= FRAGMENT_ROWS_MAX:
            self._write()
        return dropped

    def finish(self, table_key: str) -> StagedRows:
        """Write what is left, and tell of the files."""
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
        """The rules about values that rows break."""
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
        change = TableChange(self._declared, rows, pa.array([], pa.string()), is_overwrite=False)
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
    """Rows that lack what they need are refused in the end, and have to be written until then."""
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
