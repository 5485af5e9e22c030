"""How fast rows come in: an inline load with every check, beside bare pylance and the same rows.

The peer writes the same Arrow table and sorts its keys once, which is the least that a check for
repeated keys could cost.
"""

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa

import omnigraph
from bench.support.bare_lance import write_and_sort
from bench.support.tables import milliseconds, print_table

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String?
  status: enum(active, away, gone)
  score: F64?
  @unique(email)
  @range(age, 0..150)
  @check(email, "^[a-z0-9]+@example[.]org$")
}
"""
ROWS = 200_000
ROUNDS = 7
GOAL = 0.5


def main() -> None:
    """Load the same rows into fresh graphs and fresh tables, in turns."""
    rows = _people()
    stored = rows.add_column(0, "id", rows["name"]).select(
        ["id", "age", "email", "name", "score", "status"]
    )
    ours, bare = [], []
    with TemporaryDirectory() as folder:
        for turn in range(ROUNDS):
            root = Path(folder) / str(turn)
            graph = omnigraph.init(str(root / "graph"), SCHEMA)
            start = perf_counter()
            graph.load({"Person": rows}, mode="append")
            middle = perf_counter()
            write_and_sort(stored, root / "bare")
            ours.append(middle - start)
            bare.append(perf_counter() - middle)
    print(f"{ROWS:,} rows of {stored.num_columns} columns, wall time, median of {ROUNDS}.\n")
    print_table(
        ["what", "time", "rows a second"],
        [
            ["omnigraph: load with every check, durable", *_cells(ours)],
            ["bare pylance: write, and sort the keys", *_cells(bare)],
        ],
    )
    speed = median(bare) / median(ours)
    verdict = "met" if speed >= GOAL else "MISSED"
    print(f"Goal: at least {GOAL} of the bare speed: {speed:.2f} — {verdict}.\n")


def _people() -> pa.Table:
    random = np.random.default_rng(7)
    numbers = random.permutation(ROWS)
    return pa.table(
        {
            "name": [f"person-{number:07}" for number in numbers],
            "age": pa.array(random.integers(0, 100, ROWS), pa.int32()),
            "email": [f"p{number}@example.org" for number in numbers],
            "status": np.array(["active", "away", "gone"])[random.integers(0, 3, ROWS)],
            "score": random.random(ROWS),
        }
    )


def _cells(seconds: list[float]) -> list[str]:
    return [milliseconds(median(seconds)), f"{ROWS / median(seconds):,.0f}"]


if __name__ == "__main__":
    main()
