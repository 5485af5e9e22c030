"""Which flags that address a graph apply to which command: the guard before every command.

Pure. Knows what a command is able to do, not what it does, nor whether the graph is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.cli.flags import Flags
from omnigraph.cli.refusals import CommandError


class Capability(StrEnum):
    """Where a command does its work."""

    DATA = "data"
    SERVED = "served"
    DIRECT = "direct"
    CONTROL = "control"
    LOCAL = "local"


MEANING_BY_CAPABILITY = {
    Capability.DATA: "work on a graph, by a server or in its storage",
    Capability.SERVED: "ask a server",
    Capability.DIRECT: "work in a graph's storage themselves",
    Capability.CONTROL: "work on what governs a cluster",
    Capability.LOCAL: "need neither a graph nor a server",
}
"""The capabilities in the order in which `--help` lists them."""

_PHRASE = {
    Capability.DATA: "data",
    Capability.SERVED: "served",
    Capability.DIRECT: "direct (storage-native)",
    Capability.CONTROL: "cluster control",
    Capability.LOCAL: "local",
}

_TAKES_SERVER = frozenset({Capability.DATA, Capability.SERVED})


@dataclass(frozen=True, slots=True)
class Verb:
    """A command as the guard sees it; the switches hold for some direct and control ones."""

    name: str
    capability: Capability
    takes_cluster: bool
    takes_actor: bool


def require_applicable(verb: Verb, flags: Flags) -> None:
    """Refuse flags that the command could not follow."""
    if verb.name == "alias":
        _require_own_binding(flags)
    takes_server = verb.capability in _TAKES_SERVER
    for spelling, value, applies in (
        ("--server", flags.server, takes_server),
        ("--cluster", flags.cluster, verb.takes_cluster),
        ("--graph", flags.graph, takes_server or verb.takes_cluster),
    ):
        if value is not None and not applies:
            raise CommandError(_refusal(verb, spelling))


def applicable_flags(verb: Verb) -> frozenset[str]:
    """The spellings of the addressing flags that the command follows."""
    if verb.capability is Capability.LOCAL:
        return frozenset()
    found = {"--profile"}
    if verb.capability in _TAKES_SERVER:
        found |= {"--server", "--graph"}
    if verb.takes_cluster:
        found |= {"--cluster", "--graph"}
    if verb.capability in (Capability.DATA, Capability.DIRECT):
        found |= {"--store", "--as", "--yes", "--quiet"}
    if verb.takes_actor:
        found |= {"--as"}
    return frozenset(found)


def _refusal(verb: Verb, spelling: str) -> str:
    said = f"`{verb.name}` is a {_PHRASE[verb.capability]} command; {spelling} does not apply to it"
    remedy = _remedy(verb)
    return f"{said}; {remedy}" if remedy else said


def _remedy(verb: Verb) -> str:
    match verb.capability:
        case Capability.DATA:
            return "use --server <name|url> or --store <uri>"
        case Capability.SERVED:
            return "use --server <name|url>"
        case Capability.DIRECT if verb.takes_cluster:
            return "use a storage URI, or --cluster <dir> --graph <id>"
        case Capability.DIRECT:
            return "use a storage URI"
        case Capability.CONTROL if verb.takes_cluster:
            return "use --cluster <dir|uri>"
        case Capability.CONTROL:
            return "use --config <dir>"
        case Capability.LOCAL:
            return ""


def _require_own_binding(flags: Flags) -> None:
    for spelling, value in (
        ("--server", flags.server),
        ("--graph", flags.graph),
        ("--store", flags.store),
        ("--cluster", flags.cluster),
        ("--profile", flags.profile),
        ("--as", flags.actor),
    ):
        if value is not None:
            raise CommandError(
                f"{spelling} does not apply to `alias`: the alias binding owns addressing; "
                "change it under `aliases:` in the configuration, or use `omnigraph query`"
            )
