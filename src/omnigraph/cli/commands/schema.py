"""The commands `init`, `schema show`, `schema plan` and `schema apply`.

A schema change is one commit or changes nothing. `init` and `schema apply` reject a location that a
cluster manages. A graph with commits is replaced only after confirmation or with `--yes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Unpack

import click

import omnigraph
from omnigraph.cli.command import command
from omnigraph.cli.inputs import attach_path, read_source, require_one, require_one_reader_of_input
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    URI_ARGUMENT,
)
from omnigraph.cli.output import (
    CommandError,
    print_json,
    print_line,
    print_pieces,
)
from omnigraph.cli.targets import StoreTarget
from omnigraph.http.encode import schema_apply_output
from omnigraph.http.responses import SchemaOutput, SchemaPlanOutput
from omnigraph.model.errors import ForbiddenError, GraphError, NotFoundError, UnavailableError
from omnigraph.model.names import MAIN
from omnigraph.model.ports import WriteConditions
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Source
from omnigraph.storage.environment import make_storage_options
from omnigraph.storage.locations import parse_location

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph
    from omnigraph.compiler import compile as compiling
    from omnigraph.compiler import migration, migration_steps
    from omnigraph.compiler.migration import MigrationPlan
else:
    compiling = lazy_module("omnigraph.compiler.compile")
    migration = lazy_module("omnigraph.compiler.migration")
    migration_steps = lazy_module("omnigraph.compiler.migration_steps")


def _plan(accepted: Source, desired: Source, *, allow_data_loss: bool) -> MigrationPlan:
    return migration.plan_migration(
        compiling.compile_schema(accepted),
        compiling.compile_schema(desired),
        source=desired,
        allow_data_loss=allow_data_loss,
    )


_GRAPH_OF_CLUSTER = re.compile(r"(?P<root>.*)/graphs/[^/]+\.omni/*")
_STATE = "__cluster/state.json"


def require_not_managed(uri: str, *, action: str, environment: Mapping[str, str]) -> None:
    """Reject a change by hand to a graph that a cluster manages; nothing is created."""
    found = _GRAPH_OF_CLUSTER.fullmatch(parse_location(uri, storage_options={}).uri)
    if found is None:
        return
    # Imported by name, because it is slow to import, and few graphs are below such a path.
    objects = import_module("omnigraph.storage.objects")
    options = make_storage_options(environment, {})
    root = parse_location(found["root"] or "/", storage_options=options)
    if objects.open_objects(root, is_durable=True).find(_STATE) is not None:
        raise CommandError(
            f"{uri} belongs to the cluster at {root.uri}, so {action} is rejected; nothing was "
            "changed; edit cluster.yaml there and run `omnigraph cluster apply`"
        )


_SCHEMA_OPTION = click.option(
    "--schema", "desired_path", required=True, metavar="FILE", help="The new schema, a .pg file."
)


@command(URI_ARGUMENT, JSON_OPTION)
def show(invocation: Invocation) -> None:
    """Print the accepted schema as it was written."""
    with invocation.open_to_read() as graph:
        text = graph.schema_source
    if invocation.is_json:
        output: SchemaOutput = {"schema_source": text}
        print_json(output)
    else:
        print_pieces([text.encode(), b"" if text.endswith("\n") else b"\n"])


@command(URI_ARGUMENT, JSON_OPTION)
@_SCHEMA_OPTION
@click.option(
    "--from", "accepted_path", metavar="FILE", help="Compare with this .pg file instead of a graph."
)
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Plan drops that also delete the data from old versions.",
)
def plan(
    invocation: Invocation, *, desired_path: str, accepted_path: str | None, allow_data_loss: bool
) -> None:
    """Show the steps from the accepted schema to another one.

    Changes nothing and exits with 0 even when a step is unsupported.
    """
    require_one({"URI": invocation.uri, "--from": accepted_path})
    require_one_reader_of_input(desired_path, accepted_path)
    desired = read_source(desired_path)
    blockers: tuple[str, ...] = ()
    if accepted_path is not None:
        place, accepted = accepted_path, read_source(accepted_path)
    else:
        target = invocation.direct_target()
        with invocation.open_direct(target, read_only=True) as graph:
            place, accepted = target.uri, Source("<accepted>", graph.schema_source)
            # Planning here first makes errors in the text name the file.
            _plan(accepted, desired, allow_data_loss=allow_data_loss)
            blockers = graph.plan_schema(desired.text, allow_data_loss=allow_data_loss).blockers
    found = _plan(accepted, desired, allow_data_loss=allow_data_loss)
    output: SchemaPlanOutput = {
        "uri": place,
        "supported": found.supported and not blockers,
        "step_count": len(found.steps),
        "steps": [{**migration_steps.encode_step(step)} for step in found.steps],
        "blockers": list(blockers),
    }
    lines = [
        f"schema plan for {place}",
        f"supported: {'yes' if output['supported'] else 'no'}",
        *(f"blocked: {each}" for each in blockers),
        *_view_steps(found),
    ]
    invocation.print_output(output, lines)


@command(URI_ARGUMENT, IF_COMMIT_OPTION, KEY_OPTION, JSON_OPTION)
@_SCHEMA_OPTION
@click.option("--allow-data-loss", is_flag=True, help="Also delete dropped data from old versions.")
def apply(
    invocation: Invocation,
    *,
    desired_path: str,
    allow_data_loss: bool,
    **conditions: Unpack[WriteConditions],
) -> None:
    """Apply a schema to the graph as one commit, or change nothing."""
    target = invocation.target()
    desired = read_source(desired_path)
    if isinstance(target, StoreTarget):
        require_not_managed(target.uri, action="`schema apply`", environment=invocation.environment)
    with invocation.open_to_write("schema apply", target) as graph:
        planned = (
            None
            if invocation.is_json
            else _plan_apply(graph, desired, allow_data_loss=allow_data_loss)
        )
        with attach_path(desired.text, desired_path), invocation.waiting("apply"):
            done = graph.apply_schema(desired.text, allow_data_loss=allow_data_loss, **conditions)
        try:
            version = graph.snapshot(MAIN).commit.manifest_version
        except ForbiddenError:
            # A caller may be permitted to apply a schema, but not to read.
            version = None
        output = schema_apply_output(done, uri=target.uri, manifest_version=version)
    lines = [
        f"schema apply for {target.uri}",
        "supported: yes",
        f"applied: {'yes' if done.applied else 'no'}",
        *_view_steps(planned if done.steps else None),
    ]
    invocation.print_output(output, lines)


def _plan_apply(graph: AnyGraph, desired: Source, *, allow_data_loss: bool) -> MigrationPlan | None:
    """The steps that will be applied; None if the caller may not read the schema."""
    try:
        accepted = Source("<accepted>", graph.schema_source)
    except ForbiddenError:
        return None
    return _plan(accepted, desired, allow_data_loss=allow_data_loss)


def _view_steps(planned: MigrationPlan | None) -> list[str]:
    steps = () if planned is None else planned.steps
    return [f"- {migration_steps.describe_step(each)}" for each in steps] or ["no schema changes"]


@command()
@click.argument("uri")
@click.option("--schema", "schema_path", required=True, metavar="FILE", help="The .pg file.")
@click.option("--force", is_flag=True, help="Delete the existing graph and its history first.")
def init(invocation: Invocation, *, schema_path: str, force: bool) -> None:
    """Create a graph at URI, a new or empty folder.

    --force replaces an existing graph and keeps other files beside it. A graph that has commits is
    deleted only after a confirmation, or with --yes.
    """
    target = invocation.reached = invocation.direct_target()
    schema = read_source(schema_path)
    require_not_managed(target.uri, action="`init`", environment=invocation.environment)
    if force and _holds_commits(target.uri):
        invocation.confirm("delete the graph and its history", target, confirms_locally=True)
    with attach_path(schema.text, schema_path):
        omnigraph.init(target.uri, schema.text, force=force).close()
    print_line(f"initialized {target.uri}")


def _holds_commits(uri: str) -> bool:
    """Whether `--force` would delete more than an empty graph."""
    try:
        with omnigraph.open(uri, read_only=True) as graph:
            return len(graph.commits()) > 1 or len(graph.branches()) > 1
    except NotFoundError:
        return False
    except UnavailableError:
        raise
    except GraphError:
        # A graph that cannot be opened may still have a history that can be restored.
        return True
