"""The cost of queries on Spark, compared with the same joins written by hand on Parquet files.

Both run in one warm session in alternation, on the same rows, and must return the same result.
OmniGraph compiles the query text and reads pinned Lance versions through Python workers; the
baseline reads Parquet columns in Java without any checks. A scan of a type through the data source
is compared with a bare scan of the same columns. `--quick` uses fewer edges; `--folder` keeps the
files and the graph for later runs.
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import avg, col, count

import omnigraph
import omnigraph.spark
from bench.support.big_graph import SCHEMA, BigGraph, write_big_graph
from bench.support.tables import milliseconds, print_table
from bench.support.timing import Timing, measure

GOAL_QUERY, GOAL_SCAN = 1.5, 2.0
FULL_EDGES, QUICK_EDGES = 20_000_000, 1_000_000
ROUNDS, WARMUP_ROUNDS = 3, 1
COLUMNS = ("src", "dst", "since", "weight")

Rows = Sequence[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query text, and the same joins on the data frames of persons and of follows."""

    name: str
    text: str
    by_hand: Callable[[DataFrame, DataFrame], DataFrame]


def count_two_hops(persons: DataFrame, follows: DataFrame) -> DataFrame:  # noqa: ARG001  # counts all
    """Count the paths of two edges."""
    first = follows.select(col("dst").alias("middle"))
    second = follows.select("src")
    return first.join(second, col("middle") == col("src")).agg(count("*"))


def group_by_city(persons: DataFrame, follows: DataFrame) -> DataFrame:
    """Group the edges of older persons since 2020 by the city of the followed person."""
    older = persons.where("age > 60").select(col("name").alias("src"))
    recent = follows.where("since >= date'2020-01-01'").select("src", "dst", "strength")
    followed = persons.select(col("name").alias("dst"), "city")
    edges = recent.join(older, "src").join(followed, "dst")
    groups = edges.groupBy("city").agg(count("*"), avg("strength"))
    return groups.orderBy("city")


QUERIES = (
    Query(
        "paths of two hops",
        "query q() { match { $a: Person  $a $_:follows $b  $b $_:follows $c } "
        "return { count(*) as n } }",
        count_two_hops,
    ),
    Query(
        "edges of some nodes, grouped",
        "query q() { match { $a: Person  $a.age > 60  $a $w:follows $b "
        '$w.since >= date("2020-01-01") } '
        "return { $b.city as city, count(*) as n, avg($w.strength) as mean } "
        "order { city asc } }",
        group_by_city,
    ),
)


def main() -> None:
    """Generate the rows, run every query in both ways, and scan a type in both ways."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EDGES:,} edges")
    parser.add_argument("--edges", type=int, default=FULL_EDGES, help=f"default {FULL_EDGES:,}")
    parser.add_argument(
        "--folder", type=Path, help="keep the files and the graph here for later runs"
    )
    requested = parser.parse_args()
    edges = QUICK_EDGES if requested.quick else requested.edges
    location = (
        TemporaryDirectory() if requested.folder is None else nullcontext(str(requested.folder))
    )
    with location as folder, omnigraph.spark.session() as spark:
        big, graph = make_graph(Path(folder) / str(edges), edges)
        print(
            f"{big.persons:,} persons and {big.edges:,} edges; one warm session, wall time, "
            f"fastest of {ROUNDS}, alternating.\n"
        )
        show_queries(spark, big, graph)
        show_scan(spark, big, graph)


def make_graph(folder: Path, edges: int) -> tuple[BigGraph, omnigraph.Graph]:
    """Generate the files of a network and load a graph from them, unless a previous run did."""
    done = folder / "done"
    if done.exists():
        return BigGraph(folder, edges), omnigraph.open(folder / "graph")
    big = write_big_graph(folder, edges=edges)
    graph = omnigraph.init(folder / "graph", SCHEMA)
    start = perf_counter()
    graph.load(big.files, mode="append", engine="spark")
    print(f"The graph was loaded in {perf_counter() - start:.0f} s.\n")
    done.touch()
    return big, graph


# Queries


def show_queries(spark: SparkSession, big: BigGraph, graph: omnigraph.Graph) -> None:
    """Run each query on the graph and on the files."""
    rows, ratios = [], {}
    for query in QUERIES:
        contenders: Mapping[str, Callable[[], Rows]] = {
            "ours": partial(run_query, graph, spark, query.text),
            "by hand": partial(join_by_hand, query, spark, big),
        }
        require_same(*(run() for run in contenders.values()))
        times = run_alternating(contenders)
        rows.append([query.name, *show_times(times)])
        ratios[query.name] = times["ours"].fastest / times["by hand"].fastest
    print_table(["query", "graph.query", "joins by hand", "ratio"], rows)
    for name, ratio in ratios.items():
        check(f"{name}: at most {GOAL_QUERY} times the joins by hand", ratio, GOAL_QUERY)
    print()


def run_query(graph: omnigraph.Graph, spark: SparkSession, text: str) -> Rows:
    """Run the query on the graph."""
    found = graph.query(text, engine="spark", spark=spark).to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def join_by_hand(query: Query, spark: SparkSession, big: BigGraph) -> Rows:
    """Run the hand-written joins on the files."""
    persons, follows = (spark.read.parquet(*paths) for paths in big.files.values())
    return [tuple(row) for row in query.by_hand(persons, follows).collect()]


def require_same(ours: Rows, by_hand: Rows) -> None:
    """Fail unless both results are equal, except for rounding of floats."""
    assert len(ours) == len(by_hand), f"{len(ours)} rows, and by hand {len(by_hand)}"
    for own, other in zip(ours, by_hand, strict=True):
        assert all(map(_is_same, own, other)), f"{own}, and by hand {other}"


def _is_same(own: object, other: object) -> bool:
    if isinstance(own, float) and isinstance(other, float):
        return math.isclose(own, other, rel_tol=1e-9)
    return own == other


# Scans


def show_scan(spark: SparkSession, big: BigGraph, graph: omnigraph.Graph) -> None:
    """Scan some columns of all edges through the data source and from the files."""

    def scan_graph() -> None:
        source = spark.read.format("omnigraph").option("type", "Follows")
        discard_rows(source.option("columns", ",".join(COLUMNS)).load(graph.uri))

    def scan_files() -> None:
        discard_rows(spark.read.parquet(*big.files["Follows"]).select(*COLUMNS))

    times = run_alternating({"ours": scan_graph, "by hand": scan_files})
    print_table(
        ["scan", "data source", "Parquet", "ratio"],
        [[f"{big.edges:,} rows, {len(COLUMNS)} columns", *show_times(times)]],
    )
    ratio = times["ours"].fastest / times["by hand"].fastest
    check(f"a scan takes at most {GOAL_SCAN} times the bare one", ratio, GOAL_SCAN)


def discard_rows(frame: DataFrame) -> None:
    """Compute every row of a data frame and discard it."""
    frame.write.format("noop").mode("overwrite").save()


# Measuring


def run_alternating(contenders: Mapping[str, Callable[[], object]]) -> dict[str, Timing]:
    """Measure all contenders in alternation."""
    return measure(contenders, rounds=ROUNDS, warmup_rounds=WARMUP_ROUNDS, clock=perf_counter)


def show_times(times: Mapping[str, Timing]) -> list[str]:
    """Format both times and their ratio."""
    own, other = times["ours"].fastest, times["by hand"].fastest
    return [milliseconds(own), milliseconds(other), f"{own / other:.2f}"]


def check(goal: str, found: float, at_most: float) -> None:
    """Print whether a goal is met."""
    print(f"Goal: {goal}: {found:.2f} — {'met' if found <= at_most else 'MISSED'}.")


if __name__ == "__main__":
    main()
