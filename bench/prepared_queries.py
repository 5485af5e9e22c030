"""The cost of prepared queries, compared with plain queries and Ladybug's prepared statements.

The graph, the point read and the hop are those of `read_queries.py`. All contenders run in one
process in alternation and must return the same rows. Each call is for another person, so that no
contender benefits from a repeated value. A call includes the conversion of its rows to Python.
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

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.follow_graph import (
    FOLLOWS_EACH,
    PERSONS,
    make_rows,
    store_in_ladybug,
    store_in_omnigraph,
)
from bench.support.tables import milliseconds, print_table

WARMUP_CALLS = 200
"""Calls after which the caches of all contenders are filled."""

CALLS = 1_000
GOAL_SECONDS = 0.0005
"""The limit for a prepared point read."""

GOAL_RATIO = 3.0
"""The maximum ratio of a prepared query to a prepared statement of Ladybug."""

RunQuery = Callable[[str], list[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Query:
    """The same query for one person in both languages."""

    name: str
    ours: str
    ladybug: str


POINT_READ = Query(
    "one person",
    "query q($name: String) { match { $a: Person { name: $name } } return { $a.age, $a.city } }",
    "MATCH (a:Person {name: $name}) RETURN a.age, a.city",
)
ONE_HOP = Query(
    "one hop from one",
    "query q($name: String) { match { $a: Person { name: $name }  $a $_:follows $b } "
    "return { $b.name, $b.age } }",
    "MATCH (a:Person {name: $name})-[:Follows]->(b:Person) RETURN b.name, b.age",
)


def main() -> None:
    """Store the rows in both engines and run both queries in every way."""
    warnings.simplefilter("ignore", DeprecationWarning)
    with TemporaryDirectory() as folder:
        ours, ladybug_path = Path(folder) / "ours", Path(folder) / "ladybug"
        rows = make_rows(PERSONS)
        store_in_omnigraph(rows, ours)
        store_in_ladybug(rows, ladybug_path)
        del rows
        compare(ours, ladybug_path)


def compare(ours: Path, ladybug_path: Path) -> None:
    """Print the time of both queries in every way."""
    print(f"{PERSONS:,} persons, {PERSONS * FOLLOWS_EACH:,} follows; {CALLS:,} calls, wall time.\n")
    connection = ladybug.Connection(ladybug.Database(ladybug_path, read_only=True))
    rows, misses = [], []
    with omnigraph.open(ours, read_only=True) as graph:
        for query in (POINT_READ, ONE_HOP):
            plain, prepared, ladybug_prepared = _measure(
                [
                    _plain(graph, query),
                    _prepared(graph, query),
                    _ladybug(connection, query),
                ]
            )
            ratio = prepared / ladybug_prepared
            rows.append(
                [
                    query.name,
                    *map(milliseconds, (plain, prepared, ladybug_prepared)),
                    f"{ratio:.1f}",
                ]
            )
            if ratio > GOAL_RATIO:
                misses.append(f"{query.name}: {ratio:.1f} times Ladybug, not {GOAL_RATIO}")
            if query is POINT_READ and prepared > GOAL_SECONDS:
                misses.append(f"{query.name}: {milliseconds(prepared)}")
    print_table(["query, median", "plain", "prepared", "Ladybug prepared", "ratio"], rows)
    print(f"Goals: a prepared point read within {milliseconds(GOAL_SECONDS)}, and at most")
    print(f"{GOAL_RATIO} times Ladybug — {'met' if not misses else 'MISSED'}.")
    for miss in misses:
        print(f"- {miss}")


def _plain(graph: omnigraph.Graph, query: Query) -> RunQuery:
    def run(name: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in graph.query(query.ours, {"name": name})]

    return run


def _prepared(graph: omnigraph.Graph, query: Query) -> RunQuery:
    call = graph.prepare(query.ours)

    def run(name: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in call(name=name)]

    return run


def _ladybug(connection: ladybug.Connection, query: Query) -> RunQuery:
    statement = connection.prepare(query.ladybug)

    def run(name: str) -> list[tuple[object, ...]]:
        result = connection.execute(statement, parameters={"name": name})
        assert isinstance(result, ladybug.QueryResult)
        return [tuple(row) for row in result.get_all()]

    return run


def _measure(contenders: Sequence[RunQuery]) -> list[float]:
    """The median time of a call of each contender."""
    times: list[list[float]] = [[] for _ in contenders]
    for number in range(WARMUP_CALLS + CALLS):
        name = f"person-{number * 7_919 % PERSONS:06}"
        results = []
        for run, taken in zip(contenders, times, strict=True):
            start = perf_counter()
            results.append(sorted(run(name)))
            taken.append(perf_counter() - start)
        if any(each != results[0] for each in results):
            raise SystemExit(f"the results for {name} differ: {results}")
    return [median(taken[WARMUP_CALLS:]) for taken in times]


if __name__ == "__main__":
    main()
