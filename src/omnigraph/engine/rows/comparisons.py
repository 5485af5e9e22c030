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

from omnigraph.compiler import ir
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

RULE_BY_COMPARATOR: Mapping[ir.Comparator, Rule] = {
    ir.Comparator.EQ: InOrder(frozenset({Order.EQUAL})),
    ir.Comparator.NE: InOrder(frozenset({Order.LESS, Order.GREATER, Order.UNORDERED})),
    ir.Comparator.LT: InOrder(frozenset({Order.LESS})),
    ir.Comparator.LE: InOrder(frozenset({Order.LESS, Order.EQUAL})),
    ir.Comparator.GT: InOrder(frozenset({Order.GREATER})),
    ir.Comparator.GE: InOrder(frozenset({Order.GREATER, Order.EQUAL})),
    ir.Comparator.LIST_CONTAINS: InList(is_list_left=True),
    ir.Comparator.IN: InList(is_list_left=False),
    ir.Comparator.STRING_CONTAINS: InText(is_prefix=False),
    ir.Comparator.STARTS_WITH: InText(is_prefix=True),
}

OPERATOR_BY_COMPARATOR = {
    ir.Comparator.EQ: operator.eq,
    ir.Comparator.NE: operator.ne,
    ir.Comparator.LT: operator.lt,
    ir.Comparator.LE: operator.le,
    ir.Comparator.GT: operator.gt,
    ir.Comparator.GE: operator.ge,
}
"""The Python operators of the comparators that depend on order, for values and for columns."""

MIRRORED: Mapping[ir.Comparator, ir.Comparator] = {
    ir.Comparator.EQ: ir.Comparator.EQ,
    ir.Comparator.NE: ir.Comparator.NE,
    ir.Comparator.LT: ir.Comparator.GT,
    ir.Comparator.LE: ir.Comparator.GE,
    ir.Comparator.GT: ir.Comparator.LT,
    ir.Comparator.GE: ir.Comparator.LE,
    ir.Comparator.IN: ir.Comparator.LIST_CONTAINS,
    ir.Comparator.LIST_CONTAINS: ir.Comparator.IN,
}
"""The comparator that applies when the two sides are exchanged; text searches have none."""


def select(orders: frozenset[Order], mask_by_order: Mapping[Order, Mask]) -> Mask:
    """The rows in one of the orders, given the rows in each order; the others are unordered."""
    if Order.UNORDERED not in orders:
        return reduce(operator.or_, (mask_by_order[each] for each in orders))
    others = [mask for order, mask in mask_by_order.items() if order not in orders]
    return ~reduce(operator.or_, others)


def compare_values(left: ir.Value, comparator: ir.Comparator, right: ir.Value) -> bool:
    """Whether a comparison of two values holds."""
    if left is None or right is None:
        return False
    match RULE_BY_COMPARATOR[comparator]:
        case InList(is_list_left):
            elements, value = (left, right) if is_list_left else (right, left)
            assert isinstance(elements, tuple)
            return any(compare_values(each, ir.Comparator.EQ, value) for each in elements)
        case InText(is_prefix):
            assert isinstance(left, str)
            assert isinstance(right, str)
            return left.startswith(right) if is_prefix else right in left
        case InOrder():
            # Python compares numbers of any kind exactly, and texts in the order of their bytes.
            holds: bool = OPERATOR_BY_COMPARATOR[comparator](left, right)
            return holds


def row_operands(
    condition: ir.Comparison | ir.NullTest,
) -> tuple[ir.PropertyValue | ir.EntityId, ...]:
    """The operands of a condition that depend on a row.

    With two of them, an executor compares two columns. Otherwise `bind` turns the condition into
    one on a single column, or on none.
    """
    operands = (
        (condition.operand,)
        if isinstance(condition, ir.NullTest)
        else (condition.left, condition.right)
    )
    return tuple(each for each in operands if isinstance(each, ir.PropertyValue | ir.EntityId))


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that do not depend on a row: parameter values and the time of the query."""

    values: Mapping[str, ir.Value]
    now: datetime

    def value_of(self, given: ir.Given) -> ir.Value:
        """The value of a parameter, a literal or `now()`, which is truncated to milliseconds."""
        match given:
            case ir.ParameterValue(name):
                return self.values[name]
            case ir.Constant(value):
                return value
            case ir.Now():
                return self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)


def type_of(given: ir.Given) -> PropertyType:
    """The type of a value that does not depend on a row."""
    match given:
        case ir.ParameterValue(type=type):
            return type
        case ir.Constant(type=type):
            # The type of `null` is unknown, and any type works.
            return STRING if type is None else type
        case ir.Now():
            return DATETIME
