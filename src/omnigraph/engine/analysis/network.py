"""Networks: nodes as numbers, edges as pairs of them, and neighbours in compressed rows.

The numbers of nodes are dense and in the order of their types and ids, so that the smaller number
is the smaller node. Parallel edges and edges from a node to itself are as they are stored; who
wants neither asks for the simple neighbours. Pure; knows no ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from omnigraph.compiler.ir import Direction
from omnigraph.engine.read.spaces import Codes

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Network:
    """Edges between the nodes from zero up to `node_count`."""

    node_count: int
    sources: Codes
    targets: Codes


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of node v are `ends[starts[v]:starts[v + 1]]`, ascending, each once."""

    starts: Codes
    ends: Codes

    @property
    def degrees(self) -> Codes:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    def gather(self, nodes: Codes) -> tuple[Codes, Codes]:
        """The neighbours of some nodes, node by node, and the place of each one's node."""
        firsts = self.starts[nodes]
        owners, within = count_off(self.starts[nodes + 1] - firsts)
        return owners, self.ends[firsts[owners] + within]


def count_off(counts: Codes) -> tuple[Codes, Codes]:
    """For groups of some sizes, one after the other: whose a member is, and its place there."""
    owners = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - before[owners]


def find_neighbours(network: Network, direction: Direction) -> Neighbours:
    """The nodes that one edge leads to."""
    match direction:
        case Direction.OUT:
            return _compress(network.sources, network.targets, network.node_count)
        case Direction.IN:
            return _compress(network.targets, network.sources, network.node_count)
        case Direction.BOTH:
            return _compress(*_either_way(network), network.node_count)


def find_simple_neighbours(network: Network) -> Neighbours:
    """The other nodes that an edge connects a node with, whatever its direction."""
    starts, ends = _either_way(_without_loops(network))
    return _compress(starts, ends, network.node_count)


def _without_loops(network: Network) -> Network:
    is_kept = network.sources != network.targets
    return Network(network.node_count, network.sources[is_kept], network.targets[is_kept])


def _either_way(network: Network) -> tuple[Codes, Codes]:
    starts = np.concatenate([network.sources, network.targets])
    return starts, np.concatenate([network.targets, network.sources])


def _compress(starts: Codes, ends: Codes, node_count: int) -> Neighbours:
    # Scipy sorts by row in one pass over the edges, and makes one of those that are parallel.
    ones = np.ones(len(starts), np.bool_)
    matrix = sparse.coo_matrix((ones, (starts, ends)), shape=(node_count, node_count)).tocsr()
    matrix.sort_indices()
    return Neighbours(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
