"""Groups in Spark, and what becomes of the values of each, as in the local executor.

Aggregates leave null out; sums are exact and rounded once; NaN is the greatest number and the two
zeros are one. Without keys there is one group, even of no rows. Sums of floats group rows twice,
by keys and exponents first; everything else groups them once. Knows nothing of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler.ir import Aggregate, AggregateFunction, EntityId, PropertyValue
from omnigraph.model.types import FLOATS, PropertyType
from omnigraph.spark.query.exact_sums import (
    divide,
    exponent_of,
    piece_of,
    sum_wholes,
    total_of,
    units_of,
)
from omnigraph.spark.query.ordering import group_column

_WEIGHT, _PART = "weight", "part"
_SUMS = frozenset({AggregateFunction.SUM, AggregateFunction.AVG})


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """The values that an aggregate is made of, and their type; ids are texts."""

    column: Column
    type: PropertyType


@dataclass(frozen=True, slots=True, eq=False)
class AggregateColumn:
    """An aggregate and the name of its column; without an argument it counts rows."""

    name: str
    aggregate: Aggregate
    argument: Argument | None


def aggregate(
    frame: DataFrame,
    *,
    keys: Sequence[tuple[str, Column]],
    columns: Sequence[AggregateColumn],
    weight: str | None,
) -> DataFrame:
    """One row for each group: its keys, then its aggregates, under their names.

    Keys are grouped as they are, so they come from `group_column`. The weight is a column that says
    how often each row counts.
    """
    values = _values_of(columns)
    is_twice = any(each.is_float_sum for each in values)
    fold = _Fold(has_weights=weight is not None, is_twice=is_twice)
    steps = [fold.steps(each) for each in values]
    key_names = [f"key{place}" for place in range(len(keys))]
    rows = frame.select(
        *(column.alias(name) for name, (_, column) in zip(key_names, keys, strict=True)),
        *_arguments(values),
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
    """An aggregate whose argument has a name; equal arguments have the same."""

    name: str
    aggregate: Aggregate
    argument: Argument | None

    @property
    def is_float_sum(self) -> bool:
        is_float = self.argument is not None and self.argument.type.element in FLOATS
        return is_float and self.aggregate.function in _SUMS

    def named(self, prefix: str) -> str:
        return f"{prefix}_{self.name}"


def _values_of(columns: Sequence[AggregateColumn]) -> list[_Value]:
    names: dict[PropertyValue | EntityId | None, str] = {}
    return [
        _Value(
            names.setdefault(each.aggregate.argument, f"value{len(names)}"),
            each.aggregate,
            each.argument,
        )
        for each in columns
    ]


def _arguments(values: Iterable[_Value]) -> list[Column]:
    found = {each.name: each.argument for each in values if each.argument is not None}
    return [argument.column.alias(name) for name, argument in found.items()]


def _aliased(sums: Iterable[Mapping[str, Column]]) -> list[Column]:
    by_name = {name: column for each in sums for name, column in each.items()}
    return [column.alias(name) for name, column in by_name.items()]


# What is computed first, what of that, and what is shown of it


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Sums by name over rows, sums over those, where rows are grouped twice, and the result."""

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

    def _count_distinct(self, value: _Value, argument: Argument) -> _Steps:
        name, once = value.named("distinct"), value.named("once")
        if self.is_twice:
            return _Steps({}, {name: f.count(once)}, f.col(name))
        normal = group_column(f.col(value.name), argument.type)
        return _Steps({name: f.count_distinct(normal)}, {}, f.col(name))

    def _sum_wholes(self, value: _Value, argument: Argument) -> _Steps:
        name, type = value.named("sum"), argument.type
        sums = sum_wholes(f.col(value.name), type, weight=self._weight, name=name)
        again = {each: f.sum(each) for each in sums}
        total = total_of(type, is_weighted=self.has_weights, name=name)
        if value.aggregate.function is AggregateFunction.SUM:
            return _Steps(sums, again, total.cast("double"))
        count = self._count(value.named("count"), f.col(value.name))
        # Of no values there is no total, and an array without its only element.
        pieces = f.array(piece_of(f.lit(0), f.coalesce(total, f.lit(0).cast("decimal(38,0)"))))
        quotient = f.when(count.result > 0, divide(pieces, count.result))
        return _Steps({**sums, **count.first}, {**again, **count.again}, quotient)

    def _sum_floats(self, value: _Value, argument: Argument) -> _Steps:
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
    """The rows with the columns that they are first grouped by, beside the keys, and their names.

    Values of which each counts once get rows of their own, so that grouping leaves one of each.
    """
    distinct = {
        each.named("once"): group_column(f.col(each.name), each.argument.type)
        for each in values
        if each.argument is not None and each.aggregate.is_distinct
    }
    part = f.col(_PART)
    arguments = list(dict.fromkeys(each.name for each in values if each.argument is not None))
    kept = [*arguments, _WEIGHT] if has_weights else arguments
    if distinct:
        parts = f.array(*(f.lit(place) for place in range(len(distinct) + 1)))
        rows = rows.withColumn(_PART, f.explode(parts)).select(
            *key_names,
            _PART,
            *(f.when(part == 0, f.col(name)).alias(name) for name in kept),
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
