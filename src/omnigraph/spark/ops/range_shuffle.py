"""One shuffle that brings rows together by ranges of ids, and pins of the versions that it reads.

Rows travel as Arrow batches, so stored values arrive unchanged. Ranges ascend and are sized to the
memory of a task from a sample of the ids. A task protects its version from cleanup while it reads,
and fails if the branch was deleted or recreated. The meaning of rows is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from omnigraph.engine.state.manifest import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import (
    RANGE_BYTES_MAX,
    RANGE_SAMPLES_MAX,
    RANGES_MAX,
    SPARK_BATCH_BYTES_MAX,
    UNSAMPLED_ROWS_MAX,
)
from omnigraph.model.types import Scalar
from omnigraph.spark.connector.reader import PinnedVersion, decode_rows, encode_rows, read_claim
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.jobs import map_tasks
from omnigraph.storage.ports import DeltaPart, TablePart, TableReader
from omnigraph.storage.tables import scan_delta, scan_part

_PIECES = "range int, sort int, row_count long, rows binary"
_SAMPLES = "meeting int, id string, weight long, row_bytes double"


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that one task reads; `sort` distinguishes them from the rows they are joined with.

    The pin protects them from cleanup, if they are not protected otherwise.
    """

    sort: int
    part: TablePart | DeltaPart
    columns: tuple[str, ...]
    blobs: tuple[str, ...]
    pin: PinnedVersion | None


@dataclass(frozen=True, slots=True)
class RangeJoin:
    """Rows of one type that are joined by id; `blob_bytes` is the size of the blobs of a row."""

    readings: tuple[Reading, ...]
    blob_bytes: int

    @property
    def row_count(self) -> int:
        """The approximate number of rows."""
        return sum(each.part.row_count for each in self.readings)

    @property
    def is_small(self) -> bool:
        """Whether one task can hold all rows."""
        rows = self.row_count
        return rows <= UNSAMPLED_ROWS_MAX and rows * self.blob_bytes <= RANGE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Range:
    """A range of the ids of a join; `part` is its index among the ranges of the join."""

    meeting: int
    part: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """The bounds between ranges of ids of each join; ranges are numbered across all joins."""

    bounds: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        """The number of ranges."""
        return self.first(len(self.bounds))

    def first(self, meeting: int) -> int:
        """The number of the first range of a join."""
        return sum(len(each) + 1 for each in self.bounds[:meeting])

    def locate(self, number: int) -> Range:
        """The range with a number."""
        ends = list(accumulate(len(each) + 1 for each in self.bounds))
        meeting = int(np.searchsorted(ends, number, side="right"))
        return Range(meeting, number - self.first(meeting))

    def limits(self, place: Range) -> tuple[str | None, str | None]:
        """The lower bound of a range, and its exclusive upper bound; None is unbounded."""
        bounds = (None, *self.bounds[place.meeting], None)
        return bounds[place.part], bounds[place.part + 1]


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows with one `sort` in one range."""

    sort: int
    rows: pa.RecordBatch


Work = Callable[[Range, Iterator[Piece]], Iterator[pa.RecordBatch]]
"""Processes all pieces of a range in a task; there is at least one."""


def find_ranges(spark: SparkSession, meetings: Sequence[RangeJoin]) -> Ranges:
    """Divide the ids into ranges whose rows fit in the memory of a task, based on a sample."""
    tasks = [
        (number, reading)
        for number, meeting in enumerate(meetings)
        if not meeting.is_small
        for reading in meeting.readings
    ]
    if not tasks:
        return Ranges(((),) * len(meetings))
    samples = map_tasks(spark, _sample, tasks, _SAMPLES).toArrow()
    return Ranges(
        tuple(
            _cut_ids(samples.filter(pc.equal(samples["meeting"], number)), meeting.blob_bytes)
            for number, meeting in enumerate(meetings)
        )
    )


def shuffle_by_range(
    spark: SparkSession, meetings: Sequence[RangeJoin], ranges: Ranges
) -> DataFrame:
    """All rows in pieces, each with its range, ready to be shuffled."""
    tasks = tuple(
        (ranges.first(number), ranges.bounds[number], reading)
        for number, meeting in enumerate(meetings)
        for reading in meeting.readings
    )
    return map_tasks(spark, _send, tasks, _PIECES)


def join_ranges(pieces: DataFrame, ranges: Ranges, work: Work, columns: str) -> DataFrame:
    """The results of tasks for the pieces of each range, as rows with the given columns."""
    placed = pieces.repartitionById(ranges.count, "range")
    return placed.mapInArrow(partial(_work_all, ranges, work), columns)


def make_report(place: Range, report: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A row about a range: its `meeting` and `part`, and the columns of its report."""
    located = {
        "meeting": pa.array([place.meeting], pa.int32()),
        "part": pa.array([place.part], pa.int32()),
    }
    return pa.record_batch({**located, **report})


def _cut_ids(samples: pa.Table, blob_bytes: int) -> tuple[str, ...]:
    """The ids at which ranges of about the same size begin, except the first range."""
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
    pin = reading.pin
    with nullcontext() if pin is None else read_claim(pin, otherwise="compare again"):
        match reading.part:
            case TablePart() as part:
                yield from scan_part(part, columns=columns, predicate=None, with_address=False)
            case DeltaPart() as part:
                yield from scan_delta(part, columns=columns)


def _sample(task: tuple[int, Reading]) -> Iterator[pa.RecordBatch]:
    meeting, reading = task
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
            # The last of some consecutive ids represents all of them.
            "weight": pa.array(np.diff(places, prepend=-1), pa.int64()),
            "row_bytes": pa.repeat(first.nbytes / first.num_rows, len(places)),
        }
    )


def _send(task: tuple[int, Sequence[str], Reading]) -> Iterator[pa.RecordBatch]:
    first, bounds, reading = task
    for rows in _gather(_read(reading, reading.columns)):
        yield from _cut_rows(rows, reading.sort, first, bounds)


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in tables that are large enough to be worth cutting."""
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
    """A batch in parts that can be sent, because a batch of blobs may have gigabytes."""
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


def list_blobs(declared: NodeType | EdgeType, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that contain blobs."""
    types = {name: each.type for name, each in declared.properties.items()}
    return tuple(name for name in columns if name in types and types[name].element is Scalar.BLOB)


def measure_blobs(entry: Entry, blobs: Sequence[str], tables: TableReader) -> int:
    """The approximate size in bytes of the blobs of a row, in the columns that exist."""
    if not blobs:
        return 0
    known = set(tables.schema(entry.at).names)
    stored = sum(tables.stored_bytes(entry.at, name) for name in blobs if name in known)
    return stored // max(entry.row_count, 1)
