"""Aggregates over the edges of one type: read in batches, without nodes or traversals."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from tests.support.queries import query

SCHEMA = """
node Person { name: String @key  age: I32 }
edge Rates: Person -> Person { stars: I32?  weight: F64?  comment: String?  tags: [String]? }
"""
IN_BATCHES = "in batches: distinct values of"

Rating = tuple[int | None, float | None, str | None]


def rated_graph(path: Path, *, edges: int) -> tuple[Graph, list[Rating]]:
    """Ten persons with parallel edges, of which many are equal."""
    random = Random(edges)
    names = [f"p{number}" for number in range(10)]
    ratings = [
        (
            random.choice([None, 1, 2, 3, 4, 5]),
            random.choice([None, 0.0, -0.0, 0.1, 0.2, 1e300, -1e300]),
            random.choice([None, "", "good", "bad"]),
        )
        for _ in range(edges)
    ]
    ends = [(random.choice(names), random.choice(names)) for _ in ratings]
    stars, weights, comments = zip(*ratings, strict=True)
    graph = omnigraph.init(path, SCHEMA, durability="relaxed")
    graph.load(
        {
            "Person": pa.table({"name": names, "age": pa.array(range(10), pa.int32())}),
            "Rates": pa.table(
                {
                    "src": [source for source, _ in ends],
                    "dst": [target for _, target in ends],
                    "stars": pa.array(stars, pa.int32()),
                    "weight": pa.array(weights, pa.float64()),
                    "comment": pa.array(comments, pa.string()),
                }
            ),
        },
        mode="append",
    )
    return graph, ratings


def counts(graph: Graph, pattern: str) -> Counter[object]:
    found = graph.query(query(f"match {{ {pattern} }} return {{ $r.stars, count(*) as n }}"))
    return Counter({row["r.stars"]: row["n"] for row in found})


def read(graph: Graph, pattern: str, *columns: str) -> Sequence[object]:
    rows = graph.query(query(f"match {{ {pattern} }} return {{ {', '.join(columns)} }}")).rows
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("edges", [500, 20_000])
@pytest.mark.parametrize("pattern", ["$a: Person $a $r:rates $b", "$b: Person $a $r:rates $b"])
def test_edges_are_grouped_by_their_own_properties(
    tmp_path: Path, edges: int, pattern: str
) -> None:
    graph, ratings = rated_graph(tmp_path, edges=edges)
    every = f"match {{ {pattern} }} return {{ $r.stars, count(*) as n }}"
    assert IN_BATCHES in graph.explain(query(every))

    for _ in range(3):
        assert counts(graph, pattern) == Counter(stars for stars, _, _ in ratings)
        several = read(graph, pattern, "$r.comment", "min($r.weight)", "count($r.stars)")
        assert several == [
            (
                comment,
                min(
                    weight for _, weight, each in ratings if each == comment and weight is not None
                ),
                sum(each[0] is not None for each in rated),
            )
            for comment in (None, "", "bad", "good")
            for rated in [[each for each in ratings if each[2] == comment]]
        ]
        assert read(graph, pattern, "count(*)") == [(edges,)]
        assert read(graph, pattern, "count($a)", "sum($r.stars)") == [
            (edges, sum(stars or 0 for stars, _, _ in ratings))
        ]
        some = f"{pattern} $r.stars >= 4"
        assert read(graph, some, "count(*)") == [(sum((each[0] or 0) >= 4 for each in ratings),)]
        assert read(graph, f"{pattern} $r.stars > 9", "count(*)") == [(0,)]
        assert read(graph, f"{pattern} $r.stars > 9", "$r.stars", "count(*)") == []
        assert read(graph, f"{pattern} $r.stars = null", "count(*)") == [(0,)]


def test_grouped_edges_follow_commits(tmp_path: Path) -> None:
    graph, ratings = rated_graph(tmp_path, edges=6_000)
    pattern = "$a: Person $a $r:rates $b"
    for _ in range(3):
        counts(graph, pattern)
    earlier = graph.head()

    graph.mutate(query('insert Rates { from: "p1", to: "p2", stars: 7 }'))
    graph.mutate(query('delete Person where name = "p3"'))

    left = graph.query(query(f"match {{ {pattern} }} return {{ $r.stars, $a.age }}"))
    assert counts(graph, pattern) == Counter(row["r.stars"] for row in left)
    assert counts(graph, pattern)[7] == 1
    before = query(f"match {{ {pattern} }} return {{ count(*) as n }}")
    assert graph.query(before, commit=earlier).rows == [{"n": len(ratings)}]


@pytest.mark.parametrize(
    "pattern",
    [
        "$a: Person $a.age > 4 $a $r:rates $b",
        "$a: Person $a $r:rates $b $b.age > 4",
        "$a: Person $a $r:rates $b $b $s:rates $c",
        "$a: Person $a <rates> $b",
        "$a: Person $a $r:rates $a",
        "$a: Person $a rates $b",
    ],
)
def test_a_condition_on_an_end_needs_the_traversal(tmp_path: Path, pattern: str) -> None:
    graph, _ = rated_graph(tmp_path, edges=50)
    counted = query(f"match {{ {pattern} }} return {{ count(*) as n }}")
    listed = query(f"match {{ {pattern} }} return {{ $a.name }}")

    assert "counted without reading properties" not in graph.explain(counted)
    assert graph.query(counted).rows == [{"n": len(graph.query(listed).rows)}]
