"""The order and the equality of values in Spark, as they are everywhere else.

Null is smaller than every value and NaN greater than every number; the two zeros are equal; texts
and blobs compare by their bytes, false before true, lists element by element with a prefix first.
Spark orders all of them so by itself, once it is told where null belongs.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.model.types import FLOATS, PropertyType, Scalar, Vector
from omnigraph.spark.types import spark_type


def sort_column(column: Column, type: PropertyType, *, is_descending: bool) -> Column:
    """What to order rows by for the values of a column to be in order."""
    normal = group_column(column, type)
    return normal.desc_nulls_last() if is_descending else normal.asc_nulls_first()


def group_column(column: Column, type: PropertyType) -> Column:
    """The values of a column as a group shows them: of two equal zeros the one without a sign.

    Equal values are one group to Spark, NaN and null among them.
    """
    if isinstance(type.element, Vector):
        return f.transform(column, lambda each: _unsigned_zero(each, Scalar.F32))
    if type.element not in FLOATS:
        return column
    scalar = type.element
    if type.is_list:
        return f.transform(column, lambda each: _unsigned_zero(each, scalar))
    return _unsigned_zero(column, scalar)


def _unsigned_zero(number: Column, scalar: Scalar) -> Column:
    zero = f.lit(0.0).cast(spark_type(PropertyType(scalar)))
    # Not a sum with zero, which an optimizer may take for the number itself.
    return f.when(number == zero, zero).otherwise(number)
