"""Graph algorithms over a compressed sparse row (CSR) network in memory.

Nodes are dense ordinals in the order of their types and ids, so the smaller ordinal is the smaller
node. All functions are pure and deterministic: ties go to the smallest node. Parallel edges and
self-loops count unless an algorithm uses simple neighbours. The module knows no ids and no types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from omnigraph.compiler.ir import Direction
from omnigraph.engine.analysis.requests import Progression
from omnigraph.engine.read.entities import Ordinals

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Network:
    """Edges between the nodes from zero up to `node_count`."""

    node_count: int
    sources: Ordinals
    targets: Ordinals


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of node v are `ends[starts[v]:starts[v + 1]]`, ascending, each once."""

    starts: Ordinals
    ends: Ordinals

    @property
    def degrees(self) -> Ordinals:
        """The number of neighbours of each node."""
        return np.diff(self.starts)

    def gather(self, nodes: Ordinals) -> tuple[Ordinals, Ordinals]:
        """The neighbours of some nodes, node by node, each with the position of its node."""
        firsts = self.starts[nodes]
        owners, within = segment_offsets(self.starts[nodes + 1] - firsts)
        return owners, self.ends[firsts[owners] + within]


def segment_offsets(counts: Ordinals) -> tuple[Ordinals, Ordinals]:
    """For consecutive groups of the given sizes: the group of each member, and its offset there."""
    owners = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - before[owners]


def find_neighbours(network: Network, direction: Direction) -> Neighbours:
    """The neighbours of each node over one edge in a direction."""
    match direction:
        case Direction.OUT:
            return _compress(network.sources, network.targets, network.node_count)
        case Direction.IN:
            return _compress(network.targets, network.sources, network.node_count)
        case Direction.BOTH:
            starts = np.concatenate([network.sources, network.targets])
            ends = np.concatenate([network.targets, network.sources])
            return _compress(starts, ends, network.node_count)


def find_simple_neighbours(network: Network) -> Neighbours:
    """The neighbours of each node, ignoring the direction of edges and without self-loops."""
    is_distinct = network.sources != network.targets
    sources, targets = network.sources[is_distinct], network.targets[is_distinct]
    return find_neighbours(Network(network.node_count, sources, targets), Direction.BOTH)


def _compress(starts: Ordinals, ends: Ordinals, node_count: int) -> Neighbours:
    # SciPy sorts by row in one pass over the edges, and merges parallel edges.
    ones = np.ones(len(starts), np.bool_)
    matrix = sparse.coo_matrix((ones, (starts, ends)), shape=(node_count, node_count)).tocsr()
    matrix.sort_indices()
    return Neighbours(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))


def count_degrees(network: Network) -> tuple[Ordinals, Ordinals]:
    """The number of edges that end and that start at each node; parallel edges count separately."""
    arriving = np.bincount(network.targets, minlength=network.node_count)
    leaving = np.bincount(network.sources, minlength=network.node_count)
    return arriving, leaving


def find_components(network: Network) -> Ordinals:
    """The smallest node of each node's component, ignoring the direction of edges."""
    ones = np.ones(len(network.sources), np.bool_)
    shape = (network.node_count, network.node_count)
    matrix = sparse.coo_matrix((ones, (network.sources, network.targets)), shape=shape).tocsr()
    count, labels = csgraph.connected_components(matrix, directed=True, connection="weak")
    smallest = np.zeros(count, np.int64)
    # Of several values assigned to one position the last one wins: that of the smallest node.
    smallest[labels[::-1]] = np.arange(network.node_count)[::-1]
    found: Ordinals = smallest[labels]
    return found


def find_cores(network: Network) -> Ordinals:
    """The core number of each node: the most neighbours that all nodes of a group have within it.

    Nodes with the fewest neighbours are removed first, which lowers the degrees of the others.
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


def count_triangles(network: Network, *, wedges_max: int) -> Ordinals:
    """The number of triangles of distinct nodes that contain each node.

    For each node, checks the pairs of neighbours that have more neighbours than the node itself,
    at most about `wedges_max` pairs at a time.
    """
    neighbours = find_simple_neighbours(network)
    order = np.lexsort([neighbours.degrees])
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    upward = _turn_upward(neighbours, places)
    counts = np.zeros(network.node_count, np.int64)
    for corners in _find_triangles(upward, wedges_max=wedges_max):
        counts += np.bincount(corners, minlength=network.node_count)
    found: Ordinals = counts[places]
    return found


def _turn_upward(neighbours: Neighbours, places: Ordinals) -> Neighbours:
    """Only the neighbours of higher rank; nodes are numbered by their rank in `places`."""
    node_count = len(places)
    lows = places[np.repeat(np.arange(node_count), neighbours.degrees)]
    highs = places[neighbours.ends]
    is_upward = lows < highs
    keys = np.sort(lows[is_upward] * node_count + highs[is_upward])
    lows, highs = np.divmod(keys, max(node_count, 1))
    starts = np.concatenate([[0], np.cumsum(np.bincount(lows, minlength=node_count))])
    return Neighbours(starts, highs)


def _find_triangles(upward: Neighbours, *, wedges_max: int) -> Iterator[Ordinals]:
    """The three corners of every triangle, in chunks."""
    node_count = len(upward.starts) - 1
    lows = np.repeat(np.arange(node_count), upward.degrees)
    keys = lows * node_count + upward.ends
    # Each edge forms a pair with every later edge of its lower end.
    counts = upward.starts[lows + 1] - np.arange(len(lows)) - 1
    for first, last in _cut(counts, wedges_max):
        owners, within = segment_offsets(counts[first:last])
        owners += first
        middles, highs = upward.ends[owners], upward.ends[owners + 1 + within]
        wanted = middles * node_count + highs
        found = np.searchsorted(keys, wanted)
        is_closed = keys[np.minimum(found, len(keys) - 1)] == wanted
        yield np.concatenate([lows[owners[is_closed]], middles[is_closed], highs[is_closed]])


def _cut(counts: Ordinals, total_max: int) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive groups of about `total_max` members, at least one group each."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + total_max, "right")), first + 1)
        yield first, last
        first = last


def _count_values(numbers: Ordinals) -> tuple[Ordinals, Ordinals]:
    """The distinct values in ascending order, and the number of times that each occurs."""
    # Not `np.unique`: NumPy 2.4 hashes integers, which takes longer.
    ascending = np.sort(numbers)
    is_first = np.append(np.ones(min(len(ascending), 1), np.bool_), np.diff(ascending) > 0)
    places = np.flatnonzero(is_first)
    return ascending[places], np.diff(np.append(places, len(ascending)))


def rank_nodes(
    network: Network, *, damping: float, tolerance: float, iterations_max: int
) -> tuple[Weights, Progression]:
    """PageRank: the distribution of a random walk that occasionally restarts at a random node.

    All outgoing edges of a node are equally likely, and parallel edges count separately; from a
    node without outgoing edges the walk restarts. All ranks sum to one. The iteration ends when the
    change, summed over all nodes, is no more than the tolerance.
    """
    count = network.node_count
    leaving = np.bincount(network.sources, minlength=count)
    is_dead_end = leaving == 0
    shares = np.where(is_dead_end, 0.0, 1.0 / np.maximum(leaving, 1))
    ones = np.ones(len(network.sources))
    matrix = sparse.coo_matrix((ones, (network.targets, network.sources)), shape=(count, count))
    arriving = matrix.tocsr()
    ranks = np.full(count, 1.0 / max(count, 1))
    for iteration in range(1, iterations_max + 1):
        stranded = float(ranks[is_dead_end].sum())
        arrived = arriving @ (ranks * shares) + stranded / max(count, 1)
        new = damping * arrived + (1.0 - damping) / max(count, 1)
        change, ranks = float(np.abs(new - ranks).sum()), new
        if change <= tolerance:
            return ranks, Progression(iteration, has_converged=True)
    return ranks, Progression(iterations_max, has_converged=False)


def spread_labels(network: Network, *, iterations_max: int) -> tuple[Ordinals, Progression]:
    """Label propagation: all nodes simultaneously adopt the most frequent label of neighbours.

    A node starts with itself as its label. Its own label has one vote, like that of a neighbour;
    otherwise two nodes could exchange their labels forever. Ties go to the smallest label, so the
    result is deterministic. The number and direction of the edges between two nodes are ignored.
    """
    count = network.node_count
    neighbours = find_simple_neighbours(network)
    ones = np.ones(len(neighbours.ends), np.int64)
    links = sparse.csr_matrix((ones, neighbours.ends, neighbours.starts), shape=(count, count))
    votes = links + sparse.identity(count, np.int64, "csr")
    labels = np.arange(count)
    for iteration in range(1, iterations_max + 1):
        new = _take_most(votes, labels)
        is_same, labels = bool((new == labels).all()), new
        if is_same:
            return labels, Progression(iteration, has_converged=True)
    return labels, Progression(iterations_max, has_converged=False)


def _take_most(votes: sparse.csr_matrix, labels: Ordinals) -> Ordinals:
    """The label with the most votes for each node; ties go to the smallest."""
    count = len(labels)
    if not count:
        return labels
    ones = np.ones(count, np.int64)
    chosen = sparse.csr_matrix((ones, labels, np.arange(count + 1)), shape=(count, count))
    # A row holds the votes for each label at a node; no row is empty, as a node votes for itself.
    counted = votes @ chosen
    firsts, sizes = counted.indptr[:-1], np.diff(counted.indptr)
    most = np.maximum.reduceat(counted.data, firsts)
    is_most = counted.data == np.repeat(most, sizes)
    candidates = np.where(is_most, counted.indices, count)
    found: Ordinals = np.minimum.reduceat(candidates, firsts).astype(np.int64)
    return found


_UNREACHED = -1


@dataclass(frozen=True, slots=True)
class Reached:
    """The reachable nodes in ascending order, with distances and predecessors.

    `distances` are in edges. `before` is the position in `nodes` of the predecessor of each node on
    its path; the source is its own predecessor.
    """

    nodes: Ordinals
    distances: Ordinals
    before: Ordinals


@dataclass(frozen=True, slots=True)
class Paths:
    """Concatenated paths: the i-th is `nodes[starts[i]:starts[i + 1]]`."""

    starts: Ordinals
    nodes: Ordinals


def reach(network: Network, source: int, *, direction: Direction, hops_max: int | None) -> Reached:
    """The nodes that are reachable from a node within `hops_max` edges; None means any number."""
    neighbours = find_neighbours(network, direction)
    distances = np.full(network.node_count, _UNREACHED, np.int64)
    before = np.full(network.node_count, _UNREACHED, np.int64)
    distances[source], before[source] = 0, source
    # The frontier is in the order of its paths, so the first path to meet a node is the smallest.
    frontier = np.array([source])
    hops = 0
    while len(frontier) and hops != hops_max:
        hops += 1
        owners, met = neighbours.gather(frontier)
        is_new = distances[met] == _UNREACHED
        owners, met = owners[is_new], met[is_new]
        turns = np.arange(len(met))
        # Of several values assigned to one position the last one wins: here that of the first turn.
        distances[met[::-1]] = turns[::-1]
        is_first = distances[met] == turns
        owners, met = owners[is_first], met[is_first]
        distances[met], before[met] = hops, frontier[owners]
        # The neighbours of each owner are ascending, so this is again the order of the paths.
        frontier = met
    nodes = np.flatnonzero(distances != _UNREACHED)
    return Reached(nodes, distances[nodes], np.searchsorted(nodes, before[nodes]))


def trace(reached: Reached) -> Paths:
    """The path to each reached node, from the source to the node itself."""
    starts = np.concatenate([[0], np.cumsum(reached.distances + 1)])
    nodes = np.empty(starts[-1], np.int64)
    places, ends = np.arange(len(reached.nodes)), starts[1:] - 1
    while len(places):
        nodes[ends] = reached.nodes[places]
        is_left = reached.distances[places] > 0
        places, ends = reached.before[places[is_left]], ends[is_left] - 1
    return Paths(starts, nodes)
