"""The types of one state as frames: rows with the columns asked for, and what searches say of them.

A frame is lazy and always of the same state. Its tasks keep what they read from being cleaned up.
A condition is part of the scan, and a column that the state does not have yet is null. What is
small is read at once, here, and handed to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    StructField,
    StructType,
)

from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.read.conditions import ALWAYS, BoundCondition, Every
from omnigraph.engine.read.permitted import find_limit
from omnigraph.engine.read.search.text_index import NO_TEXTS, TextStatistics
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import SPARK_LOCAL_BYTES_MAX, SPARK_LOCAL_ROWS_MAX
from omnigraph.spark.format.reading import PinnedType, pin_rows, row_bytes, scan_pinned, split_rows
from omnigraph.spark.frames import hand_over
from omnigraph.spark.query.measures import Measure, measure_rows, measure_type
from omnigraph.spark.query.word_counts import count_words, gather_words
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.spark.tasks import make_tasks
from omnigraph.spark.types import to_spark
from omnigraph.storage.table_parts import TablePart

Batches = Iterator[pa.RecordBatch]

_SEEN = "seen__"
"""What the columns begin with that only tell which edges are seen."""


@dataclass(frozen=True, slots=True)
class TypeFrames:
    """Reads the types of one state through one session."""

    session: SparkSession
    opened: OpenGraph
    basis: Basis

    def count(self, declared: NodeType | EdgeType) -> int:
        """About how many rows a type has: at least as many as are seen."""
        entry = self.basis.state.snapshot.entries.get(table_key_of(declared))
        return 0 if entry is None else entry.row_count

    def rows(
        self,
        declared: NodeType | EdgeType,
        *,
        columns: Mapping[str, str],
        condition: BoundCondition,
        measures: Mapping[str, Measure],
    ) -> DataFrame:
        """The rows of a type that are seen and that a condition holds for.

        `columns` leads from stored columns to names in the frame, `measures` from such names to
        what tasks say of each row; of both together there is at least one.
        """
        limit = find_limit(self.basis, table_key_of(declared))
        if limit is None or not limit.ends:
            return self._rows(declared, columns, condition, measures)
        assert isinstance(declared, EdgeType), "only edges have ends"
        ends = {column: _SEEN + column for column, _ in limit.ends}
        named = {**columns, **{each: ends[each] for each in ends if each not in columns}}
        frame = self._rows(declared, named, condition, measures)
        for column in ends:
            nodes = self._nodes_at(declared, column)
            frame = frame.join(nodes, f.col(named[column]) == f.col(_SEEN), "left_semi")
        return frame.drop(*(ends[each] for each in ends if each not in columns))

    def _nodes_at(self, declared: EdgeType, column: str) -> DataFrame:
        """The ids of the nodes at one end of edges that are seen."""
        name = declared.source if column == "src" else declared.target
        nodes = self.basis.catalog.nodes[name]
        return self._rows(nodes, {"id": _SEEN}, ALWAYS, {})

    def _rows(
        self,
        declared: NodeType | EdgeType,
        columns: Mapping[str, str],
        condition: BoundCondition,
        measures: Mapping[str, Measure],
    ) -> DataFrame:
        pinned = self._pin(declared, condition)
        shape = _Shape(
            columns=tuple(columns.items()),
            measures=tuple(measures.items()),
            schema=_schema(pinned, columns, measures),
        )
        parts = split_rows(pinned, shape.stored, tables=self.opened.stores.tables)
        if self._is_small(pinned, shape.stored):
            batches = list(_read(pinned, parts, shape))
            rows = pa.Table.from_batches(batches, shape.arrow)
            return hand_over(self.session, rows, shape.schema)
        read = partial(_read_numbered, pinned, parts, shape)
        size = self._measure(pinned, shape.stored)
        tasks = make_tasks(self.session, len(parts), size=size)
        return tasks.mapInArrow(read, shape.schema)

    def _pin(self, declared: NodeType | EdgeType, condition: BoundCondition) -> PinnedType:
        """The rows that a condition and the reader's own limit hold for, whatever their ends."""
        limit = find_limit(self.basis, table_key_of(declared))
        if limit is not None:
            condition = Every((condition, limit.condition))
        # Tasks read the versions as they are stored, of which the limit was made part just now.
        stored = replace(self.basis, limited=None)
        return pin_rows(declared, condition, graph=self.opened, basis=stored)

    def _is_small(self, pinned: PinnedType, columns: Iterable[str]) -> bool:
        if pinned.entry is not None and pinned.entry.row_count > SPARK_LOCAL_ROWS_MAX:
            return False
        return self._measure(pinned, columns) <= SPARK_LOCAL_BYTES_MAX

    def _measure(self, pinned: PinnedType, columns: Iterable[str]) -> int:
        """About how many bytes some columns of all rows have."""
        entry = pinned.entry
        if entry is None:
            return 0
        return entry.row_count * row_bytes(entry, columns, tables=self.opened.stores.tables)

    def count_words(self, declared: NodeType | EdgeType, column: str, query: str) -> TextStatistics:
        """What the scores of a query take from all texts of a type that are seen."""
        limit = find_limit(self.basis, table_key_of(declared))
        assert limit is None or not limit.ends, "the texts of edges have no scores"
        pinned = self._pin(declared, ALWAYS)
        if pinned.entry is None or column not in pinned.stored:
            return NO_TEXTS
        parts = split_rows(pinned, [column], tables=self.opened.stores.tables)
        if self._is_small(pinned, [column]):
            return count_words(pinned, parts, column, query)
        return gather_words(self.session, pinned, parts, column, query)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What becomes of rows as they are stored: columns and measures with their names."""

    columns: tuple[tuple[str, str], ...]
    measures: tuple[tuple[str, Measure], ...]
    schema: StructType

    @property
    def stored(self) -> tuple[str, ...]:
        """The stored columns to read."""
        names = [stored for stored, _ in self.columns]
        return tuple(dict.fromkeys([*names, *(each.column for _, each in self.measures)]))

    @property
    def arrow(self) -> pa.Schema:
        """The schema in which Spark is handed the rows."""
        return to_arrow_schema(self.schema, timezone="UTC")

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows in Spark's form."""
        there = set(rows.schema.names)
        renamed = {name: rows[stored] for stored, name in self.columns if stored in there}
        found = measure_rows((measure for _, measure in self.measures), rows)
        measured = zip((name for name, _ in self.measures), found, strict=True)
        shaped = {**renamed, **dict(measured)}
        if not shaped:
            # Every column is younger than the rows, and something has to say how many there are.
            shaped = {"": rows[0]}
        return to_spark(pa.record_batch(shaped), self.schema)


def _schema(
    pinned: PinnedType, columns: Mapping[str, str], measures: Mapping[str, Measure]
) -> StructType:
    fields = [
        StructField(name, pinned.schema[stored].dataType, _is_nullable(stored))
        for stored, name in columns.items()
    ]
    fields += [StructField(name, measure_type(each)) for name, each in measures.items()]
    return StructType(fields)


def _is_nullable(stored: str) -> bool:
    # A property that must have a value has none in rows that are older than it.
    return stored not in ("id", "src", "dst")


def _read_numbered(
    pinned: PinnedType, parts: Sequence[TablePart], shape: _Shape, numbers: Batches
) -> Batches:
    """What a task does that is told the numbers of its parts."""
    with carried_errors():
        for batch in numbers:
            chosen = [parts[number] for number in batch.column(0).to_pylist()]
            yield from _read(pinned, chosen, shape)


def _read(pinned: PinnedType, parts: Iterable[TablePart], shape: _Shape) -> Batches:
    for part in parts:
        for rows in scan_pinned(pinned, part, shape.stored):
            yield shape.apply(rows)
