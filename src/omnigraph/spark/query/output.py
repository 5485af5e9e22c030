"""The output of a read: matched rows as columns, in groups or ranked, in the one order there is.

Sort keys first, then ids of the bound variables or, where rows were grouped or made distinct, their
columns: what the engine in process returns, row by row. Columns are called by their numbers,
because names may repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from omnigraph.compiler.ir import (
    Aggregate,
    Bm25,
    ColumnReference,
    Constant,
    EntityId,
    Nearest,
    Now,
    ParameterValue,
    PropertyValue,
    Ranking,
    ReadIR,
    Rrf,
    SortKey,
)
from omnigraph.compiler.ir import Column as Returned
from omnigraph.engine.read.mentions import counts_rows, ranked_variable
from omnigraph.engine.read.output import Window
from omnigraph.engine.read.ranking_inputs import fusion_constant
from omnigraph.model.types import STRING
from omnigraph.spark.query.aggregates import AggregateColumn, Argument, aggregate
from omnigraph.spark.query.entities import Entities
from omnigraph.spark.query.names import id_column
from omnigraph.spark.query.ordering import group_column, sort_column
from omnigraph.spark.query.parts import WEIGHT, Part
from omnigraph.spark.query.ranks import (
    ByDistance,
    ByRelevance,
    Fused,
    RankedBy,
    RankedRows,
    rank_rows,
)
from omnigraph.spark.types import spark_type

_PLACE, _SCORE = "place", "score"


@dataclass(frozen=True, slots=True)
class Output:
    """Makes the result of one read of its matched rows."""

    ir: ReadIR
    ordering_variables: tuple[str, ...]
    window: Window
    entities: Entities

    def frame(self, part: Part) -> DataFrame:
        """The result; its columns are called by `column_name`."""
        if self.ir.is_aggregate:
            return self._grouped(part)
        if self.ir.is_distinct:
            return self._distinct(part)
        return self._plain(part)

    # Every row for itself

    def _plain(self, part: Part) -> DataFrame:
        frame, keys = part.frame, list[Column]()
        if self.ir.ranking is not None:
            ranked = self._rank(frame, self.ir.ranking)
            frame, keys = ranked.rows, [*ranked.order]
        keys += [self._sort_key(each) for each in self.ir.order]
        keys += [f.col(id_column(name)).asc_nulls_first() for name in self.ordering_variables]
        if part.is_weighted:
            frame = _repeat(frame, self.window)
        ordered = frame.orderBy(*keys) if keys else frame
        shown = [
            self._value(each).cast(spark_type(each.type)).alias(column_name(number))
            for number, each in enumerate(self.ir.columns)
        ]
        return _cut(ordered, self.window).select(*shown)

    def _rank(self, rows: DataFrame, ranking: Ranking) -> RankedRows:
        return rank_rows(
            rows,
            self._ranked_by(ranking),
            id=id_column(ranked_variable(ranking)),
            place=_PLACE,
            score=_SCORE,
            wanted=self.window.stop,
        )

    def _ranked_by(self, ranking: Ranking) -> RankedBy:
        match ranking:
            case Nearest() | Bm25():
                return self._arm(ranking)
            case Rrf(primary, secondary, k):
                constant = fusion_constant(k, self.entities.expressions.inputs)
                return Fused(self._arm(primary), self._arm(secondary), constant)

    def _arm(self, ranking: Nearest | Bm25) -> ByDistance | ByRelevance:
        column = self.entities.searches[ranking]
        return ByDistance(column) if isinstance(ranking, Nearest) else ByRelevance(column)

    def _sort_key(self, key: SortKey) -> Column:
        expression = key.expression
        if isinstance(expression, ColumnReference):
            column = self.ir.columns[expression.position]
            value, type = self._value(column), column.type
        else:
            value, type = self.entities.expressions.value(expression), expression.type
        return sort_column(value, type, is_descending=key.is_descending)

    # Rows in groups

    def _grouped(self, part: Part) -> DataFrame:
        keys, columns = list[tuple[str, Column]](), list[AggregateColumn]()
        for number, column in enumerate(self.ir.columns):
            name, expression = column_name(number), column.expression
            if isinstance(expression, Aggregate):
                columns.append(AggregateColumn(name, expression, self._argument(expression)))
            else:
                keys.append((name, group_column(self._value(column), column.type)))
        weight = WEIGHT if part.is_weighted else None
        frame = aggregate(part.frame, keys=keys, columns=columns, weight=weight)
        shown = [
            f.col(column_name(number)).cast(spark_type(each.type)).alias(column_name(number))
            for number, each in enumerate(self.ir.columns)
        ]
        ties = [name for name, _ in keys]
        return self._arrange(frame.select(*shown), ties, is_one_row=not keys)

    def _distinct(self, part: Part) -> DataFrame:
        shown = [
            group_column(self._value(each), each.type)
            .cast(spark_type(each.type))
            .alias(column_name(number))
            for number, each in enumerate(self.ir.columns)
        ]
        names = [column_name(number) for number in range(len(shown))]
        frame = part.frame.select(*shown).dropDuplicates()
        return self._arrange(frame, names, is_one_row=False)

    def _arrange(self, frame: DataFrame, ties: Sequence[str], *, is_one_row: bool) -> DataFrame:
        if is_one_row:
            return _cut(frame, self.window)
        keys = [self._column_key(each) for each in self.ir.order]
        types = {column_name(number): each.type for number, each in enumerate(self.ir.columns)}
        keys += [sort_column(f.col(name), types[name], is_descending=False) for name in ties]
        return _cut(frame.orderBy(*keys), self.window)

    def _column_key(self, key: SortKey) -> Column:
        assert isinstance(key.expression, ColumnReference), "condensed rows have only their columns"
        position = key.expression.position
        column = f.col(column_name(position))
        return sort_column(column, self.ir.columns[position].type, is_descending=key.is_descending)

    # Values

    def _argument(self, expression: Aggregate) -> Argument | None:
        argument = expression.argument
        if argument is None or counts_rows(expression):
            return None
        type = argument.type if isinstance(argument, PropertyValue) else STRING
        return Argument(self.entities.expressions.value(argument), type)

    def _value(self, column: Returned) -> Column:
        match column.expression:
            case PropertyValue() | EntityId() | ParameterValue() | Constant() | Now() as operand:
                return self.entities.expressions.value(operand)
            case Nearest() | Bm25() as ranking:
                return f.col(self.entities.searches[ranking])
            case Rrf():
                return f.col(_SCORE)
            case Aggregate():
                raise AssertionError("aggregates are computed for groups")


def column_name(number: int) -> str:
    """What a column of the result is called until it gets its name."""
    return f"column_{number}"


def _repeat(frame: DataFrame, window: Window) -> DataFrame:
    """Each row as often as it counts, or as often as anybody will see it."""
    times = f.col(WEIGHT)
    if window.stop is not None:
        times = f.least(times, f.lit(max(window.stop, 1)).cast("bigint"))
    return frame.withColumn(WEIGHT, f.explode(f.sequence(f.lit(1).cast("bigint"), times)))


def _cut(frame: DataFrame, window: Window) -> DataFrame:
    # Spark counts the rows of a window in 31 bits.
    if window.stop is not None and window.stop <= _INTS_END:
        frame = frame.limit(window.stop)
    return frame.offset(min(window.start, _INTS_END)) if window.start else frame


_INTS_END = 2**31 - 1
