"""The cost of a query right after a commit of one row, compared with the same query while warm.

One handle stays open. Each round commits one row, runs a query once, and repeats it with warm
caches. The first result after each kind of commit is compared with that of a newly opened handle.
An argument sets the number of persons; the number of documents is fixed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.documents import DOCUMENTS, make_library
from bench.support.documents import SCHEMA as DOCUMENT_SCHEMA
from bench.support.follow_graph import FOLLOWS_EACH, PERSONS, make_rows
from bench.support.follow_graph import SCHEMA as FOLLOW_SCHEMA
from bench.support.tables import milliseconds, print_table
from omnigraph import Graph

ROUNDS = 7
WARM_RUNS = 5
GOAL_RATIO = 2.0
GOAL_SECONDS = 0.005

FOLLOW_QUERIES = {
    "point read": """query q() {
      match { $a: Person { name: "person-000007" } } return { $a.age } }""",
    "two hops from one node": """query q() {
      match { $a: Person { name: "person-000007" }  $a follows $b  $b follows $c }
      return { $c.name as name, count(*) as n } order { n desc, name } limit 10 }""",
    "edges grouped by a node property": """query q() {
      match { $a: Person  $a follows $b }
      return { $b.city as city, count(*) as n } order { n desc, city } limit 10 }""",
    "edges filtered by both ends": """query q() {
      match { $a: Person  $a.age > 85  $a follows $b  $b.age < 20 } return { count(*) as n } }""",
}

FOLLOW_COMMITS: Mapping[str, Callable[[int], str]] = {
    "an inserted edge": lambda number: (
        f'insert Follows {{ from: "person-000007", to: "person-000011", since: {number} }}'
    ),
    "an inserted node": lambda number: (
        f'insert Person {{ name: "new-{number}", age: {number}, city: "city-1" }}'
    ),
    "an updated node": lambda number: (
        f'update Person set {{ age: {number} }} where name = "person-000011"'
    ),
    "the edges of a node deleted": lambda number: (
        f'delete Follows where from = "person-{100 + number:06}"'
    ),
}

DOCUMENT_QUERIES = {
    "words": """query q($words: String, $vector: Vector(128)) {
      match { $d: Document } return { $d.title }
      order { bm25($d.text, $words) desc } limit 10 }""",
    "vector": """query q($words: String, $vector: Vector(128)) {
      match { $d: Document } return { $d.title }
      order { nearest($d.vector, $vector) } limit 10 }""",
    "hybrid, with a hop": """query q($words: String, $vector: Vector(128)) {
      match { $d: Document  $d writtenBy $a } return { $d.title, $a.name }
      order { rrf(nearest($d.vector, $vector), bm25($d.text, $words)) } limit 10 }""",
}


def main(person_count: int) -> None:
    """Measure both graphs."""
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, FOLLOW_SCHEMA)
        graph.load(make_rows(person_count), mode="append")
        print(f"{person_count:,} persons, {person_count * FOLLOWS_EACH:,} edges:\n")
        rows = [
            row
            for kind, make in FOLLOW_COMMITS.items()
            for row in _measure(graph, folder, kind, make, FOLLOW_QUERIES, {})
        ]
        print_table(["after", "query", "warm", "after a commit", "within the goal"], rows)
    library = make_library(1)
    request = library.requests[0]
    params = {"words": request.words, "vector": request.vector.tolist()}
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, DOCUMENT_SCHEMA)
        graph.load(library.rows, mode="append")
        vector = ", ".join(map(str, params["vector"]))
        print(f"{DOCUMENTS:,} documents:\n")

        def insert(number: int) -> str:
            return (
                f'insert Document {{ title: "new-{number}", text: "{request.words}", '
                f"year: 2026, vector: [{vector}] }}"
            )

        found = _measure(graph, folder, "an inserted document", insert, DOCUMENT_QUERIES, params)
        print_table(["after", "query", "warm", "after a commit", "within the goal"], found)
    print(f"The goal is at most {GOAL_RATIO:g} times the warm time plus {GOAL_SECONDS * 1e3:g} ms.")


def _measure(
    graph: Graph,
    folder: str,
    kind: str,
    make: Callable[[int], str],
    queries: Mapping[str, str],
    params: Mapping[str, object],
) -> list[list[str]]:
    rows, number = [], 20
    for name, text in queries.items():
        warm, after = [], []
        for round_number in range(ROUNDS + 1):
            number += 1
            graph.mutate(f"query w() {{ {make(number)} }}")
            start = perf_counter()
            found = graph.query(text, params).rows
            first = perf_counter() - start
            start = perf_counter()
            for _ in range(WARM_RUNS):
                graph.query(text, params)
            if round_number:
                after.append(first)
                warm.append((perf_counter() - start) / WARM_RUNS)
                continue
            with omnigraph.open(folder) as fresh:
                assert fresh.query(text, params).rows == found, f"{name} differs after {kind}"
        goal = GOAL_RATIO * median(warm) + GOAL_SECONDS
        is_met = "yes" if median(after) <= goal else "no"
        rows.append([kind, name, milliseconds(median(warm)), milliseconds(median(after)), is_met])
    return rows


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PERSONS)
