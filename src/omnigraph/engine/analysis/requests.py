"""Requests for graph algorithms: validated parameters, result columns, and selected types.

Both executors interpret these values and add no meaning of their own. Node types are ordered by
the bytes of their names, so that both executors number nodes alike. The module reads the catalog
and no rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from omnigraph.compiler import ir
from omnigraph.engine.state.manifest import get_edge_type
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.names import parse_word
from omnigraph.model.types import F64, I64, STRING, PropertyType, Scalar

_STRINGS = PropertyType(Scalar.STRING, is_list=True)


@dataclass(frozen=True, slots=True)
class ComponentsRequest:
    """Connected components."""


@dataclass(frozen=True, slots=True)
class RankRequest:
    """PageRank."""

    damping: float
    tolerance: float
    iterations_max: int


@dataclass(frozen=True, slots=True)
class PathsRequest:
    """Shortest paths from one node: distances and, if requested, the paths."""

    source: tuple[str, str]
    direction: ir.Direction
    hops_max: int | None
    with_paths: bool


@dataclass(frozen=True, slots=True)
class TrianglesRequest:
    """Triangle counts."""


@dataclass(frozen=True, slots=True)
class LabelsRequest:
    """Label propagation."""

    iterations_max: int


@dataclass(frozen=True, slots=True)
class DegreesRequest:
    """Node degrees."""


@dataclass(frozen=True, slots=True)
class CoresRequest:
    """Core numbers."""


Request = (
    ComponentsRequest
    | RankRequest
    | PathsRequest
    | TrianglesRequest
    | LabelsRequest
    | DegreesRequest
    | CoresRequest
)


@dataclass(frozen=True, slots=True)
class Progression:
    """The number of iterations of an algorithm, and whether it converged."""

    iterations: int
    has_converged: bool


NOT_ITERATIVE = Progression(1, has_converged=True)
"""The progression of an exact result, however many iterations its engine took."""


@dataclass(frozen=True, slots=True)
class ResultShape:
    """The columns of a result after `type` and `id`, by name; `main` is its principal column."""

    title: str
    main: str
    values: Mapping[str, PropertyType]


def shape_of(request: Request) -> ResultShape:
    """The shape of the result of a request."""
    match request:
        case ComponentsRequest():
            return _shape(
                "connected_components", "component", component_type=STRING, component=STRING
            )
        case RankRequest():
            return _shape("pagerank", "rank", rank=F64)
        case PathsRequest(with_paths=True):
            return _shape(
                "shortest_paths", "distance", distance=I64, path_types=_STRINGS, path=_STRINGS
            )
        case PathsRequest():
            return _shape("shortest_paths", "distance", distance=I64)
        case TrianglesRequest():
            return _shape("triangles", "triangles", triangles=I64)
        case LabelsRequest():
            return _shape("label_propagation", "label", label_type=STRING, label=STRING)
        case DegreesRequest():
            return _shape("degrees", "degree", in_degree=I64, out_degree=I64, degree=I64)
        case CoresRequest():
            return _shape("core_numbers", "core", core=I64)


def parse_rank(*, damping: float, tolerance: float, iterations_max: int) -> RankRequest:
    """Parse the parameters of PageRank; `InvalidValueError` if one is out of range."""
    _require_number("damping", damping)
    if not 0 <= damping < 1:
        raise _refuse("damping", damping, "a number from 0 up to, but not, 1 is needed")
    _require_number("tolerance", tolerance)
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise _refuse("tolerance", tolerance, "a number above 0 is needed")
    _require_count("iterations_max", iterations_max, least=1)
    return RankRequest(float(damping), float(tolerance), iterations_max)


def parse_labels(*, iterations_max: int) -> LabelsRequest:
    """Parse the parameters of label propagation; `InvalidValueError` if one is out of range."""
    _require_count("iterations_max", iterations_max, least=1)
    return LabelsRequest(iterations_max)


def parse_paths(
    source: tuple[str, str], *, direction: str, hops_max: int | None, with_paths: bool
) -> PathsRequest:
    """Parse the parameters of shortest paths; `InvalidValueError` if one is not valid."""
    if hops_max is not None:
        _require_count("hops_max", hops_max, least=0)
    chosen = parse_word(ir.Direction, direction, subject="direction")
    return PathsRequest(source, chosen, hops_max, bool(with_paths))


def _shape(title: str, main: str, **values: PropertyType) -> ResultShape:
    return ResultShape(title, main, MappingProxyType(values))


def _require_number(subject: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(subject, value, f"a number is needed, not a {type(value).__name__}")


def _require_count(subject: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refuse(subject, value, f"a whole number of at least {least} is needed")


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="a parameter of the algorithm", value=value, problem=problem
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Edge types ordered by name, and all node types at their endpoints."""

    edges: tuple[EdgeType, ...]
    nodes: tuple[NodeType, ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of the node types, in order."""
        return tuple(each.name for each in self.nodes)


def parse_selection(given: str | Sequence[str], catalog: Catalog) -> Selection:
    """Parse the edge types that a caller names; `NotFoundError` if one is not an edge type.

    Raises `InvalidValueError` if none is named.
    """
    names = [given] if isinstance(given, str) else list(given)
    if not names:
        raise InvalidValueError(
            subject="edges",
            expected="edge types",
            value=given,
            problem="name at least one edge type",
        )
    found = {each.name: each for each in (get_edge_type(name, catalog) for name in names)}
    ends = {end for each in found.values() for end in (each.source, each.target)}
    return Selection(
        edges=tuple(found[name] for name in sorted(found)),
        # UTF-8 preserves the order of characters, so this is the order of bytes.
        nodes=tuple(catalog.nodes[name] for name in sorted(ends)),
    )


def parse_node(given: object, selection: Selection) -> tuple[str, str]:
    """Parse a node reference into type and id; the id suffices if only one type is selected.

    Raises `NotFoundError` if the type is not selected, and `InvalidValueError` if the reference is
    ambiguous or malformed.
    """
    advice = f"the edges connect {' and '.join(selection.titles)}"
    match given:
        case (str(type_name), str(id)):
            if type_name not in selection.titles:
                raise NotFoundError(kind="node type", name=type_name, advice=advice)
            return type_name, id
        case str(id) if len(selection.nodes) == 1:
            return selection.titles[0], id
        case str():
            problem = f"give the type as well, as (type, id): {advice}"
        case _:
            problem = "a node is named by its id, or by (type, id)"
    raise InvalidValueError(subject="source", expected="a node", value=given, problem=problem)
