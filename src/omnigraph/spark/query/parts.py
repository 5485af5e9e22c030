"""Rows of a pattern as frames: the part that one connected piece of it matches.

A bound variable is a column of ids, null where nothing is bound, beside a column for everything
that is looked at of its entities. A weight says how often a row counts; without the column every
row counts once. A frame is worked out only where its plan is to stay small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.spark.spark_errors import spark_errors

WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that bind some variables; `columns` are those of each, its id first.

    `whole` is the variable that is bound to every entity of its type, if that is all there is.
    `estimate` is about how many rows there are: only the choice between equal ways hangs on it.
    `leaves` is about how many scans the plan of the frame has, each counted as often as it stands
    there.
    """

    frame: DataFrame
    columns: Mapping[str, tuple[str, ...]]
    is_weighted: bool
    is_distinct: bool
    """Whether no two rows have the same ids."""

    whole: str | None
    estimate: float
    leaves: int

    @property
    def variables(self) -> frozenset[str]:
        """What is bound."""
        return frozenset(self.columns)

    @property
    def names(self) -> list[str]:
        """The columns of all variables."""
        return [column for columns in self.columns.values() for column in columns]

    @property
    def weight(self) -> Column:
        """How often each row counts."""
        return f.col(WEIGHT) if self.is_weighted else f.lit(1).cast("bigint")

    def ids(self, variables: Iterable[str]) -> list[str]:
        """The columns of ids of some variables."""
        return [self.columns[name][0] for name in variables]

    def where(self, condition: Column) -> Part:
        """The rows for which a condition holds."""
        return replace(self, frame=self.frame.where(condition), whole=None)

    def settle(self) -> Part:
        """The same rows, worked out now and kept where they are: a plan of one leaf."""
        with spark_errors(action="work out a part of the query"):
            return replace(self, frame=self.frame.localCheckpoint(), leaves=1)

    def keep(self, live: Collection[str], *, folds: bool) -> Part:
        """The rows with only some variables left, which may become equal.

        Folded, equal ones are one row, which counts as often as they did.
        """
        left = {name: each for name, each in self.columns.items() if name in live}
        if len(left) == len(self.columns):
            return self
        if not left:
            # No rows at all are not a row that counts for nothing.
            total = self.frame.agg(f.sum(self.weight).alias(WEIGHT))
            return _weighted(total.where(f.col(WEIGHT) > 0), left, 1, leaves=self.leaves)
        names = [column for columns in left.values() for column in columns]
        if not folds:
            weights = [WEIGHT] if self.is_weighted else []
            frame = self.frame.select(*names, *weights)
            return replace(self, frame=frame, columns=left, is_distinct=False, whole=None)
        ids = self.ids(left)
        others = [f.first(name).alias(name) for name in names if name not in ids]
        grouped = self.frame.groupBy(*ids).agg(*others, f.sum(self.weight).alias(WEIGHT))
        return _weighted(grouped, left, self.estimate, leaves=self.leaves)


def make_unit(session: SparkSession) -> Part:
    """One row that binds nothing."""
    one = f.lit(1).cast("bigint").alias(WEIGHT)
    return _weighted(session.range(1, numPartitions=1).select(one), {}, 1, leaves=1)


def join_parts(left: Part, right: Part, condition: Column | None) -> Part:
    """The pairs of two parts' rows for which a condition holds; without one all pairs."""
    other = f"other_{WEIGHT}"
    theirs = right.frame.withColumnRenamed(WEIGHT, other) if right.is_weighted else right.frame
    frame = (
        left.frame.crossJoin(theirs)
        if condition is None
        else left.frame.join(theirs, condition, "inner")
    )
    is_weighted = left.is_weighted or right.is_weighted
    if right.is_weighted:
        weight = (left.weight * f.col(other)).alias(WEIGHT)
        frame = frame.select(*left.names, *right.names, weight)
    estimate = left.estimate * right.estimate if condition is None else left.estimate
    return Part(
        frame=frame,
        columns={**left.columns, **right.columns},
        is_weighted=is_weighted,
        is_distinct=left.is_distinct and right.is_distinct,
        whole=None,
        estimate=estimate,
        leaves=left.leaves + right.leaves,
    )


def equal_ids(left: Sequence[str], right: Sequence[str]) -> Column:
    """Whether all of some ids are the same; nothing is the same as nothing."""
    equal = f.lit(col=True)
    for one, other in zip(left, right, strict=True):
        equal = equal & f.col(one).eqNullSafe(f.col(other))
    return equal


def _weighted(
    frame: DataFrame, columns: Mapping[str, tuple[str, ...]], estimate: float, *, leaves: int
) -> Part:
    return Part(
        frame=frame,
        columns=columns,
        is_weighted=True,
        is_distinct=True,
        whole=None,
        estimate=estimate,
        leaves=leaves,
    )
