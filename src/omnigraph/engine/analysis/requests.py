"""What can be asked of a network, with its parameters checked, and the columns of each answer.

Both engines take these apart; neither adds a meaning of its own. Knows no graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from omnigraph.compiler.ir import Direction
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import F64, I64, STRING, PropertyType, Scalar

_STRINGS = PropertyType(Scalar.STRING, is_list=True)


@dataclass(frozen=True, slots=True)
class ComponentsRequest:
    """Which nodes hang together."""


@dataclass(frozen=True, slots=True)
class RankRequest:
    """PageRank."""

    damping: float
    tolerance: float
    iterations_max: int


@dataclass(frozen=True, slots=True)
class PathsRequest:
    """How far nodes are from one of them, and the way there."""

    source: tuple[str, str]
    direction: Direction
    hops_max: int | None
    with_paths: bool


@dataclass(frozen=True, slots=True)
class TrianglesRequest:
    """How many triangles nodes are part of."""


@dataclass(frozen=True, slots=True)
class LabelsRequest:
    """Label propagation."""

    iterations_max: int


@dataclass(frozen=True, slots=True)
class DegreesRequest:
    """How many edges nodes have."""


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
    """How many rounds an answer took, and whether another one would hardly change it."""

    iterations: int
    has_converged: bool


AT_ONCE = Progression(1, has_converged=True)
"""Of an answer that is exact, however many rounds its engine took."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of an answer behind `type` and `id`, by name, and the one that it is about."""

    title: str
    main: str
    values: Mapping[str, PropertyType]


def shape_of(request: Request) -> Shape:
    """What the answer to a request looks like."""
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
    """The parameters of PageRank, checked."""
    _require_number("damping", damping)
    if not 0 <= damping < 1:
        raise _refuse("damping", damping, "a number from 0 up to, but not, 1 is needed")
    _require_number("tolerance", tolerance)
    if not (tolerance > 0 and math.isfinite(tolerance)):
        raise _refuse("tolerance", tolerance, "a number above 0 is needed")
    _require_count("iterations_max", iterations_max, least=1)
    return RankRequest(float(damping), float(tolerance), iterations_max)


def parse_labels(*, iterations_max: int) -> LabelsRequest:
    """The parameters of label propagation, checked."""
    _require_count("iterations_max", iterations_max, least=1)
    return LabelsRequest(iterations_max)


def parse_paths(
    source: tuple[str, str], *, direction: str, hops_max: int | None, with_paths: bool
) -> PathsRequest:
    """The parameters of shortest paths, checked."""
    if hops_max is not None:
        _require_count("hops_max", hops_max, least=0)
    try:
        chosen = Direction(direction)
    except ValueError as error:
        problem = f"{direction!r} is none of out, in and both"
        raise _refuse("direction", direction, problem) from error
    return PathsRequest(source, chosen, hops_max, bool(with_paths))


def _shape(title: str, main: str, **values: PropertyType) -> Shape:
    return Shape(title, main, MappingProxyType(values))


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
