"""Shortest paths from one node: how far others are, and the way there. Pure.

Of several shortest paths to a node the smallest one counts, compared node by node from the start,
so that there is one answer whoever works it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.network import Network, find_neighbours
from omnigraph.engine.read.spaces import Codes

_UNREACHED = -1


@dataclass(frozen=True, slots=True)
class Reached:
    """The nodes that can be reached, ascending, how many edges away they are, and the node of
    `nodes` that comes before each on its path, by its place; the start's own is its own."""

    nodes: Codes
    distances: Codes
    before: Codes


@dataclass(frozen=True, slots=True)
class Ways:
    """Paths, one after the other: the i-th is `nodes[starts[i]:starts[i + 1]]`."""

    starts: Codes
    nodes: Codes


def reach(network: Network, source: int, *, direction: Direction, hops_max: int | None) -> Reached:
    """What can be reached from a node along edges, within some hops or any number."""
    neighbours = find_neighbours(network, direction)
    distances = np.full(network.node_count, _UNREACHED, np.int64)
    before = np.full(network.node_count, _UNREACHED, np.int64)
    distances[source], before[source] = 0, source
    # In the order of their paths, so that whoever is met first has the smallest path so far.
    frontier = np.array([source])
    hops = 0
    while len(frontier) and hops != hops_max:
        hops += 1
        owners, met = neighbours.gather(frontier)
        is_new = distances[met] == _UNREACHED
        owners, met = owners[is_new], met[is_new]
        turns = np.arange(len(met))
        # Of several values for one place the last one stays: here that of the first turn.
        distances[met[::-1]] = turns[::-1]
        is_first = distances[met] == turns
        owners, met = owners[is_first], met[is_first]
        distances[met], before[met] = hops, frontier[owners]
        # Neighbours ascend within their owner, so this is the order of paths again.
        frontier = met
    nodes = np.flatnonzero(distances != _UNREACHED)
    return Reached(nodes, distances[nodes], np.searchsorted(nodes, before[nodes]))


def trace(reached: Reached) -> Ways:
    """The path to each of the nodes, from the start to itself."""
    starts = np.concatenate([[0], np.cumsum(reached.distances + 1)])
    nodes = np.empty(starts[-1], np.int64)
    places, ends = np.arange(len(reached.nodes)), starts[1:] - 1
    while len(places):
        nodes[ends] = reached.nodes[places]
        is_left = reached.distances[places] > 0
        places, ends = reached.before[places[is_left]], ends[is_left] - 1
    return Ways(starts, nodes)
