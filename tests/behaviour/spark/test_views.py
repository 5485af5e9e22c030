"""Types as views of one commit: joined with other tables, and constant while the graph moves."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.errors import InvalidNameError, InvalidValueError
from tests.support.graphs import build_graph, node, social_graph
from tests.support.later_graphs import clean_later, versions
from tests.support.queries import query
from tests.support.spark import await_that, waiting_for
from tests.support.spark_probes import configured


@contextmanager
def made(graph: Graph, spark: SparkSession, **how: str) -> Iterator[Mapping[str, DataFrame]]:
    """The views of a graph in the session that all tests share, dropped at the end of the block."""
    frames = graph.spark_views(spark, **how)
    try:
        yield frames
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)


def run_sql(spark: SparkSession, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(text).collect()]


# Queries


def test_types_can_be_joined_with_tables_of_the_caller(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    own = spark.createDataFrame(
        [("Bob", 9.5), ("Diana", 2.0), ("Zoe", 1.0)], "who string, pay double"
    )
    own.createOrReplaceTempView("payroll")

    with made(graph, spark):
        found = run_sql(
            spark,
            """
            SELECT k.src, sum(pay), max(p.age)
            FROM Knows k JOIN payroll ON k.dst = who JOIN Person p ON p.id = who
            GROUP BY k.src ORDER BY k.src
            """,
        )

    assert found == [("Alice", 9.5, 25), ("Bob", 2.0, 28)]


def test_every_type_is_a_view_by_its_name_and_a_frame_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")

    with made(graph, spark, prefix="town_") as frames:
        assert set(frames) == {"town_Person", "town_Company", "town_Knows", "town_WorksAt"}
        assert frames["town_Person"].columns == ["id", "age", "name"]
        assert [run_sql(spark, f"SELECT count(*) FROM {each}") for each in sorted(frames)] == [
            [(2,)],
            [(3,)],
            [(4,)],
            [(2,)],
        ]


def test_a_session_that_runs_is_found(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    frames = graph.spark_views(prefix="found_")

    assert run_sql(spark, "SELECT count(*) FROM found_Knows") == [(3,)]
    for name in frames:
        spark.catalog.dropTempView(name)


# Commits


def test_all_views_stay_at_one_commit_until_they_are_recreated(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    both = "SELECT (SELECT count(*) FROM Person), (SELECT count(*) FROM Knows)"

    with made(graph, spark):
        before = run_sql(spark, both)
        graph.mutate(query('delete Person where name = "Alice"'))
        during = run_sql(spark, both)
        with made(graph, spark):
            after = run_sql(spark, both)

    assert (before, during, after) == ([(4, 3)], [(4, 3)], [(3, 1)])


def test_views_are_of_the_branch_or_the_commit_that_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    first = graph.head()
    graph.create_branch("side")
    graph.mutate(query('delete Person where name = "Alice"'), branch="side")
    graph.mutate(query('delete Person where name = "Bob"'))
    graph.mutate(query('delete Person where name = "Diana"'))

    with (
        made(graph, spark, branch="side", prefix="s_") as side,
        made(graph, spark, commit=first, prefix="f_") as old,
        made(graph, spark) as present,
    ):
        found = [side["s_Person"].count(), old["f_Person"].count(), present["Person"].count()]

    assert found == [3, 4, 2]


def test_a_property_added_later_is_not_a_column_of_an_earlier_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(tmp_path / "graph", "node Person { name: String @key }")
    first = graph.head()
    graph.apply_schema(
        "node Person { name: String @key  age: I32? }\nnode Pet { name: String @key }"
    )

    with made(graph, spark, commit=first) as frames:
        assert {name: each.columns for name, each in frames.items()} == {"Person": ["id", "name"]}


# Clean-ups


def test_a_clean_up_spares_what_a_query_of_a_view_is_reading(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(tmp_path / "graph", "node Note { name: String @key  text: String }")
    # More than Linux lets wait in the sockets between Spark's processes: up to 36 MiB in each.
    count, text = 20_000, "long" * 2_500
    names = pa.array(range(count)).cast(pa.string())
    graph.load({"Note": pa.table({"name": names, "text": [text] * count})}, mode="append")
    read_version = graph.tables()["node:Note"].version
    go_on = tmp_path / "go on"
    columns = "id string, name string, text string"

    with (
        made(graph, spark) as frames,
        configured(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "100"),
        ThreadPoolExecutor(1) as worker,
    ):
        reading = worker.submit(frames["Note"].mapInArrow(waiting_for(go_on), columns).count)
        await_that(go_on.with_suffix(".waiting").exists)
        graph.load({"Note": pa.table({"name": ["new"], "text": [""]})}, mode="overwrite")
        clean_later(graph)
        spared = versions(graph, "node:Note")
        go_on.touch()
        counted = reading.result()
        clean_later(graph)
        with pytest.raises(PySparkException, match="NotFoundError"):
            frames["Note"].count()

    assert counted == count
    assert read_version in spared


def test_views_of_a_graph_that_is_only_read_leave_nothing_in_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    social_graph(tmp_path / "graph").close()
    files = set((tmp_path / "graph").rglob("*"))

    with omnigraph.open(tmp_path / "graph", read_only=True) as graph, made(graph, spark) as frames:
        assert frames["Person"].count() == 4

    assert set((tmp_path / "graph").rglob("*")) == files


# Refusals


def test_types_whose_names_differ_only_in_case_are_rejected_and_no_view_is_created(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "node Tie { name: String @key }\nnode Knot { name: String @key }\nedge TIE: Tie -> Tie"
    graph = build_graph(tmp_path / "graph", schema, node("Tie", name="a"))

    with pytest.raises(InvalidValueError, match="node Tie and edge TIE would be the same view"):
        graph.spark_views(spark)

    assert not spark.catalog.dropTempView("Knot")


@pytest.mark.parametrize("prefix", ["a.", "2nd", "é", "x "])
def test_an_invalid_view_prefix_is_refused(tmp_path: Path, prefix: str) -> None:
    graph = build_graph(tmp_path / "graph", "node Person { name: String @key }")

    with pytest.raises(InvalidNameError, match="letters, digits and underscores"):
        graph.spark_views(prefix=prefix)
