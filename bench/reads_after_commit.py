"""The cost of a query right after a commit of one row, compared with the same query while warm.

One handle stays open. Each round commits one row, runs every question once, and runs it again until
it is warm. Every answer after a commit is compared with that of a handle that was just opened. The
arguments are a number of persons and a number of documents.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import omnigraph
from bench.support.documents import SCHEMA as DOCUMENT_SCHEMA
from bench.support.documents import Request, make_library
from bench.support.follow_graph import FOLLOWS_EACH, PERSONS, SCHEMA, make_rows
from bench.support.tables import milliseconds, print_table
from omnigraph import Graph

ROUNDS = 5
WARM_RUNS = 5
GOAL_RATIO = 2.0
GOAL_SECONDS = 0.005

NAME = "person-000007"

FOLLOW_QUESTIONS = {
    "two hops from one node": (
        "query q($n: String) { match { $a: Person { name: $n }  $a follows $b  $b follows $c } "
        "return { $c.name as name, count(*) as n } order { n desc, name } limit 10 }"
    ),
    "point read": "query q($n: String) { match { $a: Person { name: $n } } return { $a.age } }",
    "group all edges by a node property": (
        "query q() { match { $a: Person  $a follows $b } "
        "return { $b.city as city, count(*) as n } order { n desc, city } limit 10 }"
    ),
    "filter by a node property": (
        "query q() { match { $a: Person  $a.age > 85  $a follows $b  $b.age < 20 } "
        "return { count(*) as n } }"
    ),
}

COMMITS: Mapping[str, str] = {
    "an inserted edge": """query w($i: I32) {
      insert Follows { from: "person-000007", to: "person-000011", since: $i } }""",
    "an inserted node": """query w($i: I32, $n: String) {
      insert Person { name: $n, age: $i, city: "city-1" } }""",
    "an updated node": """query w($i: I32) {
      update Person set { age: $i } where name = "person-000011" }""",
    "deleted edges": "query w($n: String) { delete Follows where from = $n }",
}


def main(person_count: int) -> None:
    """Measure the questions about persons after each kind of commit."""
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, SCHEMA)
        graph.load(make_rows(person_count), mode="append")
        print(f"{person_count:,} persons, {person_count * FOLLOWS_EACH:,} edges")
        rows = []
        for kind, text in COMMITS.items():
            for name, (warm, after) in _measure(graph, folder, text, FOLLOW_QUESTIONS).items():
                rows.append([kind, name, milliseconds(warm), milliseconds(after)])
    print_table(["after", "question", "warm", "after a commit"], rows)


def _measure(
    graph: Graph, folder: str, commit: str, questions: Mapping[str, str]
) -> dict[str, tuple[float, float]]:
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in questions}
    for number in range(ROUNDS):
        for text in questions.values():
            for _ in range(WARM_RUNS):
                _ask(graph, text)
        for name, text in questions.items():
            params = {"i": 18 + number, "n": f"person-{100 + number + 10 * len(name):06}-x"}
            if "delete" in commit:
                params["n"] = f"person-{100 + number + 10 * len(name):06}"
            used = {k: v for k, v in params.items() if f"${k}" in commit}
            graph.mutate(commit, used)
            start = perf_counter()
            found = _ask(graph, text)
            taken[name][1].append(perf_counter() - start)
            start = perf_counter()
            for _ in range(WARM_RUNS):
                _ask(graph, text)
            taken[name][0].append((perf_counter() - start) / WARM_RUNS)
            if number == 0:
                with omnigraph.open(folder) as fresh:
                    assert _ask(fresh, text) == found, (name, found)
    return {name: (median(warm), median(after)) for name, (warm, after) in taken.items()}


def _ask(graph: Graph, text: str) -> list[dict[str, object]]:
    return graph.query(text, {"n": NAME} if "$n" in text else {}).rows


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PERSONS)
