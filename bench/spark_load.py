"""The speed and memory of a bulk load through Spark, compared with rewriting the files to Parquet.

Both run in one warm session in alternation. OmniGraph reads the lines by the schema, checks every
constraint, writes Lance files, flushes them and publishes one commit; the baseline only reads lines
and writes columns. Memory and the merge are measured in fresh processes after a small load: the
peak of the Python process that calls `load`, and the size of Java's heap after a garbage
collection. The Python workers that read rows hold one partition each and are not counted. `--quick`
uses fewer rows and rounds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from types import MappingProxyType

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from pyspark.sql import SparkSession

import omnigraph
import omnigraph.spark
from bench.support.memory import measure_resident, reset_peak
from bench.support.network_files import (
    KNOWS_EACH,
    SCHEMA,
    Network,
    rewrite_bare,
    write_network,
    write_persons,
)
from bench.support.tables import milliseconds, print_table

GOAL_RATIO, GOAL_ROWS_PER_S, GOAL_DOUBLING, GOAL_DRIVER = 2.0, 150_000, 2.0, 1.1
SMALL = 1_000
NEW_AGE = 120


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of rows, rounds and merges to measure."""

    persons: int
    rounds: int
    warmup_rounds: int
    stored: int
    updates: int
    merges: int


FULL = Scale(
    persons=100_000, rounds=5, warmup_rounds=2, stored=2_000_000, updates=200_000, merges=3
)
QUICK = Scale(persons=10_000, rounds=2, warmup_rounds=1, stored=200_000, updates=20_000, merges=1)


def main() -> None:
    """Measure the speed and memory of loads, and merges."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--part", choices=tuple(PARTS), help="only one of the three")
    parser.add_argument(
        "--run", nargs=3, help="for internal use: the measurement of one child process"
    )
    requested = parser.parse_args()
    if requested.run:
        name, subject, root = requested.run
        print(json.dumps(RUNS[name](subject, Path(root))))
        return
    scale = QUICK if requested.quick else FULL
    for part in [requested.part] if requested.part else PARTS:
        with TemporaryDirectory() as folder:
            PARTS[part](scale, Path(folder))


# Speed


def show_speed(scale: Scale, root: Path) -> None:
    """Load and rewrite the same files in alternation, then twice as many rows."""
    once = write_network(root / "once", persons=scale.persons)
    twice = write_network(root / "twice", persons=2 * scale.persons)
    taken: dict[str, list[float]] = {}
    with omnigraph.spark.session() as spark:
        for number in range(scale.warmup_rounds + scale.rounds):
            for name, network in (("once", once), ("twice", twice)):
                seconds = {
                    f"load {name}": load_network(network, root / "graph"),
                    f"rewrite {name}": rewrite_network(spark, network, root / "bare"),
                }
                for step, each in seconds.items() if number >= scale.warmup_rounds else ():
                    taken.setdefault(step, []).append(each)
    times = {step: median(each) for step, each in taken.items()}
    print(
        f"{once.persons:,} nodes and {once.persons * KNOWS_EACH:,} edges from NDJSON files, and "
        f"twice as many;\none warm session, wall time, median of {scale.rounds}, alternating.\n"
    )
    print_table(
        ["operation", "time", "rows per second", "twice as many", "ratio"],
        [
            [what, *_speed(once, times[f"{step} once"], times[f"{step} twice"])]
            for what, step in (
                ("omnigraph: load with every check", "load"),
                ("bare PySpark: to Parquet", "rewrite"),
            )
        ],
    )
    ratio = times["load once"] / times["rewrite once"]
    rows_per_s = once.rows / times["load once"]
    doubling = times["load twice"] / times["load once"]
    _check(f"at most {GOAL_RATIO} times the bare rewrite", ratio, is_met=ratio <= GOAL_RATIO)
    print(
        f"Goal: at least {GOAL_ROWS_PER_S:,} rows per second: {rows_per_s:,.0f} — "
        f"{'met' if rows_per_s >= GOAL_ROWS_PER_S else 'MISSED'}."
    )
    _check("doubling the input at most doubles it", doubling, is_met=doubling <= GOAL_DOUBLING)
    print()


def load_network(network: Network, folder: Path) -> float:
    """Load a network into a new graph as one commit and return the seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    graph = omnigraph.init(folder, SCHEMA)
    start = perf_counter()
    done = graph.load(network.folder, mode="append", engine="spark")
    seconds = perf_counter() - start
    assert done.nodes_loaded == {"Person": network.persons}
    assert done.edges_loaded == {"Knows": network.persons * KNOWS_EACH}
    return seconds


def rewrite_network(spark: SparkSession, network: Network, folder: Path) -> float:
    """Rewrite the files to Parquet without checks and return the seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    start = perf_counter()
    rewrite_bare(spark, network, folder)
    return perf_counter() - start


def _speed(network: Network, once: float, twice: float) -> list[str]:
    return [
        milliseconds(once),
        f"{network.rows / once:,.0f}",
        milliseconds(twice),
        f"{twice / once:.2f}",
    ]


# Memory


def show_memory(scale: Scale, root: Path) -> None:
    """Load the files, and twice as many rows, in one process each."""
    sizes = (scale.persons, 2 * scale.persons)
    for persons in (SMALL, *sizes):
        write_network(root / str(persons), persons=persons)
    once, twice = (run_in_child("load", str(persons), root) for persons in sizes)
    print("Memory of the driver; each load in a fresh process, after a small load.\n")
    print_table(
        ["rows", "Python, peak", "above the start", "Java heap, after GC"],
        [
            [
                f"{persons * (1 + KNOWS_EACH):,}",
                _mebibytes(taken["peak"]),
                _mebibytes(taken["peak"] - taken["before"]),
                _mebibytes(taken["heap"]),
            ]
            for persons, taken in zip(sizes, (once, twice), strict=True)
        ],
    )
    growth = twice["peak"] / once["peak"]
    _check(
        f"twice the input takes at most {GOAL_DRIVER} times the driver's memory",
        growth,
        is_met=growth <= GOAL_DRIVER,
    )
    print()


def measure_load(persons: str, root: Path) -> Mapping[str, float]:
    """Measure the load of a network whose files exist."""
    small, network = (Network(root / str(count), count) for count in (SMALL, int(persons)))
    with omnigraph.spark.session() as spark:
        load_network(small, root / "graph")
        return _measure_call(lambda: load_network(network, root / "graph"), spark)


# Merging


def show_merge(scale: Scale, root: Path) -> None:
    """Merge the same rows into copies of the same graph, on Spark and in process."""
    for name, count, updates in (
        ("small", SMALL, SMALL // 10),
        ("large", scale.stored, scale.updates),
    ):
        _store_persons(root, name, count=count, updates=updates)
    taken: dict[str, list[Mapping[str, float]]] = {"spark": [], "inline": []}
    for _ in range(scale.merges):
        for engine, times in taken.items():
            times.append(run_in_child("merge", engine, root))
    print(
        f"{scale.updates:,} updates merged into {scale.stored:,} rows; median of {scale.merges} "
        "fresh processes, each after a small merge.\n"
    )
    print_table(
        ["engine", "time", "Python, peak", "above the start", "Java heap, after GC"],
        [
            [
                engine,
                milliseconds(_median(times, "seconds")),
                _mebibytes(_median(times, "peak")),
                _mebibytes(median(each["peak"] - each["before"] for each in times)),
                _mebibytes(_median(times, "heap")) if engine == "spark" else "",
            ]
            for engine, times in taken.items()
        ],
    )


def measure_merge(engine: str, root: Path) -> Mapping[str, float]:
    """Measure a merge into a copy of an existing graph."""
    with TemporaryDirectory(dir=root) as folder:
        for name in ("small", "large"):
            shutil.copytree(root / name, Path(folder, name))
        spark = omnigraph.spark.session() if engine == "spark" else None
        _merge(root, "small", Path(folder), engine)
        measured = _measure_call(lambda: _merge(root, "large", Path(folder), engine), spark)
        if spark is not None:
            spark.stop()
        return measured


def _store_persons(root: Path, name: str, *, count: int, updates: int) -> None:
    random = np.random.default_rng(7)
    rows = root / f"{name}-rows.ndjson"
    write_persons(rows, np.arange(count), ages=random.integers(0, 100, count))
    omnigraph.init(root / name, SCHEMA).load(rows, mode="append", engine="inline")
    rows.unlink()
    changed = random.choice(count, updates, replace=False)
    ages = np.full(updates, NEW_AGE)
    write_persons(root / f"{name}-updates.ndjson", changed, ages=ages)


def _merge(root: Path, name: str, folder: Path, engine: str) -> None:
    graph = omnigraph.open(folder / name)
    before = graph.tables()["node:Person"].row_count
    done = graph.load(root / f"{name}-updates.ndjson", mode="merge", engine=engine)
    assert done.nodes_loaded["Person"] < before == graph.tables()["node:Person"].row_count


# Child processes


def run_in_child(name: str, subject: str, root: Path) -> Mapping[str, float]:
    """Run a measurement in a fresh process."""
    command = [sys.executable, __file__, "--run", name, subject, str(root)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    measured: Mapping[str, float] = json.loads(printed)
    return measured


def _measure_call(call: Callable[[], object], spark: SparkSession | None) -> Mapping[str, float]:
    """Run a call and return its seconds and its memory in MiB."""
    reset_peak()
    before = measure_resident().now
    start = perf_counter()
    call()
    seconds = perf_counter() - start
    peak = measure_resident().peak
    heap = 0.0 if spark is None else _measure_heap(spark)
    return {"seconds": seconds, "before": before, "peak": peak, "heap": heap}


def _measure_heap(spark: SparkSession) -> float:
    """The size of the heap of Spark's Java process after a garbage collection, in MiB."""
    java = spark.sparkContext._jvm  # noqa: SLF001  # PySpark has no public access to the JVM
    assert java is not None
    java.java.lang.System.gc()
    runtime = java.java.lang.Runtime.getRuntime()
    used: int = runtime.totalMemory() - runtime.freeMemory()
    return used / 2**20


def _check(goal: str, found: float, *, is_met: bool) -> None:
    print(f"Goal: {goal}: {found:.2f} — {'met' if is_met else 'MISSED'}.")


def _median(taken: list[Mapping[str, float]], name: str) -> float:
    return median(each[name] for each in taken)


def _mebibytes(count: float) -> str:
    return f"{count:,.0f} MiB"


PARTS: Mapping[str, Callable[[Scale, Path], None]] = MappingProxyType(
    {"speed": show_speed, "memory": show_memory, "merge": show_merge}
)
RUNS: Mapping[str, Callable[[str, Path], Mapping[str, float]]] = MappingProxyType(
    {"load": measure_load, "merge": measure_merge}
)

if __name__ == "__main__":
    main()
