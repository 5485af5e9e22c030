"""The in-memory twin of every algorithm: a request over a network becomes an Arrow table.

Rows are in the order of types and ids, which is that of the numbers of nodes. Reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.analysis.connections import (
    count_degrees,
    count_triangles,
    find_components,
    find_cores,
)
from omnigraph.engine.analysis.flows import rank_nodes, spread_labels
from omnigraph.engine.analysis.members import Members
from omnigraph.engine.analysis.network import Network
from omnigraph.engine.analysis.paths import Ways, reach, trace
from omnigraph.engine.analysis.requests import (
    AT_ONCE,
    ComponentsRequest,
    CoresRequest,
    DegreesRequest,
    LabelsRequest,
    PathsRequest,
    Progression,
    RankRequest,
    Request,
    TrianglesRequest,
)
from omnigraph.engine.read.spaces import Codes
from omnigraph.model.errors import LimitExceededError, NotFoundError
from omnigraph.model.limits import ANALYSIS_PATH_BYTES_MAX, ANALYSIS_WEDGES_MAX
from omnigraph.model.types import PropertyType, Scalar
from omnigraph.storage.arrow_schema import arrow_type

_PATH = arrow_type(PropertyType(Scalar.STRING, is_list=True))


@dataclass(frozen=True, slots=True)
class Solution:
    """The rows of an answer, and how it was come by."""

    rows: pa.Table
    progression: Progression


def solve(request: Request, network: Network, members: Members) -> Solution:
    """Work out a request over a network in this process."""
    match request:
        case ComponentsRequest():
            return _of_all(members, _name("component", find_components(network), members))
        case RankRequest(damping, tolerance, iterations_max):
            ranked = rank_nodes(
                network, damping=damping, tolerance=tolerance, iterations_max=iterations_max
            )
            solution = _of_all(members, {"rank": pa.array(ranked.ranks)})
            return replace(solution, progression=ranked.progression)
        case PathsRequest():
            return _solve_paths(request, network, members)
        case TrianglesRequest():
            counts = count_triangles(network, wedges_max=ANALYSIS_WEDGES_MAX)
            return _of_all(members, {"triangles": pa.array(counts)})
        case LabelsRequest(iterations_max):
            spread = spread_labels(network, iterations_max=iterations_max)
            solution = _of_all(members, _name("label", spread.labels, members))
            return replace(solution, progression=spread.progression)
        case DegreesRequest():
            found = count_degrees(network)
            values = {"in_degree": found.arriving, "out_degree": found.leaving}
            values["degree"] = found.arriving + found.leaving
            return _of_all(members, {name: pa.array(each) for name, each in values.items()})
        case CoresRequest():
            return _of_all(members, {"core": pa.array(find_cores(network))})


def refuse_source(source: tuple[str, str]) -> NotFoundError:
    """The error for a node to start from that is not there."""
    type_name, id = source
    return NotFoundError(kind=type_name, name=id, advice="paths start at a node of the graph")


def _solve_paths(request: PathsRequest, network: Network, members: Members) -> Solution:
    source = members.find(request.source)
    if source is None:
        raise refuse_source(request.source)
    reached = reach(network, source, direction=request.direction, hops_max=request.hops_max)
    values: dict[str, pa.Array] = {"distance": pa.array(reached.distances)}
    if request.with_paths:
        _require_short(reached.nodes, reached.distances, members)
        values |= _write_ways(trace(reached), members)
    return _of_some(reached.nodes, values, members)


def _write_ways(ways: Ways, members: Members) -> dict[str, pa.Array]:
    starts = pa.array(ways.starts, pa.int32())
    types, ids = members.types_of(ways.nodes), members.ids_of(ways.nodes)
    return {
        "path_types": pa.ListArray.from_arrays(starts, types, type=_PATH),
        "path": pa.ListArray.from_arrays(starts, ids, type=_PATH),
    }


def _require_short(nodes: Codes, distances: Codes, members: Members) -> None:
    """Raise if paths are so long that their ids cannot be held."""
    longest = max(pc.max(pc.binary_length(members.ids_of(nodes))).as_py(), 8)
    found = int((distances + 1).sum()) * longest
    if found > ANALYSIS_PATH_BYTES_MAX:
        raise LimitExceededError(
            resource="the memory of all paths in bytes (with_paths=False and hops_max need less)",
            limit=ANALYSIS_PATH_BYTES_MAX,
            found=found,
        )


def _name(column: str, nodes: Codes, members: Members) -> dict[str, pa.Array]:
    """Nodes as values: their types and ids."""
    return {f"{column}_type": members.types_of(nodes), column: members.ids_of(nodes)}


def _of_all(members: Members, values: dict[str, pa.Array]) -> Solution:
    return _of_some(np.arange(len(members.ids)), values, members)


def _of_some(nodes: Codes, values: dict[str, pa.Array], members: Members) -> Solution:
    identity = {"type": members.types_of(nodes), "id": members.ids_of(nodes)}
    return Solution(pa.table(identity | values), AT_ONCE)
