"""Rows in groups, and what becomes of the values of each group.

Null is a group of its own and so is NaN; the two zeros are one. Groups are numbered as they first
appear. Aggregates leave null out; whole numbers and floats are summed exactly and rounded once.
Knows nothing of queries: what the keys and values are is the caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import AggregateFunction
from omnigraph.engine.read.ordering import (
    is_list,
    lists_as_bytes,
    order_keys,
    sort_rows,
    whole,
    without_signed_zeros,
)
from omnigraph.engine.read.sums import Addends, average_groups, sum_groups

Codes = npt.NDArray[np.int64]
Values: TypeAlias = "pa.Array | pa.ChunkedArray | Codes"
"""A column, or the codes of entities: -1 is none."""

_TABLE_PART_MAX = 4
"""Keys whose range is at most so many times the number of rows are looked up in a table."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each row, how many groups there are, and where each appears first."""

    codes: Codes
    count: int
    first: Codes


def group_rows(keys: Sequence[Values], *, count: int) -> Groups:
    """The rows with equal keys, group by group; without keys one group, even of no rows."""
    if not keys:
        return Groups(np.zeros(count, np.int64), 1, np.zeros(min(count, 1), np.int64))
    groups = _number(_equality_keys(keys[0]))
    for key in keys[1:]:
        others = _number(_equality_keys(key))
        # Both are counted by rows, so their product is far from the end of 64 bits.
        groups = _number(groups.codes * others.count + others.codes)
    return groups


def aggregate(
    function: AggregateFunction,
    values: Values | None,
    *,
    groups: Groups,
    weights: Codes | None,
    is_distinct: bool,
) -> pa.Array:
    """One value for each group; no values count rows, weights say how often each row counts."""
    if values is None:
        assert function is AggregateFunction.COUNT, "only rows can be counted without values"
        return pa.array(_weigh(groups.codes, weights, groups.count))
    codes = groups.codes
    if is_distinct:
        chosen = group_rows([codes, values], count=len(codes)).first
        codes, values, weights = codes[chosen], _take(values, chosen), None
    present = _find_present(values)
    if present is not None:
        codes, values = codes[present], _take(values, present)
        weights = None if weights is None else weights[present]
    counts = _weigh(codes, weights, groups.count)
    if function is AggregateFunction.COUNT:
        return pa.array(counts)
    assert not isinstance(values, np.ndarray), "entities can only be counted"
    match function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            each = np.ones(len(codes), np.int64) if weights is None else weights
            addends = Addends(whole(values), codes, each, groups.count, counts)
            combine = sum_groups if function is AggregateFunction.SUM else average_groups
            return pa.array(combine(addends), mask=counts == 0)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            is_descending = function is AggregateFunction.MAX
            keys = order_keys(values, is_descending=is_descending)
            return _pick_smallest(values, keys, codes, groups.count)


def _pick_smallest(
    values: pa.Array | pa.ChunkedArray, keys: Codes, codes: Codes, count: int
) -> pa.Array:
    smallest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(smallest, codes, keys)
    found = np.flatnonzero(keys == smallest[codes])
    positions = np.full(count, -1)
    positions[codes[found]] = found
    chosen = values.take(pa.array(positions, mask=positions < 0))
    if isinstance(chosen, pa.ChunkedArray):
        chosen = chosen.combine_chunks()
    return without_signed_zeros(chosen)


def _equality_keys(values: Values) -> Codes:
    """Numbers that are equal where the values are; to sort texts would cost more than this."""
    if isinstance(values, np.ndarray):
        return values
    return _column_keys(whole(values))


def _column_keys(column: pa.Array) -> Codes:
    if is_list(column.type):
        element_keys = _column_keys(whole(column.flatten()))
        return _column_keys(lists_as_bytes(column, element_keys))
    if not pa.types.is_large_binary(column.type):
        return order_keys(column, is_descending=False)
    indices = column.dictionary_encode().indices
    return np.asarray(indices.fill_null(-1).to_numpy(), np.int64)


def _number(keys: Codes) -> Groups:
    """Groups of equal numbers."""
    count = len(keys)
    if not count:
        return Groups(np.zeros(0, np.int64), 0, np.zeros(0, np.int64))
    low, high = int(keys.min()), int(keys.max())
    if high - low < _TABLE_PART_MAX * count:
        first_by_key = np.full(high - low + 1, count)
        np.minimum.at(first_by_key, keys - low, np.arange(count))
        first_by_row = first_by_key[keys - low]
    else:
        first_by_row = _find_first(keys)
    is_first = first_by_row == np.arange(count)
    codes = (np.cumsum(is_first) - 1)[first_by_row]
    first = np.flatnonzero(is_first)
    return Groups(codes, len(first), first)


def _find_first(keys: Codes) -> Codes:
    """Where the key of each row appears first."""
    order = sort_rows([keys], count=len(keys), start=0, stop=None)
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    first = np.empty(len(keys), np.int64)
    first[order] = np.repeat(order[starts], np.diff(np.append(starts, len(keys))))
    return first


def _weigh(codes: Codes, weights: Codes | None, count: int) -> Codes:
    if weights is None:
        return np.bincount(codes, minlength=count)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, codes, weights)
    return sums


def _find_present(values: Values) -> Codes | None:
    """The rows that hold something; None if all do."""
    if isinstance(values, np.ndarray):
        is_present = values >= 0
    elif values.null_count:
        is_present = values.is_valid().to_numpy(zero_copy_only=False)
    else:
        return None
    return None if is_present.all() else np.flatnonzero(is_present)


def _take(values: Values, rows: Codes) -> Values:
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
