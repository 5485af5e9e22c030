"""Two Spark columns compared row by row, exactly as the local executor compares them.

A comparison is never null: null matches nothing. Numbers compare as real numbers do, whatever their
widths; NaN is unequal to everything and neither less nor greater, unlike in Spark. The conditions
are conjunctions where they can be, in which Spark finds the keys of a join.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Comparator
from omnigraph.model.types import F64, FLOATS, I64, NUMBERS, PropertyType, Scalar
from omnigraph.spark.types import spark_type

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
        """The same numbers as a type that has them all."""
        if self.type.element == type.element:
            return self
        return Typed(self.column.cast(spark_type(type)), type)


def compare(left: Typed, comparator: Comparator, right: Typed) -> Column:
    """Where a comparison of two columns holds."""
    match comparator:
        case Comparator.LIST_CONTAINS:
            return _holds(left, right)
        case Comparator.IN:
            return _holds(right, left)
        case Comparator.STRING_CONTAINS:
            found = left.column.contains(right.column)
        case Comparator.STARTS_WITH:
            found = left.column.startswith(right.column)
        case _:
            found = _relate(left, comparator, right)
    return found & left.column.isNotNull() & right.column.isNotNull()


def _holds(lists: Typed, element: Typed) -> Column:
    each_type = lists.type.list_element

    def equals(each: Column) -> Column:
        return compare(Typed(each, each_type), Comparator.EQ, element)

    return f.exists(lists.column, equals) & lists.column.isNotNull()


def _relate(left: Typed, comparator: Comparator, right: Typed) -> Column:
    if left.type.element in NUMBERS and left.is_float != right.is_float:
        return _relate_mixed(left, comparator, right)
    left, right = _align(left, right)
    one, other = left.column, right.column
    match comparator:
        case Comparator.EQ:
            return (one == other) & ~f.isnan(one) if left.is_float else one == other
        case Comparator.NE:
            return (one != other) | f.isnan(one) if left.is_float else one != other
        case Comparator.LT:
            found, greater = one < other, right
        case Comparator.LE:
            found, greater = one <= other, right
        case Comparator.GT:
            found, greater = one > other, left
        case Comparator.GE:
            found, greater = one >= other, left
        case _:
            raise AssertionError(f"{comparator} is about lists or parts of texts")
    # To Spark NaN is the greatest number, so that it can only be on the greater side.
    return found & ~f.isnan(greater.column) if greater.is_float else found


def _align(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Both sides as one type; of equal types as they are, for joins to find their keys."""
    if left.type.element == right.type.element or left.type.element not in NUMBERS:
        return left, right
    wide = F64 if left.is_float else _widest(left, right)
    return left.widened(wide), right.widened(wide)


def _widest(*integers: Typed) -> PropertyType:
    return _U64 if any(each.type.element is Scalar.U64 for each in integers) else I64


def _relate_mixed(left: Typed, comparator: Comparator, right: Typed) -> Column:
    if left.is_float:
        relation = _relation(right, left)
        relation = _Relation(relation.greater, relation.equal, relation.less)
    else:
        relation = _relation(left, right)
    match comparator:
        case Comparator.EQ:
            return relation.equal
        case Comparator.NE:
            return ~relation.equal
        case Comparator.LT:
            return relation.less
        case Comparator.LE:
            return relation.less | relation.equal
        case Comparator.GT:
            return relation.greater
        case Comparator.GE:
            return relation.greater | relation.equal
        case _:
            raise AssertionError(f"{comparator} is about lists or parts of texts")


@dataclass(frozen=True, slots=True, eq=False)
class _Relation:
    """Where the left side is less than, equal to or greater than the right; nowhere for NaN."""

    less: Column
    equal: Column
    greater: Column


def _relation(integers: Typed, floats: Typed) -> _Relation:
    """Integers beside floats: by the whole part, then by whether there is a fraction."""
    wide = _widest(integers)
    left, right = integers.widened(wide).column, floats.widened(F64).column
    is_signed = wide is I64
    low, high = (-_INTEGERS_END / 2, _INTEGERS_END / 2) if is_signed else (0.0, _INTEGERS_END)
    is_between = (right >= low) & (right < high)
    # What is not between has no whole part of this type, and to ask for it would be an error.
    inside = f.when(is_between, right).otherwise(f.lit(0.0))
    whole_part, has_fraction = _take_apart(inside, is_signed=is_signed)
    is_whole_part = is_between & (left == whole_part)
    is_above = (right >= high) & ~f.isnan(right)
    return _Relation(
        less=is_above | (is_between & (left < whole_part)) | (is_whole_part & has_fraction),
        equal=is_whole_part & ~has_fraction,
        greater=(right < low) | (is_between & (left > whole_part)),
    )


def _take_apart(number: Column, *, is_signed: bool) -> tuple[Column, Column]:
    """The whole part of a float, and whether there is a fraction above it."""
    if is_signed:
        floor = f.floor(number)
        return floor, number > floor.cast("double")
    # In two halves, because Spark's decimals are made of the digits that a float is shown with.
    upper = f.floor(number / f.lit(float(_HALF)))
    rest = number - upper.cast("double") * f.lit(float(_HALF))
    lower = f.floor(rest)
    return upper.cast(spark_type(_U64)) * f.lit(_HALF) + lower, rest > lower.cast("double")
