"""`omnigraph lint`: a file of queries against a schema, or against the schema of a graph."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.command import command
from omnigraph.cli.files import read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.lint import LintReport, encode_report, kind_of, lint_queries
from omnigraph.model.source import Severity, Source

_WORD_BY_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN ", Severity.INFO: "INFO "}


@command()
@URI_ARGUMENT
@click.option("--query", "query_path", required=True, metavar="FILE", help="The .gq file.")
@click.option(
    "--schema", "schema_path", metavar="FILE", help="The .pg file; then no graph is looked at."
)
@JSON_OPTION
@click.pass_obj
def lint(
    invocation: Invocation,
    *,
    uri: str | None,
    query_path: str,
    schema_path: str | None,
    is_json: bool,
) -> None:
    """Check a file of queries against a schema, of a file or of a graph.

    Exits with 1 if any query is wrong.
    """
    if schema_path is None:
        target = invocation.direct_target(uri)
        with invocation.open_direct(target, read_only=True) as graph:
            schema = Source(f"<schema of {target.uri}>", graph.schema_source)
        schema_source = {"kind": "graph", "uri": target.uri}
    else:
        schema = read_source(schema_path)
        schema_source = {"kind": "file", "path": schema_path}
    report = lint_queries(read_source(query_path), compile_schema(schema))
    if is_json:
        print_json(encode_report(report, schema_source=schema_source, query_path=query_path))
    else:
        _print_report(report)
    if report.error_count:
        sys.exit(1)


def _print_report(report: LintReport) -> None:
    for result in report.results:
        if result.error is None:
            print_line(f"OK    query `{result.name}` ({kind_of(result)})")
        else:
            print_line(f"ERROR query `{result.name}`: {result.error}")
        for warning in result.warnings:
            print_line(f"WARN  query `{result.name}`: {warning}")
    for finding in report.findings:
        print_line(f"{_WORD_BY_SEVERITY[finding.severity]} {finding.code}: {finding.message}")
    print_line(
        f"INFO  Lint complete: {len(report.results)} queries processed "
        f"({report.error_count} error(s), {report.warning_count} warning(s), "
        f"{report.info_count} info item(s))"
    )
