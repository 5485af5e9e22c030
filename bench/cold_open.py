"""The time to open a graph with a history, compared with reading its manifest with bare pylance.

The process is warm and the graph is cold: every round opens the graph again. The baseline reads
only the manifest, which is the minimum that any reader of the current state needs.
"""

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
INSERT = "query add($name: String) { insert Person { name: $name } }"
COMMITS = 500
ROUNDS = 21
GOAL_SECONDS = 0.1


def main() -> None:
    """Create a history, then open the graph repeatedly, alternating with the baseline."""
    ours, read_only, bare = [], [], []
    with TemporaryDirectory() as folder:
        graph = omnigraph.init(folder, SCHEMA, durability="relaxed")
        for number in range(COMMITS):
            graph.mutate(INSERT, {"name": f"p{number}"})
        for _ in range(ROUNDS):
            ours.append(_time(lambda: omnigraph.open(folder)))
            read_only.append(_time(lambda: omnigraph.open(folder, read_only=True)))
            bare.append(_time(lambda: lance.dataset(f"{folder}/__manifest").to_table()))
    print(f"A graph with {COMMITS} commits, opened {ROUNDS} times, wall time, median.\n")
    print_table(
        ["operation", "time"],
        [
            ["omnigraph.open", milliseconds(median(ours))],
            ["omnigraph.open, read only", milliseconds(median(read_only))],
            ["bare pylance: read the manifest", milliseconds(median(bare))],
        ],
    )
    outcome = "met" if median(ours) < GOAL_SECONDS else "MISSED"
    print(f"Goal: under {milliseconds(GOAL_SECONDS)} — {outcome}.\n")


def _time(call: object) -> float:
    assert callable(call)
    start = perf_counter()
    call()
    return perf_counter() - start


if __name__ == "__main__":
    main()
