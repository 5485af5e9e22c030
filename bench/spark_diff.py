"""The shuffle volume and the time of a diff on Spark when few of many rows have changed.

A merge replaces a thousand rows spread over a type of ten million, so that every file of the type
has deleted rows. Spark reports the shuffle volume of the diff and of a hand-written join of both
states, which shuffles all rows of the type twice. `--quick` uses fewer rows.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial, reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col

import omnigraph
import omnigraph.spark
from bench.support.big_graph import SCHEMA, write_persons
from bench.support.shuffles import UI_SETTINGS, ShuffleVolume, measure_shuffles
from bench.support.tables import milliseconds, print_table

FULL_ROWS, QUICK_ROWS = 10_000_000, 500_000
CHANGED = 1_000
GOAL_SHARE = 0.01
"""The maximum shuffle volume of the diff, as a share of that of a join of both states."""


def main() -> None:
    """Store two commits and compare them on Spark, with a hand-written join and in process."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows")
    parser.add_argument("--rows", type=int, default=FULL_ROWS, help=f"default {FULL_ROWS:,}")
    requested = parser.parse_args()
    rows = QUICK_ROWS if requested.quick else requested.rows
    with TemporaryDirectory() as folder, omnigraph.spark.session(**UI_SETTINGS) as spark:
        graph, old, new = store(Path(folder), rows)
        times, shuffled = {}, {}
        for name, run in {
            "diff": partial(diff, graph, old, new, engine="spark", spark=spark),
            "join by hand": partial(join, graph, old, new, spark),
            "diff in process": partial(diff, graph, old, new, engine="local", spark=None),
        }.items():
            run()
            before = measure_shuffles(spark)
            start = perf_counter()
            run()
            times[name] = perf_counter() - start
            shuffled[name] = measure_shuffles(spark) - before
    show(rows, times, shuffled)


def show(rows: int, times: Mapping[str, float], shuffled: Mapping[str, ShuffleVolume]) -> None:
    """Print the time and volume of each, and whether the goal is met."""
    print(f"{CHANGED:,} of {rows:,} rows changed between two commits; wall time, second run.\n")
    print_table(
        ["operation", "time", "shuffled, MiB", "shuffle records"],
        [
            [
                name,
                milliseconds(seconds),
                f"{shuffled[name].bytes / 2**20:,.2f}",
                f"{shuffled[name].records:,}",
            ]
            for name, seconds in times.items()
        ],
    )
    share = shuffled["diff"].bytes / shuffled["join by hand"].bytes
    outcome = "met" if share <= GOAL_SHARE else "MISSED"
    print(f"Goal: the diff shuffles at most {GOAL_SHARE:.0%} of the join: {share:.3%} — {outcome}.")


def store(folder: Path, rows: int) -> tuple[omnigraph.Graph, str, str]:
    """Store this many persons; return the graph and the commits before and after a merge."""
    write_persons(folder, count=rows)
    graph = omnigraph.init(folder / "graph", SCHEMA)
    files = sorted(str(path) for path in (folder / "Person").glob("*.parquet"))
    graph.load({"Person": files}, mode="append", engine="spark")
    old = graph.head()
    changed = [_change(file, CHANGED // len(files)) for file in files]
    graph.load({"Person": pa.concat_tables(changed)}, mode="merge", engine="spark")
    return graph, old, graph.head()


def _change(file: str, count: int) -> pa.Table:
    """Evenly spaced rows of a file, each with another age."""
    rows = pq.read_table(file)
    chosen = rows.take(pa.array(np.linspace(0, rows.num_rows - 1, count).astype(np.int64)))
    ages = pc.add(chosen["age"], pa.scalar(1, pa.int32()))
    return chosen.set_column(chosen.column_names.index("age"), "age", ages)


def diff(
    graph: omnigraph.Graph, old: str, new: str, *, engine: str, spark: SparkSession | None
) -> None:
    """Compare the commits and read every changed row."""
    found = graph.diff(old, new, engine=engine, spark=spark)
    assert len(list(found)) == CHANGED


def join(graph: omnigraph.Graph, old: str, new: str, spark: SparkSession) -> None:
    """Find the same changes by joining all rows of both states."""
    source = spark.read.format("omnigraph").option("type", "Person")
    before, after = (source.option("commit", each).load(graph.uri) for each in (old, new))
    names = [f"new_{name}" for name in after.columns]
    both = before.join(after.toDF(*names), col("id") == col("new_id"), "full_outer")
    is_same = reduce(and_, map(Column.eqNullSafe, map(col, before.columns), map(col, names)))
    assert both.where(~is_same).count() == CHANGED


if __name__ == "__main__":
    main()
