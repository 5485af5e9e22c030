"""Ranked rows: who is ranked, and in which order, by columns that the scan has worked out.

The order is that of the engine in process: entities by distance, by relevance or by both rankings
fused, then by id. A single ranking needs no job of its own: its column and the id are the order. A
fusion of which only the best are wanted is worked out now, from as many entities as can matter; one
of which all are wanted is part of the frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from omnigraph.engine.read.ordering import order_keys
from omnigraph.engine.read.search.fusion import fuse_places
from omnigraph.model.limits import SPARK_FUSED_MAX
from omnigraph.spark.frames import hand_over
from omnigraph.spark.jobs import run_silently

Batches = Iterator[pa.RecordBatch]
Places = npt.NDArray[np.float64]

_ID, _FIRST, _SECOND = "id", "first", "second"
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
class ByDistance:
    """The nearest first, by a column of distances; who has none is not ranked."""

    column: str


@dataclass(frozen=True, slots=True)
class ByRelevance:
    """The most relevant first, by a column of scores; who has none, or 0, is not ranked."""

    column: str


@dataclass(frozen=True, slots=True)
class Fused:
    """Two rankings made into one by places; without a constant nobody is ranked."""

    primary: ByDistance | ByRelevance
    secondary: ByDistance | ByRelevance
    k: int | None


RankedBy = ByDistance | ByRelevance | Fused


@dataclass(frozen=True, slots=True)
class RankedRows:
    """The rows of ranked entities, and what they are ordered by before anything else.

    `score` is the column of fused scores, if rankings were fused.
    """

    rows: DataFrame
    order: tuple[Column, ...]
    score: str | None


def rank_rows(
    rows: DataFrame, by: RankedBy, *, id: str, place: str, score: str, wanted: int | None
) -> RankedRows:
    """Leave out the rows of entities that are not ranked, and say in which order the others are.

    `id` is the column of the entities' ids. The order is told as far as the first `wanted` rows go,
    and for all if that is None. `place` and `score` are new names.
    """
    match by:
        case ByDistance() | ByRelevance():
            is_ranked = f.col(id).isNotNull() & _is_ranked(by)
            return RankedRows(rows.where(is_ranked), _order(by, id), None)
        case Fused(primary, secondary, k):
            if k is None:
                nobody = rows.limit(0).withColumns({place: f.lit(0), score: f.lit(0.0)})
                return RankedRows(nobody, (f.col(place),), score)
            fusion = _Fusion(
                replace(primary, column=_FIRST), replace(secondary, column=_SECOND), k, wanted
            )
            entities = _entities(rows, by, id)
            ranking = fusion.of_best(entities) if fusion.is_small else fusion.of_all(entities)
            own = f"{place}_{_ID}"
            named = ranking.select(
                f.col(_ID).alias(own), f.col(_PLACE).alias(place), f.col(_SCORE).alias(score)
            )
            ranked = rows.join(named, f.col(id) == f.col(own)).drop(own)
            return RankedRows(ranked, (f.col(place),), score)


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Fuses two rankings of entities that have an id and a column for each of them."""

    primary: ByDistance | ByRelevance
    secondary: ByDistance | ByRelevance
    k: int
    wanted: int | None

    @property
    def is_small(self) -> bool:
        """Whether few entities can be among those that are wanted."""
        return self.wanted is not None and 2 * self._reach(self.wanted) <= SPARK_FUSED_MAX

    def of_all(self, entities: DataFrame) -> DataFrame:
        """Every ranked entity with its place, which is no number, and its score."""
        first, second = self._place(self.primary), self._place(self.secondary)
        placed = entities.select(_ID, first.alias(_FIRST), second.alias(_SECOND))
        is_ranked = f.col(_FIRST).isNotNull() | f.col(_SECOND).isNotNull()
        score = self._share(_FIRST) + self._share(_SECOND)
        either = f.coalesce(f.col(_FIRST), f.col(_SECOND))
        place = f.struct(-score, f.col(_FIRST).isNull(), either)
        return placed.where(is_ranked).select(_ID, place.alias(_PLACE), score.alias(_SCORE))

    def of_best(self, entities: DataFrame) -> DataFrame:
        """The entities that are wanted, worked out now, with their places and scores."""
        assert self.wanted is not None, "somebody says how many are the best"
        entities = entities.persist()
        try:
            found = self._contenders(entities, self.wanted)
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
        return f.broadcast(hand_over(entities.sparkSession, best, _RANKING))

    def _place(self, arm: ByDistance | ByRelevance) -> Column:
        """The place of an entity in one of the rankings, from 1; null if it has none."""
        is_ranked = _is_ranked(arm)
        place = f.row_number().over(Window.orderBy((~is_ranked).asc(), *_order(arm, _ID)))
        if isinstance(arm, ByDistance) and self.wanted is not None:
            is_ranked = is_ranked & (place <= self.wanted)
        return f.when(is_ranked, place)

    def _share(self, place: str) -> Column:
        share = f.lit(1.0) / (f.lit(float(self.k)) + f.col(place).cast(DoubleType()))
        return f.coalesce(share, f.lit(0.0))

    def _reach(self, wanted: int) -> int:
        """How far down a ranking an entity can be that is among the best of both.

        Two places beyond k + 2w are worth less together than a place up to w alone.
        """
        return self.k + 2 * wanted

    def _contenders(self, entities: DataFrame, wanted: int) -> pa.Table:
        """Whoever is high enough in one of the rankings, once."""
        tops = [
            entities.where(_is_ranked(arm)).orderBy(*_order(arm, _ID)).limit(self._reach(wanted))
            for arm in (self.primary, self.secondary)
        ]
        return _collect(tops[0].union(tops[1]).dropDuplicates([_ID]))

    def _find_places(
        self, arm: ByDistance | ByRelevance, found: pa.Table, entities: DataFrame, wanted: int
    ) -> Places:
        """The places of the contenders in a ranking; NaN if it does not rank them."""
        keys = _keys(arm, found)
        order = np.lexsort((order_keys(found[_ID], is_descending=False), keys))
        ranked = order[: np.count_nonzero(~np.isnan(keys))]
        places = np.full(len(keys), np.nan)
        if isinstance(arm, ByDistance):
            ranked = ranked[:wanted]
        # Nobody is missing among the first.
        places[ranked] = np.arange(1, len(ranked) + 1)
        later = ranked[self._reach(wanted) :]
        if len(later):
            places[later] = 1 + _count_before(arm, found.take(pa.array(later)), entities)
        return places


def _entities(rows: DataFrame, by: Fused, id: str) -> DataFrame:
    """Each ranked entity once, with what it is ranked by."""
    is_ranked = _is_ranked(by.primary) | _is_ranked(by.secondary)
    return (
        rows.where(f.col(id).isNotNull() & is_ranked)
        .select(
            f.col(id).alias(_ID),
            f.col(by.primary.column).alias(_FIRST),
            f.col(by.secondary.column).alias(_SECOND),
        )
        .dropDuplicates([_ID])
    )


def _is_ranked(arm: ByDistance | ByRelevance) -> Column:
    match arm:
        case ByDistance(column):
            return f.col(column).isNotNull()
        case ByRelevance(column):
            return f.coalesce(f.col(column) > 0, f.lit(False))  # noqa: FBT003  # Spark's


def _order(arm: ByDistance | ByRelevance, id: str) -> tuple[Column, Column]:
    match arm:
        case ByDistance(column):
            return f.col(column).asc(), f.col(id).asc()
        case ByRelevance(column):
            return f.col(column).desc(), f.col(id).asc()


def _keys(arm: ByDistance | ByRelevance, rows: pa.Table | pa.RecordBatch) -> Places:
    """Numbers that ascend from the best to the worst; NaN for who is not ranked."""
    values: Places = rows[arm.column].to_numpy(zero_copy_only=False).astype(np.float64)
    match arm:
        case ByDistance():
            return values
        case ByRelevance():
            return np.where(values > 0, -values, np.nan)


def _count_before(
    arm: ByDistance | ByRelevance, some: pa.Table, entities: DataFrame
) -> npt.NDArray[np.int64]:
    """How many entities a ranking has before each of some, which are in its order."""
    ranked = entities.where(_is_ranked(arm)).select(_ID, arm.column)
    counted = ranked.mapInArrow(partial(_count_in_task, arm, some), _COUNTS)
    summed = counted.groupBy(_PLACE).agg(f.sum(_COUNT).alias(_COUNT)).orderBy(_PLACE)
    before: npt.NDArray[np.int64] = _collect(summed)[_COUNT].to_numpy()
    return before


def _count_in_task(arm: ByDistance | ByRelevance, some: pa.Table, batches: Batches) -> Batches:
    counts = np.zeros(some.num_rows, np.int64)
    for batch in batches:
        counts += _count_in_batch(arm, some, batch)
    yield pa.record_batch({_PLACE: pa.array(np.arange(len(counts))), _COUNT: pa.array(counts)})


def _count_in_batch(
    arm: ByDistance | ByRelevance, some: pa.Table, batch: pa.RecordBatch
) -> npt.NDArray[np.int64]:
    ids = pa.chunked_array([*some[_ID].chunks, batch[_ID]])
    id_keys = order_keys(ids, is_descending=False)
    keys = np.concatenate([_keys(arm, some), _keys(arm, batch)])
    # Whoever is meant stands in some batch too, and being the same comes behind itself.
    order = np.lexsort((id_keys, keys))
    is_other = order >= some.num_rows
    before: npt.NDArray[np.int64] = np.cumsum(is_other)[~is_other]
    return before


def _collect(frame: DataFrame) -> pa.Table:
    return run_silently(frame.sparkSession, frame.toArrow, stage="rank")
