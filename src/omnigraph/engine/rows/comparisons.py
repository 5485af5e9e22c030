"""The rules of comparisons: what each comparator means, and the values that operands stand for.

Every executor derives its comparisons from these tables. A comparison with null does not hold. NaN
is unordered: it is unequal to every value, itself included. Numbers compare by value, whatever
their types. Knows neither Arrow nor Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import reduce
from typing import Protocol, Self, TypeVar

from omnigraph.compiler.ir import (
    Comparator,
    Comparison,
    Constant,
    EntityId,
    Given,
    Now,
    NullTest,
    ParameterValue,
    PropertyValue,
    Value,
)
from omnigraph.model.types import DATETIME, STRING, PropertyType


class _Invertible(Protocol):
    def __invert__(self) -> Self: ...


Mask = TypeVar("Mask", bound=_Invertible)
"""Truth values of rows, with the operators `|` and `~`: a numpy array or a Spark column."""


class Order(Enum):
    """How the left value of a comparison is ordered relative to the right one."""

    LESS = auto()
    EQUAL = auto()
    GREATER = auto()
    UNORDERED = auto()


@dataclass(frozen=True, slots=True)
class InOrder:
    """The comparison holds for values in one of these orders."""

    orders: frozenset[Order]


@dataclass(frozen=True, slots=True)
class InList:
    """The list on one side has an element that equals the value on the other side."""

    is_list_left: bool


@dataclass(frozen=True, slots=True)
class InText:
    """The left text contains the right text, at its start or anywhere."""

    is_prefix: bool


Rule = InOrder | InList | InText

RULE_BY_COMPARATOR: Mapping[Comparator, Rule] = {
    Comparator.EQ: InOrder(frozenset({Order.EQUAL})),
    Comparator.NE: InOrder(frozenset({Order.LESS, Order.GREATER, Order.UNORDERED})),
    Comparator.LT: InOrder(frozenset({Order.LESS})),
    Comparator.LE: InOrder(frozenset({Order.LESS, Order.EQUAL})),
    Comparator.GT: InOrder(frozenset({Order.GREATER})),
    Comparator.GE: InOrder(frozenset({Order.GREATER, Order.EQUAL})),
    Comparator.LIST_CONTAINS: InList(is_list_left=True),
    Comparator.IN: InList(is_list_left=False),
    Comparator.STRING_CONTAINS: InText(is_prefix=False),
    Comparator.STARTS_WITH: InText(is_prefix=True),
}

OPERATOR_BY_COMPARATOR = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}
"""The Python operators of the comparators that depend on order, for values and for columns."""

MIRRORED: Mapping[Comparator, Comparator] = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
    Comparator.IN: Comparator.LIST_CONTAINS,
    Comparator.LIST_CONTAINS: Comparator.IN,
}
"""The comparator that applies when the two sides are exchanged; text searches have none."""


def select(orders: frozenset[Order], mask_by_order: Mapping[Order, Mask]) -> Mask:
    """The rows in one of the orders, given the rows in each order; the others are unordered."""
    if Order.UNORDERED not in orders:
        return reduce(operator.or_, (mask_by_order[each] for each in orders))
    others = [mask for order, mask in mask_by_order.items() if order not in orders]
    return ~reduce(operator.or_, others)


def compare_values(left: Value, comparator: Comparator, right: Value) -> bool:
    """Whether a comparison of two values holds."""
    if left is None or right is None:
        return False
    match RULE_BY_COMPARATOR[comparator]:
        case InList(is_list_left):
            elements, value = (left, right) if is_list_left else (right, left)
            assert isinstance(elements, tuple)
            return any(compare_values(each, Comparator.EQ, value) for each in elements)
        case InText(is_prefix):
            assert isinstance(left, str)
            assert isinstance(right, str)
            return left.startswith(right) if is_prefix else right in left
        case InOrder():
            # Python compares numbers of any kind exactly, and texts in the order of their bytes.
            holds: bool = OPERATOR_BY_COMPARATOR[comparator](left, right)
            return holds


def row_operands(condition: Comparison | NullTest) -> tuple[PropertyValue | EntityId, ...]:
    """The operands of a condition that depend on a row.

    With two of them, an executor compares two columns. Otherwise `bind` turns the condition into
    one on a single column, or on none.
    """
    operands = (
        (condition.operand,)
        if isinstance(condition, NullTest)
        else (condition.left, condition.right)
    )
    return tuple(each for each in operands if isinstance(each, PropertyValue | EntityId))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that do not depend on a row: parameter values and the time of the query."""

    values: Mapping[str, Value]
    now: datetime

    def value_of(self, given: Given) -> Value:
        """The value of a parameter, a literal or `now()`, which is truncated to milliseconds."""
        match given:
            case ParameterValue(name):
                return self.values[name]
            case Constant(value):
                return value
            case Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)


def type_of(given: Given) -> PropertyType:
    """The type of a value that does not depend on a row."""
    match given:
        case ParameterValue(type=type):
            return type
        case Constant(type=type):
            # The type of `null` is unknown, and any type works.
            return STRING if type is None else type
        case Now():
            return DATETIME
