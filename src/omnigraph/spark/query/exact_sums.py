"""Sums in Spark that are exact until they are rounded to 64 bits once, whatever the order of rows.

Whole numbers are summed in digits of few bits, or as decimals. A float is a whole number of units,
and a unit is two to the power of one of few exponents: what has one exponent is summed as whole
numbers are, and the few sums of a group are put together in Python, whose integers have no end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from omnigraph.model.types import PropertyType, Scalar

Words = npt.NDArray[np.int64]

_DIGIT_BITS = 21
"""Digits so short are summed in 64 bits for more rows than any cluster holds."""

_DIGIT_COUNT_BY_SCALAR: Mapping[Scalar, int] = {
    Scalar.I32: 2,
    Scalar.U32: 2,
    Scalar.I64: 3,
    Scalar.F32: 3,
    Scalar.F64: 3,
}
_DECIMAL = "decimal(38,0)"

_MANTISSA_BITS = 53
_EXPONENT_STEP = 8
"""From one exponent to the next: with so many bits before a mantissa it still has 62."""

_SHORT_EXPONENT = -16
_SHORT_END = 2.0**43
"""Floats below it with at most 16 bits behind the point share one exponent, like prices."""

_NAN, _INFINITY, _NEGATIVE_INFINITY = 10_000, 10_001, 10_002
"""What stands for an exponent where there is no number of units."""

_SAFE_EXPONENT = 900
"""No quotient of two short integers overflows or loses bits when it is moved by fewer bits."""


# Rows


def exponent_of(number: Column) -> Column:
    """The exponent of the unit that a `double` is counted in; null for zero and null."""
    size = f.abs(number)
    is_short = (size < _SHORT_END) & (f.rint(number * 65536.0) == number * 65536.0)
    # The logarithm may be wrong by a little, and then a mantissa is longer or shorter by a bit.
    steps = f.floor((f.log2(size) - _MANTISSA_BITS) / _EXPONENT_STEP)
    return (
        f.when(number.isNull() | (number == 0.0), f.lit(None))
        .when(f.isnan(number), f.lit(_NAN))
        .when(number == math.inf, f.lit(_INFINITY))
        .when(number == -math.inf, f.lit(_NEGATIVE_INFINITY))
        .when(is_short, f.lit(_SHORT_EXPONENT))
        .otherwise((steps * _EXPONENT_STEP).cast("int"))
    )


def units_of(number: Column, exponent: Column) -> Column:
    """How many units a `double` is; where there is no number of them, one."""
    # The power of the whole exponent may be beyond all floats; that of its half never is.
    half = f.pow(f.lit(2.0), -exponent / 2)
    return (
        f.when(exponent.isNull(), f.lit(0).cast("bigint"))
        .when(exponent >= _NAN, f.lit(1).cast("bigint"))
        .when(exponent == _SHORT_EXPONENT, (number * 65536.0).cast("bigint"))
        .otherwise((number * half * half).cast("bigint"))
    )


def sum_wholes(
    wholes: Column, type: PropertyType, *, weight: Column | None, name: str
) -> dict[str, Column]:
    """The sums, by name, that `total_of` makes one of; null where there is nothing to sum."""
    if weight is not None:
        return {name: f.sum(wholes.cast("decimal(20,0)") * weight.cast("decimal(20,0)"))}
    if type.element is Scalar.U64:
        return {name: f.sum(wholes.cast("decimal(28,0)"))}
    wide = wholes.cast("bigint")
    names = _digit_names(type, name)
    mask = f.lit((1 << _DIGIT_BITS) - 1).cast("bigint")
    digits = [f.shiftright(wide, place * _DIGIT_BITS) for place in range(len(names))]
    # All but the first digit are without a sign.
    lower = [digit.bitwiseAND(mask) for digit in digits[:-1]]
    return dict(zip(names, map(f.sum, [*lower, digits[-1]]), strict=True))


def total_of(type: PropertyType, *, is_weighted: bool, name: str) -> Column:
    """The decimal that the sums of `sum_wholes` stand for."""
    if is_weighted or type.element is Scalar.U64:
        return f.col(name).cast(_DECIMAL)
    total = f.lit(0).cast(_DECIMAL)
    for place, digit in enumerate(_digit_names(type, name)):
        factor = f.lit(1 << (place * _DIGIT_BITS)).cast("decimal(17,0)")
        total = total + f.col(digit).cast("decimal(20,0)") * factor
    return total.cast(_DECIMAL)


def piece_of(exponent: Column, units: Column) -> Column:
    """A part of a sum: so many units of one exponent."""
    return f.struct(exponent.alias("exponent"), units.alias("units"))


def divide(pieces: Column, divisor: Column) -> Column:
    """The sum of an array of pieces by a whole number, rounded to a `double` once."""
    # PySpark warns of the third argument that its stub demands, so its kind is read off the hints.
    exactly = arrow_udf(divide_pieces, "double")  # type: ignore[call-overload]  # see above
    quotient: Column = exactly(pieces, divisor)
    return quotient


def _digit_names(type: PropertyType, name: str) -> Sequence[str]:
    assert isinstance(type.element, Scalar), "only numbers are summed"
    return [f"{name}_{place}" for place in range(_DIGIT_COUNT_BY_SCALAR[type.element])]


# Groups, in Python


def divide_pieces(pieces: pa.Array, divisors: pa.Array) -> pa.Array:
    """The quotient of each group; of no pieces, zero."""
    parts = pieces.flatten()
    exponents = parts.field(0).to_numpy().astype(np.int64)
    low, high = _words(parts.field(1))
    groups = pc.list_parent_indices(pieces).to_numpy()
    dividers = np.maximum(divisors.fill_null(1).to_numpy(), 1)
    exact = 1 << _MANTISSA_BITS
    is_short = (high == low >> 63) & (np.abs(low) <= exact) & (np.abs(exponents) < _SAFE_EXPONENT)
    is_alone = np.bincount(groups, minlength=len(pieces))[groups] == 1
    is_easy = is_short & is_alone & (dividers[groups] <= exact)
    quotients = np.zeros(len(pieces), np.float64)
    easy = groups[is_easy]
    quotients[easy] = np.ldexp(low[is_easy] / dividers[easy], exponents[is_easy])
    _divide_others(quotients, np.flatnonzero(~is_easy), (groups, exponents, low, high), dividers)
    return pa.array(quotients)


def _words(decimals: pa.Array) -> tuple[Words, Words]:
    """The lower and the upper halves of decimals of 128 bits."""
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    chosen = words[decimals.offset : decimals.offset + len(decimals)]
    return chosen[:, 0], chosen[:, 1]


def _divide_others(
    quotients: npt.NDArray[np.float64],
    places: Words,
    parts: tuple[Words, Words, Words, Words],
    dividers: Words,
) -> None:
    """Quotients of sums that are too long for one float, and of those that are no numbers."""
    groups, exponents, low, high = (each[places] for each in parts)
    by_group: dict[int, list[tuple[int, int]]] = {}
    wholes = zip(high.tolist(), low.view(np.uint64).tolist(), strict=True)
    for group, exponent, (upper, lower) in zip(
        groups.tolist(), exponents.tolist(), wholes, strict=True
    ):
        by_group.setdefault(group, []).append((exponent, (upper << 64) + lower))
    for group, pieces in by_group.items():
        quotients[group] = _quotient(pieces, int(dividers[group]))


def _quotient(pieces: Sequence[tuple[int, int]], divider: int) -> float:
    finite = [piece for piece in pieces if piece[0] < _NAN]
    least = min((exponent for exponent, _ in finite), default=0)
    total = sum(units << (exponent - least) for exponent, units in finite)
    quotient = _divide(total << max(least, 0), divider << max(-least, 0))
    found = {exponent for exponent, _ in pieces}
    for exponent, number in (
        (_NAN, math.nan),
        (_INFINITY, math.inf),
        (_NEGATIVE_INFINITY, -math.inf),
    ):
        if exponent in found:
            quotient += number
    return quotient


def _divide(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator  # Python rounds the quotient of integers once
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
