"""The stored queries of a cluster: read as applied, checked against the current graphs.

Every text is the one whose digest was applied, and a query is checked against the schema that its
graph has now. The module changes nothing and takes no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from omnigraph.cli.invocation import open_applied, translate_findings
from omnigraph.cli.output import CommandError
from omnigraph.cli.targets import ClusterScope
from omnigraph.cluster.catalog import get_graph_uri, list_graph_ids
from omnigraph.cluster.context import Absent, Broken, Cluster, Live, UnfinishedGraph
from omnigraph.cluster.serving import AppliedGraph, read_serving_snapshot
from omnigraph.compiler.compile import compile_query, compile_schema
from omnigraph.compiler.parser import decode_source
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic, Source, summarize_diagnostic


@dataclass(frozen=True, slots=True)
class AppliedText:
    """A query by its name, and the text that contains it, possibly with other queries."""

    graph: str
    name: str
    source: Source


@dataclass(frozen=True, slots=True)
class Issue:
    """A message about one query."""

    graph: str
    query: str
    message: str


@dataclass(frozen=True, slots=True)
class Served:
    """The queries of a scope, by graph and name; `left_out` describes unserved graphs."""

    texts: tuple[AppliedText, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """The queries that are no longer valid for their graphs, and warnings."""

    query_count: int
    breakages: tuple[Issue, ...]
    warnings: tuple[Issue, ...]
    left_out: tuple[str, ...]


def read_queries(scope: ClusterScope, environment: Mapping[str, str]) -> Served:
    """The applied queries; a graph that is being changed is left out."""
    return _read_queries(open_applied(scope.root, environment), scope.graph)


def check_queries(scope: ClusterScope, environment: Mapping[str, str]) -> QueryCheck:
    """Compile every query of a scope against the schema that its graph has now."""
    cluster = open_applied(scope.root, environment)
    served = _read_queries(cluster, scope.graph)
    breakages: list[Issue] = []
    warnings: list[Issue] = []
    for graph, texts in groupby(served.texts, key=lambda each: each.graph):
        catalog = _get_live_catalog(cluster, graph)
        for each in texts:
            broken, messages = _check(each, catalog)
            breakages += [Issue(graph, each.name, message) for message in broken]
            warnings += [Issue(graph, each.name, message) for message in messages]
    return QueryCheck(len(served.texts), tuple(breakages), tuple(warnings), served.left_out)


def read_one_graph(
    scope: ClusterScope, environment: Mapping[str, str]
) -> tuple[Catalog, tuple[AppliedText, ...]]:
    """The live schema and the queries of one graph: the named one, or the only one."""
    cluster = open_applied(scope.root, environment)
    if scope.graph is None:
        with translate_findings():
            # Called for its error: with several graphs, one has to be named.
            get_graph_uri(cluster, None)
        (id,) = list_graph_ids(cluster)
    else:
        id = scope.graph
    return _get_live_catalog(cluster, id), _read_queries(cluster, id).texts


def _get_live_catalog(cluster: Cluster, id: str) -> Catalog:
    """The current schema of an applied graph."""
    match cluster.graphs.observe(id):
        case Live(schema=schema):
            return compile_schema(Source(f"<schema of {id}>", schema))
        case Absent():
            raise CommandError(f"there is no graph at {cluster.graphs.uri_of(id)}")
        case UnfinishedGraph(reason=reason) | Broken(reason=reason):
            raise CommandError(f"graph '{id}' cannot be opened: {reason}")


def _read_queries(cluster: Cluster, id: str | None) -> Served:
    with translate_findings():
        if id is not None:
            get_graph_uri(cluster, id)
        snapshot = read_serving_snapshot(cluster)
    left_out = {
        each.id: f"graph '{each.id}' is skipped: {each.finding.message}"
        for each in snapshot.left_out
        if id in (None, each.id)
    }
    if id in left_out:
        raise CommandError(left_out[id])
    graphs = [each for each in snapshot.graphs if id in (None, each.id)]
    return Served(tuple(_texts_of(graphs)), tuple(left_out.values()))


def _texts_of(graphs: Iterable[AppliedGraph]) -> Iterator[AppliedText]:
    for graph in graphs:
        for query in sorted(graph.queries, key=lambda query: query.name):
            source = decode_source(query.content, name=f"{graph.id}/{query.name}.gq")
            yield AppliedText(graph.id, query.name, source)


def _check(text: AppliedText, catalog: Catalog) -> tuple[list[str], list[str]]:
    """The errors and the warnings of a query."""
    try:
        compiled = compile_query(text.source, catalog, name=text.name)
    except CompileError as error:
        return ["; ".join(map(_describe, error.diagnostics))], []
    warnings = [_describe(each) for each in compiled.warnings]
    warnings += [
        f"`${each.name}` is a {each.type}, which callers must supply as a value"
        for each in compiled.ir.parameters
        if each.type.is_vector
    ]
    return [], warnings


def _describe(diagnostic: Diagnostic) -> str:
    advice = f"; {diagnostic.suggestion}" if diagnostic.suggestion else ""
    return f"{summarize_diagnostic(diagnostic)}{advice}"
