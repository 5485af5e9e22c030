"""The statistics of a column of texts, counted by many tasks or here.

Each part of the column is counted for itself, and counts are whole numbers: the sum does not depend
on how the rows were shared out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from omnigraph.engine.read.search.text_index import NO_TEXTS, TextStatistics, build_text_index
from omnigraph.spark.format.reading import PinnedType, scan_pinned
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.spark_errors import carried_errors
from omnigraph.storage.table_parts import TablePart

Batches = Iterator[pa.RecordBatch]

_SCHEMA = StructType(
    [
        StructField("text_count", LongType()),
        StructField("word_count", LongType()),
        StructField("stems", ArrayType(StringType())),
        StructField("text_counts", ArrayType(LongType())),
    ]
)


class _Counts(TypedDict):
    """What a task tells."""

    text_count: int
    word_count: int
    stems: list[str]
    text_counts: list[int]


def count_words(
    pinned: PinnedType, parts: Iterable[TablePart], column: str, query: str
) -> TextStatistics:
    """What the texts of some parts add to the statistics of a query's scores."""
    found = (
        build_text_index(rows[column]).statistics(query)
        for part in parts
        for rows in scan_pinned(pinned, part, [column])
    )
    return reduce(TextStatistics.plus, found, NO_TEXTS)


def gather_words(
    session: SparkSession, pinned: PinnedType, parts: Sequence[TablePart], column: str, query: str
) -> TextStatistics:
    """The same, counted by one task for each part."""
    tasks = session.range(len(parts), numPartitions=len(parts))
    counted = tasks.mapInArrow(partial(_count, pinned, parts, column, query), _SCHEMA)
    rows = run_silently(session, counted.toArrow, stage="count words")
    return reduce(TextStatistics.plus, map(_decode, rows.to_pylist()), NO_TEXTS)


def _count(
    pinned: PinnedType, parts: Sequence[TablePart], column: str, query: str, numbers: Batches
) -> Batches:
    with carried_errors():
        for batch in numbers:
            chosen = [parts[number] for number in batch.column(0).to_pylist()]
            yield _encode(count_words(pinned, chosen, column, query))


def _encode(statistics: TextStatistics) -> pa.RecordBatch:
    by_stem = statistics.text_count_by_stem
    row = {
        "text_count": statistics.text_count,
        "word_count": statistics.word_count,
        "stems": list(by_stem),
        "text_counts": list(by_stem.values()),
    }
    return pa.RecordBatch.from_pylist([row], to_arrow_schema(_SCHEMA, timezone="UTC"))


def _decode(row: _Counts) -> TextStatistics:
    by_stem = dict(zip(row["stems"], row["text_counts"], strict=True))
    return TextStatistics(row["text_count"], row["word_count"], by_stem)
