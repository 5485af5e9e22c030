"""Partial matches of a pattern as frames, and the names of their columns.

Each bound variable has an id column, null if unbound, and one column per referenced property. A
weight column counts equal rows. Column names are unique without regard to case and need no quotes.
Frames are lazy, except where a large plan is materialised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from omnigraph.spark.errors import spark_errors

WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows that bind some variables; `columns` are the columns of each variable, its id first.

    `whole` is the variable that is bound to every entity of its type, if the rows are nothing else.
    `estimate` is the approximate row count; only choices between equivalent plans depend on it.
    `leaves` is the approximate number of scans in the plan of the frame, with repetitions.
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
        """The bound variables."""
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
        """The id columns of some variables."""
        return [self.columns[name][0] for name in variables]

    def where(self, condition: Column) -> Relation:
        """The rows for which a condition holds."""
        return replace(self, frame=self.frame.where(condition), whole=None)

    def materialize(self) -> Relation:
        """The same rows, computed now and checkpointed on the executors: a plan of one leaf."""
        with spark_errors(action="compute a part of the query"):
            return replace(self, frame=self.frame.localCheckpoint(), leaves=1)

    def keep(self, live: Collection[str], *, folds: bool) -> Relation:
        """The rows with only some variables left, which may make rows equal.

        With `folds`, equal rows become one row with the sum of their weights.
        """
        left = {name: each for name, each in self.columns.items() if name in live}
        if len(left) == len(self.columns):
            return self
        if not left:
            # An empty frame must not become a row with weight zero.
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


def make_unit(session: SparkSession) -> Relation:
    """One row that binds no variables."""
    one = f.lit(1).cast("bigint").alias(WEIGHT)
    return _weighted(session.range(1, numPartitions=1).select(one), {}, 1, leaves=1)


def join(left: Relation, right: Relation, condition: Column | None) -> Relation:
    """The pairs of rows of two parts that match a condition; all pairs without a condition."""
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
    return Relation(
        frame=frame,
        columns={**left.columns, **right.columns},
        is_weighted=is_weighted,
        is_distinct=left.is_distinct and right.is_distinct,
        whole=None,
        estimate=estimate,
        leaves=left.leaves + right.leaves,
    )


def equal_ids(left: Sequence[str], right: Sequence[str]) -> Column:
    """Whether all of some ids are equal; null equals null."""
    equal = f.lit(col=True)
    for one, other in zip(left, right, strict=True):
        equal = equal & f.col(one).eqNullSafe(f.col(other))
    return equal


def _weighted(
    frame: DataFrame, columns: Mapping[str, tuple[str, ...]], estimate: float, *, leaves: int
) -> Relation:
    return Relation(
        frame=frame,
        columns=columns,
        is_weighted=True,
        is_distinct=True,
        whole=None,
        estimate=estimate,
        leaves=leaves,
    )


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def id_column(variable: str) -> str:
    """The column with the ids of the entities bound to a variable."""
    return f"id__{_encode(variable)}"


def property_column(variable: str, property: str) -> str:
    """The column with a property of the entities bound to a variable."""
    return f"property__{_encode(variable)}__{_encode(property)}"


def _encode(name: str) -> str:
    # An escape is never empty, so two consecutive underscores outside of it are a separator.
    return "".join(each if each in _PLAIN else f"_{ord(each):x}_" for each in name)
