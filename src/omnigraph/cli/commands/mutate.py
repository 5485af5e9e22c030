"""`omnigraph mutate`: a mutation of a text, or a stored one by its name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.files import placing
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, IF_COMMIT_OPTION, JSON_OPTION, KEY_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.query_inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    QUERY_OPTION,
    TEXT_OPTION,
    find_params,
    find_text,
    require_one_reader_of_input,
    require_stored,
)
from omnigraph.cli.terminal import waiting
from omnigraph.compiler.query.naming import find_only_name
from omnigraph.wire.bodies import change_output
from omnigraph.wire.shapes import ChangeOutput

if TYPE_CHECKING:
    from omnigraph.engine.results import MutationResult


@command()
@click.argument("name", required=False)
@QUERY_OPTION
@TEXT_OPTION
@PARAMS_OPTION
@PARAMS_FILE_OPTION
@BRANCH_OPTION
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
@click.pass_obj
def mutate(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params_text: str | None,
    params_path: str | None,
    branch: str,
    if_commit: str | None,
    idempotency_key: str | None,
    is_json: bool,
) -> None:
    """Run a mutation as one commit, or change nothing.

    With a text, NAME picks one of its queries; without, NAME is a stored one of a server.
    """
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    params = find_params(params_text, params_path)
    target = invocation.target(None)
    if text is None:
        stored, served = require_stored(name, target)
        invocation.announce("mutate", target)
        with invocation.open_served(served, read_only=False) as remote:
            # By its name, because the engine takes a while to import: help does without.
            part = import_module("omnigraph.cli.stored_queries")
            with waiting("mutate", invocation.environment):
                done: MutationResult = part.run_mutation(
                    remote,
                    stored,
                    params,
                    branch=branch,
                    if_commit=if_commit,
                    idempotency_key=idempotency_key,
                )
            output = change_output(done, branch=branch, query_name=stored, actor=remote.actor)
    else:
        invocation.announce("mutate", target)
        with invocation.open(target, read_only=False) as graph:
            with placing(text, query_path), waiting("mutate", invocation.environment):
                done = graph.mutate(
                    text,
                    params,
                    name=name,
                    branch=branch,
                    if_commit=if_commit,
                    idempotency_key=idempotency_key,
                )
            ran = find_only_name(text) if name is None else name
            output = change_output(done, branch=branch, query_name=ran, actor=graph.actor)
    _print(output, is_json=is_json)


def _print(output: ChangeOutput, *, is_json: bool) -> None:
    if is_json:
        print_json(output)
        return
    print_line(
        f"changed {output['branch']} via {output['query_name']}: "
        f"{output['affected_nodes']} nodes, {output['affected_edges']} edges"
    )
    if output["actor_id"] is not None:
        print_line(f"actor_id: {output['actor_id']}")
