"""What spreads over a network round by round: rank, and labels. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from omnigraph.engine.analysis.network import Network, Weights, find_simple_neighbours
from omnigraph.engine.analysis.requests import Progression
from omnigraph.engine.read.spaces import Codes


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of each node after some rounds."""

    ranks: Weights
    progression: Progression


@dataclass(frozen=True, slots=True)
class Labels:
    """The label of each node after some rounds."""

    labels: Codes
    progression: Progression


def rank_nodes(network: Network, *, damping: float, tolerance: float, iterations_max: int) -> Ranks:
    """PageRank: where a walk along edges is that starts anew, anywhere, now and then.

    Each edge is taken as often as any other of its node, parallel ones too; from a node without
    any the walk starts anew. All ranks together are one. It ends when a round changes them by no
    more than the tolerance, summed over all nodes.
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
            return Ranks(ranks, Progression(iteration, has_converged=True))
    return Ranks(ranks, Progression(iterations_max, has_converged=False))


def spread_labels(network: Network, *, iterations_max: int) -> Labels:
    """Label propagation: all nodes at once take the label that most of their neighbours have.

    A node begins with itself as its label. It has a vote at itself as any neighbour has, without
    which two nodes could exchange their labels for ever, and of labels with equally many votes the
    smallest wins, so that there is one outcome. How many edges connect two nodes, and in which
    direction, does not matter.
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
            return Labels(labels, Progression(iteration, has_converged=True))
    return Labels(labels, Progression(iterations_max, has_converged=False))


def _take_most(votes: sparse.csr_matrix, labels: Codes) -> Codes:
    """The label with the most votes for each node, the smallest of several."""
    count = len(labels)
    if not count:
        return labels
    ones = np.ones(count, np.int64)
    chosen = sparse.csr_matrix((ones, labels, np.arange(count + 1)), shape=(count, count))
    # A row holds how many votes each label has at a node; none is empty, for all vote there.
    counted = votes @ chosen
    firsts, sizes = counted.indptr[:-1], np.diff(counted.indptr)
    most = np.maximum.reduceat(counted.data, firsts)
    is_most = counted.data == np.repeat(most, sizes)
    candidates = np.where(is_most, counted.indices, count)
    found: Codes = np.minimum.reduceat(candidates, firsts).astype(np.int64)
    return found
