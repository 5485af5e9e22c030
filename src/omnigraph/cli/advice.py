"""The command to run next: after an error, and for each finding of `doctor`.

Pure. Every suggested command is quoted for a shell and names the graph that it applies to. The
module adds nothing to the error itself, which already states the cause and the outcome. An error or
a finding without a known command gets no suggestion.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from omnigraph.cli.credentials import TOKEN_FOR_ANY
from omnigraph.cli.targets import ServedTarget, StoreTarget, Target
from omnigraph.model.errors import (
    AUTHENTICATE,
    AlreadyExistsError,
    CorruptError,
    DriftError,
    ForbiddenError,
    GraphError,
    NotFoundError,
    PreconditionFailedError,
    RecoveryRequiredError,
    UncertainError,
)


def write_command(*words: str, target: Target | None) -> str:
    """A command of this program, quoted for a shell, with the graph that it applies to."""
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


_LIST_BY_KIND = {
    "branch": ("branch", "list"),
    "branch, commit or tag": ("log",),
    "commit": ("log",),
    "tag": ("tag", "list"),
    "type": ("schema", "show"),
    "node type": ("schema", "show"),
    "edge type": ("schema", "show"),
}


def next_command(error: GraphError, *, target: Target | None, servers: Sequence[str]) -> str | None:
    """The command to run next; None if the error does not suggest one.

    `target` is the graph that the command reached, None if it reached none; `servers` are the names
    of its server in the configuration.
    """
    match error, target:
        case _, None:
            return None
        case NotFoundError(kind=kind), StoreTarget() | ServedTarget():
            return _look_up(kind, target)
        case AlreadyExistsError(kind="graph"), StoreTarget():
            # The command to delete it is in the error itself; it is not suggested for pasting.
            return write_command("schema", "show", target=target)
        case AlreadyExistsError(kind="branch" | "tag" as kind), StoreTarget() | ServedTarget():
            return _look_up(kind, target)
        case ForbiddenError(action=action), ServedTarget() if action == AUTHENTICATE:
            return _log_in(servers)
        case DriftError(), StoreTarget():
            return write_command("repair", target=target)
        case CorruptError(), StoreTarget():
            return write_command("doctor", target=target)
        case RecoveryRequiredError(), _:
            return write_command("recoveries", target=target)
        case UncertainError() | PreconditionFailedError(), _:
            return write_command("log", target=target)
        case _:
            return None


def _look_up(kind: str, target: Target) -> str | None:
    if kind in _LIST_BY_KIND:
        return write_command(*_LIST_BY_KIND[kind], target=target)
    if kind != "graph":
        return None
    match target:
        case StoreTarget(uri=uri):
            return write_command("init", uri, "--schema", "FILE", target=None)
        case ServedTarget(base_url=url):
            return write_command("graphs", "list", "--server", url, target=None)


def _log_in(servers: Sequence[str]) -> str:
    if servers:
        return write_command("login", servers[0], target=None)
    return f"export {TOKEN_FOR_ANY}=TOKEN"


_CALL = re.compile(r"`(?:omni)?graph\.(\w+)(?:\((.*?)\))?`")


def find_fix_command(advice: str, target: Target) -> str | None:
    """The command for the first call in an advice; None if it contains no call."""
    found = _CALL.search(advice)
    return None if found is None else _command_of(found[1], found[2] or "", target)


def format_fix(advice: str, target: Target) -> str:
    """The advice with calls replaced by commands."""

    def replace(found: re.Match[str]) -> str:
        written = _command_of(found[1], found[2] or "", target)
        return found[0] if written is None else f"`{written}`"

    text = _CALL.sub(replace, advice)
    text = text.replace("`confirm=True`", "`--confirm`").replace("`force=True`", "`--force`")
    return text.replace('`mode="overwrite"`', "`--mode overwrite`")


def _command_of(call: str, arguments: str, target: Target) -> str | None:
    positional, named = _read_arguments(arguments)
    branch = ["--branch", named["branch"]] if "branch" in named else []
    words: Mapping[str, list[str]] = {
        # Opening a graph for writing recovers interrupted writes, and `repair` starts with that.
        "refresh": ["repair"],
        "repair": ["repair"],
        "relocate": ["repair", "--relocate"],
        "optimize": ["optimize", *branch],
        "ensure_indices": ["optimize", *branch],
        "cleanup": ["cleanup", "--keep", named.get("keep", "10"), "--confirm"],
        "delete_tag": ["tag", "delete", *positional],
        "mutate": ["mutate", "--query", "FILE"],
    }
    return write_command(*words[call], target=target) if call in words else None


def _read_arguments(text: str) -> tuple[list[str], dict[str, str]]:
    call = ast.parse(f"call({text})", mode="eval").body
    assert isinstance(call, ast.Call), "an advice names calls"
    positional = [str(ast.literal_eval(each)) for each in call.args]
    named = {str(each.arg): str(ast.literal_eval(each.value)) for each in call.keywords}
    return positional, named
