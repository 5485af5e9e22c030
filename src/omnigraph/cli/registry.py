"""Every command of `omnigraph`: what it is called, where its code is, what `--help` says of it.

A table and ways to look things up in it. Imports no command, so that help and completion answer at
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from omnigraph.cli.capabilities import Capability, Verb

_DATA, _SERVED, _DIRECT = Capability.DATA, Capability.SERVED, Capability.DIRECT
_CONTROL, _LOCAL = Capability.CONTROL, Capability.LOCAL


@dataclass(frozen=True, slots=True)
class Entry:
    """A command before it is imported; `name` has a space where it is a command of a group."""

    name: str
    location: str
    capability: Capability
    summary: str
    takes_cluster: bool = False
    takes_actor: bool = False
    is_hidden: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The words to type."""
        return tuple(self.name.split())

    @property
    def verb(self) -> Verb:
        """The command as the guard sees it."""
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
    Entry("export", "omnigraph.cli.commands.export:export", _DATA, "Print a branch's rows."),
    Entry("entity", "omnigraph.cli.commands.entity:entity", _DATA, "Show one node or edge."),
    Entry("explain", "omnigraph.cli.commands.explain:explain", _DATA, "Show how a query runs."),
    Entry("shell", "omnigraph.cli.commands.shell:shell", _DATA, "Query a graph interactively."),
    Entry("mcp", "omnigraph.cli.commands.mcp:mcp", _DATA, "Offer stored queries to an agent."),
    Entry("snapshot", "omnigraph.cli.commands.snapshot:snapshot", _DATA, "Show what a branch is."),
    Entry("branch create", "omnigraph.cli.commands.branch:create", _DATA, "Create a branch."),
    Entry("branch list", "omnigraph.cli.commands.branch:list_all", _DATA, "List the branches."),
    Entry("branch delete", "omnigraph.cli.commands.branch:delete", _DATA, "Delete a branch."),
    Entry(
        "branch merge",
        "omnigraph.cli.commands.merge:merge",
        _DATA,
        "Merge a branch into another.",
    ),
    Entry("merge", "omnigraph.cli.commands.merge:merge", _DATA, "Merge a branch, or try it."),
    Entry(
        "diff", "omnigraph.cli.commands.diff:diff", _DATA, "Show what differs between two states."
    ),
    Entry(
        "changes", "omnigraph.cli.commands.changes:changes", _DATA, "Follow what commits change."
    ),
    Entry("log", "omnigraph.cli.commands.log:log", _DATA, "Draw the history of commits."),
    Entry("commit list", "omnigraph.cli.commands.commit:list_all", _DATA, "List commits."),
    Entry("commit show", "omnigraph.cli.commands.commit:show", _DATA, "Show one commit."),
    Entry("revert", "omnigraph.cli.commands.undo:revert", _DATA, "Undo a commit by a new one."),
    Entry(
        "cherry-pick",
        "omnigraph.cli.commands.undo:cherry_pick",
        _DATA,
        "Repeat a commit on another branch.",
    ),
    Entry("tag create", "omnigraph.cli.commands.tag:create", _DATA, "Name a commit for good."),
    Entry("tag list", "omnigraph.cli.commands.tag:list_all", _DATA, "List the tags."),
    Entry("tag delete", "omnigraph.cli.commands.tag:delete", _DATA, "Delete a tag."),
    Entry(
        "recoveries",
        "omnigraph.cli.commands.recoveries:recoveries",
        _DATA,
        "List writes that stopped on their way, and what became of them.",
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
    Entry("graphs list", "omnigraph.cli.commands.graphs:list_all", _SERVED, "List the graphs."),
    Entry("init", "omnigraph.cli.commands.init:init", _DIRECT, "Create a graph."),
    Entry(
        "schema plan",
        "omnigraph.cli.commands.schema:plan",
        _DIRECT,
        "Show what a new schema would change.",
    ),
    Entry(
        "lint",
        "omnigraph.cli.commands.lint:lint",
        _DIRECT,
        "Check a file of queries against a schema.",
        takes_cluster=True,
    ),
    Entry(
        "optimize",
        "omnigraph.cli.commands.optimize:optimize",
        _DIRECT,
        "Compact files and build indexes.",
        takes_cluster=True,
    ),
    Entry(
        "cleanup",
        "omnigraph.cli.commands.cleanup:cleanup",
        _DIRECT,
        "Delete what old commits need and nobody else.",
        takes_cluster=True,
    ),
    Entry(
        "doctor",
        "omnigraph.cli.commands.doctor:doctor",
        _DIRECT,
        "Check that what is stored keeps every rule.",
        takes_cluster=True,
    ),
    Entry(
        "repair",
        "omnigraph.cli.commands.repair:repair",
        _DIRECT,
        "Settle what was written around OmniGraph.",
        takes_cluster=True,
    ),
    Entry(
        "storage check",
        "omnigraph.cli.commands.storage:check",
        _DIRECT,
        "Try whether a folder or a bucket does what a graph needs.",
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
        "Run the cases that a policy must keep.",
        takes_cluster=True,
    ),
    Entry(
        "policy explain",
        "omnigraph.cli.commands.policy:explain",
        _CONTROL,
        "Say whether somebody may do something, and why.",
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
        "Write stored queries as typed functions.",
        takes_cluster=True,
    ),
    Entry(
        "cluster validate",
        "omnigraph.cli.commands.cluster:validate",
        _CONTROL,
        "Check what a folder declares.",
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
        "Make the cluster what its folder declares.",
        takes_actor=True,
    ),
    Entry(
        "cluster approve",
        "omnigraph.cli.commands.cluster:approve",
        _CONTROL,
        "Agree to a deletion that waits for it.",
        takes_actor=True,
    ),
    Entry(
        "cluster status",
        "omnigraph.cli.commands.cluster:status",
        _CONTROL,
        "Show what is applied, and how it stands.",
    ),
    Entry(
        "cluster refresh",
        "omnigraph.cli.commands.cluster:refresh",
        _CONTROL,
        "Look at graphs and contents again.",
        takes_actor=True,
    ),
    Entry(
        "cluster import",
        "omnigraph.cli.commands.cluster:import_state",
        _CONTROL,
        "Begin a cluster's state.",
        takes_actor=True,
    ),
    Entry(
        "cluster force-unlock",
        "omnigraph.cli.commands.cluster:force_unlock",
        _CONTROL,
        "Take away a lock that nobody holds any more.",
    ),
    Entry(
        "alias", "omnigraph.cli.commands.alias:alias", _LOCAL, "Run a stored query by its alias."
    ),
    Entry("login", "omnigraph.cli.commands.login:login", _LOCAL, "Keep the token of a server."),
    Entry("logout", "omnigraph.cli.commands.login:logout", _LOCAL, "Forget the token of a server."),
    Entry("profile list", "omnigraph.cli.commands.profile:list_all", _LOCAL, "List the profiles."),
    Entry(
        "profile show",
        "omnigraph.cli.commands.profile:show",
        _LOCAL,
        "Show what a profile, or none, addresses.",
    ),
    Entry("embed", "omnigraph.cli.commands.embed:embed", _LOCAL, "Embed the rows of a file."),
    Entry(
        "completion",
        "omnigraph.cli.commands.completion:completion",
        _LOCAL,
        "Print the completion script of a shell.",
    ),
    Entry("version", "omnigraph.cli.commands.version:version", _LOCAL, "Print the version."),
)

SUMMARY_BY_GROUP = MappingProxyType(
    {
        "branch": "Work with branches.",
        "commit": "Look at commits.",
        "tag": "Work with tags.",
        "schema": "Show, plan and change the schema.",
        "graphs": "See what a server has.",
        "storage": "See whether a storage can be trusted.",
        "policy": "Check who may do what.",
        "queries": "Work with stored queries.",
        "cluster": "Keep graphs, queries and policies as files, and apply them.",
        "profile": "See the profiles of the configuration.",
    }
)


@cache
def find_entry(path: tuple[str, ...]) -> Entry | None:
    """The command of these words."""
    return next((entry for entry in ENTRIES if entry.path == path), None)


def list_names(group: tuple[str, ...]) -> list[str]:
    """The next words that may follow those of a group, hidden commands left out."""
    depth = len(group)
    words = (
        entry.path[depth]
        for entry in ENTRIES
        if entry.path[:depth] == group and len(entry.path) > depth and not entry.is_hidden
    )
    return list(dict.fromkeys(words))


def summary_of(path: tuple[str, ...]) -> str:
    """What help says of a command or a group in a line."""
    entry = find_entry(path)
    return SUMMARY_BY_GROUP[" ".join(path)] if entry is None else entry.summary
