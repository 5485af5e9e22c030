"""What questions about a graph cost, cold and warm, beside Ladybug on the same rows.

Every question has a process of its own on either side, which holds one graph and nothing else. The
two take turns, so that a busy moment hits both, and must give the same answer. Cold is the first
question of a process whose graph is open; warm is the fastest of the others. Both are given texts:
we keep the plan of one, Ladybug compiles it each time (its prepared statements are deprecated).
That favours us where the answer is quick; the document with the results says by how much.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.asker import Answer, Asker, Rows
from bench.support.follow_graph import (
    FOLLOWS_EACH,
    PERSONS,
    make_rows,
    store_in_ladybug,
    store_ours,
)
from bench.support.tables import milliseconds, print_table

WARM_ROUNDS = 7
WARM_ROUNDS_MAX = 200
WARM_SECONDS = 5.0
"""How long short questions are repeated: the shorter, the more a busy machine gets in the way."""

GOAL_PEAK_BYTES = 1 << 30
GOAL_GROWTH = 1.3
"""How much more than the rows the time of a negation may grow and still be called linear."""


@dataclass(frozen=True, slots=True)
class Question:
    """The same question in both languages, and how many times Ladybug's time it may take."""

    name: str
    ours: str
    ladybug: str
    goal_ratio: float


_BOTH_HOPS = "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)"
_SEVEN = "MATCH (a:Person {name: 'person-000007'})"

NEGATION = Question(
    "who follows nobody over 80",
    "match { $a: Person  not { $a follows $b  $b.age > 80 } } return { count(*) as n }",
    "MATCH (a:Person) WHERE NOT EXISTS { MATCH (a)-[:Follows]->(b:Person) WHERE b.age > 80 } "
    "RETURN count(*)",
    1.0,
)

QUESTIONS = (
    Question(
        "three most followed",
        "match { $p: Person  $q $_:follows $p } return { $p.name, count($q) as n } "
        "order { n desc } limit 3",
        "MATCH (q:Person)-[:Follows]->(p:Person) RETURN p.name, count(q) AS n "
        "ORDER BY n DESC LIMIT 3",
        1.0,
    ),
    Question(
        "paths of two hops",
        "match { $a: Person  $a $_:follows $b  $b $_:follows $c } return { count(*) as n }",
        f"{_BOTH_HOPS} RETURN count(*)",
        1.0,
    ),
    Question(
        "the same, filtered",
        "match { $a: Person  $a.age < 50  $a $_:follows $b  $b.age > 30  $b $_:follows $c "
        '$c.city = "city-7" } return { count(*) as n }',
        f"{_BOTH_HOPS} WHERE a.age < 50 AND b.age > 30 AND c.city = 'city-7' RETURN count(*)",
        1.0,
    ),
    Question(
        "edges joined to nodes, in groups",
        "match { $a: Person  $a $w:follows $b } "
        "return { $b.city, count(*) as n, avg($w.since) as year } order { n desc } limit 5",
        "MATCH (a:Person)-[w:Follows]->(b:Person) "
        "RETURN b.city, count(*) AS n, avg(w.since) ORDER BY n DESC LIMIT 5",
        1.0,
    ),
    Question(
        "distinct within three hops of one",
        'match { $a: Person { name: "person-000007" }  $a follows $b  $b follows $c '
        "$c follows $d } return { count(distinct $d) as n }",
        f"{_SEVEN}-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(d:Person) "
        "RETURN count(DISTINCT d)",
        1.0,
    ),
    Question(
        "one person",
        'match { $a: Person { name: "person-000007" } } return { $a.age, $a.city }',
        f"{_SEVEN} RETURN a.age, a.city",
        10.0,
    ),
    Question(
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
    """What one side took for one question."""

    cold: float
    warm: float
    peak_bytes: int


def main() -> None:
    """Store the rows on both sides, ask everything, then the negation at a quarter of the size."""
    with TemporaryDirectory() as folder:
        ours, peer, small = (Path(folder) / name for name in ("ours", "ladybug", "small"))
        rows = make_rows(PERSONS)
        store_ours(rows, ours)
        store_in_ladybug(rows, peer)
        store_ours(make_rows(PERSONS // 4), small)
        del rows
        show_questions(ours, peer)
        show_growth(small, ours)


def show_questions(ours: Path, peer: Path) -> None:
    """Print what every question takes on both sides."""
    print(
        f"{PERSONS:,} persons, {PERSONS * FOLLOWS_EACH:,} follows, wall time; "
        f"warm is the fastest of {WARM_ROUNDS} or more.\n"
    )
    rows, misses = [], []
    for question in QUESTIONS:
        mine, theirs = _compare(question, ours, peer)
        ratio = mine.warm / theirs.warm
        if ratio > question.goal_ratio:
            misses.append(f"{question.name}: {ratio:.2f} times Ladybug, not {question.goal_ratio}")
        if mine.peak_bytes >= GOAL_PEAK_BYTES:
            misses.append(f"{question.name}: {_mebibytes(mine.peak_bytes)}")
        rows.append([question.name, *_cells(mine), *_cells(theirs), f"{ratio:.2f}"])
    print_table(
        ["question", "cold", "warm", "peak", "Ladybug cold", "warm", "peak", "warm ratio"], rows
    )
    print("Goals: one person and one hop at most 10 times Ladybug's warm time, the others at most")
    print(f"once; peak memory under 1 GiB — {'met' if not misses else 'MISSED'}.")
    for miss in misses:
        print(f"- {miss}")
    print()


def show_growth(small: Path, large: Path) -> None:
    """Print what a negation takes at two sizes."""
    with Asker("ours", small) as few, Asker("ours", large) as many:
        rounds = [(few.ask(_text(NEGATION)), many.ask(_text(NEGATION))) for _ in range(WARM_ROUNDS)]
    short, long = (min(answer.seconds for answer in side[1:]) for side in zip(*rounds, strict=True))
    growth = long / short / 4
    print(f"A negation over {PERSONS // 4:,} persons takes {milliseconds(short)}, over {PERSONS:,}")
    print(f"{milliseconds(long)}: four times the rows, {long / short:.1f} times the time.")
    verdict = "met" if growth <= GOAL_GROWTH else "MISSED"
    print(f"Goal: linear, within {GOAL_GROWTH} times — {verdict}.\n")


def _compare(question: Question, ours: Path, peer: Path) -> tuple[Times, Times]:
    with Asker("ours", ours) as mine, Asker("ladybug", peer) as theirs:
        rounds = [(mine.ask(_text(question)), theirs.ask(question.ladybug))]
        start = perf_counter()
        while len(rounds) <= WARM_ROUNDS or (
            len(rounds) <= WARM_ROUNDS_MAX and perf_counter() - start < WARM_SECONDS
        ):
            rounds.append((mine.ask(_text(question)), theirs.ask(question.ladybug)))
    for my_answer, their_answer in rounds:
        _require_equal(question, my_answer.rows, their_answer.rows)
    first, second = zip(*rounds, strict=True)
    return _times(first), _times(second)


def _text(question: Question) -> str:
    return f"query q() {{ {question.ours} }}"


def _times(answers: tuple[Answer, ...]) -> Times:
    cold, *warm = answers
    return Times(cold.seconds, min(each.seconds for each in warm), answers[-1].peak_bytes)


def _require_equal(question: Question, ours: Rows, theirs: Rows) -> None:
    """Stop unless both gave the same rows; without `order` theirs come as they come."""
    mine, others = sorted(ours, key=repr), sorted(theirs, key=repr)
    is_equal = len(mine) == len(others) and all(
        _is_same(one, other)
        for row, their_row in zip(mine, others, strict=True)
        for one, other in zip(row, their_row, strict=True)
    )
    if not is_equal:
        raise SystemExit(f"{question.name}: the answers differ: {ours[:5]} and {theirs[:5]}")


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        # The order in which floats are added up is each engine's own.
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def _cells(times: Times) -> list[str]:
    return [milliseconds(times.cold), milliseconds(times.warm), _mebibytes(times.peak_bytes)]


def _mebibytes(count: int) -> str:
    return f"{count >> 20} MiB"


if __name__ == "__main__":
    main()
