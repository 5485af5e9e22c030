"""Values as the oracle of reads sees them: their order, their comparison, their JSON.

Knows the rules of the language from its reference and nothing of how the engine keeps or compares
columns. Numbers are Python's, which compare exactly whatever their widths.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from datetime import date, datetime
from fractions import Fraction

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.model.types import PropertyType, Scalar, Vector, format_datetime

OrderKey = tuple[object, ...]
Comparable = bool | int | Fraction | float | bytes | date | datetime

_ABSENT, _PRESENT, _NOT_A_NUMBER = 0, 1, 2


_COMPARE = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


class Measured(float):
    """A number that another machine may have rounded otherwise, and by how much at most."""

    slack: float

    def __new__(cls, number: float, *, slack: float) -> Measured:
        made = super().__new__(cls, number)
        made.slack = slack
        return made


# Order


def order_key(value: Value) -> OrderKey:
    """What sorts as values do, and is equal for values of one group.

    Null comes first, then the values, then NaN; both zeros are one value.
    """
    match value:
        case None:
            return (_ABSENT,)
        case float() if math.isnan(value):
            return (_NOT_A_NUMBER,)
        case str():
            return (_PRESENT, value.encode())
        case tuple():
            return (_PRESENT, tuple(order_key(each) for each in value))
        case _:
            return (_PRESENT, value)


def without_negative_zero(value: Value) -> Value:
    """The value as a group shows it."""
    match value:
        case Measured():
            return value
        case float():
            return value + 0.0
        case tuple():
            return tuple(without_negative_zero(each) for each in value)
        case _:
            return value


# Comparison


def compare(left: Value, comparator: Comparator, right: Value) -> bool:
    """Whether two values compare so; null compares with nothing, and NaN equals nothing."""
    return compare_by(_as_compared, left, comparator, right)


def compare_by(
    key: Callable[[Value], Comparable], left: Value, comparator: Comparator, right: Value
) -> bool:
    """Whether two values compare so by their keys; null compares with nothing."""
    if left is None or right is None:
        return False
    match comparator:
        case Comparator.LIST_CONTAINS:
            assert isinstance(left, tuple)
            return any(compare_by(key, each, Comparator.EQ, right) for each in left)
        case Comparator.IN:
            assert isinstance(right, tuple)
            return any(compare_by(key, left, Comparator.EQ, each) for each in right)
        case Comparator.STRING_CONTAINS:
            assert isinstance(left, str)
            assert isinstance(right, str)
            return right in left
        case Comparator.STARTS_WITH:
            assert isinstance(left, str)
            assert isinstance(right, str)
            return left.startswith(right)
        case _:
            result: bool = _COMPARE[comparator](key(left), key(right))
            return result


def as_f32(value: Value) -> Value:
    """Floats rounded to 32 bits, in lists too; what lies beyond all of them stays as it is."""
    match value:
        case tuple():
            return tuple(as_f32(each) for each in value)
        case float() if not math.isnan(value):
            try:
                return float(struct.unpack("<f", struct.pack("<f", value))[0])
            except OverflowError:
                return value
        case _:
            return value


def _as_compared(value: Value) -> Comparable:
    assert value is not None
    assert not isinstance(value, tuple)
    return value.encode() if isinstance(value, str) else value


# JSON


def to_json(value: Value, type: PropertyType) -> object:
    """A value of a type as results show it."""
    if value is None:
        return None
    if isinstance(type.element, Vector):
        assert isinstance(value, tuple)
        shown = (_float_to_json(each, Scalar.F32) for each in value)
        return [None if isinstance(each, str) else each for each in shown]
    if type.is_list:
        assert isinstance(value, tuple)
        return [_scalar_to_json(each, type.element) for each in value]
    return _scalar_to_json(value, type.element)


def _scalar_to_json(value: Value, scalar: Scalar) -> object:
    match value:
        case datetime():
            return format_datetime(value)
        case date():
            return value.isoformat()
        case Measured():
            return value if math.isfinite(value) else _float_to_json(float(value), scalar)
        case int() | float() if scalar in (Scalar.F32, Scalar.F64):
            return _float_to_json(value, scalar)
        case _:
            return value


def _float_to_json(value: Value, scalar: Scalar) -> float | str:
    assert isinstance(value, int | float)
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    rounded = as_f32(number) if scalar is Scalar.F32 else number
    assert isinstance(rounded, float)
    return rounded
