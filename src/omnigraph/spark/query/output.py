"""The output of a query on Spark: result columns, ranking, grouping and order.

Rows and their order equal those of the executor in process. A single ranking needs no extra job. A
fusion of rankings with a limit runs at once over the entities that can reach the result; without a
limit it is part of the frame. Result columns are numbered, because names can repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from omnigraph.compiler import ir
from omnigraph.engine.read.ordering import order_keys
from omnigraph.engine.read.output import Window as ResultWindow
from omnigraph.engine.read.plan import counts_rows, ranked_variable
from omnigraph.engine.read.ranking import fuse_places, fusion_constant
from omnigraph.model.limits import SPARK_FUSED_MAX
from omnigraph.spark.jobs import run_job_quietly
from omnigraph.spark.query.aggregate import AggregateColumn, aggregate
from omnigraph.spark.query.entities import Entities
from omnigraph.spark.query.expressions import group_column, sort_column
from omnigraph.spark.query.relation import WEIGHT, Relation, id_column
from omnigraph.spark.types import create_frame, spark_type

Batches = Iterator[pa.RecordBatch]
Places = npt.NDArray[np.float64]

_ID, _FIRST, _SECOND = "id", "first", "second"
_NEAR = "near"
_PLACE, _SCORE, _COUNT = "place", "score", "count"

_RANKING = StructType(
    [
        StructField(_ID, StringType()),
        StructField(_PLACE, LongType()),
        StructField(_SCORE, DoubleType()),
    ]
)
_COUNTS = StructType([StructField(_PLACE, LongType()), StructField(_COUNT, LongType())])


@dataclass(frozen=True, slots=True)
class ByColumn:
    """A ranking by a column: of distances, nearest first, or of scores, most relevant first.

    Entities with null, or with a score of 0, are not ranked.
    """

    column: str
    is_distance: bool


@dataclass(frozen=True, slots=True)
class Fused:
    """Two rankings fused by places; without a constant no entity is ranked."""

    primary: ByColumn
    secondary: ByColumn
    k: int | None


RankedBy = ByColumn | Fused


def rank_rows(
    rows: DataFrame, by: RankedBy, *, id: str, place: str, score: str, wanted: int | None
) -> tuple[DataFrame, tuple[Column, ...]]:
    """Remove the rows of unranked entities, and determine the primary order of the others.

    `id` is the column of the entities' ids. The order covers the first `wanted` rows, or all rows
    if it is None. `place` and `score` are the names of new columns of fused rankings.
    """
    match by:
        case ByColumn():
            is_ranked = f.col(id).isNotNull() & _is_ranked(by)
            return rows.where(is_ranked), _order(by, id)
        case Fused(primary, secondary, k):
            if k is None:
                empty = rows.limit(0).withColumns({place: f.lit(0), score: f.lit(0.0)})
                return empty, (f.col(place),)
            fusion = _Fusion(
                replace(primary, column=_FIRST), replace(secondary, column=_SECOND), k, wanted
            )
            is_ranked = _is_ranked(primary) | _is_ranked(secondary)
            entities = (
                rows.where(f.col(id).isNotNull() & is_ranked)
                .select(
                    f.col(id).alias(_ID),
                    f.col(primary.column).alias(_FIRST),
                    f.col(secondary.column).alias(_SECOND),
                )
                .dropDuplicates([_ID])
            )
            ranking = fusion.of_best(entities) if fusion.is_small else fusion.of_all(entities)
            own = f"{place}_{_ID}"
            named = ranking.select(
                f.col(_ID).alias(own), f.col(_PLACE).alias(place), f.col(_SCORE).alias(score)
            )
            ranked = rows.join(named, f.col(id) == f.col(own)).drop(own)
            return ranked, (f.col(place),)


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Fuses two rankings of entities that have an id and a column for each ranking."""

    primary: ByColumn
    secondary: ByColumn
    k: int
    wanted: int | None

    @property
    def is_small(self) -> bool:
        """Whether only few entities can be among the wanted ones."""
        return self.wanted is not None and 2 * self._reach(self.wanted) <= SPARK_FUSED_MAX

    def of_all(self, entities: DataFrame) -> DataFrame:
        """Every ranked entity with its score and its place, which is a sort key, not a number."""
        first, second = self._place(self.primary), self._place(self.secondary)
        placed = entities.select(_ID, first.alias(_FIRST), second.alias(_SECOND))
        is_ranked = f.col(_FIRST).isNotNull() | f.col(_SECOND).isNotNull()
        score = self._share(_FIRST) + self._share(_SECOND)
        either = f.coalesce(f.col(_FIRST), f.col(_SECOND))
        place = f.struct(-score, f.col(_FIRST).isNull(), either)
        return placed.where(is_ranked).select(_ID, place.alias(_PLACE), score.alias(_SCORE))

    def of_best(self, entities: DataFrame) -> DataFrame:
        """The wanted entities, computed now, with their places and scores."""
        assert self.wanted is not None, "there is a limit"
        entities = entities.persist()
        try:
            # The entities that are high enough in one of the rankings, without duplicates.
            tops = [
                entities.where(_is_ranked(ranker))
                .orderBy(*_order(ranker, _ID))
                .limit(self._reach(self.wanted))
                for ranker in (self.primary, self.secondary)
            ]
            found = _collect(tops[0].union(tops[1]).dropDuplicates([_ID]))
            first = self._find_places(self.primary, found, entities, self.wanted)
            second = self._find_places(self.secondary, found, entities, self.wanted)
        finally:
            entities.unpersist()
        is_ranked = ~(np.isnan(first) & np.isnan(second))
        ids = found[_ID].filter(pa.array(is_ranked)).combine_chunks()
        order, scores = fuse_places(first[is_ranked], second[is_ranked], self.k)
        best = pa.table(
            {
                _ID: ids.take(pa.array(order[: self.wanted])),
                _PLACE: pa.array(np.arange(len(order[: self.wanted]))),
                _SCORE: pa.array(scores[: self.wanted]),
            }
        )
        return f.broadcast(create_frame(entities.sparkSession, best, _RANKING))

    def _place(self, ranker: ByColumn) -> Column:
        """The place of an entity in one ranking, from 1; null if it is not ranked."""
        is_ranked = _is_ranked(ranker)
        place = f.row_number().over(Window.orderBy((~is_ranked).asc(), *_order(ranker, _ID)))
        if ranker.is_distance and self.wanted is not None:
            is_ranked = is_ranked & (place <= self.wanted)
        return f.when(is_ranked, place)

    def _share(self, place: str) -> Column:
        share = f.lit(1.0) / (f.lit(float(self.k)) + f.col(place).cast(DoubleType()))
        return f.coalesce(share, f.lit(0.0))

    def _reach(self, wanted: int) -> int:
        """The lowest place in a ranking that an entity among the best of both can have.

        Two places beyond k + 2w are worth less together than one place up to w.
        """
        return self.k + 2 * wanted

    def _find_places(
        self, ranker: ByColumn, found: pa.Table, entities: DataFrame, wanted: int
    ) -> Places:
        """The places of the found entities in a ranking; NaN if it does not rank them."""
        keys = _keys(ranker, found)
        order = np.lexsort((order_keys(found[_ID], is_descending=False), keys))
        ranked = order[: np.count_nonzero(~np.isnan(keys))]
        places = np.full(len(keys), np.nan)
        if ranker.is_distance:
            ranked = ranked[:wanted]
        # The found entities include all of the first ones of the ranking.
        places[ranked] = np.arange(1, len(ranked) + 1)
        later = ranked[self._reach(wanted) :]
        if len(later):
            places[later] = 1 + _count_before(ranker, found.take(pa.array(later)), entities)
        return places


def _is_ranked(ranker: ByColumn) -> Column:
    column = f.col(ranker.column)
    if ranker.is_distance:
        return column.isNotNull()
    return f.coalesce(column > 0, f.lit(False))  # noqa: FBT003  # Spark's


def _order(ranker: ByColumn, id: str) -> tuple[Column, Column]:
    column = f.col(ranker.column)
    return column.asc() if ranker.is_distance else column.desc(), f.col(id).asc()


def _keys(ranker: ByColumn, rows: pa.Table | pa.RecordBatch) -> Places:
    """Sort keys that ascend from the best to the worst; NaN for unranked entities."""
    values: Places = rows[ranker.column].to_numpy(zero_copy_only=False).astype(np.float64)
    return values if ranker.is_distance else np.where(values > 0, -values, np.nan)


def _count_before(ranker: ByColumn, some: pa.Table, entities: DataFrame) -> npt.NDArray[np.int64]:
    """The number of entities before each of the given ones, which are in ranking order."""
    ranked = entities.where(_is_ranked(ranker)).select(_ID, ranker.column)
    counted = ranked.mapInArrow(partial(_count_in_task, ranker, some), _COUNTS)
    summed = counted.groupBy(_PLACE).agg(f.sum(_COUNT).alias(_COUNT)).orderBy(_PLACE)
    before: npt.NDArray[np.int64] = _collect(summed)[_COUNT].to_numpy()
    return before


def _count_in_task(ranker: ByColumn, some: pa.Table, batches: Batches) -> Batches:
    counts = np.zeros(some.num_rows, np.int64)
    for batch in batches:
        ids = pa.chunked_array([*some[_ID].chunks, batch[_ID]])
        id_keys = order_keys(ids, is_descending=False)
        keys = np.concatenate([_keys(ranker, some), _keys(ranker, batch)])
        # A given entity also occurs in some batch; the sort is stable, so that copy comes after it.
        order = np.lexsort((id_keys, keys))
        is_other = order >= some.num_rows
        counts += np.cumsum(is_other)[~is_other]
    yield pa.record_batch({_PLACE: pa.array(np.arange(len(counts))), _COUNT: pa.array(counts)})


def _collect(frame: DataFrame) -> pa.Table:
    return run_job_quietly(frame.sparkSession, frame.toArrow, stage="rank")


@dataclass(frozen=True, slots=True)
class Output:
    """Computes the result of one read from its matched rows."""

    read: ir.ReadIR
    ordering_variables: tuple[str, ...]
    window: ResultWindow
    entities: Entities

    def frame(self, part: Relation) -> DataFrame:
        """The result, with columns named by `column_name`."""
        if self.read.is_aggregate:
            return self._grouped(part)
        if self.read.is_distinct:
            return self._distinct(part)
        return self._plain(part)

    # Ungrouped rows

    def _plain(self, part: Relation) -> DataFrame:
        frame, keys = part.frame, list[Column]()
        if self.read.ranking is not None:
            frame, by = self._ranked_by(self.read.ranking, part)
            frame, order = rank_rows(
                frame,
                by,
                id=id_column(ranked_variable(self.read.ranking)),
                place=_PLACE,
                score=_SCORE,
                wanted=self.window.stop,
            )
            keys += order
        keys += [self._sort_key(each) for each in self.read.order]
        keys += [f.col(id_column(name)).asc_nulls_first() for name in self.ordering_variables]
        if part.is_weighted:
            # Repeat each row by its weight, but not beyond the end of the window.
            times = f.col(WEIGHT)
            if self.window.stop is not None:
                times = f.least(times, f.lit(max(self.window.stop, 1)).cast("bigint"))
            repeats = f.sequence(f.lit(1).cast("bigint"), times)
            frame = frame.withColumn(WEIGHT, f.explode(repeats))
        ordered = frame.orderBy(*keys) if keys else frame
        shown = [
            self._value(each).cast(spark_type(each.type)).alias(column_name(number))
            for number, each in enumerate(self.read.columns)
        ]
        return _cut(ordered, self.window).select(*shown)

    def _ranked_by(self, ranking: ir.Ranking, part: Relation) -> tuple[DataFrame, RankedBy]:
        """The rows with the columns of a ranking, and the ranking by these columns."""
        match ranking:
            case ir.Nearest() | ir.Bm25():
                return self._ranker(ranking, part, part.frame, _FIRST)
            case ir.Rrf(primary, secondary, k):
                constant = fusion_constant(k, self.entities.expressions.inputs)
                frame, first = self._ranker(primary, part, part.frame, _FIRST)
                frame, second = self._ranker(secondary, part, frame, _SECOND)
                return frame, Fused(first, second, constant)

    def _ranker(
        self, ranking: ir.Nearest | ir.Bm25, part: Relation, frame: DataFrame, place: str
    ) -> tuple[DataFrame, ByColumn]:
        column = self.entities.searches[ranking]
        if isinstance(ranking, ir.Bm25):
            return frame, ByColumn(column, is_distance=False)
        ids = self.entities.find_candidates(ranking, part, wanted=self.window.stop)
        if ids is None:
            return frame, ByColumn(column, is_distance=True)
        # Distances of other entities may be returned, but do not rank them.
        is_candidate = f.col(id_column(ranking.field.variable)).isin(ids.to_pylist())
        near = f"{_NEAR}_{place}"
        frame = frame.withColumn(near, f.when(is_candidate, f.col(column)))
        return frame, ByColumn(near, is_distance=True)

    def _sort_key(self, key: ir.SortKey) -> Column:
        expression = key.expression
        if isinstance(expression, ir.ColumnReference):
            column = self.read.columns[expression.position]
            value, type = self._value(column), column.type
        else:
            value, type = self.entities.expressions.value(expression), expression.type
        return sort_column(value, type, is_descending=key.is_descending)

    # Grouped rows

    def _grouped(self, part: Relation) -> DataFrame:
        keys, columns = list[tuple[str, Column]](), list[AggregateColumn]()
        for number, column in enumerate(self.read.columns):
            name, expression = column_name(number), column.expression
            if isinstance(expression, ir.Aggregate):
                argument = expression.argument
                typed = (
                    None
                    if argument is None or counts_rows(expression)
                    else self.entities.expressions.typed(argument)
                )
                columns.append(AggregateColumn(name, expression, typed))
            else:
                keys.append((name, group_column(self._value(column), column.type)))
        weight = WEIGHT if part.is_weighted else None
        frame = aggregate(part.frame, keys=keys, columns=columns, weight=weight)
        shown = [
            f.col(column_name(number)).cast(spark_type(each.type)).alias(column_name(number))
            for number, each in enumerate(self.read.columns)
        ]
        ties = [name for name, _ in keys]
        return self._arrange(frame.select(*shown), ties, is_one_row=not keys)

    def _distinct(self, part: Relation) -> DataFrame:
        shown = [
            group_column(self._value(each), each.type)
            .cast(spark_type(each.type))
            .alias(column_name(number))
            for number, each in enumerate(self.read.columns)
        ]
        names = [column_name(number) for number in range(len(shown))]
        frame = part.frame.select(*shown).dropDuplicates()
        return self._arrange(frame, names, is_one_row=False)

    def _arrange(self, frame: DataFrame, ties: Sequence[str], *, is_one_row: bool) -> DataFrame:
        if is_one_row:
            return _cut(frame, self.window)
        types = {column_name(number): each.type for number, each in enumerate(self.read.columns)}
        order: list[tuple[str, bool]] = []
        for key in self.read.order:
            reference = key.expression
            assert isinstance(reference, ir.ColumnReference), (
                "condensed rows have only their columns"
            )
            order.append((column_name(reference.position), key.is_descending))
        order += [(name, False) for name in ties]
        keys = [
            sort_column(f.col(name), types[name], is_descending=is_descending)
            for name, is_descending in order
        ]
        return _cut(frame.orderBy(*keys), self.window)

    # Values

    def _value(self, column: ir.Column) -> Column:
        match column.expression:
            case (
                ir.PropertyValue()
                | ir.EntityId()
                | ir.ParameterValue()
                | ir.Constant()
                | ir.Now() as operand
            ):
                return self.entities.expressions.value(operand)
            case ir.Nearest() | ir.Bm25() as ranking:
                return f.col(self.entities.searches[ranking])
            case ir.Rrf():
                return f.col(_SCORE)
            case ir.Aggregate():
                raise AssertionError("aggregates are computed for groups")


def column_name(number: int) -> str:
    """The internal name of a result column."""
    return f"column_{number}"


def _cut(frame: DataFrame, window: ResultWindow) -> DataFrame:
    # Spark limits and offsets are 31-bit numbers.
    if window.stop is not None and window.stop <= _INTS_END:
        frame = frame.limit(window.stop)
    return frame.offset(min(window.start, _INTS_END)) if window.start else frame


_INTS_END = 2**31 - 1
