"""`omnigraph snapshot`: the types of a branch, each at its version."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.wire.bodies import snapshot_output


@command()
@URI_ARGUMENT
@BRANCH_OPTION
@JSON_OPTION
@click.pass_obj
def snapshot(invocation: Invocation, *, uri: str | None, branch: str, is_json: bool) -> None:
    """Show what a branch consists of: each type, its version and how many rows it has."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        output = snapshot_output(graph.snapshot(branch), branch=branch)
    if is_json:
        print_json(output)
        return
    print_line(f"branch: {output['branch']}")
    print_line(f"manifest_version: {output['manifest_version']}")
    for table in output["tables"]:
        print_line(
            f"{table['table_key']} v{table['table_version']} "
            f"branch={table['table_branch'] or 'main'} rows={table['row_count']}"
        )
