"""Whether a condition holds for a row, worked out cell by cell with fractions.

Knows the language's rules from its reference, and nothing of how the engine binds or compares.
"""

import math
import operator
import struct
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    Now,
    NullTest,
    Operand,
    ParameterValue,
    PropertyValue,
    Value,
)
from omnigraph.model.types import NUMBERS, Scalar

_COMPARE = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}

Comparable = bool | Fraction | float | bytes | date | datetime


def holds(
    condition: Condition, row: Mapping[str, Value], *, values: Mapping[str, Value], now: datetime
) -> bool:
    """Whether the condition holds for the row."""
    match condition:
        case AllOf(conditions):
            return all(holds(each, row, values=values, now=now) for each in conditions)
        case AnyOf(conditions):
            return any(holds(each, row, values=values, now=now) for each in conditions)
        case NullTest(operand, is_negated):
            return (_read(operand, row, values, now) is None) != is_negated
        case Comparison(left, comparator, right):
            sides = (_read(left, row, values, now), _read(right, row, values, now))
            return _compare(*sides, comparator, _column_type(left, right))
        case _:
            raise AssertionError(f"{condition} is not about one row")


def _read(
    operand: Operand, row: Mapping[str, Value], values: Mapping[str, Value], now: datetime
) -> Value:
    match operand:
        case PropertyValue(property=name):
            return row[name]
        case ParameterValue(name=name):
            return values[name]
        case Constant(value=value):
            return value
        case Now():
            return now.replace(microsecond=now.microsecond // 1000 * 1000)
        case _:
            raise AssertionError(f"{operand} is neither a column nor a value")


def _column_type(left: Operand, right: Operand) -> Scalar:
    (column,) = (each for each in (left, right) if isinstance(each, PropertyValue))
    assert isinstance(column.type.element, Scalar)
    return column.type.element


def _compare(left: Value, right: Value, comparator: Comparator, scalar: Scalar) -> bool:
    if left is None or right is None:
        return False
    match comparator:
        case Comparator.LIST_CONTAINS:
            assert isinstance(left, tuple)
            return any(_compare(each, right, Comparator.EQ, scalar) for each in left)
        case Comparator.IN:
            assert isinstance(right, tuple)
            return any(_compare(left, each, Comparator.EQ, scalar) for each in right)
        case Comparator.STRING_CONTAINS:
            assert isinstance(left, str)
            assert isinstance(right, str)
            return right in left
        case Comparator.STARTS_WITH:
            assert isinstance(left, str)
            assert isinstance(right, str)
            return left.startswith(right)
        case _:
            result: bool = _COMPARE[comparator](_exact(left, scalar), _exact(right, scalar))
            return result


def _exact(value: Value, scalar: Scalar) -> Comparable:
    match value:
        case bool() | datetime() | date():
            return value
        case str():
            return value.encode()
        case float() if scalar is Scalar.F32:
            return _as_fraction(_round(value))
        case int() | float() if scalar in NUMBERS:
            return _as_fraction(value)
        case _:
            raise AssertionError(f"{value!r} cannot be compared with {scalar}")


def _as_fraction(number: int | float) -> Fraction | float:
    if isinstance(number, float) and not math.isfinite(number):
        return number
    return Fraction(number)


def _round(number: float) -> float:
    """The nearest F32, but for what lies beyond all of them, which stays as it is."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number
    return rounded
