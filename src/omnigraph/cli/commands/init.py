"""`omnigraph init`: a new graph."""

from __future__ import annotations

import click

import omnigraph
from omnigraph.cli.cluster_graphs import require_unmanaged
from omnigraph.cli.command import command
from omnigraph.cli.files import placing, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.output import print_line


@command()
@click.argument("uri")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The .pg file.")
@click.option("--force", is_flag=True, help="Delete the graph that is there, with its history.")
@click.pass_obj
def init(invocation: Invocation, *, uri: str, schema_path: str, force: bool) -> None:
    """Create a graph at URI."""
    target = invocation.reached = invocation.direct_target(uri)
    schema = read_source(schema_path)
    require_unmanaged(target.uri, deed="`init`", environment=invocation.environment)
    with placing(schema.text, schema_path):
        omnigraph.init(target.uri, schema.text, force=force).close()
    print_line(f"initialized {target.uri}")
