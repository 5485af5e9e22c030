"""Bound conditions as masks over rows in memory.

A mask marks exactly the rows that the predicate of the same condition finds in Lance, and is never
null: what is unknown is no match.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import Comparator, Value
from omnigraph.engine.read.conditions import (
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
from omnigraph.engine.read.values import column_of
from omnigraph.model.types import PropertyType

Marks = npt.NDArray[np.bool_]

_COMPARE = {
    Comparator.EQ: pc.equal,
    Comparator.NE: pc.not_equal,
    Comparator.LT: pc.less,
    Comparator.LE: pc.less_equal,
    Comparator.GT: pc.greater,
    Comparator.GE: pc.greater_equal,
}


def mask(bound: BoundCondition, rows: pa.Table) -> pa.BooleanArray:
    """Which rows the condition holds for."""
    return pa.array(_mark(bound, rows))


def _mark(bound: BoundCondition, rows: pa.Table) -> Marks:
    match bound:
        case Every(conditions):
            marked = [_mark(each, rows) for each in conditions]
            return reduce(np.logical_and, marked, np.ones(len(rows), np.bool_))
        case Some(conditions):
            marked = [_mark(each, rows) for each in conditions]
            return reduce(np.logical_or, marked, np.zeros(len(rows), np.bool_))
        case Compare(column, comparator, value):
            (scalar,) = _values_of(column, (value,))
            return _known(_COMPARE[comparator](rows[column.name], scalar))
        case OneOf(column, values):
            return _known(pc.is_in(rows[column.name], value_set=_value_set(column, values)))
        case HasElement(column, value):
            (scalar,) = _values_of(column, (value,))
            marked = [_mark_lists(each, scalar) for each in rows[column.name].chunks]
            return np.concatenate([np.zeros(0, np.bool_), *marked])
        case HasText(column, text, is_prefix):
            search = pc.starts_with if is_prefix else pc.match_substring
            return _known(search(rows[column.name], pattern=text))
        case IsNull(name):
            return _known(pc.is_null(rows[name]))
        case IsPresent(name):
            return _known(pc.is_valid(rows[name]))


def _mark_lists(lists: pa.ListArray, element: pa.Scalar) -> Marks:
    hits = _known(pc.equal(lists.flatten(), element))
    marks = np.zeros(len(lists), np.bool_)
    marks[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return marks


def _value_set(column: Column, values: tuple[Value, ...]) -> pa.Array:
    # To `is_in` the two zeros are different values; to `=` they are one.
    zeros = tuple(-each for each in values if isinstance(each, float) and each == 0)
    return _values_of(column, values + zeros)


def _values_of(column: Column, values: tuple[Value, ...]) -> pa.Array:
    return column_of(values, PropertyType(column.scalar), subject=column.name)


def _known(marks: pa.Array | pa.ChunkedArray) -> Marks:
    known: Marks = pc.fill_null(marks, fill_value=False).to_numpy(zero_copy_only=False)
    return known
