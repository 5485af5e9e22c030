"""Values of a query as Spark has them: literals of exactly the type that a property is stored as.

Promises that neither the time zone of a session nor its settings for texts or overflow change what
a literal means, and that a value which its type cannot hold is refused as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Value
from omnigraph.engine.read.values import Stored, column_of, stored_form
from omnigraph.model.types import FLOATS, PropertyType, Scalar, Vector
from omnigraph.spark.types import spark_type

SUBJECT = "a value of the query"

_SQL_TYPE_BY_SCALAR: Mapping[Scalar, str] = MappingProxyType(
    {
        Scalar.BOOL: "BOOLEAN",
        Scalar.I32: "INT",
        Scalar.U64: "DECIMAL(20,0)",
        Scalar.F32: "FLOAT",
        Scalar.F64: "DOUBLE",
    }
)
"""The types of numbers that are no `BIGINT`, which days and milliseconds are here too."""


def literal(value: Value, type: PropertyType) -> Column:
    """The value as a column that holds it in every row."""
    (stored,) = _store((value,), type)
    if stored is None:
        return f.lit(None).cast(spark_type(type))
    if isinstance(type.element, Vector):
        assert isinstance(stored, list | tuple), "a vector is a list of numbers"
        return _vector(stored)
    if type.is_list:
        assert isinstance(stored, list | tuple), "a list is a list"
        return f.array(*(_scalar(each, type.element) for each in stored)).cast(spark_type(type))
    return _scalar(stored, type.element)


def is_one_of(column: str, values: Sequence[Value], scalar: Scalar) -> Column:
    """Whether a column, given by its name, holds one of the values, none of which is NaN; null
    where it holds null."""
    type = PropertyType(scalar)
    texts = dict.fromkeys(_sql(each, scalar) for each in _store(values, type))
    # As one text: a literal made for itself costs as much as a thousand that are parsed.
    return f.expr(f"{_sql_operand(column, scalar)} IN ({', '.join(texts)})")


def _store(values: Sequence[Value], type: PropertyType) -> Sequence[Stored]:
    column = column_of(values, type, subject=SUBJECT)
    if type.element in {Scalar.DATE, Scalar.DATETIME}:
        return [stored_form(each) for each in values]
    stored: list[Stored] = column.to_pylist()
    return stored


def _vector(numbers: Sequence[Stored]) -> Column:
    # As one text: thousands of literals would be slow to send, and slower to plan.
    texts = f.split(f.lit(",".join(map(str, numbers))), ",")
    # Spark cannot know that every one of them is a number, and a vector has no null.
    zero = f.lit(0.0).cast("float")
    return f.transform(texts, lambda each: f.coalesce(each.cast("float"), zero))


def _scalar(stored: Stored, scalar: Scalar) -> Column:
    target = spark_type(PropertyType(scalar))
    match scalar:
        case Scalar.BLOB:
            assert isinstance(stored, bytes), "a blob is bytes"
            return f.unhex(f.lit(stored.hex()))
        case Scalar.U64:
            assert isinstance(stored, int), "a U64 is a whole number"
            # The largest are beyond what Java has a plain number for.
            return f.lit(Decimal(stored)).cast(target)
        case Scalar.DATE:
            # Python's own dates would pass through another calendar and a time zone.
            return f.date_from_unix_date(f.lit(stored))
        case Scalar.DATETIME:
            return f.timestamp_millis(f.lit(stored))
        case Scalar.F32 | Scalar.I32 | Scalar.I64 | Scalar.U32:
            return f.lit(stored).cast(target)
        case Scalar.STRING | Scalar.BOOL | Scalar.F64:
            return f.lit(stored)


def _sql_operand(column: str, scalar: Scalar) -> str:
    match scalar:
        case Scalar.DATE:
            return f"unix_date({column})"
        case Scalar.DATETIME:
            return f"unix_millis({column})"
        case Scalar.F32 | Scalar.F64:
            # A set of numbers tells the two zeros apart, which `=` does not.
            return f"if({column} = 0, {_sql(0.0, scalar)}, {column})"
        case _:
            return column


def _sql(stored: Stored, scalar: Scalar) -> str:
    match stored:
        case str():
            # Which characters are escaped in a text depends on a session's settings.
            return f"CAST(X'{stored.encode().hex()}' AS STRING)"
        case bytes():
            return f"X'{stored.hex()}'"
        case _:
            number = 0.0 if scalar in FLOATS and stored == 0 else stored
            return f"CAST('{number}' AS {_SQL_TYPE_BY_SCALAR.get(scalar, 'BIGINT')})"
