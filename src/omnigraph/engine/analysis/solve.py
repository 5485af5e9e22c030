"""The local executor of graph algorithms: reads a network and computes one request as Arrow rows.

Rows are ordered by type and id. Memory is bounded: a network that exceeds the budget raises
`LimitExceededError`. Ids and endpoints come from the caches that queries use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.analysis.network import (
    Network,
    count_degrees,
    count_triangles,
    find_components,
    find_cores,
    rank_nodes,
    reach,
    spread_labels,
    trace,
)
from omnigraph.engine.analysis.requests import (
    NOT_ITERATIVE,
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    LabelsRequest,
    PathsRequest,
    Progression,
    RankRequest,
    Request,
    Selection,
    TrianglesRequest,
)
from omnigraph.engine.ops.query import ReadPath
from omnigraph.engine.read.budget import Budget
from omnigraph.engine.read.cache import Sources
from omnigraph.engine.read.entities import UNBOUND, Ordinals, find_all
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import LimitExceededError, NotFoundError
from omnigraph.model.limits import (
    ANALYSIS_BYTES_MAX,
    ANALYSIS_EDGE_BYTES,
    ANALYSIS_NODE_BYTES,
    ANALYSIS_PATH_BYTES_MAX,
    ANALYSIS_WEDGES_MAX,
)
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.row_files import arrow_type


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """The numbering of the nodes of some types: ids, type by type, and the start of each type."""

    titles: tuple[str, ...]
    starts: tuple[int, ...]
    ids: pa.ChunkedArray

    def types_of(self, nodes: Ordinals) -> pa.Array:
        """The type names of nodes."""
        places = np.searchsorted(np.array(self.starts), nodes, "right") - 1
        return pa.array(self.titles, pa.string()).take(pa.array(places))

    def ids_of(self, nodes: Ordinals) -> pa.Array:
        """The ids of nodes."""
        taken = self.ids.take(pa.array(nodes))
        return pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.array([], pa.string())

    def find(self, node: tuple[str, str]) -> int | None:
        """The number of a node; None if it does not exist."""
        title, id = node
        place = self.titles.index(title)
        end = self.starts[place + 1] if place + 1 < len(self.starts) else len(self.ids)
        own = self.ids.slice(self.starts[place], end - self.starts[place]).combine_chunks()
        (found,) = find_all(pa.array([id], pa.string()), own)
        return None if found == UNBOUND else int(found) + self.starts[place]


def read_network(
    selection: Selection, *, basis: Basis, path: ReadPath
) -> tuple[Network, NodeIndex]:
    """The network of a selection at a commit, and the index of its nodes."""
    return _Reading(selection, basis, path).read()


class _Reading:
    """Reads one selection."""

    def __init__(self, selection: Selection, basis: Basis, path: ReadPath) -> None:
        self._selection, self._basis, self._tables = selection, basis, basis.reader(path.tables)
        # An id column alone may exceed the memory that a query may use.
        allowance = replace(path.allowance, bytes_max=ANALYSIS_BYTES_MAX)
        self._cache = path.cache.of(path.tables.generation())
        self._sources = Sources(
            basis.snapshot,
            catalog=basis.catalog,
            tables=self._tables,
            cache=self._cache,
            budget=Budget(allowance),
            uses_bases=False,
        )
        self._number_by_type: dict[str, Ordinals] = {}

    def read(self) -> tuple[Network, NodeIndex]:
        self._require_memory()
        chunks, starts, count = [], [], 0
        for declared in self._selection.nodes:
            ids, numbers = self._arrange(declared)
            chunks.append(ids)
            starts.append(count)
            self._number_by_type[declared.name] = numbers + count
            count += len(ids)
        pairs = [self._pair(each) for each in self._selection.edges]
        sources, targets = map(np.concatenate, zip(*pairs, strict=True))
        ids = pa.chunked_array(chunks, pa.string())
        members = NodeIndex(self._selection.titles, tuple(starts), ids)
        return Network(count, sources, targets), members

    def _arrange(self, declared: NodeType) -> tuple[pa.Array, Ordinals]:
        """The ids of a type in order, and the position of each of its ordinals in that order."""
        if table_key_of(declared) not in self._basis.snapshot.entries:
            # A type that was added after the snapshot has no rows in it.
            return pa.array([], pa.string()), np.zeros(0, np.int64)
        index = self._sources.nodes(declared.name)
        order = np.argsort(index.id_keys(index.every()), kind="stable")
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order))
        return index.ids(order), numbers

    def _pair(self, declared: EdgeType) -> tuple[Ordinals, Ordinals]:
        """The node numbers of both endpoints of every edge of a type."""
        entry = self._basis.snapshot.entries.get(table_key_of(declared))
        if entry is None or not entry.row_count:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        topology = self._cache.topologies.topology(entry.at, tables=self._tables)
        sources = self._number(topology.ids, declared.source)[topology.sources]
        targets = self._number(topology.ids, declared.target)[topology.targets]
        is_whole = (sources != UNBOUND) & (targets != UNBOUND)
        if is_whole.all():
            return sources, targets
        return sources[is_whole], targets[is_whole]

    def _number(self, ids: pa.Array, type_name: str) -> Ordinals:
        """The node numbers of ids of a type; `UNBOUND` where the node does not exist."""
        if not len(self._number_by_type[type_name]):
            return np.full(len(ids), UNBOUND)
        ordinals = self._sources.nodes(type_name).find(ids)
        return np.append(self._number_by_type[type_name], UNBOUND)[ordinals]

    def _require_memory(self) -> None:
        entries = self._basis.snapshot.entries
        edges, nodes = (
            sum(entries[key].row_count for key in map(table_key_of, types) if key in entries)
            for types in (self._selection.edges, self._selection.nodes)
        )
        needed = edges * ANALYSIS_EDGE_BYTES + nodes * ANALYSIS_NODE_BYTES
        if needed > ANALYSIS_BYTES_MAX:
            raise LimitExceededError(
                resource='the memory of an analysis with engine="local" in bytes',
                limit=ANALYSIS_BYTES_MAX,
                found=needed,
            )


_PATH = arrow_type(PropertyType(Scalar.STRING, is_list=True))


@dataclass(frozen=True, slots=True)
class Solution:
    """The rows of a result, and the progression of the algorithm."""

    rows: pa.Table
    progression: Progression


def solve(request: Request, network: Network, members: NodeIndex) -> Solution:
    """Compute a request over a network in this process."""
    match request:
        case ComponentsRequest():
            return _of_all(members, _name("component", find_components(network), members))
        case RankRequest(damping, tolerance, iterations_max):
            ranks, progression = rank_nodes(
                network, damping=damping, tolerance=tolerance, iterations_max=iterations_max
            )
            return replace(_of_all(members, {"rank": pa.array(ranks)}), progression=progression)
        case PathsRequest():
            return _solve_paths(request, network, members)
        case TrianglesRequest():
            counts = count_triangles(network, wedges_max=ANALYSIS_WEDGES_MAX)
            return _of_all(members, {"triangles": pa.array(counts)})
        case LabelsRequest(iterations_max):
            labels, progression = spread_labels(network, iterations_max=iterations_max)
            solution = _of_all(members, _name("label", labels, members))
            return replace(solution, progression=progression)
        case DegreesRequest():
            arriving, leaving = count_degrees(network)
            values = {"in_degree": arriving, "out_degree": leaving, "degree": arriving + leaving}
            return _of_all(members, {name: pa.array(each) for name, each in values.items()})
        case CoresRequest():
            return _of_all(members, {"core": pa.array(find_cores(network))})


def refuse_source(source: tuple[str, str]) -> NotFoundError:
    """The error for a source node that does not exist."""
    type_name, id = source
    return NotFoundError(kind=type_name, name=id, advice="paths start at a node of the graph")


def _solve_paths(request: PathsRequest, network: Network, members: NodeIndex) -> Solution:
    source = members.find(request.source)
    if source is None:
        raise refuse_source(request.source)
    reached = reach(network, source, direction=request.direction, hops_max=request.hops_max)
    values: dict[str, pa.Array] = {"distance": pa.array(reached.distances)}
    if request.with_paths:
        _require_short(reached.nodes, reached.distances, members)
        ways = trace(reached)
        starts = pa.array(ways.starts, pa.int32())
        types, ids = members.types_of(ways.nodes), members.ids_of(ways.nodes)
        values["path_types"] = pa.ListArray.from_arrays(starts, types, type=_PATH)
        values["path"] = pa.ListArray.from_arrays(starts, ids, type=_PATH)
    return _of_some(reached.nodes, values, members)


def _require_short(nodes: Ordinals, distances: Ordinals, members: NodeIndex) -> None:
    """Raise `LimitExceededError` if the ids of all paths would exceed the memory limit."""
    longest = max(pc.max(pc.binary_length(members.ids_of(nodes))).as_py(), 8)
    found = int((distances + 1).sum()) * longest
    if found > ANALYSIS_PATH_BYTES_MAX:
        raise LimitExceededError(
            resource="the memory of all paths in bytes (with_paths=False and hops_max need less)",
            limit=ANALYSIS_PATH_BYTES_MAX,
            found=found,
        )


def _name(column: str, nodes: Ordinals, members: NodeIndex) -> dict[str, pa.Array]:
    """Nodes as result columns: their types and ids."""
    return {f"{column}_type": members.types_of(nodes), column: members.ids_of(nodes)}


def _of_all(members: NodeIndex, values: dict[str, pa.Array]) -> Solution:
    return _of_some(np.arange(len(members.ids)), values, members)


def _of_some(nodes: Ordinals, values: dict[str, pa.Array], members: NodeIndex) -> Solution:
    identity = {"type": members.types_of(nodes), "id": members.ids_of(nodes)}
    return Solution(pa.table(identity | values), NOT_ITERATIVE)
