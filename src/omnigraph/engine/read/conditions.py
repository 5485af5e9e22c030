"""Conditions about one row of one type, bound to values.

`bind` leaves nothing to interpret: every value is of its column's own type, every comparison is
exact, and null matches nothing. NaN is unequal to everything, itself included, and neither less nor
greater than anything. Knows neither Lance nor Arrow: `predicates` and `masks` say the same of rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from omnigraph.compiler.ir import (
    AllOf,
    AnyOf,
    Comparator,
    Comparison,
    Condition,
    Constant,
    EntityId,
    Given,
    Now,
    NullTest,
    Operand,
    ParameterValue,
    PropertyValue,
    SameEntity,
    TextMatch,
    Value,
)
from omnigraph.engine.read.bounds import find_bounds
from omnigraph.model.catalog import TypeKind
from omnigraph.model.errors import LimitExceededError
from omnigraph.model.limits import CONDITION_NESTING_MAX
from omnigraph.model.types import NUMBERS, Scalar


@dataclass(frozen=True, slots=True)
class Column:
    """A column and the type of its values; for a list, of its elements."""

    name: str
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """A scalar column against one value: `=`, `!=`, `<`, `<=`, `>` or `>=`."""

    column: Column
    comparator: Comparator
    value: Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """A scalar column that holds one of some values; there is at least one."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class HasElement:
    """A list column that holds a value."""

    column: Column
    value: Value


@dataclass(frozen=True, slots=True)
class HasText:
    """A text column that starts with a text, or that holds it anywhere."""

    column: Column
    text: str
    is_prefix: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value."""

    column: str


@dataclass(frozen=True, slots=True)
class IsPresent:
    """A column with a value."""

    column: str


@dataclass(frozen=True, slots=True)
class Every:
    """All conditions hold; of none, always."""

    conditions: tuple[BoundCondition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one condition holds; of none, never."""

    conditions: tuple[BoundCondition, ...]


BoundCondition = Compare | OneOf | HasElement | HasText | IsNull | IsPresent | Every | Some

ALWAYS = Every(())
NEVER = Some(())
"""What `bind` returns for a condition that no row can meet: there is nothing to look for."""


# Binding


def bind(
    condition: Condition, *, kind: TypeKind, values: Mapping[str, Value], now: datetime
) -> BoundCondition:
    """The condition with its parameters and `now()` replaced by values of the columns' types.

    Each comparison must have a column of the row on one side and a given value on the other. The
    kind is that of the row's type: only of edges `from` and `to` are other names for columns.
    """
    bound = _Binder(kind, values, now).bind(condition)
    nesting = _nesting_of(bound)
    if nesting > CONDITION_NESTING_MAX:
        raise LimitExceededError(
            resource="the nesting of a condition", limit=CONDITION_NESTING_MAX, found=nesting
        )
    return bound


_MIRRORED = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
    Comparator.IN: Comparator.LIST_CONTAINS,
    Comparator.LIST_CONTAINS: Comparator.IN,
}
"""What a comparator is called when its sides change places."""


_COLUMN_BY_END = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class _Binder:
    kind: TypeKind
    values: Mapping[str, Value]
    now: datetime

    def bind(self, condition: Condition) -> BoundCondition:
        match condition:
            case AllOf(conditions):
                return _all_of(self.bind(each) for each in conditions)
            case AnyOf(conditions):
                return _any_of(self.bind(each) for each in conditions)
            case NullTest(operand, is_negated):
                return self._bind_null_test(operand, is_negated=is_negated)
            case Comparison(PropertyValue() as left, comparator, right):
                assert isinstance(right, Given), "both sides of a comparison are columns"
                return _bind_comparison(self._column(left), comparator, self._value(right))
            case Comparison(left, comparator, right):
                assert isinstance(left, Given), "entities cannot be compared"
                assert isinstance(right, PropertyValue), "no side of a comparison is a column"
                mirrored = _MIRRORED[comparator]
                return _bind_comparison(self._column(right), mirrored, self._value(left))
            case SameEntity() | TextMatch():
                raise AssertionError(f"{condition} is not about the columns of one row")

    def _bind_null_test(self, operand: Operand, *, is_negated: bool) -> BoundCondition:
        match operand:
            case PropertyValue(property=written):
                name = self._column_name(written)
                return IsPresent(name) if is_negated else IsNull(name)
            case EntityId():
                return IsPresent("id") if is_negated else IsNull("id")
            case ParameterValue() | Constant() | Now():
                return ALWAYS if (self._value(operand) is None) != is_negated else NEVER

    def _column(self, operand: PropertyValue) -> Column:
        element = operand.type.element
        assert isinstance(element, Scalar), "vectors are not compared"
        return Column(self._column_name(operand.property), element)

    def _column_name(self, property: str) -> str:
        return _COLUMN_BY_END.get(property, property) if self.kind is TypeKind.EDGE else property

    def _value(self, given: Given) -> Value:
        match given:
            case ParameterValue(name):
                return self.values[name]
            case Constant(value):
                return value
            case Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)


def _all_of(conditions: Iterable[BoundCondition]) -> BoundCondition:
    parts: list[BoundCondition] = []
    for each in conditions:
        parts += each.conditions if isinstance(each, Every) else (each,)
    if NEVER in parts:
        return NEVER
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _any_of(conditions: Iterable[BoundCondition]) -> BoundCondition:
    parts: list[BoundCondition] = []
    for each in conditions:
        parts += each.conditions if isinstance(each, Some) else (each,)
    if ALWAYS in parts:
        return ALWAYS
    return parts[0] if len(parts) == 1 else Some(tuple(parts))


def _bind_comparison(column: Column, comparator: Comparator, value: Value) -> BoundCondition:
    if value is None:
        return NEVER
    match comparator:
        case Comparator.STRING_CONTAINS | Comparator.STARTS_WITH:
            assert isinstance(value, str)
            return HasText(column, value, is_prefix=comparator is Comparator.STARTS_WITH)
        case Comparator.IN:
            assert isinstance(value, tuple)
            found = (_bind_comparison(column, Comparator.EQ, each) for each in value)
            kept = dict.fromkeys(each.value for each in found if isinstance(each, Compare))
            return OneOf(column, tuple(kept)) if kept else NEVER
        case Comparator.LIST_CONTAINS:
            element = _bind_comparison(column, Comparator.EQ, value)
            return HasElement(column, element.value) if isinstance(element, Compare) else NEVER
        case _ if column.scalar in NUMBERS:
            assert isinstance(value, int | float)
            return _compare_number(column, comparator, value)
        case _ if column.scalar is Scalar.BOOL:
            assert isinstance(value, bool)
            return _compare_truth(column, comparator, is_true=value)
        case _:
            return Compare(column, comparator, value)


def _compare_number(
    column: Column, comparator: Comparator, constant: int | float
) -> BoundCondition:
    if isinstance(constant, float) and math.isnan(constant):
        return IsPresent(column.name) if comparator is Comparator.NE else NEVER
    bounds = find_bounds(constant, column.scalar)
    if bounds.below == bounds.above:
        return Compare(column, comparator, bounds.below)
    # No value of the column equals the constant, so `<` and `<=` are the same question.
    match comparator:
        case Comparator.LT | Comparator.LE if bounds.below is not None:
            return Compare(column, Comparator.LE, bounds.below)
        case Comparator.GT | Comparator.GE if bounds.above is not None:
            return Compare(column, Comparator.GE, bounds.above)
        case Comparator.NE:
            return IsPresent(column.name)
        case _:
            return NEVER


def _compare_truth(column: Column, comparator: Comparator, *, is_true: bool) -> BoundCondition:
    matching = [each for each in (False, True) if _ORDER[comparator](each, is_true)]
    match matching:
        case []:
            return NEVER
        case [value]:
            return Compare(column, Comparator.EQ, value)
        case _:
            return IsPresent(column.name)


_ORDER = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


def _nesting_of(bound: BoundCondition) -> int:
    """How many times `or` stands inside `and`: that is where a predicate has brackets."""
    match bound:
        case Every(conditions):
            levels = (_nesting_of(each) + isinstance(each, Some) for each in conditions)
            return max(levels, default=0)
        case Some(conditions):
            return max(map(_nesting_of, conditions), default=0)
        case Compare() | OneOf() | HasElement() | HasText() | IsNull() | IsPresent():
            return 0
