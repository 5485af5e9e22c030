"""The effect of `optimize` on a graph of 500 small commits, compared with a graph loaded at once.

Both hold the same rows. Measured in alternation, before and after optimizing: opening the graph,
scanning a type, and two queries on a newly opened graph with cold caches.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I64? @index } edge Knows: Person -> Person"
COMMITS, ROWS_EACH = 500, 40
ROUNDS = 15
GOAL_RATIO = 1.2

READS: Mapping[str, Callable[[str], object]] = {
    "open": omnigraph.open,
    "open and scan a type": lambda folder: sum(
        1 for _ in omnigraph.open(folder, read_only=True).export(types=["Person"])
    ),
    "open and find by key": lambda folder: _query(
        folder, 'match { $p: Person { name: "p7-7" } } return { $p.age }'
    ),
    "open and count neighbours": lambda folder: _query(
        folder, "match { $p: Person { age: 7 } $p knows $q } return { count($q) as n }"
    ),
}


def main() -> None:
    """Write the same rows twice and read both graphs in alternation."""
    with TemporaryDirectory() as folder:
        whole, fragmented = f"{folder}/whole", f"{folder}/fragmented"
        parts = [_rows(number) for number in range(COMMITS)]
        graph = omnigraph.init(whole, SCHEMA, durability="relaxed")
        graph.load(
            {name: pa.concat_tables([p[name] for p in parts]) for name in parts[0]}, mode="append"
        )
        graph.ensure_indices()
        graph = omnigraph.init(fragmented, SCHEMA, durability="relaxed")
        graph.load(parts[0], mode="append")
        graph.ensure_indices()
        for part in parts[1:]:
            graph.load(part, mode="append")
        before = _measure(whole, fragmented)
        start = perf_counter()
        graph.optimize()
        optimizing = perf_counter() - start
        after = _measure(whole, fragmented)
    _print(before, after, optimizing)


def _rows(number: int) -> dict[str, pa.Table]:
    names = [f"p{number}-{each}" for each in range(ROWS_EACH)]
    return {
        "Person": pa.table(
            {"name": names, "age": [(number * 7 + e) % 97 for e in range(ROWS_EACH)]}
        ),
        "Knows": pa.table({"src": names[:-1], "dst": names[1:]}),
    }


def _measure(whole: str, fragmented: str) -> list[tuple[float, float]]:
    """The median seconds of each read, for the graph loaded at once and for the fragmented one."""
    found = []
    for read in READS.values():
        read(whole), read(fragmented)
        pairs = [(_time(read, whole), _time(read, fragmented)) for _ in range(ROUNDS)]
        found.append((median(each[0] for each in pairs), median(each[1] for each in pairs)))
    return found


def _query(folder: str, body: str) -> object:
    return list(omnigraph.open(folder, read_only=True).query(f"query q() {{ {body} }}"))


def _time(read: Callable[[str], object], folder: str) -> float:
    start = perf_counter()
    read(folder)
    return perf_counter() - start


def _print(
    before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]], optimizing: float
) -> None:
    rows_count = f"{COMMITS * ROWS_EACH:,}"
    print(f"{rows_count} nodes in {COMMITS} commits, compared with the same rows loaded at once.\n")
    ratios = [fragmented / whole for whole, fragmented in after]
    print_table(
        ["read", "at once", "in small commits", "ratio", "at once", "optimized", "ratio"],
        [
            [
                name,
                milliseconds(a),
                milliseconds(b),
                f"{b / a:.2f}",
                milliseconds(c),
                milliseconds(d),
                f"{d / c:.2f}",
            ]
            for name, (a, b), (c, d) in zip(READS, before, after, strict=True)
        ],
    )
    print(f"Optimizing took {milliseconds(optimizing)}.")
    outcome = "met" if max(ratios) <= GOAL_RATIO else "MISSED"
    print(f"Goal: at most {GOAL_RATIO} times, worst: {max(ratios):.2f} — {outcome}.\n")


if __name__ == "__main__":
    main()
