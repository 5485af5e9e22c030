"""Adjacency of edge types in compressed sparse rows (CSR), and breadth-first reachability.

A topology belongs to one immutable version of an edge table, so every branch and commit that pins
the version shares it. The cache is bounded and safe to share between threads. A search visits each
pair of start and node once, at its shortest distance. Rows of node tables are not read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import Direction
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.entities import (
    UNBOUND,
    EntityIndex,
    LruCache,
    Marks,
    Ordinals,
    TableEntities,
    UseCounter,
    one_chunk,
    to_ordinals,
)
from omnigraph.model.limits import CACHED_TOPOLOGY_BYTES_MAX, USE_COUNTERS_MAX
from omnigraph.model.ports import Observer
from omnigraph.model.runtime import lazy_module
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = lazy_module("scipy.sparse")

_MATRIX_EDGES_MIN = 1_000_000
"""Edges above which sparse matrix products save more time than importing scipy takes."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Edges as pairs of integers: `sources` and `targets` are positions in `ids`, one per edge."""

    ids: pa.Array
    sources: Ordinals
    targets: Ordinals

    @property
    def nbytes(self) -> int:
        """The memory size in bytes."""
        return int(self.ids.nbytes + self.sources.nbytes + self.targets.nbytes)


def make_topology(sources: pa.ChunkedArray, targets: pa.ChunkedArray) -> Topology:
    """The topology of edges given by the ids of their ends."""
    count = len(sources)
    ends = pa.chunked_array([*sources.chunks, *targets.chunks], pa.string())
    encoded = one_chunk(ends.dictionary_encode())
    places = to_ordinals(encoded.indices)
    return Topology(encoded.dictionary, places[:count], places[count:])


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of every entity in an index: those of c are `ends[starts[c]:starts[c+1]]`.

    `edges` holds the position in the topology of the edge that leads to each neighbour. It is None
    where parallel edges count once.
    """

    starts: Ordinals
    ends: Ordinals
    edges: Ordinals | None
    target_count: int

    @cached_property
    def degrees(self) -> Ordinals:
        """The number of neighbours of each ordinal."""
        return np.diff(self.starts)

    @cached_property
    def _matrix(self) -> sparse.csr_matrix:
        """A matrix with a one for every edge; parallel edges are separate entries and add up."""
        shape = (len(self.starts) - 1, self.target_count)
        return sparse.csr_matrix((np.ones(len(self.ends)), self.ends, self.starts), shape=shape)

    @property
    def nbytes(self) -> int:
        """The memory size in bytes, including the values of the matrix."""
        edges = 0 if self.edges is None else self.edges.nbytes
        return int(self.starts.nbytes + 2 * self.ends.nbytes + edges)

    def degrees_among(self, marks: Marks) -> Ordinals:
        """The number of marked neighbours of each ordinal."""
        if len(self.ends) < _MATRIX_EDGES_MIN:
            before = np.concatenate([[0], np.cumsum(marks[self.ends], dtype=np.int64)])
            return np.diff(before[self.starts])
        counted: npt.NDArray[np.float64] = self._matrix @ marks.astype(np.float64)
        return counted.astype(np.int64)

    def push(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum at each target of the weights of the ordinals that are adjacent to it.

        Exact as long as every weight fits into 53 bits.
        """
        if len(self.ends) < _MATRIX_EDGES_MIN:
            sent = np.repeat(weights, self.degrees)
            counted = np.bincount(self.ends, weights=sent, minlength=self.target_count)
            return counted.astype(np.float64, copy=False)
        arrived: npt.NDArray[np.float64] = self._matrix.T @ weights
        return arrived

    def gather(self, ordinals: Ordinals) -> tuple[Ordinals, Ordinals]:
        """For each neighbour, the position of its owner in `ordinals` and its own in `ends`."""
        counts = self.degrees[ordinals]
        owners = np.repeat(np.arange(len(ordinals), dtype=np.int64), counts)
        before = np.cumsum(counts) - counts
        within = np.arange(len(owners), dtype=np.int64) - before[owners]
        return owners, self.starts[ordinals][owners] + within


def make_adjacency(
    topology: Topology,
    *,
    direction: Direction,
    source: EntityIndex,
    target: EntityIndex,
    keeps_edges: bool,
) -> Adjacency:
    """The neighbours that entities of the source index have in the target index.

    Edges with an end that its index lacks are left out. Without `keeps_edges`, parallel edges count
    as one.
    """
    starts, ends, edges = _orient(topology, direction)
    rows, columns = source.find(topology.ids)[starts], target.find(topology.ids)[ends]
    are_there = (rows != UNBOUND) & (columns != UNBOUND)
    if not are_there.all():
        rows, columns, edges = rows[are_there], columns[are_there], edges[are_there]
    if keeps_edges:
        numbered = np.arange(len(rows), dtype=np.int64)
        first, order = _compress(rows, numbered, height=source.size, width=len(rows))
        return Adjacency(first, columns[order], edges[order], target.size)
    first, found = _compress(rows, columns, height=source.size, width=target.size)
    return Adjacency(first, found, None, target.size)


def _compress(
    rows: Ordinals, columns: Ordinals, *, height: int, width: int
) -> tuple[Ordinals, Ordinals]:
    """The offset at which the columns of each row start, and the distinct columns in order."""
    # Row and column are packed into one integer, because numpy sorts integers faster than scipy
    # builds a matrix.
    places = rows * width + columns
    places.sort()
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = places[1:] != places[:-1]
    sorted_rows, found = np.divmod(places[is_first], max(width, 1))
    counts = np.bincount(sorted_rows, minlength=height)
    return np.concatenate([[0], np.cumsum(counts)]), found


def _orient(topology: Topology, direction: Direction) -> tuple[Ordinals, Ordinals, Ordinals]:
    edges = np.arange(len(topology.sources), dtype=np.int64)
    match direction:
        case Direction.OUT:
            return topology.sources, topology.targets, edges
        case Direction.IN:
            return topology.targets, topology.sources, edges
        case Direction.BOTH:
            # A self-loop counts once, although it is incident to its node at both ends.
            is_loop = topology.sources == topology.targets
            back = edges[~is_loop]
            return (
                np.concatenate([topology.sources, topology.targets[back]]),
                np.concatenate([topology.targets, topology.sources[back]]),
                np.concatenate([edges, back]),
            )


@dataclass(frozen=True, slots=True)
class _Ends:
    """The cache key of an adjacency: the versions of the edge table and of both node tables."""

    edges: TableVersion
    source: TableVersion
    target: TableVersion
    direction: Direction
    keeps_edges: bool


class AdjacencyCache:
    """Topologies of edge tables and the adjacency derived from them, shared by all reads."""

    def __init__(self, observer: Observer) -> None:
        self._topologies: LruCache[TableVersion, Topology] = LruCache(
            bytes_max=CACHED_TOPOLOGY_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )
        self._adjacency: LruCache[_Ends, Adjacency] = LruCache(
            bytes_max=CACHED_TOPOLOGY_BYTES_MAX // 2, size_of=lambda each: each.nbytes
        )
        self._probed: UseCounter[TableVersion] = UseCounter(keys_max=USE_COUNTERS_MAX)

    def is_cached(self, at: TableVersion) -> bool:
        """Whether the edges of a version are cached."""
        return at in self._topologies

    def note_probe(self, at: TableVersion) -> None:
        """Count one index lookup of edges in a version."""
        self._probed.note(at)

    def probes(self, at: TableVersion) -> int:
        """The number of index lookups of edges in a version."""
        return self._probed.count(at)

    def topology(self, at: TableVersion, *, tables: RowReader) -> Topology:
        """All edges of a version, read now if they are not cached."""

        def read() -> Topology:
            rows = tables.scan(at, columns=["src", "dst"], predicate=None)
            return make_topology(rows["src"], rows["dst"])

        return self._topologies.get(at, read)

    def adjacency(
        self,
        at: TableVersion,
        *,
        direction: Direction,
        source: EntityIndex,
        target: TableEntities,
        keeps_edges: bool,
        tables: RowReader,
    ) -> Adjacency:
        """Adjacency over all edges of a version, cached if it is between whole tables."""

        def make() -> Adjacency:
            return make_adjacency(
                self.topology(at, tables=tables),
                direction=direction,
                source=source,
                target=target,
                keeps_edges=keeps_edges,
            )

        if not isinstance(source, TableEntities):
            return make()
        return self._adjacency.get(_Ends(at, source.at, target.at, direction, keeps_edges), make)


_MARKED_PAIRS_MAX = 64 * 1024 * 1024
"""Pairs of start and node up to which a bitmap of all pairs is the fastest visited set."""


def breadth_first_reach(
    adjacency: Adjacency, *, starts: Ordinals, hops_min: int, hops_max: int, budget: Budget
) -> Adjacency:
    """The nodes that each start reaches within the hop bounds, one row for each of `starts`.

    Both ends of the adjacency must use one entity index. Raises if a hop exceeds the budget.
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
    """The visited pairs, each as one integer: position of the start times width, plus node."""

    def __init__(self, starts: Ordinals, width: int) -> None:
        pairs = np.arange(len(starts), dtype=np.int64) * width + starts
        self._marks: Marks | None = None
        self._pairs = pairs
        if len(starts) * width <= _MARKED_PAIRS_MAX:
            self._marks = np.zeros(len(starts) * width, np.bool_)
            self._marks[pairs] = True

    def add(self, keys: Ordinals) -> Ordinals:
        """Add pairs and return those that are new, distinct and in order."""
        if self._marks is not None:
            unmet = _distinct(keys[~self._marks[keys]])
            self._marks[unmet] = True
            return unmet
        met = _distinct(keys)
        places = np.searchsorted(self._pairs, met)
        is_known = np.append(self._pairs, -1)[places] == met
        new: Ordinals = met[~is_known]
        self._pairs = np.sort(np.concatenate([self._pairs, new]))
        return new


def _distinct(keys: Ordinals) -> Ordinals:
    """Distinct numbers in order; `np.unique` hashes them, which is far slower."""
    ordered = np.sort(keys)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _as_adjacency(found: list[Ordinals], *, count: int, width: int) -> Adjacency:
    keys = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
    owners, ends = np.divmod(keys, max(width, 1))
    starts = np.searchsorted(owners, np.arange(count + 1))
    return Adjacency(starts.astype(np.int64), ends, None, width)
