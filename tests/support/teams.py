"""A small team on two branches, what may happen to it, and what a merge of it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from omnigraph import Graph
from omnigraph.model.errors import Conflict
from tests.support.graphs import build_graph, edge, ndjson, node, values
from tests.support.queries import query

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? }
edge Knows: Person -> Person { since: I32? }
"""

Step = Callable[[Graph, str], object]


def team(path: Path) -> Graph:
    """Four people, one who knows another, and a branch on which nothing has happened."""
    graph = build_graph(
        path,
        SCHEMA,
        node("Person", name="Alice", age=30),
        node("Person", name="Bob", age=25),
        node("Person", name="Carol", age=40),
        node("Person", name="Dan", age=50),
        edge("Knows", "Bob", "Carol"),
    )
    graph.create_branch("feature")
    return graph


def does(body: str) -> Step:
    """A mutation of a branch."""
    return lambda graph, branch: graph.mutate(query(body), branch=branch)


def merges(*records: Mapping[str, object]) -> Step:
    """A load that puts rows in place of those with their ids."""
    return lambda graph, branch: graph.load(ndjson(*records), mode="merge", branch=branch)


def nothing(graph: Graph, branch: str) -> None:
    """No change."""
    del graph, branch


def ages(graph: Graph, branch: str = "main") -> Mapping[str, object]:
    """The age of every person."""
    return values(graph, "Person", "age", branch)


def kinds(conflicts: tuple[Conflict, ...]) -> list[tuple[str, str, str]]:
    """What is in conflict, and why."""
    return [(each.type, each.id, each.kind) for each in conflicts]


def divided(path: Path) -> Graph:
    """A team of which both branches changed Alice, and one removed Bob whom the other changed."""
    graph = team(path)
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'), branch="feature")
    graph.mutate(query('update Person set { age: 32 } where name = "Alice"'))
    graph.mutate(query('delete Person where name = "Bob"'), branch="feature")
    graph.mutate(query('update Person set { age: 26 } where name = "Bob"'))
    return graph
