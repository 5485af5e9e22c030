"""`omnigraph shell`: a sequence of statements, typed or from standard input."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from omnigraph.cli.command import command
from omnigraph.cli.inputs import STANDARD_INPUT, read_source
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import FORMAT_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_note
from omnigraph.cli.shell.session import Session
from omnigraph.compiler.statements import split_statements


@command()
@URI_ARGUMENT
@click.option("--branch", default="main", show_default=True, help="The initial branch.")
@FORMAT_OPTION
def shell(invocation: Invocation, *, uri: str | None, branch: str, chosen: str | None) -> None:
    """Query and change a graph interactively.

    Without a terminal, statements are read from standard input, up to the first that fails.
    """
    target = invocation.target(uri)
    with invocation.open(target, read_only=False) as graph:
        format = invocation.output_format(is_json=False, chosen=chosen, of_alias=None)
        session = Session(graph, invocation, target, format=format)
        graph.head(branch)
        session.branch = branch
        if sys.stdin.isatty() and sys.stdout.isatty():
            print_note(f"{target.uri} ({target.access}); \\help lists the commands")
            # Imported by name, because the line editor is slow to import and scripts do not need
            # it.
            import_module("omnigraph.cli.shell.prompt").run_prompt(session, home=invocation.home)
            return
        for statement in split_statements(read_source(STANDARD_INPUT).text):
            session.run(statement)
            if session.is_over:
                return
