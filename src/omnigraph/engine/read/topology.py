"""Topologies: the edges of a type as numbers, and adjacency between two spaces made of them.

A topology belongs to one version of an edge table (or to the edges that a look-up found) and knows
nothing of node tables, so it serves every branch and commit that pins that version. An adjacency
joins it with the spaces of both ends: the neighbours of each entity, compressed row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compiler.ir import Direction
from omnigraph.engine.read.spaces import (
    UNBOUND,
    Codes,
    Marks,
    Space,
    TableSpace,
    one_chunk,
    to_codes,
)
from omnigraph.engine.read.warm import Asked, Warm
from omnigraph.model.deferred import defer
from omnigraph.model.limits import WARM_KEYS_MAX, WARM_TOPOLOGY_BYTES_MAX
from omnigraph.model.observer import Observer
from omnigraph.storage.ports import RowReader, TableVersion

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = defer("scipy.sparse")

_MATRIX_EDGES_MIN = 1_000_000
"""Edges from which products of sparse matrices save more time than importing them takes."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Edges as pairs of numbers: `sources` and `targets` are places in `ids`, edge by edge."""

    ids: pa.Array
    sources: Codes
    targets: Codes

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self.ids.nbytes + self.sources.nbytes + self.targets.nbytes)


def make_topology(sources: pa.ChunkedArray, targets: pa.ChunkedArray) -> Topology:
    """The topology of edges given by the ids of their ends."""
    count = len(sources)
    ends = pa.chunked_array([*sources.chunks, *targets.chunks], pa.string())
    encoded = one_chunk(ends.dictionary_encode())
    places = to_codes(encoded.indices)
    return Topology(encoded.dictionary, places[:count], places[count:])


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of every code of a space: those of code c are `ends[starts[c]:starts[c+1]]`.

    `edges` are the places of the edges that lead there, in the topology; none where parallel edges
    count once.
    """

    starts: Codes
    ends: Codes
    edges: Codes | None
    target_count: int

    @cached_property
    def degrees(self) -> Codes:
        """How many neighbours each code has."""
        return np.diff(self.starts)

    @cached_property
    def _matrix(self) -> sparse.csr_matrix:
        """A one for every edge; parallel edges stand beside each other and add up."""
        shape = (len(self.starts) - 1, self.target_count)
        return sparse.csr_matrix((np.ones(len(self.ends)), self.ends, self.starts), shape=shape)

    @property
    def nbytes(self) -> int:
        """How much memory it takes, with the ones of its matrix."""
        edges = 0 if self.edges is None else self.edges.nbytes
        return int(self.starts.nbytes + 2 * self.ends.nbytes + edges)

    def degrees_among(self, marks: Marks) -> Codes:
        """How many neighbours each code has that are marked."""
        if len(self.ends) < _MATRIX_EDGES_MIN:
            before = np.concatenate([[0], np.cumsum(marks[self.ends], dtype=np.int64)])
            return np.diff(before[self.starts])
        counted: npt.NDArray[np.float64] = self._matrix @ marks.astype(np.float64)
        return counted.astype(np.int64)

    def push(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The weights that arrive at each target when every code sends its own to all neighbours.

        Exact as long as a weight has 53 bits.
        """
        if len(self.ends) < _MATRIX_EDGES_MIN:
            sent = np.repeat(weights, self.degrees)
            counted = np.bincount(self.ends, weights=sent, minlength=self.target_count)
            return counted.astype(np.float64, copy=False)
        arrived: npt.NDArray[np.float64] = self._matrix.T @ weights
        return arrived

    def gather(self, codes: Codes) -> tuple[Codes, Codes]:
        """For each neighbour of each of some codes: whose it is, and its place in `ends`."""
        counts = self.degrees[codes]
        owners = np.repeat(np.arange(len(codes), dtype=np.int64), counts)
        before = np.cumsum(counts) - counts
        within = np.arange(len(owners), dtype=np.int64) - before[owners]
        return owners, self.starts[codes][owners] + within


def make_adjacency(
    topology: Topology, *, direction: Direction, source: Space, target: Space, keeps_edges: bool
) -> Adjacency:
    """The neighbours of the source space in the target space; edges whose end is missing lead
    nowhere. Without `keeps_edges` parallel edges are one."""
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


def _compress(rows: Codes, columns: Codes, *, height: int, width: int) -> tuple[Codes, Codes]:
    """Where the columns of every row start, and these columns in order, each once."""
    # One number for a row and a column: numpy sorts numbers faster than scipy makes a matrix.
    places = rows * width + columns
    places.sort()
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = places[1:] != places[:-1]
    sorted_rows, found = np.divmod(places[is_first], max(width, 1))
    counts = np.bincount(sorted_rows, minlength=height)
    return np.concatenate([[0], np.cumsum(counts)]), found


def _orient(topology: Topology, direction: Direction) -> tuple[Codes, Codes, Codes]:
    edges = np.arange(len(topology.sources), dtype=np.int64)
    match direction:
        case Direction.OUT:
            return topology.sources, topology.targets, edges
        case Direction.IN:
            return topology.targets, topology.sources, edges
        case Direction.BOTH:
            # A self-loop is met once, though it leads there from either end.
            is_loop = topology.sources == topology.targets
            back = edges[~is_loop]
            return (
                np.concatenate([topology.sources, topology.targets[back]]),
                np.concatenate([topology.targets, topology.sources[back]]),
                np.concatenate([edges, back]),
            )


@dataclass(frozen=True, slots=True)
class _Ends:
    """What an adjacency was made of: versions of the edge table and of both node tables."""

    edges: TableVersion
    source: TableVersion
    target: TableVersion
    direction: Direction
    keeps_edges: bool


class WarmTopologies:
    """Topologies of edge tables and adjacency made of them; all reads of a graph share them."""

    def __init__(self, observer: Observer) -> None:
        self._topologies: Warm[TableVersion, Topology] = Warm(
            bytes_max=WARM_TOPOLOGY_BYTES_MAX // 2,
            size_of=lambda each: each.nbytes,
            observer=observer,
        )
        self._adjacency: Warm[_Ends, Adjacency] = Warm(
            bytes_max=WARM_TOPOLOGY_BYTES_MAX // 2, size_of=lambda each: each.nbytes
        )
        self._probed: Asked[TableVersion] = Asked(keys_max=WARM_KEYS_MAX)

    def is_warm(self, at: TableVersion) -> bool:
        """Whether the edges of a version are in memory."""
        return at in self._topologies

    def note_probe(self, at: TableVersion) -> None:
        """Count one more look-up of edges in a version."""
        self._probed.note(at)

    def probes(self, at: TableVersion) -> int:
        """How many look-ups of edges there have been in a version."""
        return self._probed.count(at)

    def topology(self, at: TableVersion, *, tables: RowReader) -> Topology:
        """All edges of a version, read now if they are not in memory."""

        def read() -> Topology:
            rows = tables.scan(at, columns=["src", "dst"], predicate=None)
            return make_topology(rows["src"], rows["dst"])

        return self._topologies.get(at, read)

    def adjacency(
        self,
        at: TableVersion,
        *,
        direction: Direction,
        source: Space,
        target: TableSpace,
        keeps_edges: bool,
        tables: RowReader,
    ) -> Adjacency:
        """Adjacency over all edges of a version; kept if it is between whole tables."""

        def make() -> Adjacency:
            return make_adjacency(
                self.topology(at, tables=tables),
                direction=direction,
                source=source,
                target=target,
                keeps_edges=keeps_edges,
            )

        if not isinstance(source, TableSpace):
            return make()
        return self._adjacency.get(_Ends(at, source.at, target.at, direction, keeps_edges), make)
