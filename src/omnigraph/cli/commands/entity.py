"""`omnigraph entity`: one node or edge, with all that it has."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.command import command
from omnigraph.cli.display import make_harmless
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, READ_BRANCH_OPTION, SNAPSHOT_OPTION, URI_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.query_inputs import require_one
from omnigraph.cli.value_text import show_value
from omnigraph.model.errors import NotFoundError
from omnigraph.wire.shapes import EntityOutput


@command()
@click.argument("type")
@click.argument("id")
@READ_BRANCH_OPTION
@SNAPSHOT_OPTION
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def entity(
    invocation: Invocation,
    *,
    type: str,
    id: str,
    branch: str | None,
    snapshot: str | None,
    uri: str | None,
    is_json: bool,
) -> None:
    """Show one node or edge of a TYPE by its ID; exits with 1 if there is none."""
    require_one({"--branch": branch, "--snapshot": snapshot})
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = graph.entity(type, id, branch=branch, commit=snapshot)
    if is_json:
        output: EntityOutput = {"type": type, "id": id, "entity": found}
        print_json(output)
        if found is None:
            sys.exit(1)
        return
    if found is None:
        raise NotFoundError(kind=type, name=id, advice="")
    for name, value in found.items():
        print_line(
            f"{name}: {make_harmless(value) if isinstance(value, str) else show_value(value)}"
        )
