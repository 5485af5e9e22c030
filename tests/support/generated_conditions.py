"""Rows of awkward values under awkward names, and conditions of every shape about them.

Guarantees that a condition is one that the compiler makes: comparable sides, one of them a column.
Constants lie on, beside and far from the values of the rows.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    Given,
    Now,
    NullTest,
    ParameterValue,
    PropertyValue,
    Value,
)
from omnigraph.model.types import INTEGER_RANGE, NUMBERS, PropertyType, Scalar
from tests.support.choices import Choices
from tests.support.generated_schemas import PROPERTY_NAMES

NOW = datetime(2024, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
SCALARS = tuple(scalar for scalar in Scalar if scalar is not Scalar.BLOB)

_TEXTS = (
    "a", "", "it's", "x' OR '1'='1", "''", "'", "back\\slash", "\\'", "two\nlines", "\r\n\t", "\0",
    "a\0b", "%", "_", "`", '"', "😀", "\uffff", "é", "e\u0301", "A", "ab", "--", ";", "漢字",
)  # fmt: skip
_F32_VALUES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, math.inf, -math.inf, math.nan, -math.nan, 2.0**24, 2.0**53,
    3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612,
)  # fmt: skip
_F64_VALUES = (
    *_F32_VALUES, 0.1, sys.float_info.max, -sys.float_info.max, 5e-324, 1e300, -1e-300, 2.0**63,
)  # fmt: skip
_DATES = (
    date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29),
)  # fmt: skip
_TIMESTAMPS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    NOW.replace(microsecond=123_000),
    NOW.replace(microsecond=124_000),
)
_INTEGERS = (0, 1, -1, 2, 7, 2**24 + 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**63))
_CONSTANTS = (
    *_INTEGERS, *_F64_VALUES, 0.5, -0.5, 2.7, 2**24 - 1, 2**53 - 1, 2.0**32, 10**30, -(10**400),
)  # fmt: skip

_FREE_VALUES: Mapping[Scalar, st.SearchStrategy[Value]] = {
    Scalar.STRING: st.text(max_size=3),
    Scalar.F32: st.floats(width=32),
    Scalar.F64: st.floats(),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.integers(-(10**12), 10**12).map(
        lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    ),
}

COMPARATORS = (
    Comparator.EQ, Comparator.NE, Comparator.LT, Comparator.LE, Comparator.GT, Comparator.GE,
)  # fmt: skip
_MIRRORED = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Properties by name, and rows that give each of them a value or null."""

    types: Mapping[str, PropertyType]
    rows: tuple[Mapping[str, Value], ...]

    def values_of(self, name: str) -> list[Value]:
        """The values of one property, row by row."""
        return [row[name] for row in self.rows]


@dataclass(frozen=True, slots=True)
class BoundCondition:
    """A condition, and the values of its parameters."""

    condition: Condition
    parameters: Mapping[str, Value]


def awkward_values(scalar: Scalar) -> tuple[Value, ...]:
    """The values of a type that have a reason to go wrong."""
    match scalar:
        case Scalar.STRING | Scalar.BLOB:
            return _TEXTS
        case Scalar.BOOL:
            return (True, False)
        case Scalar.F32:
            return _F32_VALUES
        case Scalar.F64:
            return _F64_VALUES
        case Scalar.DATE:
            return _DATES
        case Scalar.DATETIME:
            return _TIMESTAMPS
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            low, high = INTEGER_RANGE[scalar]
            return (low, low + 1, high - 1, high, *(n for n in _INTEGERS if low <= n <= high))


def awkward_constants(scalar: Scalar) -> tuple[Value, ...]:
    """What a column of a type may be compared with, for all that could go wrong."""
    return _CONSTANTS if scalar in NUMBERS else awkward_values(scalar)


def awkward_rows() -> Rows:
    """Every awkward value of every scalar type, each in a column of its own, and nulls."""
    types = {f"{scalar.lower()}_P": PropertyType(scalar, is_nullable=True) for scalar in SCALARS}
    columns = {name: (None, *awkward_values(_scalar_of(type))) for name, type in types.items()}
    count = max(len(values) for values in columns.values())
    rows = (
        {name: values[i % len(values)] for name, values in columns.items()} for i in range(count)
    )
    return Rows(types, tuple(rows))


@st.composite
def generated_rows(draw: DrawFn) -> Rows:
    """A few rows of a few properties, lists among them."""
    choices = Choices(draw)
    names = choices.some(PROPERTY_NAMES, least=1, most=4)
    types = {
        name: PropertyType(choices.one(SCALARS), is_nullable=True, is_list=choices.seldom())
        for name in names
    }
    rows = tuple(
        {name: _choose_cell(choices, type) for name, type in types.items()}
        for _ in range(1 + choices.count(7))
    )
    return Rows(types, rows)


@st.composite
def conditions(draw: DrawFn, rows: Rows) -> BoundCondition:
    """A condition about rows like these."""
    parameters: dict[str, Value] = {}
    condition = _Conditions(Choices(draw), rows, parameters).choose(depth=2)
    return BoundCondition(condition, parameters)


def _scalar_of(type: PropertyType) -> Scalar:
    assert isinstance(type.element, Scalar)
    return type.element


def _choose_cell(choices: Choices, type: PropertyType) -> Value:
    if choices.seldom():
        return None
    scalar = _scalar_of(type)
    if not type.is_list:
        return _choose_value(choices, scalar)
    return tuple(_choose_value(choices, scalar) for _ in range(choices.count(3)))


def _choose_value(choices: Choices, scalar: Scalar) -> Value:
    if scalar in _FREE_VALUES and choices.seldom():
        return choices.draw(_FREE_VALUES[scalar])
    return choices.one(awkward_values(scalar))


@dataclass(frozen=True, slots=True)
class _Conditions:
    choices: Choices
    rows: Rows
    parameters: dict[str, Value] = field(default_factory=dict)

    def choose(self, *, depth: int) -> Condition:
        match self.choices.count(4):
            case 3 if depth:
                return AllOf(tuple(self.choose(depth=depth - 1) for _ in range(2)))
            case 4 if depth:
                return AnyOf(tuple(self.choose(depth=depth - 1) for _ in range(2)))
            case _:
                return self._choose_leaf()

    def _choose_leaf(self) -> Condition:
        name = self.choices.one(list(self.rows.types))
        type = self.rows.types[name]
        column = PropertyValue("", name, type)
        if self.choices.seldom():
            return NullTest(column, is_negated=self.choices.often())
        if type.is_list:
            element = self._give(self._choose_constant(name), type.list_element)
            if self.choices.often():
                return Comparison(column, Comparator.LIST_CONTAINS, element)
            return Comparison(element, Comparator.IN, column)
        if type.is_string and self.choices.seldom():
            comparator = self.choices.one([Comparator.STARTS_WITH, Comparator.STRING_CONTAINS])
            given = self._give(self._choose_constant(name), type)
            if self.choices.often():
                return Comparison(column, comparator, given)
            return Comparison(given, comparator, column)
        if self.choices.seldom():
            options = tuple(self._choose_constant(name) for _ in range(self.choices.count(3)))
            return Comparison(column, Comparator.IN, Constant(options, None))
        comparator = self.choices.one(COMPARATORS)
        given = self._choose_given(name, type)
        if self.choices.seldom():
            return Comparison(given, _MIRRORED[comparator], column)
        return Comparison(column, comparator, given)

    def _choose_given(self, name: str, type: PropertyType) -> Given:
        if type.element is Scalar.DATETIME and self.choices.seldom():
            return Now()
        if self.choices.seldom():
            return Constant(None, None)
        return self._give(self._choose_constant(name), type)

    def _give(self, value: Value, type: PropertyType) -> Given:
        if self.choices.often():
            return Constant(value, None)
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return ParameterValue(name, type)

    def _choose_constant(self, name: str) -> Value:
        """A value that one of the column's is, or is near to, or another of its kind."""
        scalar = _scalar_of(self.rows.types[name])
        stored = [e for cell in self.rows.values_of(name) for e in _flatten(cell) if e is not None]
        near = self.choices.one(stored) if stored and self.choices.often() else None
        if scalar in NUMBERS:
            return self._choose_number(near)
        return _choose_value(self.choices, scalar) if near is None else near

    def _choose_number(self, near: Value) -> int | float:
        if not isinstance(near, int | float):
            return self.choices.one(_CONSTANTS)
        match self.choices.count(5):
            case 0:
                return near
            case 1 | 2 if isinstance(near, int):
                return near + self.choices.one([-1, 1, 0.5, -0.5, 0.0])
            case 3 if isinstance(near, int) and abs(near) < 2**64:
                return float(near)
            case 4 if not math.isinf(near) and not math.isnan(near):
                return int(near) + self.choices.one([0, 1])
            case _:
                return math.nextafter(near, self.choices.one([math.inf, -math.inf]))


def _flatten(cell: Value) -> tuple[Value, ...]:
    return cell if isinstance(cell, tuple) else (cell,)
