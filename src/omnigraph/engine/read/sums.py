"""Sums of numbers, group by group, exact until they are rounded to 64 bits once.

So the sum of a group depends neither on the order of its rows nor on whether a row that counts
three times is there three times. NaN and the infinities spread as they do in arithmetic. Knows
nothing of null: whoever calls leaves it out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Magnitudes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_SAFE_BITS = 62
_MAGNITUDE_BITS = 64
_FRACTION_BITS = 52
_MANTISSA_BITS = 53
_EXPONENT_MASK = 0x7FF
_EXPONENT_OF_BITS = -1075
"""What is added to the exponent in a float's bits to make its mantissa a whole number."""

_SHORT_FRACTION_BITS = 10
"""Prices, hours and halves have no more bits behind the point; tenths have all that fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Addends:
    """Numbers, the group that each belongs to and how often each counts."""

    numbers: pa.Array
    codes: Integers
    weights: Integers
    count: int
    """How many groups there are."""

    weight_by_group: Integers


def sum_groups(addends: Addends) -> Floats:
    """The sum of each group; of none, zero."""
    return _divide_groups(addends, np.ones(addends.count, np.int64))


def average_groups(addends: Addends) -> Floats:
    """The sum of each group by its weight, rounded once; of none, zero."""
    return _divide_groups(addends, np.maximum(addends.weight_by_group, 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Totals:
    """The exact sum of each group in units of two to the power of the exponent."""

    units: Integers | list[int]
    exponent: int


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """Numbers as `sign * magnitude * 2 ** (shift + exponent)`, all shifts at least zero."""

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
    # Infinity less infinity is NaN, and numpy would warn of it.
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
    """How wide numbers may be, so that no sum of a group leaves 64 bits."""
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
    # The smallest floats have the exponent of the next larger ones, and no leading bit.
    exponents = np.maximum(exponents, 1)
    smallest = int(exponents.min(where=magnitudes > 0, initial=_EXPONENT_MASK))
    return _Fixed(
        signs=np.where(bits < 0, -1, 1),
        magnitudes=magnitudes.astype(np.uint64),
        shifts=np.maximum(exponents - smallest, 0),
        exponent=smallest + _EXPONENT_OF_BITS,
    )


def _add_digits(fixed: _Fixed, addends: Addends, width: int) -> list[int]:
    """Sums of numbers that are too wide for 64 bits, digit by digit of so many bits."""
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
    """The lowest bits of magnitudes that start at some bit, perhaps below the first."""
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
