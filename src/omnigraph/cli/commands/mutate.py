"""`omnigraph mutate`: a mutation given as text, or a stored mutation by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Unpack

import click

from omnigraph.cli.command import command
from omnigraph.cli.inputs import (
    PARAMS_FILE_OPTION,
    PARAMS_OPTION,
    QUERY_OPTION,
    TEXT_OPTION,
    attach_path,
    find_params,
    find_text,
    hinting_at_store,
    require_one_reader_of_input,
    require_stored,
)
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    EMBED_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    WriteConditions,
)
from omnigraph.cli.output import show_count
from omnigraph.compiler.query.parser import get_single_query_name
from omnigraph.http.encode import encode_mutation

if TYPE_CHECKING:
    from omnigraph.engine.results import MutationResult


@command(
    QUERY_OPTION,
    TEXT_OPTION,
    PARAMS_OPTION,
    PARAMS_FILE_OPTION,
    BRANCH_OPTION,
    EMBED_OPTION,
    IF_COMMIT_OPTION,
    KEY_OPTION,
    JSON_OPTION,
)
@click.argument("name", required=False)
def mutate(  # noqa: PLR0913  # its flags
    invocation: Invocation,
    *,
    name: str | None,
    query_path: str | None,
    query_text: str | None,
    params_text: str | None,
    params_path: str | None,
    branch: str,
    embed: str | None,
    **conditions: Unpack[WriteConditions],
) -> None:
    """Run a mutation as one commit, or change nothing.

    With a query text, NAME selects one of its queries; without, NAME is a stored query of a server.
    """
    require_one_reader_of_input(query_path, params_path)
    text = find_text(query_path, query_text)
    params = find_params(params_text, params_path)
    with hinting_at_store(name):
        target = invocation.target(None)
    if text is None:
        stored, served = require_stored(name, target)
        invocation.announce("mutate", target)
        with invocation.open_served(served, read_only=False) as remote:
            # Imported by name, because the engine is slow to import and help does not need it.
            part = import_module("omnigraph.client.remote")
            with invocation.waiting("mutate"):
                done: MutationResult = part.run_mutation(
                    remote,
                    stored,
                    params,
                    branch=branch,
                    embed=embed,
                    **conditions,
                )
            output = encode_mutation(done, branch=branch, query_name=stored, actor=remote.actor)
    else:
        with invocation.open_to_write("mutate", target) as graph:
            with attach_path(text, query_path), invocation.waiting("mutate"):
                done = graph.mutate(
                    text, params, name=name, branch=branch, embed=embed, **conditions
                )
            ran = get_single_query_name(text) if name is None else name
            output = encode_mutation(done, branch=branch, query_name=ran, actor=graph.actor)
    nodes, edges = output["affected_nodes"], output["affected_edges"]
    lines = [
        f"changed {output['branch']} via {output['query_name']}: "
        f"{show_count(nodes, 'node')}, {show_count(edges, 'edge')}"
    ]
    if output["actor_id"] is not None:
        lines.append(f"actor_id: {output['actor_id']}")
    invocation.print_output(output, lines)
