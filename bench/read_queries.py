"""The cost of queries, cold and warm, compared with Ladybug on the same rows.

Each query runs in a separate process per engine that holds only one graph. The two processes
alternate, so that load peaks affect both, and must return the same rows. Cold is the first query of
a process whose graph is open; warm is the fastest of the later ones. Both engines receive query
texts: OmniGraph caches the plan of a text, Ladybug compiles it each time (its prepared statements
are deprecated). This favours OmniGraph for short queries; docs/reference/performance.md states by
how much.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.follow_graph import (
    FOLLOWS_EACH,
    PERSONS,
    make_rows,
    store_in_ladybug,
    store_in_omnigraph,
)
from bench.support.query_process import MeasuredResult, QueryProcess, Rows
from bench.support.tables import milliseconds, print_table

WARM_ROUNDS = 7
WARM_ROUNDS_MAX = 200
WARM_SECONDS = 5.0
"""How long short queries are repeated: the shorter a query, the more other load affects it."""

GOAL_PEAK_BYTES = 1 << 30
GOAL_GROWTH = 1.3
"""The maximum growth of the time of a negation, divided by the growth of its rows."""


@dataclass(frozen=True, slots=True)
class Query:
    """The same query in both languages, and the maximum ratio to Ladybug's time."""

    name: str
    ours: str
    ladybug: str
    goal_ratio: float


_BOTH_HOPS = "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)"
_SEVEN = "MATCH (a:Person {name: 'person-000007'})"

NEGATION = Query(
    "who follows no one over 80",
    "match { $a: Person  not { $a follows $b  $b.age > 80 } } return { count(*) as n }",
    "MATCH (a:Person) WHERE NOT EXISTS { MATCH (a)-[:Follows]->(b:Person) WHERE b.age > 80 } "
    "RETURN count(*)",
    1.0,
)

QUERIES = (
    Query(
        "three most followed",
        "match { $p: Person  $q $_:follows $p } return { $p.name, count($q) as n } "
        "order { n desc } limit 3",
        "MATCH (q:Person)-[:Follows]->(p:Person) RETURN p.name, count(q) AS n "
        "ORDER BY n DESC LIMIT 3",
        1.0,
    ),
    Query(
        "paths of two hops",
        "match { $a: Person  $a $_:follows $b  $b $_:follows $c } return { count(*) as n }",
        f"{_BOTH_HOPS} RETURN count(*)",
        1.0,
    ),
    Query(
        "the same, filtered",
        "match { $a: Person  $a.age < 50  $a $_:follows $b  $b.age > 30  $b $_:follows $c "
        '$c.city = "city-7" } return { count(*) as n }',
        f"{_BOTH_HOPS} WHERE a.age < 50 AND b.age > 30 AND c.city = 'city-7' RETURN count(*)",
        1.0,
    ),
    Query(
        "edges joined to nodes, grouped",
        "match { $a: Person  $a $w:follows $b } "
        "return { $b.city, count(*) as n, avg($w.since) as year } order { n desc } limit 5",
        "MATCH (a:Person)-[w:Follows]->(b:Person) "
        "RETURN b.city, count(*) AS n, avg(w.since) ORDER BY n DESC LIMIT 5",
        1.0,
    ),
    Query(
        "distinct within three hops of one",
        'match { $a: Person { name: "person-000007" }  $a follows $b  $b follows $c '
        "$c follows $d } return { count(distinct $d) as n }",
        f"{_SEVEN}-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(d:Person) "
        "RETURN count(DISTINCT d)",
        1.0,
    ),
    Query(
        "one person",
        'match { $a: Person { name: "person-000007" } } return { $a.age, $a.city }',
        f"{_SEVEN} RETURN a.age, a.city",
        10.0,
    ),
    Query(
        "one hop from one",
        'match { $a: Person { name: "person-000007" }  $a $_:follows $b } '
        "return { $b.name, $b.age }",
        f"{_SEVEN}-[:Follows]->(b:Person) RETURN b.name, b.age",
        10.0,
    ),
    NEGATION,
)


@dataclass(frozen=True, slots=True)
class Times:
    """The times and peak memory of one engine for one query."""

    cold: float
    warm: float
    peak_bytes: int


def main() -> None:
    """Store the rows in both engines, run all queries, then the negation at two sizes."""
    with TemporaryDirectory() as folder:
        ours, ladybug, small = (Path(folder) / name for name in ("ours", "ladybug", "small"))
        rows = make_rows(PERSONS)
        store_in_omnigraph(rows, ours)
        store_in_ladybug(rows, ladybug)
        store_in_omnigraph(make_rows(PERSONS // 4), small)
        del rows
        show_queries(ours, ladybug)
        show_growth(small, ours)


def show_queries(ours: Path, ladybug: Path) -> None:
    """Print the times of every query in both engines."""
    print(
        f"{PERSONS:,} persons, {PERSONS * FOLLOWS_EACH:,} follows, wall time; "
        f"warm is the fastest of {WARM_ROUNDS} or more.\n"
    )
    rows, misses = [], []
    for query in QUERIES:
        own, other = _compare(query, ours, ladybug)
        ratio = own.warm / other.warm
        if ratio > query.goal_ratio:
            misses.append(f"{query.name}: {ratio:.2f} times Ladybug, not {query.goal_ratio}")
        if own.peak_bytes >= GOAL_PEAK_BYTES:
            misses.append(f"{query.name}: {_mebibytes(own.peak_bytes)}")
        rows.append([query.name, *_cells(own), *_cells(other), f"{ratio:.2f}"])
    print_table(
        ["query", "cold", "warm", "peak", "Ladybug cold", "warm", "peak", "warm ratio"], rows
    )
    print("Goals: one person and one hop at most 10 times Ladybug's warm time, the others at most")
    print(f"1 time; peak memory under 1 GiB — {'met' if not misses else 'MISSED'}.")
    for miss in misses:
        print(f"- {miss}")
    print()


def show_growth(small: Path, large: Path) -> None:
    """Print the time of a negation at two sizes."""
    with QueryProcess("ours", small) as few, QueryProcess("ours", large) as many:
        rounds = [(few.run(_text(NEGATION)), many.run(_text(NEGATION))) for _ in range(WARM_ROUNDS)]
    short, long = (
        min(result.seconds for result in results[1:]) for results in zip(*rounds, strict=True)
    )
    growth = long / short / 4
    print(f"A negation over {PERSONS // 4:,} persons takes {milliseconds(short)}, over {PERSONS:,}")
    print(f"{milliseconds(long)}: four times the rows, {long / short:.1f} times the time.")
    outcome = "met" if growth <= GOAL_GROWTH else "MISSED"
    print(f"Goal: linear, within {GOAL_GROWTH} times — {outcome}.\n")


def _compare(query: Query, ours: Path, ladybug: Path) -> tuple[Times, Times]:
    with QueryProcess("ours", ours) as own, QueryProcess("ladybug", ladybug) as other:
        rounds = [(own.run(_text(query)), other.run(query.ladybug))]
        start = perf_counter()
        while len(rounds) <= WARM_ROUNDS or (
            len(rounds) <= WARM_ROUNDS_MAX and perf_counter() - start < WARM_SECONDS
        ):
            rounds.append((own.run(_text(query)), other.run(query.ladybug)))
    for own_result, other_result in rounds:
        _require_equal(query, own_result.rows, other_result.rows)
    first, second = zip(*rounds, strict=True)
    return _times(first), _times(second)


def _text(query: Query) -> str:
    return f"query q() {{ {query.ours} }}"


def _times(results: tuple[MeasuredResult, ...]) -> Times:
    cold, *warm = results
    return Times(cold.seconds, min(each.seconds for each in warm), results[-1].peak_bytes)


def _require_equal(query: Query, own: Rows, other: Rows) -> None:
    """Stop unless both results have the same rows, in any order."""
    own_rows, other_rows = sorted(own, key=repr), sorted(other, key=repr)
    is_equal = len(own_rows) == len(other_rows) and all(
        _is_same(own_value, other_value)
        for own_row, other_row in zip(own_rows, other_rows, strict=True)
        for own_value, other_value in zip(own_row, other_row, strict=True)
    )
    if not is_equal:
        raise SystemExit(f"{query.name}: the results differ: {own[:5]} and {other[:5]}")


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        # The engines add floats in different orders.
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def _cells(times: Times) -> list[str]:
    return [milliseconds(times.cold), milliseconds(times.warm), _mebibytes(times.peak_bytes)]


def _mebibytes(count: int) -> str:
    return f"{count >> 20} MiB"


if __name__ == "__main__":
    main()
