"""Algorithms over networks as others define them: networkx, and dictionaries where it has none.

Nodes are the numbers from zero up, and the smaller one comes first.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import networkx as nx

from omnigraph import Graph
from tests.support.graphs import build_graph, edge, node

Edge = tuple[int, int]
Named = tuple[str, str]

TOWN = """
node Person {
    name: String @key
    age: I32?
    rank: F64?
    weight: F32?
    group: String?
    hops: I32?
    way: [String]?
}
node Place { name: String @key }
edge Knows: Person -> Person
edge Follows: Person -> Person
edge Lives: Person -> Place
"""
_ENDS = {
    "Knows": ("Person", "Person"),
    "Follows": ("Person", "Person"),
    "Lives": ("Person", "Place"),
}


@dataclass(frozen=True, slots=True)
class Town:
    """People and places by id, and the edges between them by type."""

    people: Sequence[str]
    places: Sequence[str]
    edges: Mapping[str, Sequence[tuple[str, str]]]

    def build(self, path: Path) -> Graph:
        """The town as a graph."""
        return build_graph(
            path,
            TOWN,
            *(node("Person", name=name, age=number) for number, name in enumerate(self.people)),
            *(node("Place", name=name) for name in self.places),
            *(edge(type, *ends) for type, pairs in self.edges.items() for ends in pairs),
        )

    def nodes(self, *edge_types: str) -> list[Named]:
        """The nodes of the types that edges connect, in order; their places are their numbers."""
        types = {type for each in edge_types for type in _ENDS[each]}
        ids = {"Person": self.people, "Place": self.places}
        found = [(type, id) for type in types for id in ids[type]]
        return sorted(found, key=lambda each: (each[0].encode(), each[1].encode()))

    def pairs(self, *edge_types: str) -> list[Edge]:
        """The edges of types as numbers of nodes."""
        number = {named: place for place, named in enumerate(self.nodes(*edge_types))}
        return [
            (number[_ENDS[type][0], source], number[_ENDS[type][1], target])
            for type in edge_types
            for source, target in self.edges[type]
        ]


def make_town(seed: int) -> Town:
    """Some people who know each other, and themselves, more than once, and live in places.

    Types share ids, some nodes have no edge, and ids sort by their bytes as no reader would.
    """
    choose = random.Random(seed)
    letters = ("a", "B", "é", "z", "", "\U0001f600", "\uff10")
    people = [f"{choose.choice(letters)}{number}" for number in range(choose.randint(1, 14))]
    places = [f"{choose.choice(letters)}{number}" for number in range(choose.randint(1, 4))]
    known = people[: choose.randint(1, len(people))]
    knows = [(choose.choice(known), choose.choice(known)) for _ in range(3 * len(known))]
    lives = [(choose.choice(known), choose.choice(places)) for _ in range(len(known) // 2)]
    return Town(people, places, {"Knows": knows, "Lives": lives, "Follows": []})


def join_towns(towns: Iterable[Town]) -> Town:
    """Towns side by side, of which none knows of another."""
    people: list[str] = []
    places: list[str] = []
    edges: dict[str, list[tuple[str, str]]] = {type: [] for type in _ENDS}
    for number, town in enumerate(towns):
        people += [f"{number}/{each}" for each in town.people]
        places += [f"{number}/{each}" for each in town.places]
        for type, pairs in town.edges.items():
            edges[type] += [(f"{number}/{one}", f"{number}/{other}") for one, other in pairs]
    return Town(people, places, edges)


def make_road(length: int) -> Town:
    """People in one long line, whose ids say nothing about their places in it."""
    people = [f"r{number}" for number in range(length)]
    random.Random(length).shuffle(people)
    line = list(pairwise(people))
    return Town(people, [], {"Knows": [], "Lives": [], "Follows": line})


def simple(node_count: int, edges: Iterable[Edge]) -> nx.Graph:
    """The network without directions, parallel edges, and edges from a node to itself."""
    graph = nx.Graph()
    graph.add_nodes_from(range(node_count))
    graph.add_edges_from((one, other) for one, other in edges if one != other)
    return graph


def directed(node_count: int, edges: Iterable[Edge]) -> nx.MultiDiGraph:
    """The network with directions and parallel edges."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(node_count))
    graph.add_edges_from(edges)
    return graph


def components(node_count: int, edges: Iterable[Edge]) -> list[int]:
    """The smallest node of the component of each."""
    found = nx.connected_components(simple(node_count, edges))
    smallest = {node: min(group) for group in found for node in group}
    return [smallest[node] for node in range(node_count)]


def triangles(node_count: int, edges: Iterable[Edge]) -> list[int]:
    """How many triangles each node is part of."""
    found = nx.triangles(simple(node_count, edges))
    return [found[node] for node in range(node_count)]


def cores(node_count: int, edges: Iterable[Edge]) -> list[int]:
    """The core number of each node."""
    found = nx.core_number(simple(node_count, edges))
    return [found[node] for node in range(node_count)]


def ranks(node_count: int, edges: Iterable[Edge], *, damping: float) -> list[float]:
    """PageRank, nearly exact."""
    graph = directed(node_count, edges)
    found = nx.pagerank(graph, alpha=damping, tol=1e-13 / node_count, max_iter=10_000)
    return [found[node] for node in range(node_count)]


def first_paths(node_count: int, edges: Iterable[Edge], source: int) -> dict[int, list[int]]:
    """The first of the shortest paths to each node that can be reached."""
    graph = nx.DiGraph(directed(node_count, edges))
    reached = nx.single_source_shortest_path_length(graph, source)
    return {node: min(nx.all_shortest_paths(graph, source, node)) for node in reached}


def labels(node_count: int, edges: Iterable[Edge], *, rounds_max: int) -> list[int]:
    """Label propagation, all nodes at once, each with a vote of its own."""
    graph = simple(node_count, edges)
    found = list(range(node_count))
    for _ in range(rounds_max):
        found = [_most(found[each] for each in (node, *graph.neighbors(node))) for node in graph]
    return found


def _most(votes: Iterable[int]) -> int:
    counted = Counter(votes)
    most = max(counted.values())
    return min(label for label, count in counted.items() if count == most)
