"""Conditions, literals, comparisons and sort keys as Spark columns.

Values compare and sort as in the executor in process, whatever the time zone and the settings of
the session. A condition is never null: a comparison with null does not match. A value that its type
cannot hold is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.compiler import ir
from omnigraph.engine.rows.comparisons import (
    MIRRORED,
    OPERATOR_BY_COMPARATOR,
    RULE_BY_COMPARATOR,
    InList,
    InOrder,
    Inputs,
    InText,
    Order,
    row_operands,
    select,
    type_of,
)
from omnigraph.engine.rows.conditions import (
    ALWAYS,
    And,
    BoundCondition,
    Compare,
    HasElement,
    OneOf,
    Or,
    bind,
)
from omnigraph.engine.rows.values import SUBJECT, Stored, column_of, to_stored
from omnigraph.model.catalog import TypeKind
from omnigraph.model.types import F64, FLOATS, I64, NUMBERS, STRING, PropertyType, Scalar, Vector
from omnigraph.spark.query.relation import id_column, property_column
from omnigraph.spark.types import spark_type
from omnigraph.storage.predicates import HasText, IsNull, IsPresent, WithinText

_U64 = PropertyType(Scalar.U64)
_HALF = 2**32
_INTEGERS_END = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """A column and the type of its values."""

    column: Column
    type: PropertyType

    @property
    def is_float(self) -> bool:
        return not self.type.is_list and self.type.element in FLOATS

    def widened(self, type: PropertyType) -> Typed:
        """The same numbers in a type that can represent all of them."""
        if self.type.element == type.element:
            return self
        return Typed(self.column.cast(spark_type(type)), type)


def compare(left: Typed, comparator: ir.Comparator, right: Typed) -> Column:
    """Whether a comparison of two columns holds."""
    both = left.column.isNotNull() & right.column.isNotNull()
    match RULE_BY_COMPARATOR[comparator]:
        case InList(is_list_left):
            return _has_element(left, right) if is_list_left else _has_element(right, left)
        case InText(is_prefix):
            contains = left.column.startswith if is_prefix else left.column.contains
            return contains(right.column) & both
        case InOrder(orders):
            return _relate(left, comparator, orders, right) & both


def _has_element(lists: Typed, element: Typed) -> Column:
    each_type = lists.type.list_element

    def equals(each: Column) -> Column:
        return compare(Typed(each, each_type), ir.Comparator.EQ, element)

    return f.exists(lists.column, equals) & lists.column.isNotNull()


def _relate(
    left: Typed, comparator: ir.Comparator, orders: frozenset[Order], right: Typed
) -> Column:
    if left.type.element in NUMBERS and left.is_float != right.is_float:
        if left.is_float:
            return compare(right, MIRRORED[comparator], left)
        return select(orders, _relate_mixed(left, right))
    left, right = _align(left, right)
    found: Column = OPERATOR_BY_COMPARATOR[comparator](left.column, right.column)
    if not left.is_float:
        return found
    # Spark orders NaN as the greatest number, equal to itself.
    is_unordered = f.isnan(left.column) | f.isnan(right.column)
    return found | is_unordered if Order.UNORDERED in orders else found & ~is_unordered


def _align(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Both sides in one type; equal types are unchanged, so that joins can use them as keys."""
    if left.type.element == right.type.element or left.type.element not in NUMBERS:
        return left, right
    wide = F64 if left.is_float else _widest(left, right)
    return left.widened(wide), right.widened(wide)


def _widest(*integers: Typed) -> PropertyType:
    return _U64 if any(each.type.element is Scalar.U64 for each in integers) else I64


def _relate_mixed(integers: Typed, floats: Typed) -> Mapping[Order, Column]:
    """Compare integers with floats, first by integer part and then by fraction."""
    wide = _widest(integers)
    left, right = integers.widened(wide).column, floats.widened(F64).column
    is_signed = wide is I64
    low, high = (-_INTEGERS_END / 2, _INTEGERS_END / 2) if is_signed else (0.0, _INTEGERS_END)
    is_between = (right >= low) & (right < high)
    # Values out of range have no integer part of this type, and computing it would fail.
    inside = f.when(is_between, right).otherwise(f.lit(0.0))
    whole_part, has_fraction = _take_apart(inside, is_signed=is_signed)
    is_whole_part = is_between & (left == whole_part)
    is_above = (right >= high) & ~f.isnan(right)
    return {
        Order.LESS: is_above | (is_between & (left < whole_part)) | (is_whole_part & has_fraction),
        Order.EQUAL: is_whole_part & ~has_fraction,
        Order.GREATER: (right < low) | (is_between & (left > whole_part)),
    }


def _take_apart(number: Column, *, is_signed: bool) -> tuple[Column, Column]:
    """The integer part of a float, rounded down, and whether there is a fraction."""
    if is_signed:
        floor = f.floor(number)
        return floor, number > floor.cast("double")
    # In two halves, because Spark converts a float to a decimal by its displayed digits.
    upper = f.floor(number / f.lit(float(_HALF)))
    rest = number - upper.cast("double") * f.lit(float(_HALF))
    lower = f.floor(rest)
    return upper.cast(spark_type(_U64)) * f.lit(_HALF) + lower, rest > lower.cast("double")


def literal(value: ir.Value, type: PropertyType) -> Column:
    """The value as a constant column."""
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


def is_one_of(column: str, values: Sequence[ir.Value], scalar: Scalar) -> Column:
    """Whether a column, given by its name, has one of the values.

    The values must not include NaN. The result is null where the column is null.
    """
    type = PropertyType(scalar)
    texts = dict.fromkeys(_sql(each, scalar) for each in _store(values, type))
    # One text, because a literal object costs as much as parsing a thousand literals.
    return f.expr(f"{_sql_operand(column, scalar)} IN ({', '.join(texts)})")


def _store(values: Sequence[ir.Value], type: PropertyType) -> Sequence[Stored]:
    column = column_of(values, type, subject=SUBJECT)
    if type.element in {Scalar.DATE, Scalar.DATETIME}:
        return [to_stored(each) for each in values]
    stored: list[Stored] = column.to_pylist()
    return stored


def _vector(numbers: Sequence[Stored]) -> Column:
    # One text, because thousands of literals would be slow to send and slower to plan.
    texts = f.split(f.lit(",".join(map(str, numbers))), ",")
    # Spark cannot infer that every element is a number, and a vector has no nulls.
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
            # The largest values exceed Java's primitive integers.
            return f.lit(Decimal(stored)).cast(target)
        case Scalar.DATE:
            # Python dates would be converted through another calendar and a time zone.
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
            # A set of numbers distinguishes the two zeros, while `=` does not.
            return f"if({column} = 0, {_sql(0.0, scalar)}, {column})"
        case _:
            return column


def _sql(stored: Stored, scalar: Scalar) -> str:
    match stored:
        case str():
            # Escaping in text literals depends on session settings.
            return f"CAST(X'{stored.encode().hex()}' AS STRING)"
        case bytes():
            return f"X'{stored.hex()}'"
        case _:
            number = 0.0 if scalar in FLOATS and stored == 0 else stored
            # Days and milliseconds are compared as numbers.
            is_temporal = scalar in {Scalar.DATE, Scalar.DATETIME}
            sql_type = spark_type(I64 if is_temporal else PropertyType(scalar)).simpleString()
            return f"CAST('{number}' AS {sql_type})"


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes the columns of one read; `text_match` returns the column of a text search."""

    inputs: Inputs
    text_match: Callable[[ir.TextMatch], Column]

    def condition(self, condition: ir.Condition) -> Column:
        """Whether a condition holds, for each row."""
        match condition:
            case ir.AllOf(conditions):
                return _join([self.condition(each) for each in conditions], is_all=True)
            case ir.AnyOf(conditions):
                return _join([self.condition(each) for each in conditions], is_all=False)
            case ir.Comparison() | ir.NullTest():
                return self._on_columns(condition)
            case ir.SameEntity(left, right):
                one, other = f.col(id_column(left)), f.col(id_column(right))
                return (one == other) & one.isNotNull() & other.isNotNull()
            case ir.TextMatch():
                return _known(self.text_match(condition))

    def value(self, operand: ir.Operand) -> Column:
        """The value of an operand, for each row."""
        return self.typed(operand).column

    def typed(self, operand: ir.Operand) -> Typed:
        """The value of an operand, for each row, with its type; ids are texts."""
        match operand:
            case ir.PropertyValue(type=type):
                return Typed(f.col(_name_of(operand)), type)
            case ir.EntityId():
                return Typed(f.col(_name_of(operand)), STRING)
            case ir.ParameterValue() | ir.Constant() | ir.Now():
                type = type_of(operand)
                return Typed(literal(self.inputs.value_of(operand), type), type)

    def _on_columns(self, condition: ir.Comparison | ir.NullTest) -> Column:
        columns = row_operands(condition)
        if isinstance(condition, ir.Comparison) and len(columns) == 2:
            left, right = (self.typed(each) for each in columns)
            return compare(left, condition.comparator, right)
        bound = bind(condition, kind=TypeKind.NODE, inputs=self.inputs)
        return _bound(bound, _name_of(columns[0])) if columns else f.lit(bound == ALWAYS)


def _name_of(operand: ir.PropertyValue | ir.EntityId) -> str:
    match operand:
        case ir.PropertyValue(variable, property):
            return property_column(variable, property)
        case ir.EntityId(variable):
            return id_column(variable)


def _bound(bound: BoundCondition, name: str) -> Column:
    """Whether a bound condition on one column holds."""
    column = f.col(name)
    match bound:
        case And(conditions):
            return _join([_bound(each, name) for each in conditions], is_all=True)
        case Or(conditions):
            return _join([_bound(each, name) for each in conditions], is_all=False)
        case Compare(about, comparator, value):
            type = PropertyType(about.scalar)
            return compare(Typed(column, type), comparator, Typed(literal(value, type), type))
        case OneOf(about, values):
            return is_one_of(name, values, about.scalar) & column.isNotNull()
        case HasElement(about, value):
            found = f.array_contains(column, literal(value, PropertyType(about.scalar)))
            return _known(found)
        case HasText(_, text, is_prefix):
            sought = f.lit(text)
            found = column.startswith(sought) if is_prefix else column.contains(sought)
            return found & column.isNotNull()
        case WithinText(_, text, is_prefix):
            within = f.lit(text)
            found = within.startswith(column) if is_prefix else within.contains(column)
            return found & column.isNotNull()
        case IsNull():
            return column.isNull()
        case IsPresent():
            return column.isNotNull()


def _known(marks: Column) -> Column:
    is_unknown_marked = False
    return f.coalesce(marks, f.lit(is_unknown_marked))


def _join(columns: Sequence[Column], *, is_all: bool) -> Column:
    """Combine conditions by all or any, as a balanced tree: a long chain would be too deep."""
    if len(columns) < 2:
        return columns[0] if columns else f.lit(is_all)
    middle = len(columns) // 2
    one, other = (_join(part, is_all=is_all) for part in (columns[:middle], columns[middle:]))
    return one & other if is_all else one | other


def sort_column(column: Column, type: PropertyType, *, is_descending: bool) -> Column:
    """The sort key that puts the values of a column in order."""
    normal = group_column(column, type)
    return normal.desc_nulls_last() if is_descending else normal.asc_nulls_first()


def group_column(column: Column, type: PropertyType) -> Column:
    """The values of a column as group keys, with negative zero replaced by zero.

    Spark puts equal values into one group, including NaN and null.
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
    # Adding zero does not work, because an optimizer may remove the addition.
    return f.when(number == zero, zero).otherwise(number)
