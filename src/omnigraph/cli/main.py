"""The `omnigraph` command: finds the command that was asked for and turns errors into exits.

Exits with 0 on success, 1 when the work failed, 2 when the command line was wrong. A command's
module is imported only when it runs, so that `--help` and offline commands start at once.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module

import click

import omnigraph
from omnigraph.model.errors import GraphError


@dataclass(frozen=True, slots=True)
class Entry:
    """A command before it is imported: where it is, and what `--help` says of it."""

    location: str
    capability: str
    summary: str


ENTRIES = {
    "lint": Entry(
        "omnigraph.cli.commands.lint:lint",
        "direct",
        "Check a file of queries against a schema.",
    ),
    "schema": Entry(
        "omnigraph.cli.commands.schema:schema",
        "direct",
        "Plan how a schema becomes another.",
    ),
    "version": Entry(
        "omnigraph.cli.commands.version:version",
        "local",
        "Print the version.",
    ),
}

_MEANING_BY_CAPABILITY = {
    "direct": "work on files and storage themselves",
    "local": "need neither a graph nor a server",
}


class LazyGroup(click.Group):
    """The commands of `ENTRIES`, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.location.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("COMMANDS BY CAPABILITY"):
            for capability, meaning in _MEANING_BY_CAPABILITY.items():
                formatter.write_text(f"{capability} commands {meaning}:")
                formatter.indent()
                formatter.write_dl(
                    [(n, e.summary) for n, e in ENTRIES.items() if e.capability == capability]
                )
                formatter.dedent()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(omnigraph.__version__, "-v", "--version", message="omnigraph %(version)s")
def root() -> None:
    """A typed property graph with branches, on open Lance tables."""


def main() -> None:
    """Run the command line and exit."""
    try:
        # Outside its standalone mode click returns the code of an early exit, such as `--help`'s.
        sys.exit(root.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except GraphError as error:
        _fail(str(error))
    except BrokenPipeError:
        # The reader of a pipe has left. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted")


def _fail(message: str) -> None:
    click.echo(f"Error: {message}", err=True)
    sys.exit(1)
