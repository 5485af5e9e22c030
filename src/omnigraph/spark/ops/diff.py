"""Diffs on Spark: the changes between two states, counted, collected or as a frame.

Only rows whose location differs between the two states are shuffled, by id. Comparison uses the
code of the diff in process. A diff is lazy, and its changes stay on executors unless they are
collected. Needs PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from omnigraph.engine.changes import (
    ChangedRows,
    ChangeOp,
    ChangeSet,
    ChangeStats,
    as_stream,
    find_type_index,
)
from omnigraph.engine.context import GraphContext
from omnigraph.engine.ops.diff import (
    Selection,
    TypePair,
    compare_rows,
    list_pairs,
    plan_changes,
    put_in_order,
)
from omnigraph.engine.read.entities import one_chunk
from omnigraph.engine.state.branch_state import Basis
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.spark.connector.reader import decode_rows, encode_rows, pin_version
from omnigraph.spark.errors import carried_errors
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.ops.range_shuffle import (
    Piece,
    Range,
    RangeJoin,
    Ranges,
    Reading,
    find_ranges,
    join_ranges,
    list_blobs,
    make_report,
    measure_blobs,
    shuffle_by_range,
)
from omnigraph.spark.sessions import find_session, find_working_session
from omnigraph.spark.types import create_frame, spark_schema, to_spark
from omnigraph.storage.row_files import table_schema

STREAM_SCHEMA = StructType(
    [StructField(name, StringType()) for name in ("kind", "type", "id", "op", "before", "after")]
)


def make_frame(parts: Sequence[ChangedRows], *, is_typed: bool, session: object) -> DataFrame:
    """Changes of this process as a frame; typed row versions are possible for one type only."""
    spark = find_session(session)
    if not is_typed:
        nothing = to_arrow_schema(STREAM_SCHEMA, timezone="UTC").empty_table()
        rows = pa.concat_tables([nothing, *map(encode_row_versions, parts)])
        return create_frame(spark, rows, STREAM_SCHEMA)
    (part,) = parts
    return create_frame(spark, typed_row_versions(part), typed_schema(part.declared))


def encode_row_versions(part: ChangedRows) -> pa.Table:
    """The changes of a type with their row versions as JSON texts."""
    return as_stream(part).cast(to_arrow_schema(STREAM_SCHEMA, timezone="UTC"))


def typed_schema(declared: NodeType | EdgeType) -> StructType:
    """The columns of the changes of a type with typed row versions, each of which may be null."""
    version = _row_version_schema(declared)
    return StructType(
        [
            StructField("id", StringType()),
            StructField("op", StringType()),
            StructField("before", version),
            StructField("after", version),
        ]
    )


def typed_row_versions(part: ChangedRows) -> pa.Table:
    """The changes of a type with typed row versions."""
    version = _row_version_schema(part.declared)
    columns = [
        part.ids.combine_chunks(),
        part.ops,
        _as_structs(part.before, version),
        _as_structs(part.after, version),
    ]
    return pa.table(columns, schema=to_arrow_schema(typed_schema(part.declared), timezone="UTC"))


def _row_version_schema(declared: NodeType | EdgeType) -> StructType:
    """The columns of a type, all nullable because a row version may be missing."""
    fields = spark_schema(declared).fields
    return StructType([StructField(each.name, each.dataType) for each in fields])


def _as_structs(rows: pa.Table, version: StructType) -> pa.Array:
    whole = pa.record_batch([one_chunk(each) for each in rows.columns], schema=rows.schema)
    converted = to_spark(whole, version)
    every = np.arange(rows.num_rows)
    # `take` drops the values behind null lists; a cast may retain them, which Spark rejects.
    columns = [each.take(every) for each in converted.columns]
    mask = rows["id"].combine_chunks().is_null()
    return pa.StructArray.from_arrays(columns, fields=list(converted.schema), mask=mask)


_DELETED, _ADDED = 0, 1
_CHANGED = "meeting int, part int, inserts long, updates long, deletes long, rows binary"


def diff(
    old: Basis, new: Basis, *, selection: Selection, opened: GraphContext, spark: object
) -> ChangeSet:
    """The changes from one state to another, to be computed on Spark."""
    pairs = list_pairs(old, new, selection)
    meetings = tuple(_plan_meeting(each, old, new, opened) for each in pairs)
    types = tuple(each.declared for each in pairs)
    found = SparkChanges(find_working_session(spark), types, meetings, selection.ops)
    return ChangeSet(found, old_commit_id=old.head.id, new_commit_id=new.head.id)


class SparkChanges:
    """The changes of some types, computed as the `meetings` (range joins) of a job."""

    def __init__(
        self,
        spark: SparkSession,
        types: Sequence[NodeType | EdgeType],
        meetings: Sequence[RangeJoin],
        ops: frozenset[ChangeOp],
    ) -> None:
        self._spark, self._types, self._meetings, self._ops = spark, types, meetings, ops

    def count(self) -> ChangeStats:
        """Count the changes on the executors."""
        counts = [f.sum(name).alias(name) for name in ("inserts", "updates", "deletes")]
        rows = self._run(lambda changed: changed.groupBy("meeting").agg(*counts))
        return ChangeStats(
            inserts=sum(row["inserts"] for row in rows),
            updates=sum(row["updates"] for row in rows),
            deletes=sum(row["deletes"] for row in rows),
            types_affected=tuple(sorted({self._types[row["meeting"]].name for row in rows})),
        )

    def collect(self) -> Sequence[ChangedRows]:
        """All changes, by type."""
        rows = self._run(lambda changed: changed.select("meeting", "part", "rows"))
        rows.sort(key=lambda row: (row["meeting"], row["part"]))
        tables: list[list[pa.Table]] = [[] for _ in self._types]
        for row in rows:
            tables[row["meeting"]].append(decode_rows(row["rows"]))
        return [_restore(*each) for each in zip(self._types, tables, strict=True)]

    def to_frame(self, type: str | None, session: object) -> DataFrame:
        """The changes as a frame, which is computed when it is used."""
        spark = self._spark if session is None else find_working_session(session)
        place = None if type is None else find_type_index(type, self._types)
        schema = STREAM_SCHEMA if place is None else typed_schema(self._types[place])
        return self._changed(spark).mapInArrow(partial(_convert_all, self._types, place), schema)

    def send(self, spark: SparkSession) -> DataFrame:
        """The rows that have to be compared: all that is shuffled."""
        return shuffle_by_range(spark, self._meetings, self._ranges)

    def _run(self, select: Callable[[DataFrame], DataFrame]) -> list[Row]:
        if not any(each.readings for each in self._meetings):
            # By their versions, both states are the same.
            return []
        frame = select(self._changed(self._spark))
        return run_job_quietly(self._spark, frame.collect, stage="diff")

    def _changed(self, spark: SparkSession) -> DataFrame:
        compare = partial(_compare, self._types, self._ops)
        return join_ranges(self.send(spark), self._ranges, compare, _CHANGED)

    @cached_property
    def _ranges(self) -> Ranges:
        find = partial(find_ranges, self._spark, self._meetings)
        return run_job_quietly(self._spark, find, stage="diff")


def _plan_meeting(pair: TypePair, old: Basis, new: Basis, opened: GraphContext) -> RangeJoin:
    """The rows of a type that have to be compared."""
    tables = opened.stores.tables
    delta = plan_changes(pair.old, pair.new, tables)
    columns = tuple(table_schema(pair.declared).names)
    blobs = list_blobs(pair.declared, columns)
    readings: list[Reading] = []
    blob_bytes = 0
    for sort, entry, basis, parts in (
        (_DELETED, pair.old, old, delta.deleted),
        (_ADDED, pair.new, new, delta.added),
    ):
        if entry is not None and parts:
            # The location as other processes see it, which may differ from the name in this one.
            root = opened.settings.location.root
            pin = pin_version(entry, root, graph=opened, basis=basis)
            readings += [Reading(sort, part, columns, blobs, pin) for part in parts]
            blob_bytes = max(blob_bytes, measure_blobs(entry, blobs, tables))
    return RangeJoin(tuple(readings), blob_bytes)


def _restore(declared: NodeType | EdgeType, tables: Sequence[pa.Table]) -> ChangedRows:
    """The changes of a type, decoded from the rows of tasks."""
    schema = table_schema(declared)
    count = len(schema)
    if not tables:
        nothing = schema.empty_table()
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
    deleted, added = (pa.Table.from_batches(side) if side else nothing for side in sides)
    found = put_in_order(declared, compare_rows(declared, removed=deleted, added=added), ops)
    if not len(found.ops):
        return
    columns = [found.ops, *found.before.columns, *found.after.columns]
    names = [str(number) for number in range(len(columns))]
    yield make_report(
        place,
        {
            "inserts": pa.array([found.count(ChangeOp.INSERT)], pa.int64()),
            "updates": pa.array([found.count(ChangeOp.UPDATE)], pa.int64()),
            "deletes": pa.array([found.count(ChangeOp.DELETE)], pa.int64()),
            "rows": pa.array([encode_rows(pa.table(columns, names=names))], pa.binary()),
        },
    )


def _convert_all(
    types: Sequence[NodeType | EdgeType], only: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Changes as Spark rows: of one type with typed row versions, or of all types with JSON."""
    with carried_errors():
        for batch in batches:
            for row in range(batch.num_rows):
                meeting = batch["meeting"][row].as_py()
                if only is not None and meeting != only:
                    continue
                part = _restore(types[meeting], [decode_rows(batch["rows"][row].as_buffer())])
                rows = encode_row_versions(part) if only is None else typed_row_versions(part)
                yield from rows.to_batches()
