"""Global flags, options that several commands share, durations, and shell completion of names.

A global flag has the same meaning before and after the command name; of repeated flags the last one
counts. Completion never fails: an unreadable configuration completes to nothing. Which flags apply
to which command is decided in `registry`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

import click

from omnigraph.cli.config import CONFIG_FILE, Format, OperatorConfig, find_home, read_config
from omnigraph.cli.output import CommandError

JSON_OPTION = click.option("--json", "is_json", is_flag=True, help="Print the payload as JSON.")
URI_ARGUMENT = click.argument("uri", required=False)
URI_OPTION = click.option("--uri", metavar="URI", help="The storage of the graph.")
BRANCH_OPTION = click.option(
    "--branch", default="main", show_default=True, metavar="BRANCH", help="The branch."
)
READ_BRANCH_OPTION = click.option(
    "--branch", metavar="BRANCH", help="The branch to read; the default is `main`."
)
SNAPSHOT_OPTION = click.option(
    "--snapshot", metavar="COMMIT", help="The commit or tag to read instead of a branch."
)
IF_COMMIT_OPTION = click.option(
    "--if-commit", metavar="COMMIT", help="Write only if the branch is at this commit."
)
KEY_OPTION = click.option(
    "--idempotency-key", metavar="KEY", help="Makes retries of this request idempotent."
)


EMBED_OPTION = click.option(
    "--embed",
    type=click.Choice(["now", "later"]),
    help="When empty `@embed` vectors are filled; by default now if a provider is configured.",
)
ENGINE_OPTION = click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where the query runs.",
)
FORMAT_OPTION = click.option(
    "--format",
    "chosen",
    type=click.Choice([each.value for each in Format]),
    help="The output format of rows.",
)


_WRITTEN = re.compile(r"([0-9]{1,12})([smhdw]?)")
_UNITS = {
    "": timedelta(seconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_RULE = "write a whole number and s, m, h, d or w, such as 30m or 7d; without a unit it is seconds"


class Duration(click.ParamType[timedelta]):
    """A duration; any other text is a usage error."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parse a duration."""
        if isinstance(value, timedelta):
            return value
        found = _WRITTEN.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a valid duration; {_RULE}", param, ctx)
        try:
            return int(found[1]) * _UNITS[found[2]]
        except OverflowError:
            self.fail(f"{value!r} is too long", param, ctx)


Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_PATHS = frozenset({"FILE", "URI", "DIR", "OLD", "NEW", "DIR|URI|NAME"})
"""The metavars of values that may be paths."""


def _complete_names(choose: Callable[[OperatorConfig], Iterable[str]]) -> Complete:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        try:
            config, _ = read_config(find_home(context.find_root().obj) / CONFIG_FILE)
        except CommandError:
            return []
        return sorted(name for name in choose(config) if name.startswith(incomplete))

    return complete


# The names in the configuration.
complete_servers = _complete_names(lambda config: config.url_by_server)
complete_profiles = _complete_names(lambda config: config.profiles)
complete_aliases = _complete_names(lambda config: config.aliases)


def complete_paths(parameters: Iterable[click.Parameter]) -> None:
    """Enable path completion in shells for the parameters that are paths."""
    for parameter in parameters:
        is_path = parameter.metavar in _PATHS or parameter.name == "uri"
        if is_path and isinstance(parameter.type, click.types.StringParamType):
            # `click.Path` checks nothing here: the command reports a missing or unreadable file.
            parameter.type = click.Path()


_META = "omnigraph.cli.options"


@dataclass(frozen=True, slots=True)
class Flags:
    """The global flags of one command line; None for those that were not given."""

    actor: str | None = None
    server: str | None = None
    graph: str | None = None
    profile: str | None = None
    store: str | None = None
    cluster: str | None = None
    is_yes: bool = False
    is_quiet: bool = False

    @property
    def values(self) -> dict[str, str | None]:
        """The flags that take a value, by spelling."""
        return {
            "--server": self.server,
            "--graph": self.graph,
            "--store": self.store,
            "--cluster": self.cluster,
            "--profile": self.profile,
            "--as": self.actor,
        }


VALUE_FLAGS = tuple(Flags().values)
"""The flags whose value is the next argument unless it follows a `=`."""


class GlobalOption(click.Option):
    """An option of every command; its value goes to `flags_of`, not to the command."""


def global_options() -> list[click.Parameter]:
    """New option objects of the global flags, for one command."""
    options: list[click.Parameter] = [
        _valued("--server", "server", "NAME|URL", "The server to use.", complete_servers),
        _valued("--graph", "graph", "ID", "The graph on a server or in a cluster."),
        _valued("--store", "store", "URI", "The storage of one graph, opened directly."),
        _valued("--cluster", "cluster", "DIR|URI|NAME", "The cluster that contains the graph."),
        _valued(
            "--profile", "profile", "NAME", "A profile of the configuration.", complete_profiles
        ),
        _valued("--as", "actor", "ACTOR", "The actor of a direct write."),
        _switch("--yes", "is_yes", "Overwrite or delete on a remote target without confirmation."),
        _switch("--quiet", "is_quiet", "Do not print the target of a write to stderr."),
    ]
    complete_paths(options)
    return options


def flags_of(context: click.Context) -> Flags:
    """The flags parsed so far, on this command and its parents."""
    return Flags(**context.meta.get(_META, {}))


def _valued(
    spelling: str, name: str, metavar: str, help: str, complete: Complete | None = None
) -> GlobalOption:
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
    # An empty value counts as given: `--store ""` must not silently select another graph.
    if value is not None and value is not False:
        context.meta.setdefault(_META, {})[parameter.name] = value
