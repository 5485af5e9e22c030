"""Adjacency of edge types in compressed sparse rows (CSR), and breadth-first reachability.

A topology belongs to one immutable version of an edge table, so every branch and commit that pins
the version shares it. The adjacency of a version that differs little from a cached one is the
cached adjacency with a few rows replaced. The cache is bounded and safe to share between threads. A
search visits each pair of start and node once, at its shortest distance. Rows of node tables are
not read here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock, Thread
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import Direction
from omnigraph.engine.read.budget import Budget, CacheMemory, LruCache, UseCounter
from omnigraph.engine.read.entities import (
    UNBOUND,
    ChangedEntities,
    EntityIndex,
    IndexKey,
    Marks,
    Ordinals,
    TableEntities,
    WholeEntities,
    one_chunk,
    to_ordinals,
)
from omnigraph.model.errors import GraphError
from omnigraph.model.limits import USE_COUNTERS_MAX
from omnigraph.model.runtime import lazy_module
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = lazy_module("scipy.sparse")

_LOG = logging.getLogger(__name__)

_ENDS = ("src", "dst")

_PREPARED_EDGE_BYTES = 16
"""The memory of an edge in an adjacency with the ordinals of edges."""

_PREPARATIONS_MAX = 3
"""How often an adjacency is prepared again after it was evicted."""

_MATRIX_EDGES_MIN = 1_000_000
"""Edges above which sparse matrix products save more time than importing scipy takes."""


_Compact = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Topology:
    """Edges as pairs of integers: `sources` and `targets` are positions in `ids`, one per edge.

    `ordinals` are those of the edges; None if they are the positions.
    """

    ids: pa.Array
    sources: Ordinals
    targets: Ordinals
    ordinals: Ordinals | None

    @property
    def nbytes(self) -> int:
        """The memory size in bytes."""
        return int(self.ids.nbytes + self.sources.nbytes + self.targets.nbytes)


def make_topology(
    sources: pa.ChunkedArray, targets: pa.ChunkedArray, *, ordinals: Ordinals | None
) -> Topology:
    """The topology of edges given by the ids of their ends."""
    count = len(sources)
    ends = pa.chunked_array([*sources.chunks, *targets.chunks], pa.string())
    encoded = one_chunk(ends.dictionary_encode())
    places = to_ordinals(encoded.indices)
    return Topology(encoded.dictionary, places[:count], places[count:], ordinals)


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of every entity in an index: those of c are `ends[starts[c]:starts[c+1]]`.

    `edges` holds the ordinal of the edge that leads to each neighbour. It is None where parallel
    edges count once. The adjacency is complete if no edge has an end that its index lacks.
    """

    starts: Ordinals
    ends: _Compact
    edges: _Compact | None
    target_count: int
    is_complete: bool

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
        return int(self.starts.nbytes + self.ends.nbytes + 8 * len(self.ends) + edges)

    @property
    def source_count(self) -> int:
        """The number of ordinals that may have neighbours."""
        return len(self.starts) - 1

    @property
    def entry_count(self) -> int:
        """The number of neighbours of all ordinals."""
        return len(self.ends)

    def degrees_at(self, ordinals: Ordinals) -> Ordinals:
        """The number of neighbours of some ordinals."""
        return self.degrees[ordinals]

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
        """For each neighbour, the position of its owner in `ordinals`, and its own place."""
        return _spread(self.starts[ordinals], self.degrees[ordinals])

    def ends_at(self, places: Ordinals) -> Ordinals:
        """The ordinals of the neighbours at some places."""
        return self.ends[places].astype(np.int64)

    def edges_at(self, places: Ordinals) -> Ordinals:
        """The ordinals of the edges that lead to the neighbours at some places."""
        assert self.edges is not None, "an adjacency for bound edges has their ordinals"
        return self.edges[places].astype(np.int64)


@dataclass(frozen=True)
class ChangedAdjacency:
    """An adjacency of which some ordinals have other neighbours; see `Adjacency`.

    `sources` are these ordinals, ascending, and `changed` holds the neighbours of each of them. The
    places of these neighbours follow those of the base.
    """

    base: Adjacency
    sources: Ordinals
    changed: Adjacency
    source_count: int
    target_count: int

    @property
    def nbytes(self) -> int:
        """The memory size in bytes, without the base."""
        return self.sources.nbytes + self.changed.nbytes

    @property
    def entry_count(self) -> int:
        """About the number of neighbours of all ordinals."""
        return self.base.entry_count + self.changed.entry_count

    @cached_property
    def degrees(self) -> Ordinals:
        """The number of neighbours of each ordinal."""
        return self._replace(self.base.degrees, self.changed.degrees)

    def degrees_at(self, ordinals: Ordinals) -> Ordinals:
        """The number of neighbours of some ordinals."""
        return self._locate(ordinals)[1]

    def degrees_among(self, marks: Marks) -> Ordinals:
        """The number of marked neighbours of each ordinal."""
        old = self.base.degrees_among(marks[: self.base.target_count])
        return self._replace(old, self.changed.degrees_among(marks))

    def push(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The sum at each target of the weights of the ordinals that are adjacent to it."""
        unchanged = weights[: self.base.source_count].copy()
        unchanged[self.sources[self.sources < self.base.source_count]] = 0
        arrived = self.changed.push(weights[self.sources])
        arrived[: self.base.target_count] += self.base.push(unchanged)
        return arrived

    def gather(self, ordinals: Ordinals) -> tuple[Ordinals, Ordinals]:
        """For each neighbour, the position of its owner in `ordinals`, and its own place."""
        return _spread(*self._locate(ordinals))

    def ends_at(self, places: Ordinals) -> Ordinals:
        """The ordinals of the neighbours at some places."""
        return self._pick(places, self.base.ends_at, self.changed.ends_at)

    def edges_at(self, places: Ordinals) -> Ordinals:
        """The ordinals of the edges that lead to the neighbours at some places."""
        return self._pick(places, self.base.edges_at, self.changed.edges_at)

    def _replace(self, old: Ordinals, new: Ordinals) -> Ordinals:
        replaced = np.zeros(self.source_count, np.int64)
        replaced[: len(old)] = old
        replaced[self.sources] = new
        return replaced

    def _locate(self, ordinals: Ordinals) -> tuple[Ordinals, Ordinals]:
        """The place of the first neighbour, and the number of neighbours, of some ordinals."""
        rows = np.searchsorted(self.sources, ordinals)
        # No ordinal is equal to the element that is appended.
        is_changed = np.append(self.sources, UNBOUND)[rows] == ordinals
        # Ordinals after those of the base have neighbours only if they are among the changed ones.
        old = np.where(ordinals < self.base.source_count, ordinals, 0)
        if not self.base.source_count:
            starts, counts = np.zeros_like(old), np.zeros_like(old)
        else:
            starts, counts = self.base.starts[old], self.base.degrees[old]
        counts[old != ordinals] = 0
        starts[is_changed] = self.base.entry_count + self.changed.starts[rows[is_changed]]
        counts[is_changed] = self.changed.degrees[rows[is_changed]]
        return starts, counts

    def _pick(
        self,
        places: Ordinals,
        old: Callable[[Ordinals], Ordinals],
        new: Callable[[Ordinals], Ordinals],
    ) -> Ordinals:
        is_new = places >= self.base.entry_count
        if not is_new.any():
            return old(places)
        found = np.empty(len(places), np.int64)
        found[is_new] = new(places[is_new] - self.base.entry_count)
        found[~is_new] = old(places[~is_new])
        return found


AnyAdjacency = Adjacency | ChangedAdjacency


def _spread(starts: Ordinals, counts: Ordinals) -> tuple[Ordinals, Ordinals]:
    """Ranges of places, each given by its start and length, as the owner and place of each."""
    owners = np.repeat(np.arange(len(starts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    within = np.arange(len(owners), dtype=np.int64) - before[owners]
    return owners, starts[owners] + within


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
    rows, columns, edges = _find_steps(topology, direction, source, target)
    step_count = len(topology.sources)
    if direction is Direction.BOTH:
        step_count += int(np.count_nonzero(topology.sources != topology.targets))
    is_complete = len(rows) == step_count
    if keeps_edges:
        positions = np.arange(len(rows), dtype=np.int64)
        first, order = _compress(rows, positions, height=source.size, width=len(rows))
        ends, numbers = _compact(columns[order]), _compact(edges[order])
        return Adjacency(first, ends, numbers, target.size, is_complete)
    first, found = _compress(rows, columns, height=source.size, width=target.size)
    return Adjacency(first, _compact(found), None, target.size, is_complete)


def _compact(numbers: Ordinals) -> _Compact:
    """The same numbers in half the memory if they fit."""
    is_small = numbers.max(initial=0) <= np.iinfo(np.int32).max
    return numbers.astype(np.int32) if is_small else numbers


def _find_steps(
    topology: Topology, direction: Direction, source: EntityIndex, target: EntityIndex
) -> tuple[Ordinals, Ordinals, Ordinals]:
    """The ordinals of both ends and of the edge of each step; without ends that do not exist."""
    starts, ends, edges = _orient(topology, direction)
    rows, columns = source.find(topology.ids)[starts], target.find(topology.ids)[ends]
    are_there = (rows != UNBOUND) & (columns != UNBOUND)
    if are_there.all():
        return rows, columns, edges
    return rows[are_there], columns[are_there], edges[are_there]


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
    """The position of the near and of the far end of each step along an edge, and its ordinal."""
    sources, targets, edges = topology.sources, topology.targets, topology.ordinals
    if edges is None:
        edges = np.arange(len(sources), dtype=np.int64)
    match direction:
        case Direction.OUT:
            return sources, targets, edges
        case Direction.IN:
            return targets, sources, edges
        case Direction.BOTH:
            # A self-loop counts once, although it is incident to its node at both ends.
            is_step = sources != targets
            return (
                np.concatenate([sources, targets[is_step]]),
                np.concatenate([targets, sources[is_step]]),
                np.concatenate([edges, edges[is_step]]),
            )


def change_adjacency(
    base: Adjacency,
    detailed: Adjacency,
    edges: WholeEntities,
    *,
    direction: Direction,
    source: WholeEntities,
    target: WholeEntities,
) -> ChangedAdjacency:
    """The adjacency of edges whose base has the complete adjacency `base`.

    `detailed` is the same adjacency, with the ordinals of edges if an edge of the base was dropped.
    """
    left, rows, columns, steps, dropped = [np.zeros(0, np.int64)] * 5
    if isinstance(edges, ChangedEntities):
        dropped = edges.delta.dropped
        old = _read_topology(edges.base, dropped)
        left = source.find(old.ids)[_orient(old, direction)[0]]
        changed_ends = edges.delta.rows["src"], edges.delta.rows["dst"]
        new = make_topology(*changed_ends, ordinals=edges.delta.ordinals)
        rows, columns, steps = _find_steps(new, direction, source, target)
    sources = np.unique(np.concatenate([left[left != UNBOUND], rows]))
    owners, places = detailed.gather(sources[sources < detailed.source_count])
    ends = detailed.ends_at(places)
    if len(dropped):
        is_left = np.isin(detailed.edges_at(places), dropped, invert=True)
        owners, places, ends = owners[is_left], places[is_left], ends[is_left]
    owners = np.concatenate([owners, np.searchsorted(sources, rows)])
    ends = np.concatenate([ends, columns])
    if base.edges is None:
        starts, ends = _compress(owners, ends, height=len(sources), width=target.size)
        changed = Adjacency(starts, ends, None, target.size, is_complete=True)
    else:
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=len(sources))
        numbers = np.concatenate([detailed.edges_at(places), steps])[order]
        starts = np.concatenate([[0], np.cumsum(counts)])
        changed = Adjacency(starts, ends[order], numbers, target.size, is_complete=True)
    return ChangedAdjacency(base, sources, changed, source.size, target.size)


@dataclass(frozen=True, slots=True)
class Ends:
    """What an adjacency connects: the edges of a type, from the nodes of one type to another's."""

    edges: WholeEntities
    source: WholeEntities
    target: WholeEntities
    direction: Direction
    keeps_edges: bool

    @property
    def indexes(self) -> tuple[WholeEntities, WholeEntities, WholeEntities]:
        """The entity indexes of the edges and of both ends."""
        return self.edges, self.source, self.target

    @property
    def base(self) -> Ends:
        """The same adjacency in the versions that are the bases of these."""
        edges, source, target = (each.base for each in self.indexes)
        return Ends(edges, source, target, self.direction, self.keeps_edges)

    @property
    def key(self) -> _EndsKey:
        """The cache key."""
        ends = self.source.key, self.target.key
        return self.edges.key, *ends, self.direction, self.keeps_edges


_EndsKey = tuple[IndexKey, IndexKey, IndexKey, Direction, bool]


class AdjacencyCache:
    """Topologies of edge tables and the adjacency derived from them, shared by all reads."""

    def __init__(self, memory: CacheMemory) -> None:
        self._memory = memory
        self._topologies: LruCache[TableVersion, Topology] = LruCache(
            memory, name="edges", size_of=lambda each: each.nbytes
        )
        self._adjacency: LruCache[_EndsKey, AnyAdjacency] = LruCache(
            memory, name="adjacency", size_of=lambda each: each.nbytes
        )
        self._probed: UseCounter[TableVersion] = UseCounter(keys_max=USE_COUNTERS_MAX)
        self._prepared: UseCounter[_EndsKey] = UseCounter(keys_max=USE_COUNTERS_MAX)
        self._lock = Lock()
        self._preparation: Thread | None = None

    def is_cached(self, at: TableVersion) -> bool:
        """Whether the edges of a version are cached."""
        return at in self._topologies or any(at == edges for (edges, _), *_rest in self._adjacency)

    def has_adjacency(self, ends: Ends) -> bool:
        """Whether an adjacency, or that of its base, is cached."""
        return ends.base.key in self._adjacency

    def note_probe(self, at: TableVersion) -> int:
        """Count one index lookup of edges in a version and return the number of lookups."""
        return self._probed.note(at)

    def probes(self, at: TableVersion) -> int:
        """The number of index lookups of edges in a version."""
        return self._probed.count(at)

    def topology(self, at: TableVersion, *, tables: RowReader) -> Topology:
        """All edges of a version, read now if they are not cached."""

        def read() -> Topology:
            rows = tables.scan(at, columns=_ENDS, predicate=None)
            return make_topology(rows["src"], rows["dst"], ordinals=None)

        return self._topologies.get(at, read)

    def prepare(self, ends: Ends, *, tables: RowReader) -> None:
        """Begin to cache an adjacency in the background, one at a time.

        Does nothing if the adjacency would exceed the cache or was prepared and evicted repeatedly.
        """
        with self._lock:
            if self._preparation is not None and self._preparation.is_alive():
                return
            size = ends.edges.base.size * _PREPARED_EDGE_BYTES
            if size > self._memory.bytes_max // 2:
                return
            if self._prepared.note(ends.base.key) > _PREPARATIONS_MAX:
                return
            self._preparation = Thread(
                target=self._prepare,
                args=(ends.base, tables),
                name="omnigraph-adjacency",
                daemon=True,
            )
            self._preparation.start()

    def _prepare(self, ends: Ends, tables: RowReader) -> None:
        try:
            self.adjacency(ends, tables=tables)
        except GraphError as error:
            # The version may have been deleted since; a query that needs it reports the fault.
            _LOG.debug("cannot cache the edges of '%s': %s", ends.edges.at.ref.path, error)

    def adjacency(self, ends: Ends, *, tables: RowReader) -> AnyAdjacency:
        """An adjacency, made now if it is not cached."""
        edges, source, target = ends.indexes

        def make() -> AnyAdjacency:
            return make_adjacency(
                self._topology_of(edges, tables),
                direction=ends.direction,
                source=source,
                target=target,
                keeps_edges=ends.keeps_edges,
            )

        if all(isinstance(each, TableEntities) for each in ends.indexes):
            return self._adjacency.get(ends.key, make)

        def change() -> AnyAdjacency:
            base = self._base(ends.base, tables)
            if not base.is_complete:
                # An edge of the base may have an end that exists in this version.
                return make()
            has_dropped = isinstance(edges, ChangedEntities) and len(edges.delta.dropped) > 0
            keeps_edges = ends.keeps_edges or has_dropped
            detailed = self._base(replace(ends.base, keeps_edges=keeps_edges), tables)
            return change_adjacency(
                base, detailed, edges, direction=ends.direction, source=source, target=target
            )

        return self._adjacency.get(ends.key, change)

    def _base(self, ends: Ends, tables: RowReader) -> Adjacency:
        found = self.adjacency(ends, tables=tables)
        assert isinstance(found, Adjacency), "a base has no base"
        return found

    def _topology_of(self, edges: WholeEntities, tables: RowReader) -> Topology:
        if isinstance(edges, TableEntities):
            return self.topology(edges.at, tables=tables)
        return _read_topology(edges, edges.present())


def _read_topology(edges: WholeEntities, ordinals: Ordinals) -> Topology:
    """The topology of some edges."""
    sources, targets = (
        pa.chunked_array([edges.values(name, pa.string(), ordinals)]) for name in _ENDS
    )
    return make_topology(sources, targets, ordinals=ordinals)


_MARKED_PAIRS_MAX = 64 * 1024 * 1024
"""Pairs of start and node up to which a bitmap of all pairs is the fastest visited set."""


def breadth_first_reach(
    adjacency: AnyAdjacency, *, starts: Ordinals, hops_min: int, hops_max: int, budget: Budget
) -> Adjacency:
    """The nodes that each start reaches within the hop bounds, one row for each of `starts`.

    Both ends of the adjacency must use one entity index. Raises if a hop exceeds the budget.
    """
    width = adjacency.target_count
    met = _Met(starts, width)
    owners = np.arange(len(starts), dtype=np.int64)
    frontier, found = starts, []
    for hop in range(1, hops_max + 1):
        budget.require_rows(int(adjacency.degrees_at(frontier).sum()), width=4)
        whose, places = adjacency.gather(frontier)
        ends = adjacency.ends_at(places)
        keys = owners[whose] * width + ends
        if hop == 1 and hops_min == 1:
            found.append(_distinct(keys[ends == starts[owners[whose]]]))
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
    return Adjacency(starts.astype(np.int64), ends, None, width, is_complete=True)
