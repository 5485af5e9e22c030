"""The commands `lint`, `queries` and `mcp`.

`queries list` shows queries as they were written, including those that no longer compile against
their graph. `lint` and `queries validate` exit with 1 if a query does not compile. The MCP SDK and
the engine are imported only when `mcp` runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, NotRequired, TypedDict

import click

from omnigraph.cli import codegen as generating
from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_OUTPUT, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import CommandError, print_note, print_pieces
from omnigraph.cli.targets import ServedTarget, StoreTarget
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.lint import LintReport, encode_report, kind_of, lint_queries
from omnigraph.compiler.query.ast import ParameterSyntax, Read
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.http.stored_queries import collect_queries
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import NotFoundError, plural
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Severity, Source
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.cli import cluster_queries
else:
    # Imported lazily: it imports the engine, which generating code from files does not need.
    cluster_queries = lazy_module("omnigraph.cli.cluster_queries")

_INDENT = "    "


class ListedParameter(TypedDict):
    """A parameter as the list shows it; the type is spelled as in a query, without its `?`."""

    name: str
    type: str
    nullable: bool


class ListedQuery(TypedDict):
    """A stored query as the list shows it; absent texts are omitted."""

    graph: str
    name: str
    mcp_expose: bool
    tool_name: str
    mutation: bool
    description: NotRequired[str]
    instruction: NotRequired[str]
    params: list[ListedParameter]


def list_query(source: Source, *, graph: str, name: str) -> ListedQuery:
    """The declaration of a query."""
    declared = next((each for each in parse_queries(source) if each.name.text == name), None)
    if declared is None:
        raise NotFoundError(
            kind="query", name=name, advice=f"{source.name} contains no query of this name"
        )
    # If a parameter is declared twice, the last one counts, as in compilation.
    parameters = {each.variable.name: each for each in declared.parameters}
    texts = {each.name.text: each.value for each in declared.annotations}
    listed: ListedQuery = {
        "graph": graph,
        "name": name,
        "mcp_expose": True,
        "tool_name": name,
        "mutation": not isinstance(declared.body, Read),
        "params": [_list_parameter(each) for each in parameters.values()],
    }
    if "description" in texts:
        listed["description"] = texts["description"]
    if "instruction" in texts:
        listed["instruction"] = texts["instruction"]
    return listed


def view_queries(listed: Sequence[ListedQuery]) -> Iterator[str]:
    """The list as text; graphs are shown if there are several."""
    if not listed:
        yield "(no stored queries registered)"
    is_several = len({each["graph"] for each in listed}) > 1
    for graph, queries in groupby(listed, key=lambda each: each["graph"]):
        if is_several:
            yield f"graph {graph}"
        for each in queries:
            yield from _view_query(each)


def _list_parameter(parameter: ParameterSyntax) -> ListedParameter:
    word = parameter.type.text
    if parameter.dimension is not None:
        word = f"{word}({parameter.dimension})"
    return {
        "name": parameter.variable.name,
        "type": f"[{word}]" if parameter.is_list else word,
        "nullable": parameter.is_nullable,
    }


def _view_query(listed: ListedQuery) -> Iterator[str]:
    parameters = ", ".join(
        f"${each['name']}: {each['type']}{'?' if each['nullable'] else ''}"
        for each in listed["params"]
    )
    kind = "mutation" if listed["mutation"] else "read"
    yield f"{kind}  {listed['name']}({parameters})"
    yield from _view_text("description", listed.get("description"))
    yield from _view_text("instruction", listed.get("instruction"))


def _view_text(label: str, text: str | None) -> Iterator[str]:
    if text is None:
        return
    heading = f"{_INDENT}{label}: "
    first, *others = text.split("\n")
    yield f"{heading}{first}"
    for line in others:
        yield f"{' ' * len(heading)}{line}"


@command(JSON_OPTION)
def list_all(invocation: Invocation) -> None:
    """List the stored queries that a cluster has applied."""
    served = cluster_queries.read_queries(invocation.cluster_scope(), invocation.environment)
    _warn(served.left_out)
    listed = [list_query(each.source, graph=each.graph, name=each.name) for each in served.texts]
    invocation.print_output({"queries": listed}, view_queries(listed))


@command(JSON_OPTION)
def validate(invocation: Invocation) -> None:
    """Check the stored queries of a cluster against the current schemas of its graphs.

    Exits with 1 if a query is no longer valid.
    """
    checked = cluster_queries.check_queries(invocation.cluster_scope(), invocation.environment)
    _warn(checked.left_out)
    payload = {
        "ok": not checked.breakages,
        "breakages": [asdict(each) for each in checked.breakages],
        "warnings": [asdict(each) for each in checked.warnings],
    }
    invocation.print_output(payload, _view(checked))
    if checked.breakages:
        sys.exit(1)


@command()
@click.option("--python", "is_python", is_flag=True, help="Write a Python module.")
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    help="The .pg file, instead of the schemas of a cluster.",
)
@click.option(
    "--query", "query_paths", multiple=True, metavar="FILE", help="A .gq file. Repeatable."
)
@click.option(
    "--out",
    default=STANDARD_OUTPUT,
    show_default=True,
    metavar="FILE",
    help="The output file; `-` is stdout.",
)
def codegen(
    invocation: Invocation,
    *,
    is_python: bool,
    schema_path: str | None,
    query_paths: tuple[str, ...],
    out: str,
) -> None:
    """Write the stored queries of a graph as a module of typed functions.

    The queries are those that a cluster has applied to the graph, or those in files.
    """
    if not is_python:
        raise click.UsageError("choose a language: --python")
    if schema_path is None and not query_paths:
        catalog, texts = cluster_queries.read_one_graph(
            invocation.cluster_scope(), invocation.environment
        )
        source_by_name: Mapping[str, Source] = {each.name: each.source for each in texts}
    else:
        catalog, source_by_name = _read_files(invocation, schema_path, query_paths)
    module = generating.generate_python(source_by_name, catalog)
    if out == STANDARD_OUTPUT:
        print_pieces([module.encode()])
    else:
        expand_home(out).write_text(module, encoding="utf-8")


def _read_files(
    invocation: Invocation, schema_path: str | None, query_paths: tuple[str, ...]
) -> tuple[Catalog, Mapping[str, Source]]:
    if schema_path is None or not query_paths:
        raise click.UsageError("--schema and --query must be used together")
    if invocation.flags.cluster is not None:
        raise CommandError("--cluster and --schema are mutually exclusive; remove one of them")
    catalog = compile_schema(read_source(schema_path))
    found = collect_queries(map(read_source, query_paths), catalog=catalog)
    return catalog, {name: each.source for name, each in found.items()}


def _warn(left_out: Iterable[str]) -> None:
    for each in left_out:
        print_note(f"warning: {each}")


def _view(checked: cluster_queries.QueryCheck) -> Iterator[str]:
    count = checked.query_count
    if not checked.breakages:
        queries = plural(count, "query", "queries")
        yield f"OK  {count} stored {queries} type-check against the schema"
    issues = [*checked.breakages, *checked.warnings]
    is_several = len({each.graph for each in issues}) > 1
    for word, found in (("ERROR", checked.breakages), ("WARN ", checked.warnings)):
        for each in found:
            graph = f" of graph '{each.graph}'" if is_several else ""
            yield f"{word}  query '{each.query}'{graph}: {each.message}"


_WORD_BY_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN ", Severity.INFO: "INFO "}


@command(URI_ARGUMENT, JSON_OPTION)
@click.option("--query", "query_path", required=True, metavar="FILE", help="The .gq file.")
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    help="The .pg file, instead of the schema of a graph.",
)
def lint(invocation: Invocation, *, query_path: str, schema_path: str | None) -> None:
    """Check a file of queries against the schema in a file or of a graph.

    Exits with 1 if any query is invalid.
    """
    if schema_path is None:
        target = invocation.direct_target()
        with invocation.open_direct(target, read_only=True) as graph:
            schema = Source(f"<schema of {target.uri}>", graph.schema_source)
        schema_source = {"kind": "graph", "uri": target.uri}
    else:
        schema = read_source(schema_path)
        schema_source = {"kind": "file", "path": schema_path}
    report = lint_queries(read_source(query_path), compile_schema(schema))
    payload = encode_report(report, schema_source=schema_source, query_path=query_path)
    invocation.print_output(payload, _view_report(report))
    if report.error_count:
        sys.exit(1)


def _view_report(report: LintReport) -> Iterator[str]:
    for result in report.results:
        if result.error is None:
            yield f"OK    query `{result.name}` ({kind_of(result)})"
        else:
            yield f"ERROR query `{result.name}`: {result.error}"
        for warning in result.warnings:
            yield f"WARN  query `{result.name}`: {warning}"
    for finding in report.findings:
        yield f"{_WORD_BY_SEVERITY[finding.severity]} {finding.code}: {finding.message}"
    yield (
        f"INFO  Lint complete: {len(report.results)} "
        f"{plural(len(report.results), 'query', 'queries')} processed "
        f"({report.error_count} error(s), {report.warning_count} warning(s), "
        f"{report.info_count} info item(s))"
    )


@command(URI_ARGUMENT)
@click.option(
    "--queries",
    metavar="PATH",
    help="Stored queries for a graph opened directly: a .gq file or a folder of them.",
)
@click.option("--ad-hoc", is_flag=True, help="Also allow ad-hoc reads.")
@click.option("--allow-main", is_flag=True, help="Allow writes to `main` that name it explicitly.")
def mcp(invocation: Invocation, *, queries: str | None, ad_hoc: bool, allow_main: bool) -> None:
    """Offer stored queries to an agent as tools of the Model Context Protocol.

    The agent's program starts this command and communicates with it over standard input and output.
    Writes go to a separate branch of the agent, which a person merges. For a server, the tools are
    its stored queries, and its policy applies.
    """
    target = invocation.target()
    if isinstance(target, ServedTarget) and queries is not None:
        raise CommandError("--queries does not apply to a server, which has its own stored queries")
    if isinstance(target, StoreTarget) and queries is None and not ad_hoc:
        print_note("there are no tools: pass --queries PATH, --ad-hoc or both")
    invocation.announce("mcp", target)
    # Imported by name, because the engine and the SDK are slow to import and help and usage errors
    # do not need them.
    part = import_module("omnigraph.mcp.graph")
    match target:
        case StoreTarget():
            with invocation.open_direct(target, read_only=False) as graph:
                part.serve_graph(graph, queries, is_ad_hoc=ad_hoc, allows_main=allow_main)
        case ServedTarget():
            with invocation.open_served(target, read_only=False) as remote:
                part.serve_remote(remote, is_ad_hoc=ad_hoc, allows_main=allow_main)
