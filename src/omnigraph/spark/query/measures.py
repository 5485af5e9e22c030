"""What is said of one row by words and vectors, worked out in the task that reads the row.

Values that survive pickling, and the answers for a batch of rows as they are stored: the same
answers, to the last bit, that the engine in process gives. Knows no frame and no query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, DataType, DoubleType

from omnigraph.engine.read.search.text_index import (
    SoughtText,
    TextIndex,
    TextStatistics,
    build_text_index,
)
from omnigraph.engine.read.search.vectors import vector_column


@dataclass(frozen=True, slots=True)
class HoldsWords:
    """Whether a text holds words, or does not; false for null, and if nothing is looked for."""

    column: str
    sought: SoughtText | None
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a vector is from another one; null where either is none."""

    column: str
    vector: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Relevance:
    """The score of a text for some words, by the statistics of all texts; null for null."""

    column: str
    words: str | None
    statistics: TextStatistics


Measure = HoldsWords | Distance | Relevance


def measure_type(measure: Measure) -> DataType:
    """The Spark type of a measure's values."""
    match measure:
        case HoldsWords():
            return BooleanType()
        case Distance() | Relevance():
            return DoubleType()


def measure_rows(measures: Iterable[Measure], rows: pa.RecordBatch) -> Iterator[pa.Array]:
    """Each measure of every row; rows that lack the column count as null there."""
    wanted = tuple(measures)
    indexes = _indexes(wanted, rows)
    return (_measure(each, rows, indexes) for each in wanted)


def _indexes(measures: Iterable[Measure], rows: pa.RecordBatch) -> Mapping[str, TextIndex]:
    names = {each.column for each in measures if not isinstance(each, Distance)}
    return {name: build_text_index(rows[name]) for name in names if name in rows.schema.names}


def _measure(measure: Measure, rows: pa.RecordBatch, indexes: Mapping[str, TextIndex]) -> pa.Array:
    is_there = measure.column in rows.schema.names
    match measure:
        case HoldsWords(column, sought, is_negated):
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
        case Relevance(column, words, statistics):
            if not is_there or words is None:
                return pa.nulls(rows.num_rows, pa.float64())
            return _known(indexes[column].score_within(words, statistics))


def _known(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    return pa.array(numbers, mask=np.isnan(numbers))
