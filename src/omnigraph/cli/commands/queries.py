"""`omnigraph queries …`: the stored queries of a cluster, listed, checked, and as Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import query_catalog
from omnigraph.cli.codegen import generating
from omnigraph.cli.command import command
from omnigraph.cli.files import STANDARD_OUTPUT, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_json, print_line, print_note, print_pieces
from omnigraph.cli.refusals import CommandError
from omnigraph.compiler.compile import compile_schema
from omnigraph.model.catalog import Catalog
from omnigraph.model.deferred import defer
from omnigraph.model.source import Source
from omnigraph.wire.stored_queries import collect_queries

if TYPE_CHECKING:
    from omnigraph.cli import applied_queries
else:
    # It brings the engine with it, and code is made of files without.
    applied_queries = defer("omnigraph.cli.applied_queries")


@command()
@JSON_OPTION
@click.pass_obj
def list_all(invocation: Invocation, *, is_json: bool) -> None:
    """List the stored queries that a cluster has applied."""
    served = applied_queries.read_served(invocation.cluster_scope(), invocation.environment)
    _warn(served.left_out)
    listed = [
        query_catalog.list_query(each.source, graph=each.graph, name=each.name)
        for each in served.texts
    ]
    if is_json:
        print_json({"queries": listed})
        return
    for line in query_catalog.view_queries(listed):
        print_line(line)


@command()
@JSON_OPTION
@click.pass_obj
def validate(invocation: Invocation, *, is_json: bool) -> None:
    """Check the stored queries of a cluster against the schemas that its graphs have now.

    Exits with 1 if one no longer fits.
    """
    verdict = applied_queries.check_served(invocation.cluster_scope(), invocation.environment)
    _warn(verdict.left_out)
    if is_json:
        print_json(_encode(verdict))
    else:
        for line in _view(verdict):
            print_line(line)
    if verdict.breakages:
        sys.exit(1)


@command()
@click.option("--python", "is_python", is_flag=True, help="Write a Python module.")
@click.option(
    "--schema", "schema_path", metavar="FILE", help="The .pg file; then no cluster is looked at."
)
@click.option(
    "--query", "query_paths", multiple=True, metavar="FILE", help="A .gq file; may be repeated."
)
@click.option(
    "--out",
    default=STANDARD_OUTPUT,
    show_default=True,
    metavar="FILE",
    help="Where to write, `-` for standard output.",
)
@click.pass_obj
def codegen(
    invocation: Invocation,
    *,
    is_python: bool,
    schema_path: str | None,
    query_paths: tuple[str, ...],
    out: str,
) -> None:
    """Write the stored queries of a graph as a module of typed functions.

    The queries are those that a cluster has applied to the graph, or those of files.
    """
    if not is_python:
        raise click.UsageError("say for which language: --python")
    if schema_path is None and not query_paths:
        catalog, texts = applied_queries.read_one_graph(
            invocation.cluster_scope(), invocation.environment
        )
        source_by_name: Mapping[str, Source] = {each.name: each.source for each in texts}
    else:
        catalog, source_by_name = _read_files(invocation, schema_path, query_paths)
    module = generating.generate_python(source_by_name, catalog)
    if out == STANDARD_OUTPUT:
        print_pieces([module.encode()])
    else:
        Path(out).write_text(module, encoding="utf-8")


def _read_files(
    invocation: Invocation, schema_path: str | None, query_paths: tuple[str, ...]
) -> tuple[Catalog, Mapping[str, Source]]:
    if schema_path is None or not query_paths:
        raise click.UsageError("files are named by both --schema and --query")
    if invocation.flags.cluster is not None:
        raise CommandError("--cluster and --schema are mutually exclusive; leave one of them")
    catalog = compile_schema(read_source(schema_path))
    found = collect_queries(map(read_source, query_paths), catalog=catalog)
    return catalog, {name: each.source for name, each in found.items()}


def _warn(left_out: Iterable[str]) -> None:
    for each in left_out:
        print_note(f"warning: {each}")


def _encode(verdict: applied_queries.Verdict) -> dict[str, object]:
    return {
        "ok": not verdict.breakages,
        "breakages": [_encode_issue(each) for each in verdict.breakages],
        "warnings": [_encode_issue(each) for each in verdict.warnings],
    }


def _encode_issue(issue: applied_queries.Issue) -> dict[str, object]:
    return {"graph": issue.graph, "query": issue.query, "message": issue.message}


def _view(verdict: applied_queries.Verdict) -> Iterator[str]:
    count = verdict.query_count
    if not verdict.breakages:
        yield f"OK  {count} stored quer{'y' if count == 1 else 'ies'} type-check against the schema"
    issues = [*verdict.breakages, *verdict.warnings]
    is_several = len({each.graph for each in issues}) > 1
    for word, told in (("ERROR", verdict.breakages), ("WARN ", verdict.warnings)):
        for each in told:
            graph = f" of graph '{each.graph}'" if is_several else ""
            yield f"{word}  query '{each.query}'{graph}: {each.message}"
