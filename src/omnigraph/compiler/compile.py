"""Entry points of the compiler: text in, catalog or IR out, or a `CompileError` with all errors.

The module does no I/O except for the grammar files, and its only state is the cached parsers.
"""

from __future__ import annotations

from omnigraph.compiler.diagnostics import Diagnostics, advise_name
from omnigraph.compiler.parser import syntax_error
from omnigraph.compiler.query.ast import QuerySyntax, Read
from omnigraph.compiler.query.check import CompiledQuery, check_query
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.compiler.schema.check import check_schema
from omnigraph.compiler.schema.parser import parse_schema
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError, NotFoundError
from omnigraph.model.limits import DIAGNOSTICS_MAX
from omnigraph.model.source import Diagnostic, Source, Span


def compile_schema(source: Source) -> Catalog:
    """Compile a `.pg` text into its catalog."""
    return check_schema(parse_schema(source), source)


def compile_queries(source: Source, catalog: Catalog) -> tuple[CompiledQuery, ...]:
    """Compile every query of a `.gq` text.

    The `CompileError` holds the errors of all queries, up to a bound.
    """
    compiled: list[CompiledQuery] = []
    faults: list[Diagnostic] = []
    for query in parse_queries(source):
        diagnostics = Diagnostics(source)
        compiled.append(check_query(query, catalog, diagnostics))
        faults += diagnostics.errors
        if len(faults) >= DIAGNOSTICS_MAX:
            break
    if faults:
        raise CompileError(diagnostics=faults[:DIAGNOSTICS_MAX], source=source)
    return tuple(compiled)


def compile_query(source: Source, catalog: Catalog, *, name: str | None) -> CompiledQuery:
    """Compile one query of a `.gq` text: the named one, or the only one."""
    return _compile(_select(parse_queries(source), name, source), catalog, source)


def compile_read(source: Source, catalog: Catalog, *, name: str | None) -> CompiledQuery:
    """Compile one query that must be a read."""
    query = _select(parse_queries(source), name, source)
    if not isinstance(query.body, Read):
        problem = f"`{query.name.text}` contains mutations; a read is needed here"
        raise syntax_error(
            source, "T38", problem, query.name.span, "send it where changes are made"
        )
    return _compile(query, catalog, source)


def find_returned(source: Source, *, name: str) -> Span | None:
    """The position of the first returned expression of a read; None if there is no such read."""
    for query in parse_queries(source):
        if query.name.text == name and isinstance(query.body, Read):
            return query.body.projections[0].expression.span
    return None


def compile_mutation(source: Source, catalog: Catalog, *, name: str | None) -> CompiledQuery:
    """Compile one query that must be a mutation."""
    query = _select(parse_queries(source), name, source)
    if isinstance(query.body, Read):
        problem = f"`{query.name.text}` is a read query; a mutation is needed here"
        raise syntax_error(
            source, "T38", problem, query.name.span, "send it where queries are answered"
        )
    return _compile(query, catalog, source)


def _compile(query: QuerySyntax, catalog: Catalog, source: Source) -> CompiledQuery:
    diagnostics = Diagnostics(source)
    compiled = check_query(query, catalog, diagnostics)
    diagnostics.require_clean()
    return compiled


def _select(queries: tuple[QuerySyntax, ...], name: str | None, source: Source) -> QuerySyntax:
    if name is not None:
        for query in queries:
            if query.name.text == name:
                return query
        advice = advise_name(name, [query.name.text for query in queries]) or "the text has none"
        raise NotFoundError(kind="query", name=name, advice=advice)
    if len(queries) == 1:
        return queries[0]
    if not queries:
        raise syntax_error(source, "T34", "the text holds no query", None, None)
    names = ", ".join(query.name.text for query in queries)
    span = queries[1].name.span
    raise syntax_error(source, "T34", f"the text holds multiple queries: {names}", span, "name one")
