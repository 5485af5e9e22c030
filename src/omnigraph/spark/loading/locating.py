"""Where rows of a job stand in its input: the portions that have them are read again to tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.engine.ops.reading.pieces import Counted, Piece, Tally
from omnigraph.engine.ops.reading.split_rows import read_split
from omnigraph.engine.ops.reading.splits import Split
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.spark.loading.inputs import FileInput, FrameInput, JobInput, LocalInput
from omnigraph.spark.loading.refusals import count_before, count_rows_before
from omnigraph.spark.loading.staged import PortionKey, StagedPortion, parse_position
from omnigraph.spark.loading.staging import StagingPlan
from omnigraph.spark.spark_errors import carried_errors

_PLACES = "table_key string, position long, place string"

Wanted = tuple[PortionKey, tuple[tuple[Split, Counted], ...], frozenset[tuple[str, int]]]
"""A portion, its splits with what comes before each in its file, and rows of it."""


def locate_rows(
    spark: SparkSession,
    rows: Iterable[tuple[str, int]],
    *,
    plan: StagingPlan,
    inputs: Sequence[JobInput],
    portions: Sequence[StagedPortion],
) -> Mapping[tuple[str, int], str]:
    """The places of rows, given by table key and position."""
    rows_by_portion: dict[PortionKey, set[tuple[str, int]]] = {}
    for table_key, position in rows:
        portion, ordinal = parse_position(position)
        rows_by_portion.setdefault(portion, set()).add((table_key, ordinal))
    places: dict[tuple[str, int], str] = {}
    to_read: list[Wanted] = []
    before: dict[tuple[PortionKey, int], Counted] = {}
    for key, wanted in rows_by_portion.items():
        match inputs[key.source]:
            case FileInput() as given:
                if (key, 0) not in before:
                    before |= count_before(key.source, portions, given)
                splits = tuple(
                    (split, before[key, number])
                    for number, split in enumerate(given.portions[key.number])
                )
                to_read.append((key, splits, frozenset(wanted)))
            case FrameInput():
                places |= _number_rows(key, wanted, portions)
            case LocalInput(pieces):
                places |= _find_in_pieces(key, wanted, pieces)
    if to_read:
        frame = spark.range(0, len(to_read), 1, len(to_read)).mapInArrow(
            partial(_locate_all, plan, tuple(to_read)), _PLACES
        )
        places |= {(row["table_key"], row["position"]): row["place"] for row in frame.collect()}
    return places


def _number_rows(
    key: PortionKey, wanted: Iterable[tuple[str, int]], portions: Sequence[StagedPortion]
) -> Mapping[tuple[str, int], str]:
    """The rows of a frame are known by their numbers over all partitions."""
    before = count_rows_before(key, portions)
    return {
        (table_key, key.position(ordinal)): f"row {before + ordinal + 1}"
        for table_key, ordinal in wanted
    }


# On executors too


def _locate_all(
    plan: StagingPlan, wanted: Sequence[Wanted], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                key, splits, rows = wanted[number]
                places = _find_in_pieces(key, rows, _read_all(plan, splits))
                yield pa.record_batch(
                    {
                        "table_key": [table_key for table_key, _ in places],
                        "position": pa.array([position for _, position in places], pa.int64()),
                        "place": list(places.values()),
                    }
                )


def _read_all(plan: StagingPlan, splits: Sequence[tuple[Split, Counted]]) -> Iterator[Piece]:
    means = plan.means()
    for split, before in splits:
        yield from read_split(split, means=means, tally=Tally(before), report=None)


def _find_in_pieces(
    key: PortionKey, wanted: Iterable[tuple[str, int]], pieces: Iterable[Piece]
) -> Mapping[tuple[str, int], str]:
    ordinals_by_key: dict[str, list[int]] = {}
    for table_key, ordinal in sorted(wanted):
        ordinals_by_key.setdefault(table_key, []).append(ordinal)
    seen: dict[str, int] = {}
    places: dict[tuple[str, int], str] = {}
    for piece in pieces:
        table_key = table_key_of(piece.declared)
        start = seen.get(table_key, 0)
        seen[table_key] = start + piece.rows.num_rows
        ordinals = ordinals_by_key.get(table_key, [])
        for ordinal in ordinals[
            bisect_left(ordinals, start) : bisect_left(ordinals, seen[table_key])
        ]:
            places[table_key, key.position(ordinal)] = str(piece.locate(ordinal - start))
    return places
