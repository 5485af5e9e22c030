"""Rows of this process as frames of Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from omnigraph.model.types import PropertyType
from omnigraph.spark.sessions import find_session
from omnigraph.spark.types import spark_type, to_spark


def make_frame(
    rows: pa.Table, columns: Iterable[tuple[str, PropertyType]], given: object
) -> DataFrame:
    """The rows of a result as a frame of the given session, or of the one there is."""
    schema = StructType([StructField(name, spark_type(type)) for name, type in columns])
    batches = [to_spark(each, schema) for each in rows.to_batches()]
    table = pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))
    return hand_over(find_session(given), table, schema)


def hand_over(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows in Spark's form as a frame, which has all of them from now on."""
    # PySpark ends at the first chunk without rows, and makes nothing of a table without chunks.
    whole = rows.combine_chunks()
    return session.createDataFrame(whole if whole.num_rows else [], schema)
