"""`omnigraph lint`: a file of queries against a schema, offline."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.output import print_json, print_line
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.lint import LintReport, encode_report, kind_of, lint_queries
from omnigraph.model.source import Severity

_WORD_BY_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN ", Severity.INFO: "INFO "}


@click.command()
@click.option("--query", "query_path", required=True, metavar="FILE", help="The .gq file.")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The .pg file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def lint(query_path: str, schema_path: str, *, as_json: bool) -> None:
    """Check a file of queries against a schema.

    Exits with 1 if any query is wrong. Reads no graph.
    """
    catalog = compile_schema(read_source(schema_path))
    report = lint_queries(read_source(query_path), catalog)
    if as_json:
        schema_source = {"kind": "file", "path": schema_path}
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
