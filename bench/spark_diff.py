"""How many rows a diff on Spark shuffles when few of many rows have changed, and how long it takes.

A thousand rows, spread over a type of ten million, are replaced by a merge, so that every file of
the type has rows that are gone. What enters a shuffle is counted by Spark itself, beside what a
join of both states would shuffle: all rows of the type, twice. `--quick` takes fewer rows.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script finds only its own directory.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import omnigraph
import omnigraph.spark
from bench.support.big_graph import SCHEMA, write_persons
from bench.support.shuffles import PAGE, count_shuffled_rows
from bench.support.tables import milliseconds, print_table

FULL_ROWS, QUICK_ROWS = 10_000_000, 500_000
CHANGED = 1_000
GOAL_ROWS_EACH = 10
"""How many rows may enter a shuffle for each row that has changed."""


def main() -> None:
    """Store two commits, and compare them on Spark and in process."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows")
    parser.add_argument("--rows", type=int, default=FULL_ROWS, help=f"{FULL_ROWS:,} if not told")
    asked = parser.parse_args()
    rows = QUICK_ROWS if asked.quick else asked.rows
    with TemporaryDirectory() as folder, omnigraph.spark.session(**PAGE) as spark:
        graph, old, new = store(Path(folder), rows)
        compare(graph, old, new, engine="spark", spark=spark)
        before = count_shuffled_rows(spark)
        on_spark_s = compare(graph, old, new, engine="spark", spark=spark)
        shuffled = count_shuffled_rows(spark) - before
        local_s = compare(graph, old, new, engine="local", spark=None)
    print(f"{CHANGED:,} of {rows:,} rows changed between two commits; wall time, warm.\n")
    print_table(
        ["engine", "time", "rows shuffled", "a join of both states"],
        [
            ["spark", milliseconds(on_spark_s), f"{shuffled:,}", f"{2 * rows:,}"],
            ["local", milliseconds(local_s), "", ""],
        ],
    )
    each = shuffled / CHANGED
    verdict = "met" if each <= GOAL_ROWS_EACH else "MISSED"
    print(f"Goal: at most {GOAL_ROWS_EACH} rows shuffled for one changed: {each:.1f} — {verdict}.")


def store(folder: Path, rows: int) -> tuple[omnigraph.Graph, str, str]:
    """A graph with so many persons, and the commits before and after some of them changed."""
    write_persons(folder, count=rows)
    graph = omnigraph.init(folder / "graph", SCHEMA)
    files = sorted(str(path) for path in (folder / "Person").glob("*.parquet"))
    graph.load({"Person": files}, mode="append", engine="spark")
    old = graph.head()
    changed = [_change(file, CHANGED // len(files)) for file in files]
    graph.load({"Person": pa.concat_tables(changed)}, mode="merge", engine="spark")
    return graph, old, graph.head()


def _change(file: str, count: int) -> pa.Table:
    """Some rows of a file, from its beginning to its end, with another age."""
    rows = pq.read_table(file)
    chosen = rows.take(pa.array(np.linspace(0, rows.num_rows - 1, count).astype(np.int64)))
    ages = pc.add(chosen["age"], pa.scalar(1, pa.int32()))
    return chosen.set_column(chosen.column_names.index("age"), "age", ages)


def compare(
    graph: omnigraph.Graph, old: str, new: str, *, engine: str, spark: SparkSession | None
) -> float:
    """The seconds of finding what changed."""
    start = perf_counter()
    found = len(graph.diff(old, new, engine=engine, spark=spark))
    seconds = perf_counter() - start
    assert found == CHANGED, f"{found} rows were found"
    return seconds


if __name__ == "__main__":
    main()
