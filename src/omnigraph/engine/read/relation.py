"""Relations: the rows of a query as one array of ordinals per variable, with row weights.

Rows are never tuples of Python objects. A variable is dropped after its last use, and rows that
become equal are merged into one with a weight. Disconnected parts of a pattern stay separate
relations until a condition connects them: their product is built last, and never for a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.engine.read.entities import UNBOUND, Marks, Ordinals
from omnigraph.model.errors import LimitExceededError

_WEIGHT_MAX = 2**53
"""The bound below which counts are computed exactly in floats."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a query; `weights` is None if every row counts once."""

    count: int
    ordinals: Mapping[str, Ordinals]
    weights: Ordinals | None

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the rows bind."""
        return frozenset(self.ordinals)

    @property
    def total(self) -> int:
        """The number of rows, counted by weight."""
        return self.count if self.weights is None else int(self.weights.sum())

    def take(self, places: Ordinals | Marks) -> Relation:
        """The rows at some positions, or the marked rows."""
        ordinals = {name: each[places] for name, each in self.ordinals.items()}
        weights = None if self.weights is None else self.weights[places]
        count = int(np.count_nonzero(places)) if places.dtype == np.bool_ else len(places)
        return Relation(count, ordinals, weights)

    def bind(self, variable: str, ordinals: Ordinals) -> Relation:
        """The same rows with one more variable."""
        return Relation(self.count, {**self.ordinals, variable: ordinals}, self.weights)

    def keep(self, live: Iterable[str]) -> Relation:
        """The rows with only the live variables.

        Rows that become equal are merged into one if at most one variable is left.
        """
        wanted = frozenset(live)
        remaining = {name: each for name, each in self.ordinals.items() if name in wanted}
        if len(remaining) == len(self.ordinals):
            return self
        match list(remaining.items()):
            case []:
                return Relation(1, {}, np.array([self.total])) if self.count else NOTHING
            case [(name, ordinals)]:
                return _condense(name, ordinals, self)
            case _:
                # Finding equal rows over several variables costs more than retaining them.
                return Relation(self.count, remaining, self.weights)

    def weigh(self, factors: Ordinals) -> Relation:
        """The rows with their weights multiplied; rows with a factor of zero are dropped."""
        weighed = Relation(self.count, self.ordinals, _multiply(self.weights, factors))
        is_left = factors > 0
        return weighed if is_left.all() else weighed.take(is_left)


NOTHING = Relation(0, {}, None)
"""No rows and no variables."""

UNIT = Relation(1, {}, None)
"""One row without variables: the start of a pipeline."""


def cross(left: Relation, right: Relation) -> Relation:
    """The Cartesian product of two relations."""
    lefts = np.repeat(np.arange(left.count), right.count)
    rights = np.tile(np.arange(right.count), left.count)
    return _pair(left, lefts, right, rights)


def join(left: Relation, left_keys: Ordinals, right: Relation, right_keys: Ordinals) -> Relation:
    """The pairs of rows with equal keys; a negative key never matches."""
    order = np.argsort(right_keys, kind="stable")
    ordered = right_keys[order]
    starts = np.searchsorted(ordered, left_keys, side="left")
    counts = np.searchsorted(ordered, left_keys, side="right") - starts
    counts[left_keys < 0] = 0
    lefts = np.repeat(np.arange(left.count), counts)
    within = np.arange(len(lefts)) - np.repeat(np.cumsum(counts) - counts, counts)
    rights = order[np.repeat(starts, counts) + within]
    return _pair(left, lefts, right, rights)


def count_joined(left_keys: Ordinals, right_keys: Ordinals) -> int:
    """The number of pairs of rows that `join` would return."""
    ordered = np.sort(right_keys)
    counts = np.searchsorted(ordered, left_keys, side="right")
    counts -= np.searchsorted(ordered, left_keys, side="left")
    return int(counts[left_keys >= 0].sum())


def pack(relation: Relation, variables: Iterable[str], sizes: Mapping[str, int]) -> Ordinals:
    """One integer per row, equal where all the variables are equal; unbound is a value too."""
    keys = np.zeros(relation.count, np.int64)
    span = 1
    for name in variables:
        width = sizes[name] + 1
        if span * width >= np.iinfo(np.int64).max:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            span = relation.count
        keys = keys * width + (relation.ordinals[name] - UNBOUND)
        span *= width
    return keys


def _condense(name: str, ordinals: Ordinals, relation: Relation) -> Relation:
    if not relation.count:
        return Relation(0, {name: ordinals}, None)
    shifted = ordinals - UNBOUND
    arrived = np.bincount(shifted, weights=relation.weights).astype(np.float64)
    require_exact(arrived)
    left = np.flatnonzero(arrived)
    return Relation(len(left), {name: left + UNBOUND}, arrived[left].astype(np.int64))


def _pair(left: Relation, lefts: Ordinals, right: Relation, rights: Ordinals) -> Relation:
    ordinals = {name: each[lefts] for name, each in left.ordinals.items()}
    ordinals |= {name: each[rights] for name, each in right.ordinals.items()}
    left_weights = None if left.weights is None else left.weights[lefts]
    right_weights = None if right.weights is None else right.weights[rights]
    return Relation(len(lefts), ordinals, _multiply(left_weights, right_weights))


def _multiply(left: Ordinals | None, right: Ordinals | None) -> Ordinals | None:
    if left is None or right is None:
        return right if left is None else left
    # Checked in floats, because a product may overflow 64 bits.
    require_exact(left.astype(np.float64) * right)
    return left * right


def require_exact(weights: npt.NDArray[np.float64]) -> None:
    """Raise `LimitExceededError` unless the sum of the counts is small enough to be exact."""
    total = float(weights.sum())
    if total >= _WEIGHT_MAX:
        raise LimitExceededError(
            resource="the number of matches of a query", limit=_WEIGHT_MAX, found=int(total)
        )
