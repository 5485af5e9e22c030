"""The data source: the format `omnigraph` of reads, writes and streams.

What Spark calls runs in processes that Spark starts: on the driver's machine to make a plan, on the
executors to read. None of them has a session. What they exchange is pickled. Spark finds the
format by itself, through the module `pyspark_omnigraph`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.spark.format.options import parse_read_options, parse_write_options
from omnigraph.spark.format.pushdown import require_readable
from omnigraph.spark.format.reading import (
    PinnedQuery,
    PinnedRead,
    PinnedType,
    answer_query,
    decode_rows,
    pin_read,
    read_part,
    split_type,
)
from omnigraph.spark.format.sink import BatchSink, StreamSink
from omnigraph.spark.format.sinking import WriteJob, open_job

FORMAT = "omnigraph"


class OmniGraphSource(DataSource):
    """The format `omnigraph`; `docs/guide/spark.md` lists its options."""

    # Made where the schema is asked for, which Spark does once for a DataFrame, and then pickled.
    _pinned: PinnedRead | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        self._pinned = pin_read(parse_read_options(self.options))
        return self._pinned.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        # Whoever gives a schema is not asked for one: what is true when the plan is made counts.
        pinned = self._pinned or pin_read(parse_read_options(self.options))
        require_readable(schema, pinned.schema)
        match pinned:
            case PinnedType():
                return _TypeReader(pinned, schema)
            case PinnedQuery():
                return _QueryReader(pinned, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: FBT001  # Spark's
        return BatchSink(self._open_job(schema, is_overwrite=overwrite))

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001  # Spark's signature
    ) -> StreamSink:
        return StreamSink(self._open_job(schema, is_overwrite=overwrite))

    def _open_job(self, schema: StructType, *, is_overwrite: bool) -> WriteJob:
        options = parse_write_options(self.options, is_overwrite=is_overwrite)
        return open_job(options, to_arrow_schema(schema, timezone="UTC"))


class _TypeReader(DataSourceReader):
    """Reads the rows of a type, a group of files in each task."""

    def __init__(self, pinned: PinnedType, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in split_type(self._pinned, self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Without parts Spark makes one of nothing.
        if partition.value is None:
            return iter(())
        return read_part(self._pinned, partition.value, self._schema)


class _QueryReader(DataSourceReader):
    """Reads the result of a query, which was worked out where the plan was made."""

    def __init__(self, pinned: PinnedQuery, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in answer_query(self._pinned, self._schema)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return iter(())
        return decode_rows(partition.value)
