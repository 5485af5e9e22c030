"""The types of one state as frames, with distances, text relevance and word statistics.

A frame is lazy and always reads the same state; its tasks protect their versions from cleanup.
Conditions are part of the scan, and row-level security limits every frame. Scores equal those of
the engine in process bit by bit. Small types are read on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

from omnigraph.engine.context import GraphContext
from omnigraph.engine.read.entities import one_chunk
from omnigraph.engine.read.search.text_index import (
    EMPTY_STATISTICS,
    TextIndex,
    TextQuery,
    TextStatistics,
    build_text_index,
)
from omnigraph.engine.read.search.vectors import are_decisive, choose_candidates, vector_column
from omnigraph.engine.row_security.tables import find_visible_rows
from omnigraph.engine.rows.conditions import ALWAYS, And, BoundCondition
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import SPARK_LOCAL_BYTES_MAX, SPARK_LOCAL_ROWS_MAX
from omnigraph.model.types import TextLanguage
from omnigraph.spark.connector.reader import (
    PinnedType,
    pin_rows,
    row_bytes,
    scan_pinned,
    split_rows,
)
from omnigraph.spark.jobs import SparkWorkers, make_tasks, run_numbered
from omnigraph.spark.types import create_frame, to_spark
from omnigraph.storage.ports import TablePart, VectorSearch


@dataclass(frozen=True, slots=True)
class HoldsWords:
    """Whether a text contains words, or not; false for null and for an empty search."""

    column: str
    sought: TextQuery | None
    is_negated: bool
    language: TextLanguage


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of a vector from another one; null if either is null."""

    column: str
    vector: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Relevance:
    """The score of a text for some words, by the statistics of all texts; null for null."""

    column: str
    words: str | None
    statistics: TextStatistics
    language: TextLanguage


Measure = HoldsWords | Distance | Relevance


def score_rows(measures: Iterable[Measure], rows: pa.RecordBatch) -> Iterator[pa.Array]:
    """Each measure for every row; a missing column counts as null."""
    wanted = tuple(measures)
    there = set(rows.schema.names)
    searched = {each.column: each.language for each in wanted if not isinstance(each, Distance)}
    indexes = {
        name: build_text_index(rows[name], language)
        for name, language in searched.items()
        if name in there
    }
    return (_measure(each, rows, indexes) for each in wanted)


def _measure(measure: Measure, rows: pa.RecordBatch, indexes: Mapping[str, TextIndex]) -> pa.Array:
    is_there = measure.column in rows.schema.names
    match measure:
        case HoldsWords(column=column, sought=sought, is_negated=is_negated):
            if not is_there or sought is None:
                return pa.array(np.zeros(rows.num_rows, np.bool_))
            index = indexes[column]
            found = index.holding(sought)
            return pa.array(~found & ~index.is_null if is_negated else found)
        case Distance(column, vector):
            if not is_there or vector is None:
                return pa.nulls(rows.num_rows, pa.float64())
            positions = np.arange(rows.num_rows)
            query = np.array(vector, np.float32)
            return _known(vector_column(rows[column]).distances(query, positions))
        case Relevance(column=column, words=words, statistics=statistics):
            if not is_there or words is None:
                return pa.nulls(rows.num_rows, pa.float64())
            return _known(indexes[column].score_within(words, statistics))


def _known(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    return pa.array(numbers, mask=np.isnan(numbers))


Batches = Iterator[pa.RecordBatch]


def _count_words(
    pinned: PinnedType, column: str, query: str, language: TextLanguage, part: TablePart
) -> TextStatistics:
    """The statistics of a query's scores over the texts of a part."""
    found = (
        build_text_index(rows[column], language).statistics(query)
        for rows in scan_pinned(pinned, part, [column])
    )
    return reduce(TextStatistics.plus, found, EMPTY_STATISTICS)


_SEEN = "seen__"
"""The prefix of columns that only determine which edges are visible."""


@dataclass(frozen=True, slots=True)
class TypeFrames:
    """Reads the types of one state through one session."""

    session: SparkSession
    opened: GraphContext
    basis: Basis

    def count(self, declared: NodeType | EdgeType) -> int:
        """An upper bound of the number of visible rows of a type."""
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
        """The visible rows of a type that match a condition.

        `columns` maps stored columns to names in the frame, and `measures` maps names to measures
        that tasks compute for each row. Together they have at least one entry.
        """
        limit = find_visible_rows(self.basis, table_key_of(declared))
        if limit is None or not limit.ends:
            return self._rows(declared, columns, condition, measures)
        assert isinstance(declared, EdgeType), "only edges have ends"
        ends = {column: _SEEN + column for column, _ in limit.ends}
        named = {**columns, **{each: ends[each] for each in ends if each not in columns}}
        frame = self._rows(declared, named, condition, measures)
        for column in ends:
            node_type = declared.source if column == "src" else declared.target
            nodes = self.basis.catalog.nodes[node_type]
            visible = self._rows(nodes, {"id": _SEEN}, ALWAYS, {})
            frame = frame.join(visible, f.col(named[column]) == f.col(_SEEN), "left_semi")
        return frame.drop(*(ends[each] for each in ends if each not in columns))

    def _rows(
        self,
        declared: NodeType | EdgeType,
        columns: Mapping[str, str],
        condition: BoundCondition,
        measures: Mapping[str, Measure],
    ) -> DataFrame:
        pinned = self._pin(declared, condition)
        # A required property is missing in rows that are older than the property.
        fields = [
            StructField(name, pinned.schema[stored].dataType, stored not in ("id", "src", "dst"))
            for stored, name in columns.items()
        ]
        scores = [
            StructField(name, BooleanType() if isinstance(each, HoldsWords) else DoubleType())
            for name, each in measures.items()
        ]
        shape = _Shape(
            columns=tuple(columns.items()),
            measures=tuple(measures.items()),
            schema=StructType([*fields, *scores]),
        )
        parts = split_rows(pinned, shape.stored, tables=self.opened.stores.tables)
        if self._is_small(pinned, shape.stored):
            batches = [batch for part in parts for batch in _read(pinned, shape, part)]
            rows = pa.Table.from_batches(batches, shape.arrow)
            return create_frame(self.session, rows, shape.schema)
        read = run_numbered(partial(_read, pinned, shape), parts)
        size = self._measure(pinned, shape.stored)
        tasks = make_tasks(self.session, len(parts), size=size)
        return tasks.mapInArrow(read, shape.schema)

    def _pin(self, declared: NodeType | EdgeType, condition: BoundCondition) -> PinnedType:
        """The rows that match a condition and the reader's row-level security, with any ends."""
        limit = find_visible_rows(self.basis, table_key_of(declared))
        if limit is not None:
            condition = And((condition, limit.condition))
        # Tasks read the stored versions; the condition already includes the row-level security.
        stored = replace(self.basis, visible=None)
        return pin_rows(declared, condition, graph=self.opened, basis=stored)

    def _is_small(self, pinned: PinnedType, columns: Iterable[str]) -> bool:
        if pinned.entry is not None and pinned.entry.row_count > SPARK_LOCAL_ROWS_MAX:
            return False
        return self._measure(pinned, columns) <= SPARK_LOCAL_BYTES_MAX

    def _measure(self, pinned: PinnedType, columns: Iterable[str]) -> int:
        """The approximate size in bytes of some columns of all rows."""
        entry = pinned.entry
        if entry is None:
            return 0
        return entry.row_count * row_bytes(entry, columns, tables=self.opened.stores.tables)

    def find_candidates(
        self,
        declared: NodeType,
        search: VectorSearch,
        *,
        wanted: int | None,
        match: Callable[[pa.Array], npt.NDArray[np.bool_]],
    ) -> pa.Array | None:
        """The ids of the entities that a nearest-neighbour search ranks; None if it ranks all.

        They are those that the executor in process compares. `match` marks the ids of entities that
        match the pattern.
        """
        entry = self.basis.state.snapshot.entries.get(table_key_of(declared))
        tables = self.opened.stores.tables
        if entry is None or search.column not in tables.schema(entry.at).names:
            return None
        at = entry.at

        def find(count: int) -> npt.NDArray[np.int64] | None:
            near = tables.find_nearest(at, search, count=count, base=at)
            return None if near is None else near.positions

        def read(positions: npt.NDArray[np.int64], column: str) -> pa.Array:
            ascending = np.sort(positions)
            rows = tables.take(at, positions=ascending, columns=[column])
            return one_chunk(rows[column]).take(pa.array(np.searchsorted(ascending, positions)))

        chosen = choose_candidates(
            wanted, search=find, match=lambda positions: match(read(positions, "id"))
        )
        if chosen is None or wanted is None:
            return None
        vectors = vector_column(read(chosen, search.column))
        distances = vectors.distances(search.query, np.arange(len(chosen)))
        return read(chosen, "id") if are_decisive(distances, wanted) else None

    def is_restricted(self, declared: NodeType | EdgeType) -> bool:
        """Whether some entities of a type may be invisible."""
        return find_visible_rows(self.basis, table_key_of(declared)) is not None

    def count_words(
        self, declared: NodeType | EdgeType, column: str, query: str, language: TextLanguage
    ) -> TextStatistics:
        """The statistics of a query's scores over all visible texts of a type."""
        limit = find_visible_rows(self.basis, table_key_of(declared))
        assert limit is None or not limit.ends, "the texts of edges have no scores"
        pinned = self._pin(declared, ALWAYS)
        if pinned.entry is None or column not in pinned.stored:
            return EMPTY_STATISTICS
        parts = split_rows(pinned, [column], tables=self.opened.stores.tables)
        count = partial(_count_words, pinned, column, query, language)
        if self._is_small(pinned, [column]):
            found = tuple(map(count, parts))
        else:
            found = SparkWorkers(self.session).run(count, parts, stage="count words")
        return reduce(TextStatistics.plus, found, EMPTY_STATISTICS)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The conversion of stored rows: columns and measures with their names."""

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
        """The schema of the rows that Spark receives."""
        return to_arrow_schema(self.schema, timezone="UTC")

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows in Spark's form."""
        there = set(rows.schema.names)
        renamed = {name: rows[stored] for stored, name in self.columns if stored in there}
        found = score_rows((measure for _, measure in self.measures), rows)
        measured = zip((name for name, _ in self.measures), found, strict=True)
        shaped = {**renamed, **dict(measured)}
        if not shaped:
            # All columns are newer than the rows, and one is needed to convey the number of rows.
            shaped = {"": rows[0]}
        return to_spark(pa.record_batch(shaped), self.schema)


def _read(pinned: PinnedType, shape: _Shape, part: TablePart) -> Batches:
    for rows in scan_pinned(pinned, part, shape.stored):
        yield shape.apply(rows)
