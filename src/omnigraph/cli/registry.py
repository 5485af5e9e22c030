"""The table of all commands: name, location of the code, help text, and which flags apply.

The table imports no command, so help and completion start quickly. Flags that a command cannot
follow are rejected before it runs. Pure; whether a graph exists is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

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

_DATA, _SERVED, _DIRECT = Capability.DATA, Capability.SERVED, Capability.DIRECT
_CONTROL, _LOCAL = Capability.CONTROL, Capability.LOCAL

# The first words of the commands that take `--cluster`, and the commands of a cluster that take
# `--as`.
_TAKING_CLUSTER = frozenset(
    {"lint", "optimize", "cleanup", "doctor", "repair", "policy", "queries"}
)
_TAKING_ACTOR = frozenset({"cluster apply", "cluster approve", "cluster refresh", "cluster import"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A command that is not imported yet; `name` has a space if it belongs to a group.

    `location` is its module below `omnigraph.cli.commands` and its function.
    """

    name: str
    location: str
    capability: Capability
    summary: str
    is_hidden: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The words of the name."""
        return tuple(self.name.split())

    @property
    def takes_server(self) -> bool:
        """Whether `--server` applies."""
        return self.capability in (_DATA, _SERVED)

    @property
    def takes_cluster(self) -> bool:
        """Whether `--cluster` applies."""
        return self.path[0] in _TAKING_CLUSTER


ENTRIES = (
    Entry("query", "query:query", _DATA, "Run a query."),
    Entry("mutate", "mutate:mutate", _DATA, "Run a mutation."),
    Entry("load", "load:load", _DATA, "Load rows into a branch."),
    Entry(
        "ingest",
        "load:ingest",
        _DATA,
        "Load rows into a branch (deprecated: use `load`).",
        is_hidden=True,
    ),
    Entry("export", "export:export", _DATA, "Print the rows of a branch."),
    Entry("entity", "query:entity", _DATA, "Show one node or edge."),
    Entry("explain", "query:explain", _DATA, "Show the execution plan of a query."),
    Entry("shell", "query:shell", _DATA, "Query a graph interactively."),
    Entry("mcp", "queries:mcp", _DATA, "Serve stored queries as MCP tools."),
    Entry("snapshot", "branch:snapshot", _DATA, "Show the head commit and types of a branch."),
    Entry("branch create", "branch:branch_create", _DATA, "Create a branch."),
    Entry("branch list", "branch:branch_list", _DATA, "List the branches."),
    Entry("branch delete", "branch:branch_delete", _DATA, "Delete a branch."),
    Entry("branch merge", "merge:merge", _DATA, "Merge a branch into another."),
    Entry("merge", "merge:merge", _DATA, "Merge a branch into another."),
    Entry("diff", "history:diff", _DATA, "Show the differences between two states."),
    Entry("changes", "history:changes", _DATA, "Show the changes of each commit."),
    Entry("log", "history:log", _DATA, "Show the commit graph."),
    Entry("commit list", "history:list_all", _DATA, "List commits."),
    Entry("commit show", "history:show", _DATA, "Show one commit."),
    Entry("revert", "merge:revert", _DATA, "Undo a commit with a new commit."),
    Entry("cherry-pick", "merge:cherry_pick", _DATA, "Apply a commit to another branch."),
    Entry("tag create", "branch:tag_create", _DATA, "Create a tag for a commit."),
    Entry("tag list", "branch:tag_list", _DATA, "List the tags."),
    Entry("tag delete", "branch:tag_delete", _DATA, "Delete a tag."),
    Entry(
        "recoveries", "maintenance:recoveries", _DATA, "List recovered writes and their outcomes."
    ),
    Entry("schema show", "schema:show", _DATA, "Print the schema."),
    Entry("schema get", "schema:show", _DATA, "Print the schema.", is_hidden=True),
    Entry("schema apply", "schema:apply", _DATA, "Change the schema."),
    Entry("graphs list", "profile:list_graphs", _SERVED, "List the graphs."),
    Entry("init", "schema:init", _DIRECT, "Create a graph."),
    Entry("schema plan", "schema:plan", _DIRECT, "Show what a new schema would change."),
    Entry("lint", "queries:lint", _DIRECT, "Check a file of queries against a schema."),
    Entry("optimize", "maintenance:optimize", _DIRECT, "Compact files and build indexes."),
    Entry(
        "cleanup", "maintenance:cleanup", _DIRECT, "Delete versions that only expired commits use."
    ),
    Entry("doctor", "maintenance:doctor", _DIRECT, "Check the integrity of the stored data."),
    Entry("repair", "maintenance:repair", _DIRECT, "Reconcile writes made outside OmniGraph."),
    Entry(
        "storage check",
        "maintenance:check",
        _DIRECT,
        "Check that a folder or bucket can store a graph.",
    ),
    Entry("policy validate", "policy:validate", _CONTROL, "Check policy files."),
    Entry("policy test", "policy:test", _CONTROL, "Run the test cases of a policy."),
    Entry(
        "policy explain",
        "policy:explain",
        _CONTROL,
        "Explain whether an actor may perform an action.",
    ),
    Entry("queries list", "queries:list_all", _CONTROL, "List the stored queries."),
    Entry(
        "queries validate", "queries:validate", _CONTROL, "Check stored queries against the graphs."
    ),
    Entry(
        "queries codegen",
        "queries:codegen",
        _CONTROL,
        "Generate typed functions for stored queries.",
    ),
    Entry(
        "cluster validate", "cluster:validate", _CONTROL, "Validate the declarations of a folder."
    ),
    Entry("cluster plan", "cluster:plan", _CONTROL, "Show what an apply would change."),
    Entry(
        "cluster apply",
        "cluster:apply",
        _CONTROL,
        "Apply the declarations of a folder to its cluster.",
    ),
    Entry("cluster approve", "cluster:approve", _CONTROL, "Approve a pending deletion."),
    Entry(
        "cluster status", "cluster:status", _CONTROL, "Show the applied resources and their status."
    ),
    Entry(
        "cluster refresh", "cluster:refresh", _CONTROL, "Update the state from the stored graphs."
    ),
    Entry("cluster import", "cluster:import_state", _CONTROL, "Create the state of a cluster."),
    Entry("cluster force-unlock", "cluster:force_unlock", _CONTROL, "Remove a stale lock."),
    Entry("alias", "query:alias", _LOCAL, "Run a stored query by its alias."),
    Entry("login", "profile:login", _LOCAL, "Store the token of a server."),
    Entry("logout", "profile:logout", _LOCAL, "Remove the token of a server."),
    Entry("profile list", "profile:list_profiles", _LOCAL, "List the profiles."),
    Entry(
        "profile show", "profile:show", _LOCAL, "Show the target of a profile or of the defaults."
    ),
    Entry("embed", "embed:embed", _LOCAL, "Compute vectors for the rows of a file."),
    Entry("completion", "profile:completion", _LOCAL, "Print the completion script of a shell."),
    Entry("version", "profile:version", _LOCAL, "Print the version."),
)

SUMMARY_BY_GROUP = {
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


def require_applicable(entry: Entry, flags: Flags) -> None:
    """Reject flags that do not apply to the command."""
    if entry.name == "alias":
        _require_own_binding(flags)
    for spelling, value, applies in (
        ("--server", flags.server, entry.takes_server),
        ("--cluster", flags.cluster, entry.takes_cluster),
        ("--graph", flags.graph, entry.takes_server or entry.takes_cluster),
    ):
        if value is not None and not applies:
            kind, remedy = _PHRASE[entry.capability], _remedy(entry)
            raise CommandError(
                f"`{entry.name}` is a {kind} command; {spelling} does not apply to it{remedy}"
            )


def applicable_flags(entry: Entry) -> frozenset[str]:
    """The spellings of the addressing flags that apply to the command."""
    if entry.capability is _LOCAL:
        return frozenset()
    found = {"--profile"}
    if entry.takes_server:
        found |= {"--server", "--graph"}
    if entry.takes_cluster:
        found |= {"--cluster", "--graph"}
    if entry.capability in (_DATA, _DIRECT):
        found |= {"--store", "--as", "--yes", "--quiet"}
    if entry.name in _TAKING_ACTOR:
        found |= {"--as"}
    return frozenset(found)


def _remedy(entry: Entry) -> str:
    match entry.capability:
        case Capability.DATA:
            return "; use --server <name|url> or --store <uri>"
        case Capability.SERVED:
            return "; use --server <name|url>"
        case Capability.DIRECT if entry.takes_cluster:
            return "; use a storage URI, or --cluster <dir> --graph <id>"
        case Capability.DIRECT:
            return "; use a storage URI"
        case Capability.CONTROL if entry.takes_cluster:
            return "; use --cluster <dir|uri>"
        case Capability.CONTROL:
            return "; use --config <dir>"
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
