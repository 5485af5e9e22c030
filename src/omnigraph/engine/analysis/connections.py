"""How a network hangs together: degrees, components, cores and triangles. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from omnigraph.engine.analysis.network import (
    Neighbours,
    Network,
    count_off,
    find_simple_neighbours,
)
from omnigraph.engine.read.spaces import Codes


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many edges end at each node, and how many start there."""

    arriving: Codes
    leaving: Codes


def count_degrees(network: Network) -> Degrees:
    """How many edges each node has; parallel edges count, one to the node itself counts twice."""
    return Degrees(
        arriving=np.bincount(network.targets, minlength=network.node_count),
        leaving=np.bincount(network.sources, minlength=network.node_count),
    )


def find_components(network: Network) -> Codes:
    """The smallest node that each node is connected with, whatever the direction of edges."""
    ones = np.ones(len(network.sources), np.bool_)
    shape = (network.node_count, network.node_count)
    matrix = sparse.coo_matrix((ones, (network.sources, network.targets)), shape=shape).tocsr()
    count, labels = csgraph.connected_components(matrix, directed=True, connection="weak")
    smallest = np.zeros(count, np.int64)
    # Of several values for one place the last one stays, which is that of the smallest node.
    smallest[labels[::-1]] = np.arange(network.node_count)[::-1]
    found: Codes = smallest[labels]
    return found


def find_cores(network: Network) -> Codes:
    """The core number of each node: the most neighbours that all of a group have within it.

    Nodes with the fewest neighbours go first, and take from those of the others that remain.
    """
    neighbours = find_simple_neighbours(network)
    degrees, cores = neighbours.degrees, np.zeros(network.node_count, np.int64)
    is_left = np.ones(network.node_count, np.bool_)
    left = np.arange(network.node_count)
    while len(left):
        level = int(degrees[left].min())
        leaving = left[degrees[left] <= level]
        while len(leaving):
            cores[leaving], is_left[leaving] = level, False
            _owners, met = neighbours.gather(leaving)
            touched, counts = _count_values(met[is_left[met]])
            degrees[touched] -= counts
            leaving = touched[degrees[touched] <= level]
        left = left[is_left[left]]
    return cores


def count_triangles(network: Network, *, wedges_max: int) -> Codes:
    """How many triangles of different nodes each node is part of.

    Looks at the pairs of neighbours of each node that have more neighbours than it: at no more
    than about `wedges_max` pairs at a time.
    """
    neighbours = find_simple_neighbours(network)
    order = np.lexsort([neighbours.degrees])
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    upward = _turn_upward(neighbours, places)
    counts = np.zeros(network.node_count, np.int64)
    for corners in _find_triangles(upward, wedges_max=wedges_max):
        counts += np.bincount(corners, minlength=network.node_count)
    found: Codes = counts[places]
    return found


def _turn_upward(neighbours: Neighbours, places: Codes) -> Neighbours:
    """Only the neighbours of higher places; nodes are named by their places."""
    node_count = len(places)
    lows = places[np.repeat(np.arange(node_count), neighbours.degrees)]
    highs = places[neighbours.ends]
    is_upward = lows < highs
    keys = np.sort(lows[is_upward] * node_count + highs[is_upward])
    lows, highs = np.divmod(keys, max(node_count, 1))
    starts = np.concatenate([[0], np.cumsum(np.bincount(lows, minlength=node_count))])
    return Neighbours(starts, highs)


def _find_triangles(upward: Neighbours, *, wedges_max: int) -> Iterator[Codes]:
    """The three corners of every triangle, of some of them at a time."""
    node_count = len(upward.starts) - 1
    lows = np.repeat(np.arange(node_count), upward.degrees)
    keys = lows * node_count + upward.ends
    # Each edge makes a pair with every later edge of its lower end.
    counts = upward.starts[lows + 1] - np.arange(len(lows)) - 1
    for first, last in _cut(counts, wedges_max):
        owners, within = count_off(counts[first:last])
        owners += first
        middles, highs = upward.ends[owners], upward.ends[owners + 1 + within]
        wanted = middles * node_count + highs
        found = np.searchsorted(keys, wanted)
        is_closed = keys[np.minimum(found, len(keys) - 1)] == wanted
        yield np.concatenate([lows[owners[is_closed]], middles[is_closed], highs[is_closed]])


def _cut(counts: Codes, total_max: int) -> Iterator[tuple[int, int]]:
    """Runs of groups that hold about so many together, and at least one group each."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + total_max, "right")), first + 1)
        yield first, last
        first = last


def _count_values(numbers: Codes) -> tuple[Codes, Codes]:
    """The values that occur, each once, and how often."""
    # Not `np.unique`: numpy 2.4 hashes whole numbers, which takes longer.
    ascending = np.sort(numbers)
    is_first = np.append(np.ones(min(len(ascending), 1), np.bool_), np.diff(ascending) > 0)
    places = np.flatnonzero(is_first)
    return ascending[places], np.diff(np.append(places, len(ascending)))
