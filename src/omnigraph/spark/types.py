"""Property types as Spark types, and stored rows converted to Spark rows without loss.

Unsigned types widen: `U32` is `bigint` and `U64` is `decimal(20,0)`. `DateTime` is a `timestamp`,
an instant in any session time zone. The way back is an ordinary load. Needs PySpark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph.compiler.ir import Column
from omnigraph.engine.ops.export import complete
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import PropertyType, Scalar, Vector
from omnigraph.spark.sessions import find_session

_TYPE_BY_SCALAR: Mapping[Scalar, t.DataType] = MappingProxyType(
    {
        Scalar.STRING: t.StringType(),
        Scalar.BLOB: t.BinaryType(),
        Scalar.BOOL: t.BooleanType(),
        Scalar.I32: t.IntegerType(),
        Scalar.I64: t.LongType(),
        Scalar.U32: t.LongType(),
        Scalar.U64: t.DecimalType(20, 0),
        Scalar.F32: t.FloatType(),
        Scalar.F64: t.DoubleType(),
        Scalar.DATETIME: t.TimestampType(),
        Scalar.DATE: t.DateType(),
    }
)


def spark_type(type: PropertyType) -> t.DataType:
    """The Spark type of a property's values; nullability is a matter of the field."""
    if isinstance(type.element, Vector):
        return t.ArrayType(t.FloatType(), containsNull=False)
    scalar = _TYPE_BY_SCALAR[type.element]
    return t.ArrayType(scalar, containsNull=False) if type.is_list else scalar


def spark_schema(declared: NodeType | EdgeType) -> t.StructType:
    """The columns of a type's rows: its id, an edge's endpoints, then properties by name."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    identity = [t.StructField(name, t.StringType(), nullable=False) for name in ("id", *ends)]
    properties = [
        t.StructField(name, spark_type(each.type), each.type.is_nullable)
        for name, each in sorted(declared.properties.items())
    ]
    return t.StructType([*identity, *properties])


def result_schema(columns: Iterable[Column]) -> t.StructType:
    """The columns of a query's result; all of them are nullable."""
    return t.StructType([t.StructField(each.name, spark_type(each.type)) for each in columns])


def to_spark(rows: pa.RecordBatch, schema: t.StructType) -> pa.RecordBatch:
    """Stored rows in Spark's form; missing columns are null."""
    # Spark compares timestamps in UTC, and stored timestamps count from the same epoch.
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = [_without_remains(each) for each in complete(rows, wanted).columns]
    return pa.record_batch(columns, schema=wanted)


def _without_remains(values: pa.Array) -> pa.Array:
    """The same values, without the elements behind vectors that are null.

    Those elements are null too, and Arrow rejects nulls in a list with non-nullable elements.
    """
    if not pa.types.is_list(values.type) or not values.values.null_count:
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.ListArray.from_arrays(
        offsets, values.flatten(), type=values.type, mask=values.is_null()
    )


def make_frame(
    rows: pa.Table, columns: Iterable[tuple[str, PropertyType]], given: object
) -> DataFrame:
    """The rows of a result as a frame of the given session, else of the running or a new one."""
    schema = t.StructType([t.StructField(name, spark_type(type)) for name, type in columns])
    batches = [to_spark(each, schema) for each in rows.to_batches()]
    table = pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))
    return create_frame(find_session(given), table, schema)


def create_frame(session: SparkSession, rows: pa.Table, schema: t.StructType) -> DataFrame:
    """Rows in Spark's form as a frame, which holds all of them."""
    # PySpark stops at the first chunk without rows and fails on a table without chunks.
    whole = rows.combine_chunks()
    return session.createDataFrame(whole if whole.num_rows else [], schema)
