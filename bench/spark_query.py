"""What questions on Spark cost, beside the same joins written by hand on Parquet files.

Both run in one warm session, in turns, on the same rows, and must give the same answer. We compile
a text and read pinned Lance versions through Python workers; the peer reads columns of Parquet in
Java and checks nothing. Reading a type through the data source is set beside a bare scan of the
same columns. `--quick` takes fewer edges; with `--folder` the files and the graph are kept there.
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

# A script finds only its own directory.
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
ROUNDS, WARM_UP_ROUNDS = 3, 1
COLUMNS = ("src", "dst", "since", "weight")

Rows = Sequence[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question as a text, and the same joins on the frames of persons and of follows."""

    name: str
    text: str
    by_hand: Callable[[DataFrame, DataFrame], DataFrame]


def count_two_hops(persons: DataFrame, follows: DataFrame) -> DataFrame:  # noqa: ARG001  # of all
    """How many paths of two edges there are."""
    first = follows.select(col("dst").alias("middle"))
    second = follows.select("src")
    return first.join(second, col("middle") == col("src")).agg(count("*"))


def sum_up_cities(persons: DataFrame, follows: DataFrame) -> DataFrame:
    """What older persons follow since 2020, by the city of those who are followed."""
    older = persons.where("age > 60").select(col("name").alias("src"))
    recent = follows.where("since >= date'2020-01-01'").select("src", "dst", "strength")
    followed = persons.select(col("name").alias("dst"), "city")
    edges = recent.join(older, "src").join(followed, "dst")
    groups = edges.groupBy("city").agg(count("*"), avg("strength"))
    return groups.orderBy("city")


QUESTIONS = (
    Question(
        "paths of two hops",
        "query q() { match { $a: Person  $a $_:follows $b  $b $_:follows $c } "
        "return { count(*) as n } }",
        count_two_hops,
    ),
    Question(
        "edges of some, in groups",
        "query q() { match { $a: Person  $a.age > 60  $a $w:follows $b "
        '$w.since >= date("2020-01-01") } '
        "return { $b.city as city, count(*) as n, avg($w.strength) as mean } "
        "order { city asc } }",
        sum_up_cities,
    ),
)


def main() -> None:
    """Make the rows, run_query every question on both sides, and scan a type on both."""
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EDGES:,} edges")
    parser.add_argument("--edges", type=int, default=FULL_EDGES, help=f"default {FULL_EDGES:,}")
    parser.add_argument("--folder", type=Path, help="keep files and graph here, and use them again")
    requested = parser.parse_args()
    edges = QUICK_EDGES if requested.quick else requested.edges
    place = TemporaryDirectory() if requested.folder is None else nullcontext(str(requested.folder))
    with place as folder, omnigraph.spark.session() as spark:
        big, graph = make_graph(Path(folder) / str(edges), edges)
        print(
            f"{big.persons:,} persons and {big.edges:,} edges; one warm session, wall time, "
            f"fastest of {ROUNDS} in turns.\n"
        )
        show_questions(spark, big, graph)
        show_scan(spark, big, graph)


def make_graph(folder: Path, edges: int) -> tuple[BigGraph, omnigraph.Graph]:
    """The files of a network and a graph with the same rows, made now or before."""
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


# Questions


def show_questions(spark: SparkSession, big: BigGraph, graph: omnigraph.Graph) -> None:
    """Ask each question of the graph and of the files."""
    rows, ratios = [], {}
    for question in QUESTIONS:
        contenders: Mapping[str, Callable[[], Rows]] = {
            "ours": partial(run_query, graph, spark, question.text),
            "by hand": partial(join_by_hand, question, spark, big),
        }
        require_same(*(run() for run in contenders.values()))
        times = run_in_turns(contenders)
        rows.append([question.name, *show_times(times)])
        ratios[question.name] = times["ours"].fastest / times["by hand"].fastest
    print_table(["question", "graph.query", "joins by hand", "ratio"], rows)
    for name, ratio in ratios.items():
        check(f"{name}: at most {GOAL_QUERY} times the joins by hand", ratio, GOAL_QUERY)
    print()


def run_query(graph: omnigraph.Graph, spark: SparkSession, text: str) -> Rows:
    """The answer of the graph."""
    found = graph.query(text, engine="spark", spark=spark).to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def join_by_hand(question: Question, spark: SparkSession, big: BigGraph) -> Rows:
    """The answer of the files."""
    persons, follows = (spark.read.parquet(*paths) for paths in big.files.values())
    return [tuple(row) for row in question.by_hand(persons, follows).collect()]


def require_same(ours: Rows, by_hand: Rows) -> None:
    """Fail unless both sides answer the same, but for the last digits of floats."""
    assert len(ours) == len(by_hand), f"{len(ours)} rows, and by hand {len(by_hand)}"
    for own, other in zip(ours, by_hand, strict=True):
        assert all(map(_is_same, own, other)), f"{own}, and by hand {other}"


def _is_same(own: object, other: object) -> bool:
    if isinstance(own, float) and isinstance(other, float):
        return math.isclose(own, other, rel_tol=1e-9)
    return own == other


# Scans


def show_scan(spark: SparkSession, big: BigGraph, graph: omnigraph.Graph) -> None:
    """Read some columns of all edges, through the data source and from the files."""

    def scan_graph() -> None:
        source = spark.read.format("omnigraph").option("type", "Follows")
        write_nowhere(source.option("columns", ",".join(COLUMNS)).load(graph.uri))

    def scan_files() -> None:
        write_nowhere(spark.read.parquet(*big.files["Follows"]).select(*COLUMNS))

    times = run_in_turns({"ours": scan_graph, "by hand": scan_files})
    print_table(
        ["scan", "data source", "Parquet", "ratio"],
        [[f"{big.edges:,} rows, {len(COLUMNS)} columns", *show_times(times)]],
    )
    ratio = times["ours"].fastest / times["by hand"].fastest
    check(f"a scan takes at most {GOAL_SCAN} times the bare one", ratio, GOAL_SCAN)


def write_nowhere(frame: DataFrame) -> None:
    """Work out every row of a frame, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


# Both


def run_in_turns(contenders: Mapping[str, Callable[[], object]]) -> dict[str, Timing]:
    """The times of both sides."""
    return measure(contenders, rounds=ROUNDS, warm_up_rounds=WARM_UP_ROUNDS, clock=perf_counter)


def show_times(times: Mapping[str, Timing]) -> list[str]:
    """Both times and what they are to each other, as cells."""
    own, other = times["ours"].fastest, times["by hand"].fastest
    return [milliseconds(own), milliseconds(other), f"{own / other:.2f}"]


def check(goal: str, found: float, at_most: float) -> None:
    """Say whether a goal is met."""
    print(f"Goal: {goal}: {found:.2f} — {'met' if found <= at_most else 'MISSED'}.")


if __name__ == "__main__":
    main()
