"""Small graphs of awkward values, and reads of them that find something.

Few nodes, many edges, values from small pools: joins hit, keys meet, ties occur. Types may be
empty, edges parallel or loops, anything null. The values in a query are mostly those of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.compiler.ir import Value
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, quote_text
from omnigraph.model.types import INTEGER_RANGE, PropertyType, Scalar, Vector, format_datetime
from tests.support.choices import Choices
from tests.support.generated_reads import write_read
from tests.support.generated_schemas import EDGE_NAMES, PROPERTY_NAMES, TYPE_NAMES
from tests.support.generated_values import Values
from tests.support.oracle_search import distance
from tests.support.oracle_values import as_f32
from tests.support.read_graphs import NOW, Params, PlainGraph, plain_graph, types_of
from tests.support.schemas import compile_text

Pool = Mapping[Scalar | Vector, Sequence[Value]]
Cells = Mapping[str, Value]

_NODE_COUNTS = (3, 5, 4, 6, 2, 3, 5, 1, 0)
_EDGE_COUNTS = (5, 10, 7, 3, 8, 1, 6, 0)

_INTEGERS = (0, 1, 2, 3, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63))
_FLOATS = (
    0.0, 1.0, 2.0, -0.0, 2.5, 0.1, 0.10000000149011612, math.nan, math.inf, -math.inf, 1e300,
    -1e300, 5e-324, 9007199254740992.0, 3.4028234663852886e38,
)  # fmt: skip
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)
_CUT_NOW = NOW.replace(microsecond=NOW.microsecond // 1000 * 1000)
_POOL: Pool = {
    Scalar.STRING: (
        "a", "b", "ab", "", "red fox", "The red foxes RUN", "a dog and a fox", "dog dog fox",
        "the of", "running", "Füchse", "fuchse", "naïve café", "😀", "x'y\\", "e\u0301", "\uffff",
        "Straße", "fox, fox; fox!", "n" * 41,
    ),
    Scalar.BOOL: (False, True),
    **{
        scalar: tuple(n for n in (*_INTEGERS, high) if low <= n <= high)
        for scalar, (low, high) in INTEGER_RANGE.items()
    },
    Scalar.F32: tuple(as_f32(n) for n in _FLOATS if abs(n) < 1e39 or not math.isfinite(n)),
    Scalar.F64: _FLOATS,
    Scalar.DATE: (date(2024, 6, 1), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    Scalar.DATETIME: (
        _CUT_NOW, _CUT_NOW + timedelta(milliseconds=1), _MIDNIGHT,
        _MIDNIGHT - timedelta(milliseconds=1), datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ),
}  # fmt: skip
_COMPONENTS = (0.0, 1.0, -1.0, 0.5, 3.0, -0.25)
_KEYS = ("a", "b", "ab", "é", "B", "a b", "😀", "x'y")
_SCALARS = tuple(_POOL)
_ENUMS = (("a", "b"), ("red", "fox", "x-1"))
_ROW_COUNTS = {"rows": (3, 1, 2, 10, 10, 0, 2**63 - 1), "skipped": (1, 0, 2, 1, 2**63 - 1)}


@dataclass(frozen=True, slots=True)
class GeneratedRead:
    """The text of a read and the parameters that it is called with."""

    text: str
    params: Params


# Graphs


@st.composite
def graphs(draw: DrawFn) -> PlainGraph:
    """A graph with at least one node type; any type may be without rows."""
    choices = Choices(draw)
    nodes = choices.some(TYPE_NAMES, least=1, most=3)
    edges = choices.some(EDGE_NAMES, least=0, most=3)
    declarations = [
        *(_declare_node(choices, name) for name in nodes),
        *(_declare_edge(choices, name, nodes) for name in edges),
    ]
    schema = "\n".join(declarations)
    rows: dict[str, list[Cells]] = {}
    for name, declared in types_of(compile_text(schema)).items():
        match declared:
            case NodeType():
                rows[name] = _choose_nodes(choices, declared)
            case EdgeType():
                rows[name] = _choose_edges(choices, declared, rows)
    return plain_graph(schema, rows)


@st.composite
def other_rows(draw: DrawFn, graph: PlainGraph) -> PlainGraph:
    """Rows for the types of a graph: some replace rows of it, others are new.

    Edges join nodes of either one.
    """
    choices = Choices(draw)
    rows: dict[str, list[Cells]] = {}
    for name, declared in types_of(graph.catalog).items():
        match declared:
            case NodeType():
                rows[name] = _choose_nodes(choices, declared)
            case EdgeType(source=source, target=target):
                ends = {each: [*rows[each], *graph.rows_by_type[each]] for each in (source, target)}
                rows[name] = _choose_edges(choices, declared, ends)
    return plain_graph(graph.schema, rows)


def _declare_node(choices: Choices, name: str) -> str:
    properties = _declare_properties(choices, most=5)
    match choices.count(3):
        case 0:
            return _write_body(f"node {name}", properties)
        case 1:
            return _write_body(f"node {name}", ["number_key: I64 @key", *properties])
        case _:
            return _write_body(f"node {name}", ["text_key: String @key", *properties])


def _declare_edge(choices: Choices, name: str, nodes: Sequence[str]) -> str:
    heading = f"edge {name}: {choices.one(nodes)} -> {choices.one(nodes)}"
    return _write_body(heading, _declare_properties(choices, most=2))


def _write_body(heading: str, lines: Sequence[str]) -> str:
    return f"{heading} {{ {'  '.join(lines)} }}"


def _declare_properties(choices: Choices, *, most: int) -> list[str]:
    names = choices.some(PROPERTY_NAMES, least=0, most=most)
    types = [_choose_type(choices) for _ in names]
    return [
        f"{name}: {type}{_choose_index(choices, type)}"
        for name, type in zip(names, types, strict=True)
    ]


def _choose_index(choices: Choices, type: PropertyType) -> str:
    if not type.is_scalar or not choices.seldom():
        return ""
    languages = ["english", "german", "none", "ngram"] if type.is_string else ["english"]
    language = choices.one(languages)
    return " @index" if language == "english" else f' @index(language="{language}")'


def _choose_type(choices: Choices) -> PropertyType:
    is_nullable = not choices.seldom()
    match choices.count(9):
        case 0:
            return PropertyType(Scalar.STRING, is_nullable, enum_values=choices.one(_ENUMS))
        case 1 | 2:
            return PropertyType(Vector(choices.one([2, 1, 3])), is_nullable)
        case 3:
            element = choices.one(_SCALARS)
            return PropertyType(element, is_nullable, is_list=True)
        case 4 | 5:
            return PropertyType(Scalar.STRING, is_nullable)
        case _:
            return PropertyType(choices.one(_SCALARS), is_nullable)


def _choose_nodes(choices: Choices, declared: NodeType) -> list[Cells]:
    count = choices.one(_NODE_COUNTS)
    keys: Sequence[Value] = choices.some(_KEYS, least=count, most=count)
    if "number_key" in declared.key:
        keys = choices.some((*range(-3, 12), 2**62), least=count, most=count)
    rows = [_choose_properties(choices, declared) for _ in range(count)]
    if not declared.key:
        return [{"id": f"i-{key}", **row} for key, row in zip(keys, rows, strict=True)]
    return [{declared.key[0]: key, **row} for key, row in zip(keys, rows, strict=True)]


def _choose_edges(
    choices: Choices, declared: EdgeType, rows: Mapping[str, Sequence[Cells]]
) -> list[Cells]:
    sources, targets = rows[declared.source], rows[declared.target]
    if not sources or not targets:
        return []
    return [
        {
            # Neither in the order of the rows nor in that of the ends.
            "id": f"{number * 7 % 11}-{declared.name}",
            "src": _id_of(choices.one(sources)),
            "dst": _id_of(choices.one(targets)),
            **_choose_properties(choices, declared),
        }
        for number in range(choices.one(_EDGE_COUNTS))
    ]


def _id_of(row: Cells) -> str:
    names = ("id", "text_key", "number_key")
    return next(str(row[name]) for name in names if name in row)


def _choose_properties(choices: Choices, declared: NodeType | EdgeType) -> dict[str, Value]:
    keys = declared.key if isinstance(declared, NodeType) else ()
    return {
        name: _choose_value(choices, each.type, _POOL)
        for name, each in declared.properties.items()
        if name not in keys
    }


def _choose_value(choices: Choices, type: PropertyType, pool: Pool) -> Value:
    if type.is_nullable and choices.count(3) == 3:
        return None
    if isinstance(type.element, Vector):
        first = (math.nan,) if type.is_nullable and choices.seldom() else ()
        left = type.element.dimension - len(first)
        return (*first, *(choices.one(_COMPONENTS) for _ in range(left)))
    if type.enum_values is not None:
        return choices.one(type.enum_values)
    if type.is_list:
        return tuple(choices.one(pool[type.element]) for _ in range(choices.count(3)))
    return choices.one(pool[type.element])


# Reads


def reads(graph: PlainGraph) -> SearchStrategy[GeneratedRead]:
    """Reads that compile against the graph's schema, with values for their parameters."""
    pool = _pool_of(graph)
    literals = {element: _literals_of(values) for element, values in pool.items()}
    return _reads(graph.catalog, pool, literals)


@st.composite
def _reads(
    draw: DrawFn, catalog: Catalog, pool: Pool, literals: Mapping[Scalar | Vector, Sequence[str]]
) -> GeneratedRead:
    choices = Choices(draw)
    values = Values(choices, literals=literals)
    body = write_read(choices, catalog, values)
    params = {
        name: _choose_parameter(choices, name, type, pool)
        for name, type in values.parameters.items()
    }
    return GeneratedRead(f"query q({values.write_declarations()}) {{\n{body}\n}}", params)


def _choose_parameter(choices: Choices, name: str, type: PropertyType, pool: Pool) -> Value:
    if name in _ROW_COUNTS:
        return choices.one(_ROW_COUNTS[name])
    value = _choose_value(choices, type, pool)
    # Neighbours of a missing point are never requested.
    is_point = not type.is_vector or value is None or distance(value, value) is not None
    return value if is_point else None


def _pool_of(graph: PlainGraph) -> Pool:
    """The values of a graph by type, and a few others."""
    stored: dict[Scalar | Vector, list[Value]] = {}
    for name, declared in types_of(graph.catalog).items():
        for each in declared.properties.values():
            cells = (row[each.name] for row in graph.rows_by_type[name])
            found = stored.setdefault(each.type.element, [])
            for cell in cells:
                found += cell if isinstance(cell, tuple) and each.type.is_list else [cell]
    pool: dict[Scalar | Vector, Sequence[Value]] = {}
    for element, values in _POOL.items():
        mine = list({repr(v): v for v in stored.get(element, []) if v is not None}.values())
        pool[element] = [*mine * 4, *values]
    return pool


def _literals_of(values: Sequence[Value]) -> list[str]:
    return [text for text in map(write_literal, values) if text is not None]


def write_literal(value: Value) -> str | None:
    """A value as a query writes it, unless it cannot."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value) if value < 2**63 else None
        case float():
            return repr(value).replace("e+", "e") if math.isfinite(value) else None
        case str():
            return quote_text(value)
        case datetime():
            return f'datetime("{format_datetime(value)}")'
        case date():
            return f'date("{value.isoformat()}")'
        case _:
            return None
