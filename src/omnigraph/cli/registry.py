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
    is_hidden: bool

    @property
    def path(self) -> tuple[str, ...]:
        """The words of the name."""
        return tuple(self.name.split())

    @property
    def takes_server(self) -> bool:
        """Whether `--server` applies."""
        return self.capability in (Capability.DATA, Capability.SERVED)

    @property
    def takes_cluster(self) -> bool:
        """Whether `--cluster` applies."""
        return self.path[0] in _TAKING_CLUSTER


_HIDDEN = frozenset({"ingest", "schema get"})
# For each command its name, its location and its summary.
_COMMANDS = {
    Capability.DATA: (
        ("query", "query:query", "Run a query."),
        ("mutate", "query:mutate", "Run a mutation."),
        ("load", "load:load", "Load rows into a branch."),
        ("ingest", "load:ingest", "Load rows into a branch (deprecated: use `load`)."),
        ("export", "export:export", "Print the rows of a branch."),
        ("entity", "query:entity", "Show one node or edge."),
        ("explain", "query:explain", "Show the execution plan of a query."),
        ("shell", "query:shell", "Query a graph interactively."),
        ("mcp", "queries:mcp", "Serve stored queries as MCP tools."),
        ("snapshot", "branch:snapshot", "Show the head commit and types of a branch."),
        ("branch create", "branch:branch_create", "Create a branch."),
        ("branch list", "branch:branch_list", "List the branches."),
        ("branch delete", "branch:branch_delete", "Delete a branch."),
        ("branch merge", "merge:merge", "Merge a branch into another."),
        ("merge", "merge:merge", "Merge a branch into another."),
        ("diff", "history:diff", "Show the differences between two states."),
        ("changes", "history:changes", "Show the changes of each commit."),
        ("log", "history:log", "Show the commit graph."),
        ("commit list", "history:list_all", "List commits."),
        ("commit show", "history:show", "Show one commit."),
        ("revert", "merge:revert", "Undo a commit with a new commit."),
        ("cherry-pick", "merge:cherry_pick", "Apply a commit to another branch."),
        ("tag create", "branch:tag_create", "Create a tag for a commit."),
        ("tag list", "branch:tag_list", "List the tags."),
        ("tag delete", "branch:tag_delete", "Delete a tag."),
        ("recoveries", "maintenance:recoveries", "List recovered writes and their outcomes."),
        ("schema show", "schema:show", "Print the schema."),
        ("schema get", "schema:show", "Print the schema."),
        ("schema apply", "schema:apply", "Change the schema."),
    ),
    Capability.SERVED: (("graphs list", "profile:list_graphs", "List the graphs."),),
    Capability.DIRECT: (
        ("init", "schema:init", "Create a graph."),
        ("schema plan", "schema:plan", "Show what a new schema would change."),
        ("lint", "queries:lint", "Check a file of queries against a schema."),
        ("optimize", "maintenance:optimize", "Compact files and build indexes."),
        ("cleanup", "maintenance:cleanup", "Delete versions that only expired commits use."),
        ("doctor", "maintenance:doctor", "Check the integrity of the stored data."),
        ("repair", "maintenance:repair", "Reconcile writes made outside OmniGraph."),
        ("storage check", "maintenance:check", "Check that a folder or bucket can store a graph."),
    ),
    Capability.CONTROL: (
        ("policy validate", "policy:validate", "Check policy files."),
        ("policy test", "policy:test", "Run the test cases of a policy."),
        ("policy explain", "policy:explain", "Explain whether an actor may perform an action."),
        ("queries list", "queries:list_all", "List the stored queries."),
        ("queries validate", "queries:validate", "Check stored queries against the graphs."),
        ("queries codegen", "queries:codegen", "Generate typed functions for stored queries."),
        ("cluster validate", "cluster:validate", "Validate the declarations of a folder."),
        ("cluster plan", "cluster:plan", "Show what an apply would change."),
        ("cluster apply", "cluster:apply", "Apply the declarations of a folder to its cluster."),
        ("cluster approve", "cluster:approve", "Approve a pending deletion."),
        ("cluster status", "cluster:status", "Show the applied resources and their status."),
        ("cluster refresh", "cluster:refresh", "Update the state from the stored graphs."),
        ("cluster import", "cluster:import_state", "Create the state of a cluster."),
        ("cluster force-unlock", "cluster:force_unlock", "Remove a stale lock."),
    ),
    Capability.LOCAL: (
        ("alias", "query:alias", "Run a stored query by its alias."),
        ("login", "profile:login", "Store the token of a server."),
        ("logout", "profile:logout", "Remove the token of a server."),
        ("profile list", "profile:list_profiles", "List the profiles."),
        ("profile show", "profile:show", "Show the target of a profile or of the defaults."),
        ("embed", "embed:embed", "Compute vectors for the rows of a file."),
        ("completion", "profile:completion", "Print the completion script of a shell."),
        ("version", "profile:version", "Print the version."),
    ),
}

ENTRIES = tuple(
    Entry(name, location, capability, summary, is_hidden=name in _HIDDEN)
    for capability, commands in _COMMANDS.items()
    for name, location, summary in commands
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
    given = [spelling for spelling, value in flags.values.items() if value is not None]
    if entry.name == "alias" and given:
        raise CommandError(
            f"{given[0]} does not apply to `alias`: the alias binding owns addressing; "
            "change it under `aliases:` in the configuration, or use `omnigraph query`"
        )
    applicable = applicable_flags(entry)
    for spelling in ("--server", "--cluster", "--graph"):
        if spelling in given and spelling not in applicable:
            kind, remedy = _PHRASE[entry.capability], _remedy(entry)
            raise CommandError(
                f"`{entry.name}` is a {kind} command; {spelling} does not apply to it{remedy}"
            )


def applicable_flags(entry: Entry) -> frozenset[str]:
    """The spellings of the addressing flags that apply to the command."""
    if entry.capability is Capability.LOCAL:
        return frozenset()
    found = {"--profile"}
    if entry.takes_server:
        found |= {"--server", "--graph"}
    if entry.takes_cluster:
        found |= {"--cluster", "--graph"}
    if entry.capability in (Capability.DATA, Capability.DIRECT):
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
