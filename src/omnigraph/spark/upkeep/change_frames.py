"""Changes as frames of Spark: of all types with images as JSON, of one type with typed images.

The columns are those of `ChangeSet.to_arrow`. Knows no graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from omnigraph.engine.changes import ChangedRows, as_stream
from omnigraph.engine.read.spaces import one_chunk
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.spark.frames import hand_over
from omnigraph.spark.sessions import find_session
from omnigraph.spark.types import spark_schema, to_spark

STREAM_SCHEMA = StructType(
    [StructField(name, StringType()) for name in ("kind", "type", "id", "op", "before", "after")]
)


def make_frame(parts: Sequence[ChangedRows], *, is_typed: bool, session: object) -> DataFrame:
    """Changes of this process as a frame; typed images can only be those of one type."""
    spark = find_session(session)
    if not is_typed:
        nothing = to_arrow_schema(STREAM_SCHEMA, timezone="UTC").empty_table()
        rows = pa.concat_tables([nothing, *map(write_images, parts)])
        return hand_over(spark, rows, STREAM_SCHEMA)
    (part,) = parts
    return hand_over(spark, type_images(part), typed_schema(part.declared))


def write_images(part: ChangedRows) -> pa.Table:
    """The changes of a type with their images as JSON texts."""
    return as_stream(part).cast(to_arrow_schema(STREAM_SCHEMA, timezone="UTC"))


def typed_schema(declared: NodeType | EdgeType) -> StructType:
    """The columns of the changes of a type with typed images, of which any may be missing."""
    image = _image_schema(declared)
    return StructType(
        [
            StructField("id", StringType()),
            StructField("op", StringType()),
            StructField("before", image),
            StructField("after", image),
        ]
    )


def type_images(part: ChangedRows) -> pa.Table:
    """The changes of a type with typed images."""
    image = _image_schema(part.declared)
    columns = [
        part.ids.combine_chunks(),
        part.ops,
        _as_structs(part.before, image),
        _as_structs(part.after, image),
    ]
    return pa.table(columns, schema=to_arrow_schema(typed_schema(part.declared), timezone="UTC"))


def _image_schema(declared: NodeType | EdgeType) -> StructType:
    """The columns of a type; none of them is there where an image is missing."""
    fields = spark_schema(declared).fields
    return StructType([StructField(each.name, each.dataType) for each in fields])


def _as_batch(rows: pa.Table) -> pa.RecordBatch:
    columns = [one_chunk(each) for each in rows.columns]
    return pa.record_batch(columns, schema=rows.schema)


def _as_structs(rows: pa.Table, image: StructType) -> pa.Array:
    fitted = to_spark(_as_batch(rows), image)
    every = np.arange(rows.num_rows)
    # Taken, a list that is null has no values; what was cast may have some, and Spark minds.
    columns = [each.take(every) for each in fitted.columns]
    mask = rows["id"].combine_chunks().is_null()
    return pa.StructArray.from_arrays(columns, fields=list(fitted.schema), mask=mask)
