"""What a shell may complete besides commands and flags: names of the configuration, and paths.

Promises to answer at once and never with an error: what cannot be read completes to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import click

from omnigraph.cli.config import CONFIG_FILE, OperatorConfig, find_home, read_config
from omnigraph.cli.refusals import CommandError

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_PATHS = frozenset({"FILE", "URI", "DIR", "OLD", "NEW"})
"""How commands call values that may be paths."""


def complete_servers(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The servers of the configuration."""
    del parameter
    return _names(context, incomplete, lambda config: config.url_by_server)


def complete_profiles(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The profiles of the configuration."""
    del parameter
    return _names(context, incomplete, lambda config: config.profiles)


def complete_aliases(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """The aliases of the configuration."""
    del parameter
    return _names(context, incomplete, lambda config: config.aliases)


def complete_paths(parameters: Iterable[click.Parameter]) -> None:
    """Let shells complete those texts as paths that are named like paths."""
    for parameter in parameters:
        is_path = parameter.metavar in _PATHS or parameter.name == "uri"
        if is_path and isinstance(parameter.type, click.types.StringParamType):
            # Checks nothing: whether the file is there, and readable, is the command's to say.
            parameter.type = click.Path()


def _names(
    context: click.Context,
    incomplete: str,
    choose: Callable[[OperatorConfig], Iterable[str]],
) -> list[str]:
    try:
        config, _ = read_config(find_home(context.find_root().obj) / CONFIG_FILE)
    except CommandError:
        return []
    return sorted(name for name in choose(config) if name.startswith(incomplete))
