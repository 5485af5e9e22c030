"""Grouping and aggregation of rows, with exact sums.

Nulls form one group, and so do NaNs; the two float zeros are one group. Groups are numbered
in order of first appearance. Sums are exact and rounded once to 64 bits, so a result depends
neither on row order nor on row weights. The functions are pure and know nothing of queries.
"""

from __future__ import annotations

import math
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

Integers = npt.NDArray[np.int64]
Magnitudes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_SAFE_BITS = 62
_MAGNITUDE_BITS = 64
_FRACTION_BITS = 52
_MANTISSA_BITS = 53
_EXPONENT_MASK = 0x7FF
_EXPONENT_OF_BITS = -1075
"""The offset from the biased exponent of a float to the exponent of its integer mantissa."""

_SHORT_FRACTION_BITS = 10
"""Prices, hours and halves need no more fraction bits than this; tenths use all that fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Addends:
    """Numbers to sum, with the group and the weight of each."""

    numbers: pa.Array
    codes: Integers
    weights: Integers
    count: int
    """The number of groups."""

    weight_by_group: Integers


def sum_groups(addends: Addends) -> Floats:
    """The sum of each group; zero for an empty group."""
    return _divide_groups(addends, np.ones(addends.count, np.int64))


def average_groups(addends: Addends) -> Floats:
    """The sum of each group divided by its weight, rounded once; zero for an empty group."""
    return _divide_groups(addends, np.maximum(addends.weight_by_group, 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Totals:
    """The exact sum of each group, in units of `2 ** exponent`."""

    units: Integers | list[int]
    exponent: int


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """Numbers as `sign * magnitude * 2 ** (shift + exponent)`, with no negative shift."""

    signs: Integers
    magnitudes: Magnitudes
    shifts: Integers
    exponent: int


def _divide_groups(addends: Addends, divisors: Integers) -> Floats:
    numbers = addends.numbers.to_numpy()
    if not pa.types.is_floating(addends.numbers.type):
        return _round(_total_integers(numbers, addends), divisors)
    floats = numbers.astype(np.float64)
    unfinite = np.flatnonzero(~np.isfinite(floats))
    finite = np.where(np.isfinite(floats), floats, 0.0) if len(unfinite) else floats
    quotients = _round(_total_floats(finite, addends), divisors)
    # Infinity minus infinity is NaN, and numpy would warn about it.
    with np.errstate(invalid="ignore"):
        np.add.at(quotients, addends.codes[unfinite], floats[unfinite])
    return quotients


def _total_integers(numbers: Integers | Magnitudes, addends: Addends) -> _Totals:
    width = _digit_bits(addends)
    largest = max(abs(int(numbers.min(initial=0))), int(numbers.max(initial=0)))
    if largest.bit_length() <= width:
        return _Totals(_add(numbers.astype(np.int64), addends), 0)
    is_negative = numbers < 0
    plain = numbers.astype(np.uint64)
    fixed = _Fixed(
        signs=np.where(is_negative, -1, 1),
        magnitudes=np.where(is_negative, ~plain + np.uint64(1), plain),
        shifts=np.zeros(len(numbers), np.int64),
        exponent=0,
    )
    return _Totals(_add_digits(fixed, addends, width), 0)


def _total_floats(numbers: Floats, addends: Addends) -> _Totals:
    width = _digit_bits(addends)
    if np.abs(numbers).max(initial=0.0) < math.ldexp(1.0, width - _SHORT_FRACTION_BITS):
        scaled = np.ldexp(numbers, _SHORT_FRACTION_BITS)
        whole = scaled.astype(np.int64)
        if np.array_equal(whole, scaled):
            return _Totals(_add(whole, addends), -_SHORT_FRACTION_BITS)
    fixed = _fix(numbers)
    return _Totals(_add_digits(fixed, addends, width), fixed.exponent)


def _digit_bits(addends: Addends) -> int:
    """The width of numbers, in bits, up to which no sum of a group overflows 64 bits."""
    width = _SAFE_BITS - int(addends.weight_by_group.max(initial=1)).bit_length()
    assert width >= 1, "the rows of a group are counted in fewer than 61 bits"
    return width


def _add(numbers: Integers, addends: Addends) -> Integers:
    sums = np.zeros(addends.count, np.int64)
    np.add.at(sums, addends.codes, numbers * addends.weights)
    return sums


def _fix(numbers: Floats) -> _Fixed:
    bits = numbers.view(np.int64)
    exponents = (bits >> _FRACTION_BITS) & _EXPONENT_MASK
    is_normal = exponents > 0
    fractions = bits & ((1 << _FRACTION_BITS) - 1)
    magnitudes = fractions | (is_normal.astype(np.int64) << _FRACTION_BITS)
    # Subnormal floats have the exponent of the smallest normal ones, and no leading bit.
    exponents = np.maximum(exponents, 1)
    smallest = int(exponents.min(where=magnitudes > 0, initial=_EXPONENT_MASK))
    return _Fixed(
        signs=np.where(bits < 0, -1, 1),
        magnitudes=magnitudes.astype(np.uint64),
        shifts=np.maximum(exponents - smallest, 0),
        exponent=smallest + _EXPONENT_OF_BITS,
    )


def _add_digits(fixed: _Fixed, addends: Addends, width: int) -> list[int]:
    """Sums of numbers too wide for 64 bits, computed in digits of `width` bits."""
    totals = [0] * addends.count
    for low in range(0, int(fixed.shifts.max(initial=0)) + _MAGNITUDE_BITS, width):
        starts = fixed.shifts - low
        rows = np.flatnonzero((starts < width) & (starts > -_MAGNITUDE_BITS))
        digits = _digits(fixed.magnitudes[rows], starts[rows], width)
        sums = np.zeros(addends.count, np.int64)
        np.add.at(sums, addends.codes[rows], fixed.signs[rows] * digits * addends.weights[rows])
        totals = [total + (part << low) for total, part in zip(totals, sums.tolist(), strict=True)]
    return totals


def _digits(magnitudes: Magnitudes, starts: Integers, width: int) -> Integers:
    """The lowest `width` bits of magnitudes shifted left by `starts`, or right if negative."""
    moved = np.where(
        starts >= 0,
        magnitudes << np.maximum(starts, 0).astype(np.uint64),
        magnitudes >> np.maximum(-starts, 0).astype(np.uint64),
    )
    return (moved & np.uint64((1 << width) - 1)).astype(np.int64)


def _round(totals: _Totals, divisors: Integers) -> Floats:
    units, exponent = totals.units, totals.exponent
    exact = 1 << _MANTISSA_BITS
    if (
        not isinstance(units, list)
        and np.abs(units).max(initial=0) <= exact
        and divisors.max(initial=0) <= exact
    ):
        return np.ldexp(units / divisors, exponent)
    numbers = units if isinstance(units, list) else units.tolist()
    up, down = max(exponent, 0), max(-exponent, 0)
    quotients = [
        _divide(each << up, divisor << down)
        for each, divisor in zip(numbers, divisors.tolist(), strict=True)
    ]
    return np.array(quotients, np.float64)


def _divide(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds the quotient of integers once
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


Codes = npt.NDArray[np.int64]
Values: TypeAlias = "pa.Array | pa.ChunkedArray | Codes"
"""A column, or the ordinals of entities, where -1 is unbound."""

_TABLE_PART_MAX = 4
"""The largest ratio of the range of keys to the number of rows for which a table is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each row, the number of groups, and the first row of each group."""

    codes: Codes
    count: int
    first: Codes


def group_rows(keys: Sequence[Values], *, count: int) -> Groups:
    """Group the rows with equal keys; without keys there is one group, even if it has no rows."""
    if not keys:
        return Groups(np.zeros(count, np.int64), 1, np.zeros(min(count, 1), np.int64))
    groups = _number(_equality_keys(keys[0]))
    for key in keys[1:]:
        others = _number(_equality_keys(key))
        # Neither has more groups than there are rows, so the product cannot overflow 64 bits.
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
    """One value for each group; without `values` rows are counted, each by its weight if any."""
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
    """Integers that are equal where the values are equal; cheaper than sort keys for texts."""
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
    """Group equal numbers."""
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
    """The first row with the same key, for each row."""
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
    """The rows with a value; None if all rows have one."""
    if isinstance(values, np.ndarray):
        is_present = values >= 0
    elif values.null_count:
        is_present = values.is_valid().to_numpy(zero_copy_only=False)
    else:
        return None
    return None if is_present.all() else np.flatnonzero(is_present)


def _take(values: Values, rows: Codes) -> Values:
    return values[rows] if isinstance(values, np.ndarray) else values.take(pa.array(rows))
