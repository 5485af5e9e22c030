"""`omnigraph graphs …`: what a server has."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation, list_served
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_json, print_line


@command()
@click.option("--uri", metavar="URL", help="The server, if no --server names it.")
@JSON_OPTION
@click.pass_obj
def list_all(invocation: Invocation, uri: str | None, *, is_json: bool) -> None:
    """List the graphs that a server serves."""
    served = sorted(list_served(invocation.server_target(uri)), key=lambda each: each.graph_id)
    if is_json:
        print_json({"graphs": [{"graph_id": each.graph_id, "uri": each.uri} for each in served]})
        return
    for each in served:
        print_line(f"{each.graph_id} {each.uri}")
