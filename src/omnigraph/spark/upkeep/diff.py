"""Diffs on Spark: only rows that two states do not have at the same place meet, by their ids.

What is read is planned from the descriptions of versions, as in process; what rows that meet amount
to is decided by the code that decides it in process. A diff is worked out when it is asked for; its
changes stay on executors unless somebody wants them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from omnigraph.engine.changes import (
    ChangedRows,
    ChangeOp,
    ChangeSet,
    ChangeStats,
    find_compared,
)
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.diff import Selection, list_pairs, put_in_order
from omnigraph.engine.ops.type_changes import compare_rows, plan_changes
from omnigraph.engine.ops.type_pairs import TypePair
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.sessions import find_session
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.spark.upkeep.change_frames import (
    STREAM_SCHEMA,
    type_images,
    typed_schema,
    write_images,
)
from omnigraph.spark.upkeep.meetings import list_blobs, measure_blobs
from omnigraph.spark.upkeep.pins import pin_entry
from omnigraph.spark.upkeep.ranges import (
    Meeting,
    Piece,
    Range,
    Ranges,
    Reading,
    bring_together,
    decode_rows,
    encode_rows,
    find_ranges,
    send_pieces,
)
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.delta_parts import DeltaPart

_GONE, _COME = 0, 1
_CHANGED = "meeting int, part int, inserts long, updates long, deletes long, rows binary"


def diff(
    old: Basis, new: Basis, *, selection: Selection, opened: OpenGraph, spark: object
) -> ChangeSet:
    """What changed from one state to another, to be worked out on Spark."""
    pairs = list_pairs(old, new, selection)
    meetings = tuple(_plan_meeting(each, old, new, opened) for each in pairs)
    types = tuple(each.declared for each in pairs)
    found = SparkChanges(find_session(spark), types, meetings, selection.ops)
    return ChangeSet(found, old_commit_id=old.head.id, new_commit_id=new.head.id)


class SparkChanges:
    """The changes of some types, which are the `meetings` of a job."""

    def __init__(
        self,
        spark: SparkSession,
        types: Sequence[NodeType | EdgeType],
        meetings: Sequence[Meeting],
        ops: frozenset[ChangeOp],
    ) -> None:
        self._spark, self._types, self._meetings, self._ops = spark, types, meetings, ops

    def count(self) -> ChangeStats:
        """The changes, counted where they are."""
        counts = [f.sum(name).alias(name) for name in ("inserts", "updates", "deletes")]
        rows = self._run(lambda changed: changed.groupBy("meeting").agg(*counts))
        return ChangeStats(
            inserts=sum(row["inserts"] for row in rows),
            updates=sum(row["updates"] for row in rows),
            deletes=sum(row["deletes"] for row in rows),
            types_affected=tuple(sorted({self._types[row["meeting"]].name for row in rows})),
        )

    def collect(self) -> Sequence[ChangedRows]:
        """All of them, by type."""
        rows = self._run(lambda changed: changed.select("meeting", "part", "rows"))
        rows.sort(key=lambda row: (row["meeting"], row["part"]))
        tables: list[list[pa.Table]] = [[] for _ in self._types]
        for row in rows:
            tables[row["meeting"]].append(decode_rows(row["rows"]))
        return [_restore(*each) for each in zip(self._types, tables, strict=True)]

    def to_frame(self, type: str | None, session: object) -> DataFrame:
        """The same as a frame, which is worked out when it is used."""
        spark = self._spark if session is None else find_session(session)
        if type is None:
            written = partial(_convert_all, self._types, None)
            return self._changed(spark).mapInArrow(written, STREAM_SCHEMA)
        place = find_compared(type, self._types)
        typed = partial(_convert_all, self._types, place)
        return self._changed(spark).mapInArrow(typed, typed_schema(self._types[place]))

    def send(self, spark: SparkSession) -> DataFrame:
        """The rows that have to meet: all that is shuffled."""
        return send_pieces(spark, self._meetings, self._ranges)

    def _run(self, select: Callable[[DataFrame], DataFrame]) -> list[Row]:
        if not any(each.readings for each in self._meetings):
            # By the look of versions both states are the same.
            return []
        frame = select(self._changed(self._spark))
        return run_silently(self._spark, frame.collect, stage="diff")

    def _changed(self, spark: SparkSession) -> DataFrame:
        compare = partial(_compare, self._types, self._ops)
        return bring_together(self.send(spark), self._ranges, compare, _CHANGED)

    @cached_property
    def _ranges(self) -> Ranges:
        find = partial(find_ranges, self._spark, self._meetings)
        return run_silently(self._spark, find, stage="diff")


def _plan_meeting(pair: TypePair, old: Basis, new: Basis, opened: OpenGraph) -> Meeting:
    """The rows of a type that have to be compared."""
    delta = plan_changes(pair.old, pair.new, opened.stores.tables)
    gone = _Side(_GONE, pair.old, old, delta.gone)
    come = _Side(_COME, pair.new, new, delta.come)
    columns = tuple(table_schema(pair.declared).names)
    return Meeting(
        readings=tuple(
            reading
            for side in (gone, come)
            for reading in _list_readings(side, pair.declared, columns, opened)
        ),
        blob_bytes=max(_measure(side, pair.declared, opened) for side in (gone, come)),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows of one state that the other has not at their place."""

    sort: int
    entry: Entry | None
    basis: Basis
    parts: Sequence[DeltaPart]


def _list_readings(
    side: _Side, declared: NodeType | EdgeType, columns: tuple[str, ...], opened: OpenGraph
) -> Iterator[Reading]:
    if side.entry is None or not side.parts:
        return
    pin = pin_entry(side.entry, side.basis.snapshot, opened=opened)
    blobs = list_blobs(declared, columns)
    for part in side.parts:
        yield Reading(side.sort, part, columns, blobs, pin)


def _measure(side: _Side, declared: NodeType | EdgeType, opened: OpenGraph) -> int:
    if side.entry is None or not side.parts:
        return 0
    blobs = list_blobs(declared, table_schema(declared).names)
    return measure_blobs(side.entry, blobs, opened.stores.tables)


def _restore(declared: NodeType | EdgeType, tables: Sequence[pa.Table]) -> ChangedRows:
    """The changes of a type from the rows that tasks made of them."""
    schema = table_schema(declared)
    nothing = schema.empty_table()
    count = len(schema)
    if not tables:
        return ChangedRows(declared, pa.array([], pa.string()), nothing, nothing)
    every = pa.concat_tables(tables)
    return ChangedRows(
        declared,
        ops=every.column(0).combine_chunks(),
        before=pa.table(every.columns[1 : 1 + count], schema=schema),
        after=pa.table(every.columns[1 + count :], schema=schema),
    )


# On executors


def _compare(
    types: Sequence[NodeType | EdgeType],
    ops: frozenset[ChangeOp],
    place: Range,
    pieces: Iterator[Piece],
) -> Iterator[pa.RecordBatch]:
    declared = types[place.meeting]
    nothing = table_schema(declared).empty_table()
    sides: tuple[list[pa.RecordBatch], ...] = ([], [])
    for each in pieces:
        sides[each.sort].append(each.rows)
    gone, come = (pa.Table.from_batches(side) if side else nothing for side in sides)
    found = put_in_order(declared, compare_rows(declared, gone=gone, come=come), ops)
    if not len(found.ops):
        return
    columns = [found.ops, *found.before.columns, *found.after.columns]
    names = [str(number) for number in range(len(columns))]
    yield pa.record_batch(
        {
            "meeting": pa.array([place.meeting], pa.int32()),
            "part": pa.array([place.part], pa.int32()),
            "inserts": pa.array([found.count(ChangeOp.INSERT)], pa.int64()),
            "updates": pa.array([found.count(ChangeOp.UPDATE)], pa.int64()),
            "deletes": pa.array([found.count(ChangeOp.DELETE)], pa.int64()),
            "rows": pa.array([encode_rows(pa.table(columns, names=names))], pa.binary()),
        }
    )


def _convert_all(
    types: Sequence[NodeType | EdgeType], wanted: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Changes as rows of Spark: of one type with typed images, or of all with written ones."""
    with carried_errors():
        for batch in batches:
            for row in range(batch.num_rows):
                meeting = batch["meeting"][row].as_py()
                if wanted is not None and meeting != wanted:
                    continue
                part = _restore(types[meeting], [decode_rows(batch["rows"][row].as_buffer())])
                rows = write_images(part) if wanted is None else type_images(part)
                yield from rows.to_batches()
