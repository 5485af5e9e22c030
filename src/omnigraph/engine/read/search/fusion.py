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
    ranked = np.concatenate([primary, secondary])
    codes, firsts, which = np.unique(ranked, return_index=True, return_inverse=True)
    scores = np.zeros(len(codes), np.float64)
    scores[which[: len(primary)]] += _shares(len(primary), k)
    scores[which[len(primary) :]] += _shares(len(secondary), k)
    order = np.lexsort((firsts, -scores))
    return codes[order], scores[order]


def _shares(count: int, k: int) -> NDArray[np.float64]:
    return 1.0 / (float(k) + np.arange(1, count + 1, dtype=np.float64))
