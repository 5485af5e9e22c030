"""Reach: which nodes are how many hops away from each of some nodes.

A breadth-first search from all starts at once: each pair of a start and a node is met once, at its
shortest distance. A start is never met again through a cycle; an edge from it to itself reaches it
at the first hop.
"""

from __future__ import annotations

import numpy as np

from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.spaces import Codes, Marks
from omnigraph.engine.read.topology import Adjacency

_MARKED_PAIRS_MAX = 64 * 1024 * 1024
"""Pairs of starts and nodes up to which a mark for every pair is the fastest memory."""


def find_reach(
    adjacency: Adjacency, *, starts: Codes, hops_min: int, hops_max: int, budget: Budget
) -> Adjacency:
    """What each start reaches within the bounds; the rows of the result are places in `starts`.

    Both ends of the adjacency are one space.
    """
    width = adjacency.target_count
    met = _Met(starts, width)
    owners = np.arange(len(starts), dtype=np.int64)
    frontier, found = starts, []
    for hop in range(1, hops_max + 1):
        budget.require_rows(int(adjacency.degrees[frontier].sum()), width=4)
        whose, places = adjacency.gather(frontier)
        keys = owners[whose] * width + adjacency.ends[places]
        if hop == 1 and hops_min == 1:
            found.append(_distinct(keys[adjacency.ends[places] == starts[owners[whose]]]))
        new = met.add(keys)
        if hop >= hops_min:
            found.append(new)
        if not len(new):
            break
        owners, frontier = np.divmod(new, width)
    return _as_adjacency(found, count=len(starts), width=width)


class _Met:
    """The pairs met so far, each a number: the place of the start times the width, plus a node."""

    def __init__(self, starts: Codes, width: int) -> None:
        pairs = np.arange(len(starts), dtype=np.int64) * width + starts
        self._marks: Marks | None = None
        self._pairs = pairs
        if len(starts) * width <= _MARKED_PAIRS_MAX:
            self._marks = np.zeros(len(starts) * width, np.bool_)
            self._marks[pairs] = True

    def add(self, keys: Codes) -> Codes:
        """Those that are new, each once, in order."""
        if self._marks is not None:
            unmet = _distinct(keys[~self._marks[keys]])
            self._marks[unmet] = True
            return unmet
        met = _distinct(keys)
        places = np.searchsorted(self._pairs, met)
        is_known = np.append(self._pairs, -1)[places] == met
        new: Codes = met[~is_known]
        self._pairs = np.sort(np.concatenate([self._pairs, new]))
        return new


def _distinct(keys: Codes) -> Codes:
    """Each number once, in order; numpy's own way hashes them, which is far slower."""
    ordered = np.sort(keys)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _as_adjacency(found: list[Codes], *, count: int, width: int) -> Adjacency:
    keys = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
    owners, ends = np.divmod(keys, max(width, 1))
    starts = np.searchsorted(owners, np.arange(count + 1))
    return Adjacency(starts.astype(np.int64), ends, None, width)
