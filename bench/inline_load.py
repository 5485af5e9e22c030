"""The speed of an inline load with every check, compared with bare pylance on the same rows.

The baseline writes the same Arrow table and sorts its keys once, a lower bound for a check for
duplicate keys. A second measurement loads several types at once, with their files written
sequentially and concurrently.
"""

import os
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
SPEED_GOAL = 0.5
TYPES = 8
CONCURRENT_GOAL = 0.95


def main() -> None:
    """Load the same rows into new graphs and new tables in alternation."""
    rows = _people()
    stored = rows.add_column(0, "id", rows["name"]).select(
        ["id", "age", "email", "name", "score", "status"]
    )
    ours, bare = [], []
    with TemporaryDirectory() as folder:
        for round_number in range(ROUNDS):
            root = Path(folder) / str(round_number)
            graph = omnigraph.init(str(root / "graph"), SCHEMA)
            start = perf_counter()
            graph.load({"Person": rows}, mode="append")
            middle = perf_counter()
            write_and_sort(stored, root / "bare")
            ours.append(middle - start)
            bare.append(perf_counter() - middle)
    print(f"{ROWS:,} rows of {stored.num_columns} columns, wall time, median of {ROUNDS}.\n")
    print_table(
        ["operation", "time", "rows per second"],
        [
            ["omnigraph: load with every check, durable", *_cells(ours)],
            ["bare pylance: write, and sort the keys", *_cells(bare)],
        ],
    )
    speed = median(bare) / median(ours)
    outcome = "met" if speed >= SPEED_GOAL else "MISSED"
    print(f"Goal: at least {SPEED_GOAL} of the bare speed: {speed:.2f} — {outcome}.\n")
    _compare_concurrency(rows)


def _compare_concurrency(rows: pa.Table) -> None:
    """Load several types at once, with one writer thread and with the default number."""
    names = [f"Person{number}" for number in range(TYPES)]
    schema = "\n".join(SCHEMA.replace("Person", name) for name in names)
    part = rows.slice(0, ROWS // TYPES)
    seconds: dict[str, list[float]] = {"1": [], "": []}
    with TemporaryDirectory() as folder:
        for round_number in range(ROUNDS):
            for setting, taken in seconds.items():
                os.environ["OMNIGRAPH_LOAD_CONCURRENCY"] = setting
                graph = omnigraph.init(str(Path(folder) / f"{round_number}-{setting}"), schema)
                start = perf_counter()
                graph.load(dict.fromkeys(names, part), mode="append")
                taken.append(perf_counter() - start)
    print(f"{ROWS:,} rows of {TYPES} types in one load, on {os.cpu_count()} processors.\n")
    print_table(
        ["OMNIGRAPH_LOAD_CONCURRENCY", "time", "rows per second"],
        [["1", *_cells(seconds["1"])], ["unset", *_cells(seconds[""])]],
    )
    ratio = median(seconds["1"]) / median(seconds[""])
    outcome = "met" if ratio >= CONCURRENT_GOAL else "MISSED"
    print(f"Goal: at least {CONCURRENT_GOAL} times as fast: {ratio:.2f} — {outcome}.\n")


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
