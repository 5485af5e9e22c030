"""`omnigraph mcp`: stored queries as tools for an agent, over the standard streams."""

from __future__ import annotations

from importlib import import_module

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import URI_ARGUMENT
from omnigraph.cli.output import print_note
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.targets import ServedTarget, StoreTarget

# By its name, because the engine and the SDK take a while to import: help and refusals do without.
_SERVING = "omnigraph.cli.agent_tools"


@command()
@URI_ARGUMENT
@click.option(
    "--queries",
    metavar="PATH",
    help="Stored queries of a graph that is opened here: a .gq file, or a folder of them.",
)
@click.option("--ad-hoc", is_flag=True, help="Let the agent run reads of its own as well.")
@click.option("--allow-main", is_flag=True, help="Let the agent write to `main` if it says so.")
@click.pass_obj
def mcp(
    invocation: Invocation, *, uri: str | None, queries: str | None, ad_hoc: bool, allow_main: bool
) -> None:
    """Offer stored queries to an agent as tools of the Model Context Protocol.

    An agent's program starts this command and speaks to it over the standard streams. Writes go to
    a branch of the agent's own, which a person merges. Of a server, its stored queries are the
    tools, and its policy decides.
    """
    target = invocation.target(uri)
    if isinstance(target, ServedTarget) and queries is not None:
        raise CommandError("--queries does not apply to a server, which has stored queries itself")
    if isinstance(target, StoreTarget) and queries is None and not ad_hoc:
        print_note("there are no tools: give --queries PATH, or --ad-hoc, or both")
    invocation.announce("mcp", target)
    part = import_module(_SERVING)
    match target:
        case StoreTarget():
            with invocation.open_direct(target, read_only=False) as graph:
                part.serve_graph(graph, queries, is_ad_hoc=ad_hoc, allows_main=allow_main)
        case ServedTarget():
            with invocation.open_served(target, read_only=False) as remote:
                part.serve_remote(remote, is_ad_hoc=ad_hoc, allows_main=allow_main)
