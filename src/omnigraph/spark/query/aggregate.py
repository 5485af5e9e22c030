"""Grouping and aggregates on Spark, with exact sums.

Results equal those of the executor in process: nulls are ignored, NaN is the greatest number and
the two zeros are equal. Sums are exact and rounded once, independent of the order of rows. Without
keys there is one group, even of no rows. Queries are not known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from omnigraph.compiler.ir import Aggregate, AggregateFunction, EntityId, PropertyValue
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.spark.query.expressions import Typed, group_column

Words = npt.NDArray[np.int64]

_DIGIT_BITS = 21
"""Digits this short can be summed in 64 bits for more rows than any cluster holds."""

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
"""The step between exponents: aligned to it, a mantissa still fits in 62 bits."""

_SHORT_EXPONENT = -16
_SHORT_END = 2.0**43
"""Floats below this with at most 16 fractional bits, such as prices, share one exponent."""

_NAN, _INFINITY, _NEGATIVE_INFINITY = 10_000, 10_001, 10_002
"""Markers used as exponents for values that are not finite."""

_SAFE_EXPONENT = 900
"""Scaling a quotient of two short integers by fewer bits neither overflows nor loses bits."""


# Rows


def exponent_of(number: Column) -> Column:
    """The exponent of the unit that a `double` is counted in; null for zero and null."""
    size = f.abs(number)
    is_short = (size < _SHORT_END) & (f.rint(number * 65536.0) == number * 65536.0)
    # The logarithm may be slightly off, which makes a mantissa one bit longer or shorter.
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
    """A `double` as a number of units; 1 for values that are not finite."""
    # The power of the whole exponent may overflow; that of half the exponent never does.
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
    """The partial sums, by name, that `total_of` combines; null if there is nothing to sum."""
    if weight is not None:
        return {name: f.sum(wholes.cast("decimal(20,0)") * weight.cast("decimal(20,0)"))}
    if type.element is Scalar.U64:
        return {name: f.sum(wholes.cast("decimal(28,0)"))}
    wide = wholes.cast("bigint")
    names = _digit_names(type, name)
    mask = f.lit((1 << _DIGIT_BITS) - 1).cast("bigint")
    digits = [f.shiftright(wide, place * _DIGIT_BITS) for place in range(len(names))]
    # All digits but the highest are unsigned.
    lower = [digit.bitwiseAND(mask) for digit in digits[:-1]]
    return dict(zip(names, map(f.sum, [*lower, digits[-1]]), strict=True))


def total_of(type: PropertyType, *, is_weighted: bool, name: str) -> Column:
    """The total, as a decimal, of the sums of `sum_wholes`."""
    if is_weighted or type.element is Scalar.U64:
        return f.col(name).cast(_DECIMAL)
    total = f.lit(0).cast(_DECIMAL)
    for place, digit in enumerate(_digit_names(type, name)):
        factor = f.lit(1 << (place * _DIGIT_BITS)).cast("decimal(17,0)")
        total = total + f.col(digit).cast("decimal(20,0)") * factor
    return total.cast(_DECIMAL)


def piece_of(exponent: Column, units: Column) -> Column:
    """A part of a sum: a number of units of one exponent."""
    return f.struct(exponent.alias("exponent"), units.alias("units"))


def divide(pieces: Column, divisor: Column) -> Column:
    """The sum of an array of pieces divided by an integer, rounded to a `double` once."""
    # PySpark warns about the third argument that its stub requires; type hints replace it.
    exactly = arrow_udf(divide_pieces, "double")  # type: ignore[call-overload]  # see above
    quotient: Column = exactly(pieces, divisor)
    return quotient


def _digit_names(type: PropertyType, name: str) -> Sequence[str]:
    assert isinstance(type.element, Scalar), "only numbers are summed"
    return [f"{name}_{place}" for place in range(_DIGIT_COUNT_BY_SCALAR[type.element])]


# Groups, in Python


def divide_pieces(pieces: pa.Array, divisors: pa.Array) -> pa.Array:
    """The quotient of each group; zero for a group without pieces."""
    parts = pieces.flatten()
    exponents = parts.field(0).to_numpy().astype(np.int64)
    decimals = parts.field(1)
    # The lower and upper halves of 128-bit decimals.
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[decimals.offset : decimals.offset + len(decimals)].T
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


def _divide_others(
    quotients: npt.NDArray[np.float64],
    places: Words,
    parts: tuple[Words, Words, Words, Words],
    dividers: Words,
) -> None:
    """Quotients of sums that are too long for one float or are not finite."""
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
    numerator, denominator = total << max(least, 0), divider << max(-least, 0)
    try:
        quotient = numerator / denominator  # Python rounds the quotient of integers once
    except OverflowError:
        quotient = math.inf if numerator > 0 else -math.inf
    found = {exponent for exponent, _ in pieces}
    for exponent, number in (
        (_NAN, math.nan),
        (_INFINITY, math.inf),
        (_NEGATIVE_INFINITY, -math.inf),
    ):
        if exponent in found:
            quotient += number
    return quotient


_WEIGHT, _PART = "weight", "part"
_SUMS = frozenset({AggregateFunction.SUM, AggregateFunction.AVG})


@dataclass(frozen=True, slots=True, eq=False)
class AggregateColumn:
    """An aggregate and the name of its column; without an argument it counts rows.

    The argument of ids has the type of texts.
    """

    name: str
    aggregate: Aggregate
    argument: Typed | None


def aggregate(
    frame: DataFrame,
    *,
    keys: Sequence[tuple[str, Column]],
    columns: Sequence[AggregateColumn],
    weight: str | None,
) -> DataFrame:
    """One row for each group: its keys, then its aggregates, under their names.

    Keys are grouped without normalization, so they have to come from `group_column`. `weight` is a
    column with the number of times that each row counts.
    """
    names: dict[PropertyValue | EntityId | None, str] = {}
    values = [
        _Value(
            names.setdefault(each.aggregate.argument, f"value{len(names)}"),
            each.aggregate,
            each.argument,
        )
        for each in columns
    ]
    arguments = {each.name: each.argument.column for each in values if each.argument is not None}
    is_twice = any(each.is_float_sum for each in values)
    fold = _Fold(has_weights=weight is not None, is_twice=is_twice)
    steps = [fold.steps(each) for each in values]
    key_names = [f"key{place}" for place in range(len(keys))]
    rows = frame.select(
        *(column.alias(name) for name, (_, column) in zip(key_names, keys, strict=True)),
        *(column.alias(name) for name, column in arguments.items()),
        *(() if weight is None else (f.col(weight).alias(_WEIGHT),)),
    )
    if is_twice:
        rows, finer = _split(rows, key_names, values, has_weights=weight is not None)
        parts = rows.groupBy(*key_names, *finer).agg(*_aliased(each.first for each in steps))
        groups = parts.groupBy(*key_names).agg(*_aliased(each.again for each in steps))
    else:
        groups = rows.groupBy(*key_names).agg(*_aliased(each.first for each in steps))
    return groups.select(
        *(f.col(name).alias(shown) for name, (shown, _) in zip(key_names, keys, strict=True)),
        *(step.result.alias(each.name) for step, each in zip(steps, columns, strict=True)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """An aggregate whose argument has a name; equal arguments share a name."""

    name: str
    aggregate: Aggregate
    argument: Typed | None

    @property
    def is_float_sum(self) -> bool:
        is_float = self.argument is not None and self.argument.is_float
        return is_float and self.aggregate.function in _SUMS

    def named(self, prefix: str) -> str:
        return f"{prefix}_{self.name}"


def _aliased(sums: Iterable[Mapping[str, Column]]) -> list[Column]:
    by_name = {name: column for each in sums for name, column in each.items()}
    return [column.alias(name) for name, column in by_name.items()]


# First sums, sums of those, and result columns


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Sums over rows, sums over those if rows are grouped twice, and the result, by name."""

    first: Mapping[str, Column]
    again: Mapping[str, Column]
    result: Column


@dataclass(frozen=True, slots=True)
class _Fold:
    has_weights: bool
    is_twice: bool

    def steps(self, value: _Value) -> _Steps:
        function = value.aggregate.function
        if value.argument is None:
            assert function is AggregateFunction.COUNT, "only rows are counted without values"
            return self._count(value.named("rows"), None)
        match function:
            case AggregateFunction.COUNT if value.aggregate.is_distinct:
                return self._count_distinct(value, value.argument)
            case AggregateFunction.COUNT:
                return self._count(value.named("count"), f.col(value.name))
            case AggregateFunction.SUM | AggregateFunction.AVG:
                if value.is_float_sum:
                    return self._sum_floats(value, value.argument)
                return self._sum_wholes(value, value.argument)
            case AggregateFunction.MIN | AggregateFunction.MAX:
                choose = f.min if function is AggregateFunction.MIN else f.max
                name = value.named(str(function))
                shown = group_column(f.col(name), value.argument.type)
                return _Steps({name: choose(value.name)}, {name: choose(name)}, shown)

    @property
    def _weight(self) -> Column | None:
        return f.col(_WEIGHT) if self.has_weights else None

    def _count(self, name: str, counted: Column | None) -> _Steps:
        if counted is None:
            counted = f.when(f.col(_PART) == 0, f.lit(1)) if self.is_twice else f.lit(1)
        if self._weight is None:
            first = f.count(counted)
        else:
            first = f.sum(f.when(counted.isNotNull(), self._weight))
        shown = f.coalesce(f.col(name), f.lit(0).cast("bigint"))
        return _Steps({name: first}, {name: f.sum(name)}, shown)

    def _count_distinct(self, value: _Value, argument: Typed) -> _Steps:
        name, once = value.named("distinct"), value.named("once")
        if self.is_twice:
            return _Steps({}, {name: f.count(once)}, f.col(name))
        normal = group_column(f.col(value.name), argument.type)
        return _Steps({name: f.count_distinct(normal)}, {}, f.col(name))

    def _sum_wholes(self, value: _Value, argument: Typed) -> _Steps:
        name, type = value.named("sum"), argument.type
        sums = sum_wholes(f.col(value.name), type, weight=self._weight, name=name)
        again = {each: f.sum(each) for each in sums}
        total = total_of(type, is_weighted=self.has_weights, name=name)
        if value.aggregate.function is AggregateFunction.SUM:
            return _Steps(sums, again, total.cast("double"))
        count = self._count(value.named("count"), f.col(value.name))
        # Without values the total is null, and the array needs a non-null element.
        pieces = f.array(piece_of(f.lit(0), f.coalesce(total, f.lit(0).cast("decimal(38,0)"))))
        quotient = f.when(count.result > 0, divide(pieces, count.result))
        return _Steps({**sums, **count.first}, {**again, **count.again}, quotient)

    def _sum_floats(self, value: _Value, argument: Typed) -> _Steps:
        name, type = value.named("sum"), argument.type
        sums = sum_wholes(f.col(value.named("units")), type, weight=self._weight, name=name)
        exponent = f.col(value.named("exponent"))
        piece = piece_of(exponent, total_of(type, is_weighted=self.has_weights, name=name))
        pieces = {value.named("pieces"): f.collect_list(f.when(exponent.isNotNull(), piece))}
        count = self._count(value.named("count"), f.col(value.name))
        is_sum = value.aggregate.function is AggregateFunction.SUM
        divisor = f.lit(1).cast("bigint") if is_sum else count.result
        quotient = divide(f.col(value.named("pieces")), divisor)
        return _Steps(
            {**sums, **count.first},
            {**pieces, **count.again},
            f.when(count.result > 0, quotient),
        )


# Rows that are grouped twice


def _split(
    rows: DataFrame, key_names: Sequence[str], values: Sequence[_Value], *, has_weights: bool
) -> tuple[DataFrame, list[str]]:
    """The rows with the additional columns of the first grouping, and the names of these columns.

    Values that are counted once get separate rows, so that grouping leaves one row per value.
    """
    distinct = {
        each.named("once"): group_column(f.col(each.name), each.argument.type)
        for each in values
        if each.argument is not None and each.aggregate.is_distinct
    }
    part = f.col(_PART)
    arguments = list(dict.fromkeys(each.name for each in values if each.argument is not None))
    carried = [*arguments, _WEIGHT] if has_weights else arguments
    if distinct:
        parts = f.array(*(f.lit(place) for place in range(len(distinct) + 1)))
        rows = rows.withColumn(_PART, f.explode(parts)).select(
            *key_names,
            _PART,
            *(f.when(part == 0, f.col(name)).alias(name) for name in carried),
            *(
                f.when(part == place, column).alias(name)
                for place, (name, column) in enumerate(distinct.items(), start=1)
            ),
        )
    else:
        rows = rows.withColumn(_PART, f.lit(0))
    floats = {each.name: each for each in values if each.is_float_sum}
    exponents = {each.named("exponent"): exponent_of(_double(each)) for each in floats.values()}
    units = {
        each.named("units"): units_of(_double(each), f.col(each.named("exponent")))
        for each in floats.values()
    }
    finer = [_PART, *distinct, *exponents]
    return rows.withColumns(exponents).withColumns(units), finer


def _double(value: _Value) -> Column:
    return f.col(value.name).cast("double")
