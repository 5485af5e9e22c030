"""Two rankings of the same entities made into one: reciprocal rank fusion.

Promises that who is ranked well by both comes first, and that ties keep the order of the first
ranking, then of the second. Knows neither distances nor scores, only places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def fuse(
    primary: NDArray[np.int64], secondary: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every code of either ranking, best first, and its score.

    Each ranking holds a code at most once, the best one first.
    """
    codes, which = np.unique(np.concatenate([primary, secondary]), return_inverse=True)
    order, scores = fuse_places(
        _places(which[: len(primary)], len(codes)), _places(which[len(primary) :], len(codes)), k
    )
    return codes[order], scores


def fuse_places(
    primary: NDArray[np.float64], secondary: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The order of some entities, best first, and their scores in it.

    Each has a place in either ranking, counted from 1, or NaN; no two have the same.
    """
    scores = _shares(primary, k) + _shares(secondary, k)
    is_later = np.isnan(primary)
    order = np.lexsort((np.where(is_later, secondary, primary), is_later, -scores))
    return order, scores[order]


def _places(ranked: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    places = np.full(size, np.nan)
    places[ranked] = np.arange(1, len(ranked) + 1)
    return places


def _shares(places: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    return np.where(np.isnan(places), 0.0, 1.0 / (float(k) + places))
