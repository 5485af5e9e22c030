"""Stored queries: named queries that a graph is served with, and their list for tools.

Each query is compiled against the schema before it is served, and again before a new schema is
applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.compiler.compile import compile_queries, compile_query
from omnigraph.compiler.descriptor import KIND_BY_SCALAR
from omnigraph.compiler.ir import Parameter
from omnigraph.compiler.parser import decode_source
from omnigraph.compiler.query.check import CompiledQuery
from omnigraph.http.responses import ParameterOutput, StoredQueryOutput
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import (
    AlreadyExistsError,
    CompileError,
    reading,
)
from omnigraph.model.source import Source
from omnigraph.model.types import Vector


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A named query; its source may contain other queries."""

    name: str
    source: Source
    is_mutation: bool
    description: str | None
    instruction: str | None
    parameters: tuple[Parameter, ...]


def read_stored_queries(path: Path, *, catalog: Catalog) -> Mapping[str, StoredQuery]:
    """Read the queries of a `.gq` file, or of all `.gq` files in a directory, by name.

    Raises `CompileError` if one does not match the schema, `AlreadyExistsError` if two have the
    same name.
    """
    files = sorted(path.glob("*.gq")) if path.is_dir() else [path]
    return collect_queries([_read(each) for each in files], catalog=catalog)


def collect_queries(sources: Iterable[Source], *, catalog: Catalog) -> Mapping[str, StoredQuery]:
    """Compile the queries of several sources, by name."""
    found: dict[str, StoredQuery] = {}
    for source in sources:
        for compiled in compile_queries(source, catalog):
            if compiled.name in found:
                raise AlreadyExistsError(
                    kind="stored query", name=compiled.name, advice=f"rename it in {source.name}"
                )
            found[compiled.name] = _store(compiled, source)
    return dict(sorted(found.items()))


def pick_queries(
    source_by_name: Mapping[str, Source], *, catalog: Catalog
) -> Mapping[str, StoredQuery]:
    """Compile each named query from its source; other queries in the source are ignored."""
    return {
        name: _store(compile_query(source, catalog, name=name), source)
        for name, source in sorted(source_by_name.items())
    }


def find_broken(queries: Iterable[StoredQuery], *, catalog: Catalog) -> dict[str, CompileError]:
    """The queries that do not compile against another schema, with their errors."""
    broken: dict[str, CompileError] = {}
    for each in queries:
        try:
            compile_query(each.source, catalog, name=each.name)
        except CompileError as error:
            broken[each.name] = error
    return broken


def stored_query_output(query: StoredQuery) -> StoredQueryOutput:
    """Encode a stored query for tools; absent fields are left out."""
    output: StoredQueryOutput = {
        "name": query.name,
        "tool_name": query.name,
        "mutation": query.is_mutation,
        "params": [_describe(each) for each in query.parameters],
    }
    if query.description is not None:
        output["description"] = query.description
    if query.instruction is not None:
        output["instruction"] = query.instruction
    return output


def _describe(parameter: Parameter) -> ParameterOutput:
    type = parameter.type
    element = type.element
    output: ParameterOutput = {
        "name": parameter.name,
        "kind": "vector",
        "nullable": type.is_nullable,
    }
    if isinstance(element, Vector):
        output["vector_dim"] = element.dimension
    elif type.is_list:
        output["kind"], output["item_kind"] = "list", KIND_BY_SCALAR[element]
    else:
        output["kind"] = KIND_BY_SCALAR[element]
    return output


def _store(compiled: CompiledQuery, source: Source) -> StoredQuery:
    return StoredQuery(
        name=compiled.name,
        source=source,
        is_mutation=compiled.is_mutation,
        description=compiled.description,
        instruction=compiled.instruction,
        parameters=tuple(compiled.ir.parameters),
    )


def _read(path: Path) -> Source:
    with reading(str(path)):
        return decode_source(path.read_bytes(), name=str(path))
