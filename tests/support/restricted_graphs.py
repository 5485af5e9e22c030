"""A small graph of teams, and two ways to see a part of it."""

from __future__ import annotations

from pathlib import Path

from omnigraph import Graph
from omnigraph.model.ports import TypeView
from tests.support.graphs import build_graph, edge, node
from tests.support.views import TypeViews

SCHEMA = """
node Person {
  name: String @key  team: String?  pay: I32?  bio: String?  face: Vector(2)?  photo: Blob?
}
node Desk { tag: String @key }
edge Knows: Person -> Person { since: I32? }
edge Sits: Person -> Desk
"""

RED: TypeViews = {"Person": TypeView(('team = "red"',), frozenset())}
"""Only the people of the red team are visible."""

UNPAID: TypeViews = {"Person": TypeView(None, frozenset({"pay"}))}
"""All people are visible, without their pay."""


def team_graph(path: Path) -> Graph:
    """Ann and Cat are red, Bob and Dan are not; Bob is on the path from Ann to Cat."""
    return build_graph(
        path,
        SCHEMA,
        node("Person", name="ann", team="red", pay=10, bio="fox", face=[1, 0], photo="base64:AAAA"),
        node(
            "Person", name="bob", team="blue", pay=90, bio="fox", face=[0, 1], photo="base64:AAAA"
        ),
        node("Person", name="cat", team="red", pay=30, bio="a red dog and a cat", face=[5, 5]),
        node("Person", name="dan", pay=70, bio="fox fox fox", face=[0, 2]),
        node("Desk", tag="d1"),
        edge("Knows", "ann", "bob", since=1),
        edge("Knows", "bob", "cat", since=2),
        edge("Knows", "ann", "ann", since=3),
        edge("Sits", "bob", "d1"),
    )


def read_rows(graph: Graph, text: str) -> list[list[object]]:
    """The rows of a read, without the names of their columns."""
    return [list(row.values()) for row in graph.query(f"query q() {{ {text} }}").rows]
