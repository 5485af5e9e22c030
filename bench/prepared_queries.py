"""What prepared queries cost beside plain calls, and beside prepared statements of Ladybug.

The graph and the point read and hop are those of `read_queries.py`. All sides run in one process
and take turns, each call for another person, so that no side gains from repeating a value, and must
give the same answer. A call includes its rows as Python values.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import ladybug

import omnigraph

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.follow_graph import (
    FOLLOWS_EACH,
    PERSONS,
    make_rows,
    store_in_ladybug,
    store_ours,
)
from bench.support.tables import milliseconds, print_table

WARM_UP_CALLS = 200
"""Calls after which everything that both sides cache is cached."""

CALLS = 1_000
GOAL_SECONDS = 0.0005
"""The bound for a prepared point read."""

GOAL_RATIO = 3.0
"""How many times the time of Ladybug's prepared statement a prepared query may take."""

Ask = Callable[[str], list[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Question:
    """The same question about one person in both languages."""

    name: str
    ours: str
    ladybug: str


POINT_READ = Question(
    "one person",
    "query q($name: String) { match { $a: Person { name: $name } } return { $a.age, $a.city } }",
    "MATCH (a:Person {name: $name}) RETURN a.age, a.city",
)
ONE_HOP = Question(
    "one hop from one",
    "query q($name: String) { match { $a: Person { name: $name }  $a $_:follows $b } "
    "return { $b.name, $b.age } }",
    "MATCH (a:Person {name: $name})-[:Follows]->(b:Person) RETURN b.name, b.age",
)


def main() -> None:
    """Store the rows on both sides and ask both questions in all ways."""
    warnings.simplefilter("ignore", DeprecationWarning)
    with TemporaryDirectory() as folder:
        ours, peer = Path(folder) / "ours", Path(folder) / "ladybug"
        rows = make_rows(PERSONS)
        store_ours(rows, ours)
        store_in_ladybug(rows, peer)
        del rows
        compare(ours, peer)


def compare(ours: Path, peer: Path) -> None:
    """Print what both questions take in all ways."""
    print(f"{PERSONS:,} persons, {PERSONS * FOLLOWS_EACH:,} follows; {CALLS:,} calls, wall time.\n")
    connection = ladybug.Connection(ladybug.Database(peer, read_only=True))
    rows, misses = [], []
    with omnigraph.open(ours, read_only=True) as graph:
        for question in (POINT_READ, ONE_HOP):
            plain, prepared, ladybug_prepared = _measure(
                [
                    _plain(graph, question),
                    _prepared(graph, question),
                    _ladybug(connection, question),
                ]
            )
            ratio = prepared / ladybug_prepared
            rows.append(
                [
                    question.name,
                    *map(milliseconds, (plain, prepared, ladybug_prepared)),
                    f"{ratio:.1f}",
                ]
            )
            if ratio > GOAL_RATIO:
                misses.append(f"{question.name}: {ratio:.1f} times Ladybug, not {GOAL_RATIO}")
            if question is POINT_READ and prepared > GOAL_SECONDS:
                misses.append(f"{question.name}: {milliseconds(prepared)}")
    print_table(["question, median", "plain", "prepared", "Ladybug prepared", "ratio"], rows)
    print(f"Goals: a prepared point read within {milliseconds(GOAL_SECONDS)}, and at most")
    print(f"{GOAL_RATIO} times Ladybug — {'met' if not misses else 'MISSED'}.")
    for miss in misses:
        print(f"- {miss}")


def _plain(graph: omnigraph.Graph, question: Question) -> Ask:
    def ask(name: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in graph.query(question.ours, {"name": name})]

    return ask


def _prepared(graph: omnigraph.Graph, question: Question) -> Ask:
    call = graph.prepare(question.ours)

    def ask(name: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in call(name=name)]

    return ask


def _ladybug(connection: ladybug.Connection, question: Question) -> Ask:
    statement = connection.prepare(question.ladybug)

    def ask(name: str) -> list[tuple[object, ...]]:
        result = connection.execute(statement, parameters={"name": name})
        assert isinstance(result, ladybug.QueryResult)
        return [tuple(row) for row in result.get_all()]

    return ask


def _measure(sides: Sequence[Ask]) -> list[float]:
    """The median time of a call of each side."""
    times: list[list[float]] = [[] for _ in sides]
    for number in range(WARM_UP_CALLS + CALLS):
        name = f"person-{number * 7_919 % PERSONS:06}"
        answers = []
        for ask, taken in zip(sides, times, strict=True):
            start = perf_counter()
            answers.append(sorted(ask(name)))
            taken.append(perf_counter() - start)
        if any(each != answers[0] for each in answers):
            raise SystemExit(f"the answers for {name} differ: {answers}")
    return [median(taken[WARM_UP_CALLS:]) for taken in times]


if __name__ == "__main__":
    main()
