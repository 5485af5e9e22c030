"""Property types as Spark has them, and rows in the form that Spark takes; nothing is lost.

Spark has no unsigned numbers: a `U32` is a `bigint` and a `U64` a `decimal(20,0)`. A `DateTime` is
a `timestamp`, an instant whatever the time zone of a session. The way back is that of any other
rows that are loaded. Knows no session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.compiler.ir import Column
from omnigraph.engine.ops.export import complete
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import PropertyType, Scalar, Vector

_TYPE_BY_SCALAR: Mapping[Scalar, DataType] = MappingProxyType(
    {
        Scalar.STRING: StringType(),
        Scalar.BLOB: BinaryType(),
        Scalar.BOOL: BooleanType(),
        Scalar.I32: IntegerType(),
        Scalar.I64: LongType(),
        Scalar.U32: LongType(),
        Scalar.U64: DecimalType(20, 0),
        Scalar.F32: FloatType(),
        Scalar.F64: DoubleType(),
        Scalar.DATETIME: TimestampType(),
        Scalar.DATE: DateType(),
    }
)


def spark_type(type: PropertyType) -> DataType:
    """The Spark type of a property's values; whether null is allowed is the field's to say."""
    if isinstance(type.element, Vector):
        return ArrayType(FloatType(), containsNull=False)
    scalar = _TYPE_BY_SCALAR[type.element]
    return ArrayType(scalar, containsNull=False) if type.is_list else scalar


def spark_schema(declared: NodeType | EdgeType) -> StructType:
    """The columns of a type's rows: its id, an edge's endpoints, then properties by name."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    identity = [StructField(name, StringType(), nullable=False) for name in ("id", *ends)]
    properties = [
        StructField(name, spark_type(each.type), each.type.is_nullable)
        for name, each in sorted(declared.properties.items())
    ]
    return StructType([*identity, *properties])


def result_schema(columns: Iterable[Column]) -> StructType:
    """The columns of a query's result; any of them may be null."""
    return StructType([StructField(each.name, spark_type(each.type)) for each in columns])


def to_spark(rows: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Rows, as they are stored, in Spark's form; a column that they lack is null."""
    # The zone is the one that Spark compares with: what is stored counts from the same moment.
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = [_without_remains(each) for each in complete(rows, wanted).columns]
    return pa.record_batch(columns, schema=wanted)


def _without_remains(values: pa.Array) -> pa.Array:
    """The same values, with nothing left of the numbers of a vector that is null.

    They are null, too, and Arrow refuses to see such in a list whose elements are not.
    """
    if not pa.types.is_list(values.type) or not values.values.null_count:
        return values
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.ListArray.from_arrays(
        offsets, values.flatten(), type=values.type, mask=values.is_null()
    )
