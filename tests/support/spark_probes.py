"""Data sources that show what PySpark does with one: they write down how they were called.

Every call is in another process, so notes go to a file that the option `notes` names. Those
processes import this module from the folder that the tests run in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceWriter,
    Filter,
    GreaterThan,
    InputPartition,
    IsNotNull,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

Call = tuple[str, object]
Messages = list[WriterCommitMessage | None]


def known_to(spark: SparkSession) -> None:
    """Let a session know both sources."""
    for source in (Numbers, Keeping):
        spark.dataSource.register(source)


@contextmanager
def configured(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A setting of a session that others use, too, for the block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def calls_in(notes: Path) -> list[Call]:
    """What was called, in order, each with what it saw."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    return [(name, value) for name, value in map(json.loads, lines)]


def names_in(notes: Path) -> list[str]:
    """What was called, in order."""
    return [name for name, _ in calls_in(notes)]


class Numbers(DataSource):
    """The numbers below ten in a column `a`, beside an empty `b`; takes `a > n` for itself."""

    pinned = "nothing"

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        _note(self, "schema", dict(self.options.items()))
        self.pinned = "something"
        return "a bigint, b string"

    def reader(self, schema: StructType) -> DataSourceReader:
        _note(self, "reader", (schema.fieldNames(), self.pinned))
        return _NumbersReader(self, schema)


class _NumbersReader(DataSourceReader):
    def __init__(self, source: DataSource, schema: StructType) -> None:
        self.source = source
        self.names = schema.fieldNames()
        self.start = 0

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802  # Spark's name
        for each in filters:
            if isinstance(each, GreaterThan):
                self.start = each.value + 1
            elif not isinstance(each, IsNotNull):
                yield each

    def partitions(self) -> list[InputPartition]:
        _note(self.source, "partitions", self.start)
        return [InputPartition(self.start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        numbers = pa.array(range(partition.value, 10), pa.int64())
        every = pa.table({"a": numbers, "b": pa.nulls(len(numbers), pa.string())})
        yield from every.select(self.names).to_batches()


class Keeping(DataSource):
    """Writes down what it is given to write; with the option `fail` it fails there."""

    @classmethod
    def name(cls) -> str:
        return "keeping"

    def writer(
        self,
        schema: StructType,  # noqa: ARG002  # Spark's signature
        overwrite: bool,  # noqa: FBT001  # Spark's signature
    ) -> DataSourceWriter:
        _note(self, "writer", overwrite)
        return _Writer(self)

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,  # noqa: ARG002  # Spark's signature
        overwrite: bool,  # noqa: FBT001, ARG002  # Spark's signature
    ) -> DataSourceStreamArrowWriter:
        return _StreamWriter(self)


class _Message(WriterCommitMessage):
    def __init__(self, reported: object) -> None:
        self.reported = reported


class _Writer(DataSourceArrowWriter):
    def __init__(self, source: DataSource) -> None:
        self.source = source

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = list(iterator)
        if self.source.options.get("fail") == "task" and _task().partitionId() == 1:
            raise ValueError("the task broke")
        return _Message(
            [[field.name, str(field.type)] for each in batches for field in each.schema]
        )

    def commit(self, messages: Messages) -> None:
        _note(self.source, "session", SparkSession.getActiveSession() is not None)
        _note(self.source, "commit", _reported(messages))
        if self.source.options.get("fail") == "commit":
            raise ValueError("the commit broke")

    def abort(self, messages: Messages) -> None:
        _note(self.source, "abort", [each is not None for each in messages])


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, source: DataSource) -> None:
        self.source = source

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        list(iterator)
        return _Message(_task().getLocalProperty("sql.streaming.queryId"))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        _note(self.source, "commit", [batchId, _reported(messages)])


def _note(source: DataSource, name: str, value: object) -> None:
    with Path(source.options["notes"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps((name, value)) + "\n")


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "only a task writes"
    return context


def _reported(messages: Messages) -> list[object]:
    return [each.reported for each in messages if isinstance(each, _Message)]
