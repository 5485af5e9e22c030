"""Bound conditions as predicates that Lance filters by, written so that it uses its indexes.

A predicate holds for exactly the rows that `masks.mask` marks. Lance orders floats with NaN at both
ends and looks into lists by bits; what is written here guards against either.
"""

from __future__ import annotations

import math

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.engine.read.conditions import (
    ALWAYS,
    BoundCondition,
    Column,
    Compare,
    Every,
    HasElement,
    HasText,
    IsNull,
    IsPresent,
    OneOf,
    Some,
)
from omnigraph.engine.read.values import column_of, stored_form
from omnigraph.model.types import FLOATS, PropertyType, Scalar
from omnigraph.storage.arrow_schema import arrow_type
from omnigraph.storage.lance_literals import StoredScalar, render_in, write_literal


def render_predicate(bound: BoundCondition) -> str | None:
    """The predicate of a condition, or None if the condition holds for every row."""
    return None if bound == ALWAYS else _render(bound)


def _render(bound: BoundCondition) -> str:
    match bound:
        case Compare():
            return _render_comparison(bound)
        case OneOf(column, values):
            type = PropertyType(column.scalar)
            return render_in(column.name, column_of(values, type, subject=column.name))
        case HasElement():
            return _render_element(bound)
        case HasText(column, text, is_prefix):
            function = "starts_with" if is_prefix else "contains"
            return f"{function}(`{column.name}`, {_literal(column, text)})"
        case IsNull(name):
            return f"`{name}` IS NULL"
        case IsPresent(name):
            return f"`{name}` IS NOT NULL"
        case Every(conditions):
            parts = [f"({_render(e)})" if isinstance(e, Some) else _render(e) for e in conditions]
            return " AND ".join(parts) or "true"
        case Some(conditions):
            return " OR ".join(_render(each) for each in conditions) or "false"


def _render_comparison(bound: Compare) -> str:
    column = bound.column
    written = f"`{column.name}` {bound.comparator} {_literal(column, bound.value)}"
    if column.scalar not in FLOATS:
        return written
    # To Lance a NaN lies beyond the infinity of its sign. A second bound still uses an index;
    # `isnan` would not.
    match bound.comparator:
        case Comparator.LT | Comparator.LE:
            return f"{written} AND `{column.name}` >= {_literal(column, -math.inf)}"
        case Comparator.GT | Comparator.GE:
            return f"{written} AND `{column.name}` <= {_literal(column, math.inf)}"
        case _:
            return written


def _render_element(bound: HasElement) -> str:
    column = bound.column
    if column.scalar in FLOATS and bound.value == 0:
        # `=` takes the two zeros for equal, `array_has` does not.
        zeros = [f"array_has(`{column.name}`, {_literal(column, zero)})" for zero in (0.0, -0.0)]
        return f"({' OR '.join(zeros)})"
    element = _literal(column, bound.value)
    if column.scalar is Scalar.U64:
        # `array_has` takes a bare number for a signed one and refuses to compare the two.
        element = f"arrow_cast({element}, 'UInt64')"
    return f"array_has(`{column.name}`, {element})"


def _literal(column: Column, value: Value) -> str:
    stored = stored_form(value)
    assert isinstance(stored, StoredScalar), "a column is compared with scalars"
    return write_literal(stored, arrow_type(PropertyType(column.scalar)))
