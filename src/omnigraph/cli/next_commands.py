"""The next command to type, written so that a shell takes it as it stands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from omnigraph.cli.targets import ServedTarget, StoreTarget, Target


def write_command(*words: str, target: Target | None) -> str:
    """A command of ours with its words quoted where needed, and the graph that it is for."""
    return shlex.join(["omnigraph", *words, *_addressing(target)])


def write_options(options: Iterable[tuple[str, str | None]]) -> list[str]:
    """The options that have a value, as words of a command."""
    return [word for name, value in options if value is not None for word in (name, value)]


def _addressing(target: Target | None) -> list[str]:
    match target:
        case None:
            return []
        case StoreTarget(uri=uri):
            return ["--store", uri]
        case ServedTarget(base_url=url, graph_id=None):
            return ["--server", url]
        case ServedTarget(base_url=url, graph_id=graph_id):
            return ["--server", url, "--graph", str(graph_id)]
