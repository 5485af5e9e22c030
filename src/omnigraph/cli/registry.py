"""The table of all commands: name, location of the code, help text, and which flags apply.

The table imports no command, so help and completion start quickly. Flags that a command cannot
follow are rejected before it runs. Pure; whether a graph exists is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

from omnigraph.cli.options import Flags
from omnigraph.cli.output import CommandError


class Capability(StrEnum):
    """Where a command does its work."""

    DATA = "data"
    SERVED = "served"
    DIRECT = "direct"
    CONTROL = "control"
    LOCAL = "local"


MEANING_BY_CAPABILITY = {
    Capability.DATA: "work on a graph, through a server or in its storage",
    Capability.SERVED: "work on a server",
    Capability.DIRECT: "access the storage of a graph directly",
    Capability.CONTROL: "manage a cluster",
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
    """A command for the check of flags; `takes_…` apply to some direct and control commands."""

    name: str
    capability: Capability
    takes_cluster: bool
    takes_actor: bool


def require_applicable(verb: Verb, flags: Flags) -> None:
    """Reject flags that do not apply to the command."""
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
    """The spellings of the addressing flags that apply to the command."""
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


_DATA, _SERVED, _DIRECT = Capability.DATA, Capability.SERVED, Capability.DIRECT
_CONTROL, _LOCAL = Capability.CONTROL, Capability.LOCAL


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is not imported yet; `name` has a space if it belongs to a group."""

    name: str
    location: str
    capability: Capability
    summary: str
    takes_cluster: bool = False
    takes_actor: bool = False
    is_hidden: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The words of the name."""
        return tuple(self.name.split())

    @property
    def verb(self) -> Verb:
        """The command for the check of flags."""
        return Verb(self.name, self.capability, self.takes_cluster, self.takes_actor)


ENTRIES = (
    Entry("query", "omnigraph.cli.commands.query:query", _DATA, "Run a query."),
    Entry("mutate", "omnigraph.cli.commands.mutate:mutate", _DATA, "Run a mutation."),
    Entry("load", "omnigraph.cli.commands.load:load", _DATA, "Load rows into a branch."),
    Entry(
        "ingest",
        "omnigraph.cli.commands.load:ingest",
        _DATA,
        "Load rows into a branch (deprecated: use `load`).",
        is_hidden=True,
    ),
    Entry("export", "omnigraph.cli.commands.export:export", _DATA, "Print the rows of a branch."),
    Entry("entity", "omnigraph.cli.commands.query:entity", _DATA, "Show one node or edge."),
    Entry(
        "explain",
        "omnigraph.cli.commands.query:explain",
        _DATA,
        "Show the execution plan of a query.",
    ),
    Entry("shell", "omnigraph.cli.commands.shell:shell", _DATA, "Query a graph interactively."),
    Entry("mcp", "omnigraph.cli.commands.queries:mcp", _DATA, "Serve stored queries as MCP tools."),
    Entry(
        "snapshot",
        "omnigraph.cli.commands.branch:snapshot",
        _DATA,
        "Show the head commit and types of a branch.",
    ),
    Entry(
        "branch create", "omnigraph.cli.commands.branch:branch_create", _DATA, "Create a branch."
    ),
    Entry("branch list", "omnigraph.cli.commands.branch:branch_list", _DATA, "List the branches."),
    Entry(
        "branch delete", "omnigraph.cli.commands.branch:branch_delete", _DATA, "Delete a branch."
    ),
    Entry(
        "branch merge",
        "omnigraph.cli.commands.merge:merge",
        _DATA,
        "Merge a branch into another.",
    ),
    Entry("merge", "omnigraph.cli.commands.merge:merge", _DATA, "Merge a branch into another."),
    Entry(
        "diff",
        "omnigraph.cli.commands.history:diff",
        _DATA,
        "Show the differences between two states.",
    ),
    Entry(
        "changes",
        "omnigraph.cli.commands.history:changes",
        _DATA,
        "Show the changes of each commit.",
    ),
    Entry("log", "omnigraph.cli.commands.history:log", _DATA, "Show the commit graph."),
    Entry("commit list", "omnigraph.cli.commands.history:list_all", _DATA, "List commits."),
    Entry("commit show", "omnigraph.cli.commands.history:show", _DATA, "Show one commit."),
    Entry(
        "revert", "omnigraph.cli.commands.merge:revert", _DATA, "Undo a commit with a new commit."
    ),
    Entry(
        "cherry-pick",
        "omnigraph.cli.commands.merge:cherry_pick",
        _DATA,
        "Apply a commit to another branch.",
    ),
    Entry(
        "tag create",
        "omnigraph.cli.commands.branch:tag_create",
        _DATA,
        "Create a tag for a commit.",
    ),
    Entry("tag list", "omnigraph.cli.commands.branch:tag_list", _DATA, "List the tags."),
    Entry("tag delete", "omnigraph.cli.commands.branch:tag_delete", _DATA, "Delete a tag."),
    Entry(
        "recoveries",
        "omnigraph.cli.commands.maintenance:recoveries",
        _DATA,
        "List recovered writes and their outcomes.",
    ),
    Entry("schema show", "omnigraph.cli.commands.schema:show", _DATA, "Print the schema."),
    Entry(
        "schema get",
        "omnigraph.cli.commands.schema:show",
        _DATA,
        "Print the schema.",
        is_hidden=True,
    ),
    Entry("schema apply", "omnigraph.cli.commands.schema:apply", _DATA, "Change the schema."),
    Entry("graphs list", "omnigraph.cli.commands.profile:list_graphs", _SERVED, "List the graphs."),
    Entry("init", "omnigraph.cli.commands.schema:init", _DIRECT, "Create a graph."),
    Entry(
        "schema plan",
        "omnigraph.cli.commands.schema:plan",
        _DIRECT,
        "Show what a new schema would change.",
    ),
    Entry(
        "lint",
        "omnigraph.cli.commands.queries:lint",
        _DIRECT,
        "Check a file of queries against a schema.",
        takes_cluster=True,
    ),
    Entry(
        "optimize",
        "omnigraph.cli.commands.maintenance:optimize",
        _DIRECT,
        "Compact files and build indexes.",
        takes_cluster=True,
    ),
    Entry(
        "cleanup",
        "omnigraph.cli.commands.maintenance:cleanup",
        _DIRECT,
        "Delete versions that only expired commits use.",
        takes_cluster=True,
    ),
    Entry(
        "doctor",
        "omnigraph.cli.commands.maintenance:doctor",
        _DIRECT,
        "Check the integrity of the stored data.",
        takes_cluster=True,
    ),
    Entry(
        "repair",
        "omnigraph.cli.commands.maintenance:repair",
        _DIRECT,
        "Reconcile writes made outside OmniGraph.",
        takes_cluster=True,
    ),
    Entry(
        "storage check",
        "omnigraph.cli.commands.maintenance:check",
        _DIRECT,
        "Check that a folder or bucket can store a graph.",
    ),
    Entry(
        "policy validate",
        "omnigraph.cli.commands.policy:validate",
        _CONTROL,
        "Check policy files.",
        takes_cluster=True,
    ),
    Entry(
        "policy test",
        "omnigraph.cli.commands.policy:test",
        _CONTROL,
        "Run the test cases of a policy.",
        takes_cluster=True,
    ),
    Entry(
        "policy explain",
        "omnigraph.cli.commands.policy:explain",
        _CONTROL,
        "Explain whether an actor may perform an action.",
        takes_cluster=True,
    ),
    Entry(
        "queries list",
        "omnigraph.cli.commands.queries:list_all",
        _CONTROL,
        "List the stored queries.",
        takes_cluster=True,
    ),
    Entry(
        "queries validate",
        "omnigraph.cli.commands.queries:validate",
        _CONTROL,
        "Check stored queries against the graphs.",
        takes_cluster=True,
    ),
    Entry(
        "queries codegen",
        "omnigraph.cli.commands.queries:codegen",
        _CONTROL,
        "Generate typed functions for stored queries.",
        takes_cluster=True,
    ),
    Entry(
        "cluster validate",
        "omnigraph.cli.commands.cluster:validate",
        _CONTROL,
        "Validate the declarations of a folder.",
    ),
    Entry(
        "cluster plan",
        "omnigraph.cli.commands.cluster:plan",
        _CONTROL,
        "Show what an apply would change.",
    ),
    Entry(
        "cluster apply",
        "omnigraph.cli.commands.cluster:apply",
        _CONTROL,
        "Apply the declarations of a folder to its cluster.",
        takes_actor=True,
    ),
    Entry(
        "cluster approve",
        "omnigraph.cli.commands.cluster:approve",
        _CONTROL,
        "Approve a pending deletion.",
        takes_actor=True,
    ),
    Entry(
        "cluster status",
        "omnigraph.cli.commands.cluster:status",
        _CONTROL,
        "Show the applied resources and their status.",
    ),
    Entry(
        "cluster refresh",
        "omnigraph.cli.commands.cluster:refresh",
        _CONTROL,
        "Update the state from the stored graphs.",
        takes_actor=True,
    ),
    Entry(
        "cluster import",
        "omnigraph.cli.commands.cluster:import_state",
        _CONTROL,
        "Create the state of a cluster.",
        takes_actor=True,
    ),
    Entry(
        "cluster force-unlock",
        "omnigraph.cli.commands.cluster:force_unlock",
        _CONTROL,
        "Remove a stale lock.",
    ),
    Entry(
        "alias", "omnigraph.cli.commands.query:alias", _LOCAL, "Run a stored query by its alias."
    ),
    Entry("login", "omnigraph.cli.commands.profile:login", _LOCAL, "Store the token of a server."),
    Entry(
        "logout", "omnigraph.cli.commands.profile:logout", _LOCAL, "Remove the token of a server."
    ),
    Entry(
        "profile list", "omnigraph.cli.commands.profile:list_profiles", _LOCAL, "List the profiles."
    ),
    Entry(
        "profile show",
        "omnigraph.cli.commands.profile:show",
        _LOCAL,
        "Show the target of a profile or of the defaults.",
    ),
    Entry(
        "embed",
        "omnigraph.cli.commands.embed:embed",
        _LOCAL,
        "Compute vectors for the rows of a file.",
    ),
    Entry(
        "completion",
        "omnigraph.cli.commands.profile:completion",
        _LOCAL,
        "Print the completion script of a shell.",
    ),
    Entry("version", "omnigraph.cli.commands.profile:version", _LOCAL, "Print the version."),
)

SUMMARY_BY_GROUP = MappingProxyType(
    {
        "branch": "Work with branches.",
        "commit": "List and show commits.",
        "tag": "Work with tags.",
        "schema": "Show, plan and change the schema.",
        "graphs": "List the graphs of a server.",
        "storage": "Check storage.",
        "policy": "Validate, test and explain policies.",
        "queries": "Work with stored queries.",
        "cluster": "Manage graphs, queries and policies declared in files.",
        "profile": "Show the profiles of the configuration.",
    }
)


@cache
def find_entry(path: tuple[str, ...]) -> Entry | None:
    """The command of a path."""
    return next((entry for entry in ENTRIES if entry.path == path), None)


def list_names(group: tuple[str, ...]) -> list[str]:
    """The names of commands and groups in a group, without hidden commands."""
    depth = len(group)
    words = (
        entry.path[depth]
        for entry in ENTRIES
        if entry.path[:depth] == group and len(entry.path) > depth and not entry.is_hidden
    )
    return list(dict.fromkeys(words))


def summary_of(path: tuple[str, ...]) -> str:
    """The one-line summary of a command or group."""
    entry = find_entry(path)
    return SUMMARY_BY_GROUP[" ".join(path)] if entry is None else entry.summary
