"""Exact nearest-neighbour search over one column of vectors, and the candidates of one by index.

A fast pass in single precision excludes a vector only if rounding errors cannot make it one of the
nearest. A null, or a vector with a number that is not finite, counts as missing. The module does
not know ids: the caller breaks ties among the candidates.

An index finds entities near a vector approximately. More of them than requested are chosen and
compared exactly, so distances and order do not depend on the index. The choice depends only on the
version of the type and on the entities that match the pattern, so all executors choose alike. Where
the index cannot decide, there is no choice, and the caller compares all matching entities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.model import limits

if TYPE_CHECKING:
    from omnigraph.engine.read.entities import EntityDelta

# Half the distance between 1 and the next single-precision number.
_ROUNDING = 2.0**-24
# More than a product of single-precision numbers can lose by underflow to 0.
_UNDERFLOW = 2.0**-125
# A generous bound on the relative rounding error of sums in double precision.
_DOUBLE_ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """The vectors of a column by position, and the squared length of each."""

    vectors: NDArray[np.float32]
    squares: NDArray[np.float64]  # of the lengths
    has_vector: NDArray[np.bool_]

    def nearest(
        self, query: NDArray[np.float32], k: int, among: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Every position that may be one of the k nearest, and few others, in ascending order.

        Includes every vector that is as near as the k-th.
        """
        positions = np.flatnonzero(self.has_vector if among is None else self.has_vector & among)
        if k <= 0 or not np.isfinite(query).all():
            return positions[:0]
        if k >= len(positions):
            return positions
        estimates, errors = self._estimates(query, positions)
        farthest = float(np.partition(estimates + errors, k - 1)[k - 1])
        return positions[estimates - errors <= farthest]

    def distances(
        self, query: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The Euclidean distance of each position, or NaN without a vector.

        A distance does not depend on the other positions. If the query holds a number that is not
        finite, every distance is NaN.
        """
        found = np.full(len(positions), np.nan)
        measured = np.flatnonzero(self.has_vector[positions])
        if not np.isfinite(query).all():
            return found
        exact = query.astype(np.float64)
        step = max(1, limits.VECTOR_BLOCK_NUMBERS // len(query))
        for start in range(0, len(measured), step):
            block = measured[start : start + step]
            difference = self.vectors[positions[block]].astype(np.float64)
            difference -= exact
            found[block] = np.sqrt(np.square(difference, out=difference).sum(axis=1))
        return found

    @property
    def nbytes(self) -> int:
        """The memory size in bytes."""
        return self.vectors.nbytes + self.squares.nbytes + self.has_vector.nbytes

    def _estimates(
        self, query: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Estimated squared distances, and a bound on the error of each."""
        is_most = 2 * len(positions) > len(self.vectors)
        # Products may overflow, and positions without a vector may hold any bits.
        with np.errstate(all="ignore"):
            if is_most:
                products = (self.vectors @ query)[positions].astype(np.float64)
            else:
                products = (self.vectors[positions] @ query).astype(np.float64)
        squares = self.squares[positions]
        square = float(np.square(query.astype(np.float64)).sum())
        estimates = squares + square - 2 * products
        # In any order of summation, the error of a sum of n products is at most about n roundings
        # of the sum of their absolute values, which the product of both lengths bounds
        # (Cauchy-Schwarz). `roundings` is below one for fewer than sixteen million dimensions.
        roundings = _ROUNDING * (len(query) + 1)
        share = 2 * roundings / (1 - roundings)
        errors = share * np.sqrt(squares * square) + _DOUBLE_ROUNDING * (squares + square)
        errors += 2 * len(query) * _UNDERFLOW
        is_unknown = ~np.isfinite(estimates)
        estimates[is_unknown] = 0.0
        errors[is_unknown] = np.inf
        return estimates, errors


@dataclass(frozen=True, slots=True)
class ChangedVectors:
    """The vectors of a version: those of its base, and those of the rows that changed since.

    Its positions are ordinals. It finds and measures as `VectorColumn` does over all vectors.
    """

    base: VectorColumn
    changed: VectorColumn
    delta: EntityDelta

    def nearest(
        self, query: NDArray[np.float32], k: int, among: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Every ordinal that may be one of the k nearest, and few others, in ascending order."""
        if among is None:
            among = np.ones(self.delta.size, np.bool_)
        is_valid = among[: self.delta.base_size].copy()
        is_valid[self.delta.dropped] = False
        old = self.base.nearest(query, k, is_valid)
        new = self.changed.nearest(query, k, among[self.delta.ordinals])
        return np.sort(np.concatenate([old, self.delta.ordinals[new]]))

    def distances(
        self, query: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The Euclidean distance of each ordinal, or NaN without a vector."""
        rows = self.delta.rows_at(positions)
        is_changed = rows >= 0
        found = np.empty(len(positions), np.float64)
        found[is_changed] = self.changed.distances(query, rows[is_changed])
        found[~is_changed] = self.base.distances(query, positions[~is_changed])
        return found


def vector_column(vectors: pa.Array) -> VectorColumn:
    """A view of fixed-size lists of single-precision numbers, copied only if necessary."""
    dimension = vectors.type.list_size
    numbers = vectors.values.slice(vectors.offset * dimension, len(vectors) * dimension)
    matrix = numbers.to_numpy(zero_copy_only=False).reshape(len(vectors), dimension)
    squares = np.empty(len(vectors), np.float64)
    step = max(1, limits.VECTOR_BLOCK_NUMBERS // dimension)
    for start in range(0, len(vectors), step):
        block = matrix[start : start + step].astype(np.float64)
        squares[start : start + step] = np.square(block, out=block).sum(axis=1)
    is_valid = vectors.is_valid().to_numpy(zero_copy_only=False)
    return VectorColumn(matrix, squares, is_valid & np.isfinite(squares))


Rows = NDArray[np.int64]

Search = Callable[[int], Rows | None]
"""Finds at most so many rows by index, nearest first; None if there is no index to use."""

Match = Callable[[Rows], NDArray[np.bool_]]
"""Which rows match the pattern."""


def choose_candidates(wanted: int | None, *, search: Search, match: Match) -> Rows | None:
    """The rows to compare for the `wanted` nearest ones that match; None to compare all of them."""
    if wanted is None or not 0 < wanted <= limits.NEAREST_WANTED_MAX:
        return None
    needed = limits.NEAREST_SPARE * wanted + limits.NEAREST_SPARE_MIN
    found = search(needed)
    if found is None:
        return None
    chosen = found[match(found)]
    if len(chosen) < needed:
        # Some of the nearest rows do not match, so rows that are farther away are needed too.
        found = search(max(limits.NEAREST_FILTERED_MIN, limits.NEAREST_SPARE * needed))
        if found is None:
            return None
        chosen = found[match(found)][:needed]
    return chosen if len(chosen) == needed else None


def are_decisive(distances: NDArray[np.float64], wanted: int) -> bool:
    """Whether the candidates with these distances decide which rows are the nearest.

    If as many as are compared have the same distance, there may be others, which have smaller ids.
    """
    measured = distances[~np.isnan(distances)]
    if len(measured) < wanted:
        return False
    return bool(np.partition(measured, wanted - 1)[wanted - 1] < measured.max())
