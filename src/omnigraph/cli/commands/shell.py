"""`omnigraph shell`: statements one after the other, typed or from the standard input."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

import click

from omnigraph.cli.command import command
from omnigraph.cli.config import Format
from omnigraph.cli.files import STANDARD_INPUT, read_source
from omnigraph.cli.formats.printing import find_look
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import URI_ARGUMENT
from omnigraph.cli.output import print_note
from omnigraph.cli.shell.commands import shell_commands
from omnigraph.cli.shell.session import Display, Session
from omnigraph.cli.terminal import standard_output
from omnigraph.compiler.typed.statements import split_statements


@command()
@URI_ARGUMENT
@click.option("--branch", default="main", show_default=True, help="The branch to begin on.")
@click.option(
    "--format",
    "chosen",
    type=click.Choice([each.value for each in Format]),
    help="How to print rows.",
)
@click.pass_obj
def shell(invocation: Invocation, *, uri: str | None, branch: str, chosen: str | None) -> None:
    """Query and change a graph interactively.

    Without a terminal, statements are read from the standard input, up to the first that fails.
    """
    target = invocation.target(uri)

    @cache
    def announce() -> None:
        invocation.announce("shell", target)

    def find_display() -> Display:
        # Asked for every answer, because windows change their size.
        return Display(standard_output(invocation.environment), find_look(invocation))

    with invocation.open(target, read_only=False) as graph:
        session = Session(
            graph,
            commands=shell_commands(),
            display=find_display,
            format=invocation.output_format(is_json=False, chosen=chosen, of_alias=None),
            announce=announce,
        )
        session.run(f"\\branch {branch}")
        if sys.stdin.isatty() and sys.stdout.isatty():
            print_note(f"{target.uri} ({target.access}); \\help says what there is to type")
            # By its name, because what edits lines takes a while to import and scripts need none.
            import_module("omnigraph.cli.shell.prompting").talk(session, home=invocation.home)
            return
        for statement in split_statements(read_source(STANDARD_INPUT).text):
            session.run(statement)
            if session.is_over:
                return
