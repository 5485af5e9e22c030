"""The next command to type after an error, where we know one.

Pure. An error says itself what was wrong and what became of the graph; this adds no second opinion.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.cli.credentials import TOKEN_FOR_ANY
from omnigraph.cli.next_commands import write_command
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
    """What to type now; None where an error leads to no command of its own.

    `target` is the graph that the command had come to, None if it had not come to one; `servers`
    are the names that its server has in the configuration.
    """
    match error, target:
        case _, None:
            return None
        case NotFoundError(kind=kind), StoreTarget() | ServedTarget():
            return _look_up(kind, target)
        case AlreadyExistsError(kind="graph"), StoreTarget():
            # Not how to delete it: that is told with the error, and not for pasting.
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
