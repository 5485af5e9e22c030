"""`omnigraph schema …`: the schema of a graph, what another would change, and changing it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.cluster_graphs import require_unmanaged
from omnigraph.cli.command import command
from omnigraph.cli.files import placing, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import IF_COMMIT_OPTION, JSON_OPTION, KEY_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line, print_pieces
from omnigraph.cli.query_inputs import require_one, require_one_reader_of_input
from omnigraph.cli.targets import StoreTarget
from omnigraph.cli.terminal import waiting
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.names import MAIN
from omnigraph.model.source import Source
from omnigraph.wire.bodies import schema_apply_output
from omnigraph.wire.shapes import SchemaOutput

if TYPE_CHECKING:
    from omnigraph.cli.schema_plans import PlannedSchema
    from omnigraph.client.calls import GraphCalls

_SCHEMA_OPTION = click.option(
    "--schema", "desired_path", required=True, metavar="FILE", help="The desired .pg."
)


@command()
@URI_ARGUMENT
@JSON_OPTION
@click.pass_obj
def show(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """Print the accepted schema as it was written."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        output: SchemaOutput = {"schema_source": graph.schema_source}
    if is_json:
        print_json(output)
    else:
        text = output["schema_source"]
        print_pieces([text.encode(), b"" if text.endswith("\n") else b"\n"])


@command()
@URI_ARGUMENT
@_SCHEMA_OPTION
@click.option(
    "--from", "accepted_path", metavar="FILE", help="Compare with this .pg and read no graph."
)
@click.option("--allow-data-loss", is_flag=True, help="Plan drops that purge old versions too.")
@JSON_OPTION
@click.pass_obj
def plan(
    invocation: Invocation,
    *,
    uri: str | None,
    desired_path: str,
    accepted_path: str | None,
    allow_data_loss: bool,
    is_json: bool,
) -> None:
    """Show the steps from the accepted schema to another one.

    Changes nothing and exits with 0 even when a step is unsupported.
    """
    require_one({"URI": uri, "--from": accepted_path})
    require_one_reader_of_input(desired_path, accepted_path)
    desired = read_source(desired_path)
    if accepted_path is not None:
        place, accepted = accepted_path, read_source(accepted_path)
    else:
        target = invocation.direct_target(uri)
        with invocation.open_direct(target, read_only=True) as graph:
            place, accepted = target.uri, Source("<accepted>", graph.schema_source)
    planned = _plan(accepted, desired, allow_data_loss=allow_data_loss, uri=place)
    if is_json:
        print_json(planned.output)
        return
    print_line(f"schema plan for {place}")
    print_line(f"supported: {'yes' if planned.output['supported'] else 'no'}")
    _print_steps(planned.lines)


@command()
@URI_ARGUMENT
@_SCHEMA_OPTION
@click.option(
    "--allow-data-loss", is_flag=True, help="Purge what is dropped from old versions too."
)
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
@click.pass_obj
def apply(
    invocation: Invocation,
    *,
    uri: str | None,
    desired_path: str,
    allow_data_loss: bool,
    if_commit: str | None,
    idempotency_key: str | None,
    is_json: bool,
) -> None:
    """Make a schema the graph's as one commit, or change nothing."""
    target = invocation.target(uri)
    desired = read_source(desired_path)
    if isinstance(target, StoreTarget):
        require_unmanaged(target.uri, deed="`schema apply`", environment=invocation.environment)
    invocation.announce("schema apply", target)
    with invocation.open(target, read_only=False) as graph:
        described = () if is_json else _describe(graph, desired, allow_data_loss=allow_data_loss)
        with placing(desired.text, desired_path), waiting("apply", invocation.environment):
            done = graph.apply_schema(
                desired.text,
                allow_data_loss=allow_data_loss,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
            )
        output = schema_apply_output(done, uri=target.uri, manifest_version=_find_version(graph))
    if is_json:
        print_json(output)
        return
    print_line(f"schema apply for {target.uri}")
    print_line("supported: yes")
    print_line(f"applied: {'yes' if done.applied else 'no'}")
    _print_steps(described if done.steps else ())


def _plan(accepted: Source, desired: Source, *, allow_data_loss: bool, uri: str) -> PlannedSchema:
    # By its name, because the compiler takes a while to import: showing a schema does without.
    part = import_module("omnigraph.cli.schema_plans")
    planned: PlannedSchema = part.plan_between(
        accepted, desired, allow_data_loss=allow_data_loss, uri=uri
    )
    return planned


def _describe(graph: GraphCalls, desired: Source, *, allow_data_loss: bool) -> Sequence[str]:
    """The steps that are about to be taken; nothing for those who may not read the schema."""
    try:
        accepted = Source("<accepted>", graph.schema_source)
    except ForbiddenError:
        return ()
    return _plan(accepted, desired, allow_data_loss=allow_data_loss, uri=graph.uri).lines


def _find_version(graph: GraphCalls) -> int | None:
    """The version of `main`'s manifest; None for those who may apply a schema and read nothing."""
    try:
        return graph.snapshot(MAIN).commit.manifest_version
    except ForbiddenError:
        return None


def _print_steps(described: Sequence[str]) -> None:
    for line in described:
        print_line(f"- {line}")
    if not described:
        print_line("no schema changes")
