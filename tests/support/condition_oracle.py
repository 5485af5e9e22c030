"""Whether a condition holds for a row, worked out cell by cell with fractions.

Knows the language's rules from its reference, and nothing of how the engine binds or compares.
"""

import math
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
from tests.support.oracle_values import Comparable, compare_by


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
    return compare_by(lambda value: _exact(value, scalar), left, comparator, right)


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
