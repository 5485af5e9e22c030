"""`omnigraph export`: the rows of a branch as JSON lines, or as files that `load` reads back."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_OUTPUT, require_one
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import READ_BRANCH_OPTION, SNAPSHOT_OPTION, URI_ARGUMENT
from omnigraph.cli.output import (
    CommandError,
    print_line,
    print_note,
    print_pieces,
)
from omnigraph.cli.targets import ServedTarget
from omnigraph.http.encode import join_lines, select_lines
from omnigraph.model.errors import NotFoundError


@command(URI_ARGUMENT)
@READ_BRANCH_OPTION
@SNAPSHOT_OPTION
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only this type. Repeatable.")
@click.option(
    "--table",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Only this type, with its kind: node:Name or edge:Name. Repeatable.",
)
@click.option("--jsonl", is_flag=True, hidden=True)
@click.option(
    "--out",
    metavar="FOLDER",
    help="Write one file per type into a new folder; requires direct storage access.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["ndjson", "parquet", "arrow"]),
    help="The format of the files of --out; the default is ndjson.",
)
def export(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    branch: str | None,
    snapshot: str | None,
    types: tuple[str, ...],
    keys: tuple[str, ...],
    jsonl: bool,
    out: str | None,
    format: str | None,
) -> None:
    """Print the rows of a branch as JSON lines, edges before nodes; `load` reads them back."""
    require_one({"--branch": branch, "--snapshot": snapshot})
    if jsonl:
        print_note("warning: `--jsonl` is deprecated; the output is always lines of JSON")
    selection = select_lines(types, keys)
    if out is not None and out != STANDARD_OUTPUT:
        if keys:
            raise click.UsageError("--table does not apply with --out; use --type")
        target = invocation.target()
        if isinstance(target, ServedTarget):
            raise CommandError(
                "--out needs direct storage access; to export from a server, redirect the output: "
                "`omnigraph export > rows.jsonl`"
            )
        with invocation.open_direct(target, read_only=True) as graph, invocation.waiting("export"):
            report = graph.export_files(
                out,
                format=format or "ndjson",
                branch=branch,
                commit=snapshot,
                types=list(types) or None,
            )
        for each in report.types:
            print_line(f"{each.file} {each.type} rows={each.rows}")
        print_note(f"exported commit {report.commit_id} to {report.folder}")
        return
    if format is not None:
        raise click.UsageError("--format applies only to --out FOLDER")
    with invocation.open_to_read() as opened:
        if snapshot is None and keys:
            known = opened.tables(branch or "main")
            missing = next((key for key in keys if key not in known), None)
            if missing is not None:
                advice = "`omnigraph snapshot` lists them"
                raise NotFoundError(kind="type", name=missing, advice=advice)
        lines = opened.export(branch=branch, commit=snapshot, types=selection.types)
        print_pieces(join_lines(selection.keep(lines)))
