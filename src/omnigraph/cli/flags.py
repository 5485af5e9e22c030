"""The flags that every command takes, before or after its name.

Promises that a flag means the same wherever it stands; given twice, the one nearer to the end
counts. Does not know which flags apply to which command.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import click

from omnigraph.cli.completions import Complete, complete_profiles, complete_servers

_META = "omnigraph.cli.flags"


@dataclass(frozen=True, slots=True)
class Flags:
    """The global flags of one command line; None where one was not given."""

    actor: str | None
    server: str | None
    graph: str | None
    profile: str | None
    store: str | None
    cluster: str | None
    is_yes: bool
    is_quiet: bool


NO_FLAGS = Flags(
    actor=None,
    server=None,
    graph=None,
    profile=None,
    store=None,
    cluster=None,
    is_yes=False,
    is_quiet=False,
)

VALUE_FLAGS = ("--as", "--server", "--graph", "--profile", "--store", "--cluster")
"""The flags that take a value, which is the next argument unless it follows a `=`."""


class GlobalOption(click.Option):
    """An option that every command has; its value goes to `flags_of`, not to the command."""


def global_options() -> list[click.Parameter]:
    """The global flags as options for one more command."""
    return [
        _named("--server", "server", "NAME|URL", "The server to ask.", complete_servers),
        _valued("--graph", "graph", "ID", "The graph of a server or cluster."),
        _placed("--store", "store", "URI", "The storage of one graph, opened directly."),
        _placed("--cluster", "cluster", "DIR|URI|NAME", "The cluster whose graph is meant."),
        _named(
            "--profile", "profile", "NAME", "A profile of the configuration.", complete_profiles
        ),
        _valued("--as", "actor", "ACTOR", "In whose name to write directly."),
        _switch("--yes", "is_yes", "Overwrite or delete on a remote target without asking."),
        _switch("--quiet", "is_quiet", "Do not say on stderr where a write goes."),
    ]


def flags_of(context: click.Context) -> Flags:
    """The flags that were parsed so far, on this command and on those before it."""
    given = context.meta.get(_META, {})
    return Flags(
        **{
            field.name: given.get(field.name, getattr(NO_FLAGS, field.name))
            for field in fields(Flags)
        }
    )


def _valued(spelling: str, name: str, metavar: str, help: str) -> GlobalOption:
    return GlobalOption(
        [spelling, name], metavar=metavar, help=help, expose_value=False, callback=_remember
    )


def _placed(spelling: str, name: str, metavar: str, help: str) -> GlobalOption:
    option = _valued(spelling, name, metavar, help)
    # Checks nothing; shells complete it as a path.
    option.type = click.Path()
    return option


def _named(spelling: str, name: str, metavar: str, help: str, complete: Complete) -> GlobalOption:
    return GlobalOption(
        [spelling, name],
        metavar=metavar,
        help=help,
        expose_value=False,
        callback=_remember,
        shell_complete=complete,
    )


def _switch(spelling: str, name: str, help: str) -> GlobalOption:
    return GlobalOption(
        [spelling, name], is_flag=True, help=help, expose_value=False, callback=_remember
    )


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    # An empty text was given: `--store ""` must not fall back to another graph in silence.
    if value is not None and value is not False:
        context.meta.setdefault(_META, {})[parameter.name] = value
