"""The cost of a diff of two adjacent commits by the number of rows of the type.

One row changes between the commits, in a type of ten thousand rows and in one of a million; the
two alternate, so that load peaks affect both. The changed row is in one file with all other rows,
as after a large load, which is the most expensive case.
"""

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
UPDATE = """
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
"""
SIZES = (10_000, 1_000_000)
ROUNDS = 40
GOAL_RATIO = 2.0


def main() -> None:
    """Change rows one by one and read each change."""
    with TemporaryDirectory() as folder:
        graphs = {size: _make_graph(Path(folder, str(size)), size) for size in SIZES}
        diffs: dict[int, list[float]] = {size: [] for size in SIZES}
        feeds: dict[int, list[float]] = {size: [] for size in SIZES}
        for number in range(ROUNDS):
            for size, graph in graphs.items():
                old = graph.head()
                feed = graph.changes("now")
                graph.mutate(UPDATE, {"name": f"p{number * 7}", "age": -number - 1})
                new = graph.head()
                diffs[size].append(_time_diff(graph, old, new))
                start = perf_counter()
                (found,) = feed
                feeds[size].append(perf_counter() - start)
                assert len(found.changes) == 1
    few, many = SIZES
    print("One row of a type changed; wall time to read the change, alternating.\n")
    print_table(
        ["rows of the type", "diff", "change feed"],
        [
            [f"{size:,}", milliseconds(median(diffs[size])), milliseconds(median(feeds[size]))]
            for size in SIZES
        ],
    )
    for name, times in (("diff", diffs), ("change feed", feeds)):
        ratio = median(times[many]) / median(times[few])
        outcome = "met" if ratio <= GOAL_RATIO else "MISSED"
        print(f"Goal: {name}: at most {GOAL_RATIO} times as much: {ratio:.2f} — {outcome}.")


def _make_graph(folder: Path, size: int) -> omnigraph.Graph:
    graph = omnigraph.init(str(folder), SCHEMA)
    rows = pa.table(
        {
            "name": [f"p{number}" for number in range(size)],
            "age": pa.array(np.arange(size), pa.int32()),
        }
    )
    graph.load({"Person": rows}, mode="append")
    graph.ensure_indices()
    return graph


def _time_diff(graph: omnigraph.Graph, old: str, new: str) -> float:
    start = perf_counter()
    found = graph.diff(old, new)
    elapsed = perf_counter() - start
    assert len(found) == 1
    return elapsed


if __name__ == "__main__":
    main()
