"""Queries on a type of twelve million edges, compared with Ladybug on the same rows.

Each query runs in a separate process per engine; the two alternate and must return the same rows.
Cold is the first query of a process whose graph is open, warm the median of the later ones, and
memory the peak of the process. An argument sets the number of persons.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.follow_graph import make_rows, store_in_ladybug, store_in_omnigraph
from bench.support.query_process import MeasuredResult, QueryProcess
from bench.support.tables import milliseconds, print_table

PERSONS = 1_000_000
FOLLOWS_EACH = 12
WARM_ROUNDS = 15

_SEVEN = 'match { $a: Person { name: "person-000007" }'
_LADYBUG_SEVEN = "MATCH (a:Person {name: 'person-000007'})"

QUERIES = {
    "one person": (
        f"{_SEVEN} }} return {{ $a.age, $a.city }}",
        f"{_LADYBUG_SEVEN} RETURN a.age, a.city",
    ),
    "one hop from one": (
        f"{_SEVEN} $a $_:follows $b }} return {{ $b.name, $b.age }}",
        f"{_LADYBUG_SEVEN}-[:Follows]->(b:Person) RETURN b.name, b.age",
    ),
    "edges grouped by their own property": (
        "match { $a: Person $a $w:follows $b } return { $w.since, count(*) as n }",
        "MATCH (a:Person)-[w:Follows]->(b:Person) RETURN w.since, count(*) AS n",
    ),
    "edges filtered and grouped": (
        "match { $a: Person $a $w:follows $b $w.since >= 2013 } "
        "return { $w.since, count(*) as n, max($w.since) as last }",
        "MATCH (a:Person)-[w:Follows]->(b:Person) WHERE w.since >= 2013 "
        "RETURN w.since, count(*) AS n, max(w.since) AS last",
    ),
    "three most followed": (
        "match { $p: Person  $q $_:follows $p } return { $p.name, count($q) as n } "
        "order { n desc } limit 3",
        "MATCH (q:Person)-[:Follows]->(p:Person) RETURN p.name, count(q) AS n "
        "ORDER BY n DESC LIMIT 3",
    ),
}


def main(person_count: int) -> None:
    """Store the rows in both engines and run every query."""
    with TemporaryDirectory() as folder:
        ours, ladybug = Path(folder) / "ours", Path(folder) / "ladybug"
        rows = make_rows(person_count, FOLLOWS_EACH)
        store_in_omnigraph(rows, ours)
        store_in_ladybug(rows, ladybug)
        del rows
        print(f"{person_count:,} persons, {person_count * FOLLOWS_EACH:,} edges:\n")
        found = [_compare(name, *texts, ours, ladybug) for name, texts in QUERIES.items()]
    columns = ["cold", "warm", "peak"]
    print_table(["query", *columns, *(f"Ladybug {each}" for each in columns), "ratio"], found)


def _compare(name: str, text: str, ladybug_text: str, ours: Path, ladybug: Path) -> list[str]:
    with QueryProcess("ours", ours) as own, QueryProcess("ladybug", ladybug) as other:
        rounds = [
            (own.run(f"query q() {{ {text} }}"), other.run(ladybug_text))
            for _ in range(WARM_ROUNDS + 1)
        ]
    for first, second in rounds:
        if sorted(first.rows, key=repr) != sorted(second.rows, key=repr):
            raise SystemExit(f"{name}: the results differ: {first.rows[:3]}, {second.rows[:3]}")
    sides = [[each[side] for each in rounds] for side in (0, 1)]
    warm = [median(result.seconds for result in side[1:]) for side in sides]
    cells = [cell for side in sides for cell in _cells(side)]
    return [name, *cells, f"{warm[0] / warm[1]:.2f}"]


def _cells(results: list[MeasuredResult]) -> list[str]:
    cold, *warm = results
    seconds = median(result.seconds for result in warm)
    return [
        milliseconds(cold.seconds),
        milliseconds(seconds),
        f"{results[-1].peak_bytes >> 20} MiB",
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PERSONS)
