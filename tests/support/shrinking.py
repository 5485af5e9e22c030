"""A graph and a read that show a fault, made as small as they can be and still show it.

Takes away lines of the query, parameters, rows, values and declarations, one after the other, until
nothing more can go. Knows the texts of generated graphs and reads: a clause and a type take whole
lines, properties are two spaces apart. Does not know what the fault is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from omnigraph.compiler.ir import Value
from omnigraph.errors import CompileError
from omnigraph.model.catalog import EdgeType
from tests.support.generated_graphs import GeneratedRead
from tests.support.read_graphs import PlainGraph, compile_for, plain_graph, types_of

Shows = Callable[[PlainGraph, GeneratedRead], bool]
Rows = Mapping[str, Sequence[Mapping[str, Value]]]

_ROUNDS_MAX = 5


def shrink(
    graph: PlainGraph, read: GeneratedRead, shows: Shows
) -> tuple[PlainGraph, GeneratedRead]:
    """The smallest case that is found to show the same."""
    for _ in range(_ROUNDS_MAX):
        before = graph, read
        for smaller in (_with_less_text, _with_less_schema, _with_fewer_rows, _with_fewer_values):
            graph, read = _take_away(graph, read, smaller, shows)
        if (graph, read) == before:
            break
    return graph, read


_Candidates = Callable[[PlainGraph, GeneratedRead], Iterator[tuple[PlainGraph, GeneratedRead]]]


def _take_away(
    graph: PlainGraph, read: GeneratedRead, smaller: _Candidates, shows: Shows
) -> tuple[PlainGraph, GeneratedRead]:
    while True:
        for candidate in smaller(graph, read):
            if _is_valid(*candidate) and shows(*candidate):
                graph, read = candidate
                break
        else:
            return graph, read


def _is_valid(graph: PlainGraph, read: GeneratedRead) -> bool:
    try:
        ir = compile_for(graph, read.text)
    except CompileError:
        return False
    return {each.name for each in ir.parameters} == set(read.params)


# Text


def _with_less_text(
    graph: PlainGraph, read: GeneratedRead
) -> Iterator[tuple[PlainGraph, GeneratedRead]]:
    lines = read.text.splitlines()
    for start in range(len(lines)):
        for end in range(len(lines), start, -1):
            part = "\n".join(lines[start:end])
            if part.count("{") == part.count("}"):
                yield graph, replace(read, text="\n".join(lines[:start] + lines[end:]))
    for name in read.params:
        # The type of a vector has brackets of its own, so the heading ends where the braces begin.
        heading, _, body = read.text.partition(") {\n")
        opening, _, declared = heading.partition("(")
        remaining = [each for each in declared.split(", ") if not each.startswith(f"${name}:")]
        text = f"{opening}({', '.join(remaining)}) {{\n{body}"
        params = {key: value for key, value in read.params.items() if key != name}
        yield graph, GeneratedRead(text, params)


# Schema


def _with_less_schema(
    graph: PlainGraph, read: GeneratedRead
) -> Iterator[tuple[PlainGraph, GeneratedRead]]:
    lines = graph.schema.splitlines()
    for number, line in enumerate(lines):
        heading, _, body = line.partition(" {")
        pieces = body.removesuffix("}").split("  ")
        shorter = [
            f"{heading} {{ {'  '.join(pieces[:n] + pieces[n + 1 :]).strip()} }}"
            for n in range(len(pieces))
        ]
        for replaced in ([], *([each] for each in shorter if each != line)):
            schema = "\n".join([*lines[:number], *replaced, *lines[number + 1 :]])
            smaller = _rebuild(schema, graph.rows_by_type)
            if smaller is not None:
                yield smaller, read


def _rebuild(schema: str, rows_by_type: Rows) -> PlainGraph | None:
    try:
        bare = plain_graph(schema, {})
    except CompileError:
        return None
    rows = {
        name: [
            {
                key: value
                for key, value in row.items()
                if key in declared.properties or key in ("id", "src", "dst")
            }
            for row in rows_by_type[name]
        ]
        for name, declared in types_of(bare.catalog).items()
    }
    return plain_graph(schema, rows)


# Rows


def _with_fewer_rows(
    graph: PlainGraph, read: GeneratedRead
) -> Iterator[tuple[PlainGraph, GeneratedRead]]:
    for name, declared in types_of(graph.catalog).items():
        for row in graph.rows_by_type[name]:
            rows = {
                other: [each for each in stored if each is not row]
                for other, stored in graph.rows_by_type.items()
            }
            if not isinstance(declared, EdgeType):
                rows |= _without_edges_of(graph, name, row["id"])
            yield plain_graph(graph.schema, rows), read


def _without_edges_of(
    graph: PlainGraph, node_type: str, id: Value
) -> dict[str, list[Mapping[str, Value]]]:
    return {
        edge.name: [
            each
            for each in graph.rows_by_type[edge.name]
            if not (edge.source == node_type and each["src"] == id)
            and not (edge.target == node_type and each["dst"] == id)
        ]
        for edge in graph.catalog.incident_edges(node_type)
    }


def _with_fewer_values(
    graph: PlainGraph, read: GeneratedRead
) -> Iterator[tuple[PlainGraph, GeneratedRead]]:
    for name, declared in types_of(graph.catalog).items():
        nullable = [each.name for each in declared.properties.values() if each.type.is_nullable]
        for number, row in enumerate(graph.rows_by_type[name]):
            for key in nullable:
                if row[key] is not None:
                    changed = list(graph.rows_by_type[name])
                    changed[number] = {**row, key: None}
                    yield plain_graph(graph.schema, {**graph.rows_by_type, name: changed}), read
