"""Rows that belong together by their ids, brought together: one shuffle, by ranges of ids.

Tasks read parts of versions, cut what they read where ranges end, and send every piece to the task
of its range as Arrow: values arrive as they are stored, and nothing becomes a row of Spark. Ranges
ascend, so that what is made of them is in the order of ids. Does not know what rows mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from omnigraph.model.limits import (
    RANGE_BYTES_MAX,
    RANGE_SAMPLES_MAX,
    RANGES_MAX,
    SPARK_BATCH_BYTES_MAX,
    UNSAMPLED_ROWS_MAX,
)
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.spark.upkeep.pins import Pin, claimed
from omnigraph.storage.delta_parts import DeltaPart
from omnigraph.storage.lance_delta_parts import scan_delta
from omnigraph.storage.lance_parts import scan_part
from omnigraph.storage.table_parts import TablePart

_PIECES = "range int, sort int, row_count long, rows binary"
_SAMPLES = "meeting int, id string, weight long, row_bytes double"


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that one task reads; `sort` tells them from others that they meet.

    A pin keeps them from being cleaned up meanwhile, where nobody else does.
    """

    sort: int
    part: TablePart | DeltaPart
    columns: tuple[str, ...]
    blobs: tuple[str, ...]
    pin: Pin | None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Rows that meet by id: those of one type. `blob_bytes` is what the blobs of a row take."""

    readings: tuple[Reading, ...]
    blob_bytes: int

    @property
    def row_count(self) -> int:
        """About how many rows there are."""
        return sum(each.part.row_count for each in self.readings)

    @property
    def is_small(self) -> bool:
        """Whether one task can hold all of them."""
        rows = self.row_count
        return rows <= UNSAMPLED_ROWS_MAX and rows * self.blob_bytes <= RANGE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Range:
    """A range of the ids of a meeting; `part` is its place among those of the meeting."""

    meeting: int
    part: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """Where the ids of each meeting are cut; the ranges of all of them are numbered through."""

    bounds: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return self.first(len(self.bounds))

    def first(self, meeting: int) -> int:
        """The number of the first range of a meeting."""
        return sum(len(each) + 1 for each in self.bounds[:meeting])

    def locate(self, number: int) -> Range:
        """The range of a number."""
        ends = list(accumulate(len(each) + 1 for each in self.bounds))
        meeting = int(np.searchsorted(ends, number, side="right"))
        return Range(meeting, number - self.first(meeting))

    def limits(self, place: Range) -> tuple[str | None, str | None]:
        """The first id that can be in a range, and the first behind it; None is no limit."""
        bounds = (None, *self.bounds[place.meeting], None)
        return bounds[place.part], bounds[place.part + 1]


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one sort that lie in one range."""

    sort: int
    rows: pa.RecordBatch


Work = Callable[[Range, Iterator[Piece]], Iterator[pa.RecordBatch]]
"""What a task makes of all pieces of a range, of which there is at least one."""


def find_ranges(spark: SparkSession, meetings: Sequence[Meeting]) -> Ranges:
    """Cut ids so that the rows of a range fit into the memory of a task; looks at some of them."""
    tasks = [
        (number, reading)
        for number, meeting in enumerate(meetings)
        if not meeting.is_small
        for reading in meeting.readings
    ]
    if not tasks:
        return Ranges(((),) * len(meetings))
    found = _run_tasks(spark, len(tasks), partial(_sample_all, tuple(tasks)), _SAMPLES)
    samples = found.toArrow()
    return Ranges(
        tuple(
            _cut_ids(samples.filter(pc.equal(samples["meeting"], number)), meeting.blob_bytes)
            for number, meeting in enumerate(meetings)
        )
    )


def send_pieces(spark: SparkSession, meetings: Sequence[Meeting], ranges: Ranges) -> DataFrame:
    """All rows in pieces, each with the range that it belongs to: what will be shuffled."""
    tasks = tuple(
        (ranges.first(number), ranges.bounds[number], reading)
        for number, meeting in enumerate(meetings)
        for reading in meeting.readings
    )
    return _run_tasks(spark, len(tasks), partial(_send_all, tasks), _PIECES)


def bring_together(pieces: DataFrame, ranges: Ranges, work: Work, columns: str) -> DataFrame:
    """What tasks make of the pieces of each range, as rows with some columns."""
    placed = pieces.repartitionById(ranges.count, "range")
    return placed.mapInArrow(partial(_work_all, ranges, work), columns)


def encode_rows(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as a stream of Arrow batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def decode_rows(content: bytes) -> pa.Table:
    """The rows of such a stream."""
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all()


def _run_tasks(
    spark: SparkSession,
    count: int,
    run: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: str,
) -> DataFrame:
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(run, columns)


def _cut_ids(samples: pa.Table, blob_bytes: int) -> tuple[str, ...]:
    """The ids at which ranges of about the same size begin, but for the first."""
    weights = samples["weight"].to_numpy()
    total = int(weights.sum())
    if not total:
        return ()
    row_bytes = float((samples["row_bytes"].to_numpy() * weights).sum()) / total + blob_bytes
    count = min(max(int(total * row_bytes // RANGE_BYTES_MAX) + 1, 1), RANGES_MAX)
    order = pc.sort_indices(samples["id"])
    ids, reached = samples["id"].take(order), np.cumsum(weights[order.to_numpy()])
    places = np.searchsorted(reached, np.arange(1, count) * total / count)
    return tuple(dict.fromkeys(ids.take(np.unique(places)).to_pylist()))


# On executors


def _read(reading: Reading, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if reading.pin is None:
        yield from _scan(reading.part, columns)
        return
    with claimed(reading.pin):
        yield from _scan(reading.part, columns)


def _scan(part: TablePart | DeltaPart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    match part:
        case TablePart():
            return scan_part(part, columns=columns, predicate=None, with_address=False)
        case DeltaPart():
            return scan_delta(part, columns=columns)


def _sample_all(
    tasks: Sequence[tuple[int, Reading]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from _sample(*tasks[number])


def _sample(meeting: int, reading: Reading) -> Iterator[pa.RecordBatch]:
    ids = [batch["id"] for batch in _read(reading, ["id"])]
    count = sum(map(len, ids))
    if not count:
        return
    small = [name for name in reading.columns if name not in reading.blobs]
    first = next(batch for batch in _read(reading, small) if batch.num_rows)
    every = pa.chunked_array(ids).sort()
    places = np.unique(np.linspace(0, count - 1, min(count, RANGE_SAMPLES_MAX)).astype(np.int64))
    yield pa.record_batch(
        {
            "meeting": pa.repeat(pa.scalar(meeting, pa.int32()), len(places)),
            "id": every.take(places).combine_chunks(),
            # The last of some ids that follow each other stands for all of them.
            "weight": pa.array(np.diff(places, prepend=-1), pa.int64()),
            "row_bytes": pa.repeat(first.nbytes / first.num_rows, len(places)),
        }
    )


def _send_all(
    tasks: Sequence[tuple[int, Sequence[str], Reading]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                first, bounds, reading = tasks[number]
                for rows in _gather(_read(reading, reading.columns)):
                    yield from _cut_rows(rows, reading.sort, first, bounds)


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in portions that are worth being cut."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in (part for each in batches for part in _split(each)):
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= SPARK_BATCH_BYTES_MAX:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that can be sent: one of blobs may have gigabytes."""
    share = max(1, batch.num_rows * SPARK_BATCH_BYTES_MAX // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, share):
        yield batch.slice(start, share)


def _cut_rows(
    rows: pa.Table, sort: int, first: int, bounds: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    ends = [rows.num_rows]
    if bounds:
        rows = rows.take(pc.sort_indices(rows["id"]))
        ids = rows["id"].combine_chunks()
        ends = [*pc.search_sorted(ids, pa.array(bounds), side="left").to_pylist(), *ends]
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            piece = rows.slice(start, end - start)
            yield pa.record_batch(
                {
                    "range": pa.array([first + number], pa.int32()),
                    "sort": pa.array([sort], pa.int32()),
                    "row_count": pa.array([piece.num_rows], pa.int64()),
                    "rows": pa.array([encode_rows(piece)], pa.binary()),
                }
            )
        start = end


def _work_all(
    ranges: Ranges, work: Work, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        rows = ((number, piece) for batch in batches for number, piece in _decode(batch))
        first = next(rows, None)
        if first is None:
            return
        number, piece = first
        yield from work(ranges.locate(number), chain([piece], (each for _, each in rows)))


def _decode(batch: pa.RecordBatch) -> Iterator[tuple[int, Piece]]:
    for row in range(batch.num_rows):
        number, sort = batch["range"][row].as_py(), batch["sort"][row].as_py()
        for rows in decode_rows(batch["rows"][row].as_buffer()).to_batches():
            yield number, Piece(sort, rows)
