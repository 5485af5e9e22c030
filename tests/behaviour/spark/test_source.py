"""The data source: rows of a type or a query as a DataFrame of exactly one commit."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

import omnigraph
from omnigraph import Graph
from omnigraph.engine.state.readers import READERS_PREFIX
from omnigraph.errors import NotFoundError, RequestError
from omnigraph.model.limits import SPARK_BATCH_BYTES_MAX
from omnigraph.spark.connector.options import parse_read_options
from omnigraph.spark.connector.reader import PinnedType, pin_read, read_part, split_type
from tests.support.graphs import SOCIAL, build_graph, edge, ndjson, node, root_of, social_graph
from tests.support.later_graphs import clean_later
from tests.support.queries import query
from tests.support.s3_server import S3Server
from tests.support.spark_probes import configured


def read(spark: SparkSession, graph: Graph, **options: str) -> DataFrame:
    return spark.read.format("omnigraph").options(**options).load(str(root_of(graph)))


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def grow_older(graph: Graph, *, branch: str = "main") -> str:
    text = query('update Person set { age: 99 } where name = "Alice"')
    return str(graph.mutate(text, branch=branch).commit_id)


# Rows


def test_a_type_is_read_with_its_ids_and_properties(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    frame = read(spark, graph, type="Person")

    assert sorted(rows(frame)) == [
        ("Alice", 30, "Alice"),
        ("Bob", 25, "Bob"),
        ("Charlie", 35, "Charlie"),
        ("Diana", 28, "Diana"),
    ]


def test_an_edge_type_is_read_with_its_ends(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    frame = read(spark, graph, type="knows", columns="src,dst")

    assert sorted(rows(frame)) == [("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Diana")]


def test_a_name_of_both_kinds_needs_its_kind(spark: SparkSession, tmp_path: Path) -> None:
    schema = "node Tie { name: String @key }\nedge Tie: Tie -> Tie"
    graph = build_graph(tmp_path / "graph", schema, node("Tie", name="a"), edge("Tie", "a", "a"))

    frame = read(spark, graph, type="edge:Tie", columns="src")

    assert rows(frame) == [("a",)]


def test_a_type_without_rows_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", "node Person { name: String @key }")

    frame = read(spark, graph, type="Person")

    assert frame.columns == ["id", "name"]
    assert frame.count() == 0


def test_many_files_are_read_in_several_partitions_and_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(tmp_path / "graph", "node Person { name: String @key }")
    for number in range(4):
        people = [node("Person", name=f"p{number}-{each}") for each in range(50)]
        graph.load(ndjson(*people), mode="append")

    frame = read(spark, graph, type="Person")

    assert frame.select(spark_partition_id()).distinct().count() >= 2
    assert frame.count() == frame.select("id").distinct().count() == 200


def test_rows_that_were_deleted_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.mutate(query('delete Person where name = "Alice"'))

    assert read(spark, graph, type="Person").count() == 3
    assert rows(read(spark, graph, type="Knows", columns="src,dst")) == [("Bob", "Diana")]


# Commits


def test_a_frame_reads_the_commit_it_was_created_at_however_often_it_is_used(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    frame = read(spark, graph, type="Person")

    grow_older(graph)

    for _ in range(2):
        assert max(row[1] for row in rows(frame)) == 35  # type: ignore[type-var]  # numbers


def test_a_commit_and_a_branch_are_read_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    before = graph.head()
    graph.create_branch("old")
    grow_older(graph, branch="old")

    def age(**at: str) -> object:
        options = {"type": "Person", "where": 'name = "Alice"', "columns": "age"}
        return rows(read(spark, graph, **options, **at))[0][0]

    assert (age(commit=before), age(branch="old"), age(branch="main"), age()) == (30, 99, 30, 30)


def test_a_property_that_is_newer_than_the_rows_reads_as_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = build_graph(
        tmp_path / "graph", "node Person { name: String @key }", node("Person", name="Ann")
    )
    graph.create_branch("side")
    graph.apply_schema("node Person { name: String @key  age: I32? }")

    def found(where: str) -> list[tuple[object, ...]]:
        return rows(read(spark, graph, type="Person", branch="side", where=where))

    assert rows(read(spark, graph, type="Person", branch="side")) == [("Ann", None, "Ann")]
    assert rows(read(spark, graph, type="Person", branch="side", columns="age")) == [(None,)]
    assert found("age is null") == [("Ann", None, "Ann")]
    assert found("age > 3") == []


# Pushdown


def test_a_condition_leaves_rows_out_before_spark_sees_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")

    frame = read(spark, graph, type="Person", where='age > 26 and (name = "Alice" or age < 30)')

    assert sorted(row[0] for row in rows(frame)) == ["Alice", "Diana"]  # type: ignore[type-var]  # texts


def test_edges_are_found_by_their_ends(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    frame = read(spark, graph, type="Knows", where='from = "Bob"', columns="dst")

    assert rows(frame) == [("Diana",)]


def test_a_given_schema_says_which_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    source = spark.read.format("omnigraph").schema("age int, name string").option("type", "Person")

    frame = source.option("where", "age = 30").load(str(root_of(graph)))

    assert rows(frame) == [(30, "Alice")]


def test_a_filter_of_one_query_leaves_nothing_out_of_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    frame = read(spark, graph, type="Person")
    older, younger = frame.where("age > 29"), frame.where("age <= 29")

    with configured(spark, "spark.sql.python.filterPushdown.enabled", "true"):
        assert older.count() == 2
        assert frame.count() == 4
        assert older.union(younger).count() == 4


# Queries


def test_the_result_of_a_query_is_a_frame_in_the_querys_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    text = """
    query older($age: I32) {
      match { $p: Person  $p.age > $age }
      return { $p.name as name  $p.age as age }
      order { age desc }
    }
    query other() { match { $p: Person } return { count($p) as people } }
    """

    frame = read(spark, graph, query=text, name="older", params='{"age": 26}')

    assert rows(frame) == [("Charlie", 35), ("Alice", 30), ("Diana", 28)]
    assert rows(read(spark, graph, query=text, name="other")) == [(4,)]


def test_a_query_reads_the_state_at_which_the_frame_was_created(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = social_graph(tmp_path / "graph")
    frame = read(
        spark, graph, query="query q() { match { $p: Person } return { max($p.age) as most } }"
    )

    grow_older(graph)

    assert rows(frame) == [(35,)]


def test_a_query_that_finds_nothing_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    text = 'query q() { match { $p: Person { name: "Absent" } } return { $p.age as age } }'

    frame = read(spark, graph, query=text)

    assert (frame.dtypes, frame.count()) == ([("age", "int")], 0)


# Refusals


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"type": "Persn"}, "type 'Persn' not found; did you mean `Person`?"),
        ({"type": "Person", "branch": "mian"}, "branch 'mian' not found; did you mean 'main'?"),
        ({"type": "Person", "commit": "nope"}, "commit 'nope' not found"),
        ({"type": "Person", "columns": "nmae"}, "column 'nmae' not found; did you mean `name`?"),
        ({"type": "Person", "where": "agee > 3"}, "Person has no property `agee`"),
        ({"type": "Person", "query": "x"}, "give either a type or a query, not both"),
        ({"type": "Person", "colums": "x"}, "option 'colums': unknown option"),
        ({"query": "query q() { match { $p: Persn } return { $p } }"}, "Persn"),
        (
            {"query": "query q() { match { $p: Person } return { $p.name as a  $p.age as a } }"},
            "two columns have the name `a`",
        ),
    ],
)
def test_an_impossible_read_is_refused_with_the_reason(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    graph = social_graph(tmp_path / "graph")

    with pytest.raises(RequestError) as refused:
        pin_read(parse_read_options({"uri": str(root_of(graph)), **options}))

    assert problem in str(refused.value)


def test_the_spark_error_of_a_read_contains_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    with pytest.raises(PySparkException) as refused:
        read(spark, graph, type="Persn")

    assert "NotFoundError: type 'Persn' not found; did you mean `Person`?" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"type": "Person"},
            """option 'uri': not given; name the location of the graph, as in .option(""",
        ),
        (
            {"uri": "/none"},
            """option 'type': not given; name what to read, as in .option("type", """,
        ),
    ],
    ids=["uri", "type"],
)
def test_a_missing_option_of_a_read_is_one_line_with_an_example(
    spark: SparkSession, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        spark.read.format("omnigraph").options(**options).load()

    said, *rest = str(refused.value).splitlines()
    assert f"omnigraph.errors.InvalidValueError: {problem}" in said
    assert [line.strip() for line in rest] == ["SQLSTATE: 38000"]


def test_a_given_schema_with_other_types_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    source = spark.read.format("omnigraph").schema("age string").option("type", "Person")

    with pytest.raises(PySparkException, match="it is int, not string; cast it after reading"):
        source.load(str(root_of(graph))).count()


# Partitions and cleanup, without Spark


def pin(graph: Graph, **options: str) -> PinnedType:
    pinned = pin_read(parse_read_options({"uri": str(root_of(graph)), **options}))
    assert isinstance(pinned, PinnedType)
    return pinned


def start(pinned: PinnedType) -> Iterator[pa.RecordBatch]:
    (part,) = split_type(pinned, pinned.schema)
    return read_part(pinned, part, pinned.schema)


def claims(graph: Graph) -> list[Path]:
    return list((root_of(graph) / READERS_PREFIX).glob("*.json"))


def test_a_task_that_reads_an_old_commit_claims_it_while_it_reads(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path / "graph")
    reading = start(pin(graph, type="Person", commit=graph.head()))

    next(reading)

    assert len(claims(graph)) == 1
    assert list(reading) == []
    assert claims(graph) == []


@pytest.mark.parametrize("options", [{}, {"readOnly": "true"}], ids=str)
def test_a_short_read_of_the_present_writes_nothing(
    tmp_path: Path, options: dict[str, str]
) -> None:
    graph = social_graph(tmp_path / "graph")
    reading = start(pin(graph, type="Person", **options))

    next(reading)

    assert claims(graph) == []


def test_rows_cleaned_up_before_a_task_started_are_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    pinned = pin(graph, type="Person", commit=graph.head())
    grow_older(graph)
    (part,) = split_type(pinned, pinned.schema)

    clean_later(graph, keep=1)

    with pytest.raises(NotFoundError):
        list(read_part(pinned, part, pinned.schema))


def test_a_recreated_branch_is_not_read_instead_of_the_planned_one(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("side")
    grow_older(graph, branch="side")
    pinned = pin(graph, type="Person", branch="side")
    part, *_ = split_type(pinned, pinned.schema)

    graph.delete_branch("side")
    graph.create_branch("side")
    graph.mutate(query('delete Person where name = "Bob"'), branch="side")

    with pytest.raises(NotFoundError, match="deleted or recreated"):
        list(read_part(pinned, part, pinned.schema))


def test_large_blobs_are_handed_over_a_few_at_a_time(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", "node File { name: String @key  content: Blob? }")
    size = SPARK_BATCH_BYTES_MAX // 3 * 2
    names, contents = ["a", "b", "c"], [bytes([each]) * size for each in range(3)]
    graph.load({"File": pa.table({"name": names, "content": contents})}, mode="append")

    batches = list(start(pin(graph, type="File")))

    assert len(batches) == 3
    assert [each for batch in batches for each in batch["content"].to_pylist()] == contents


def test_a_graph_on_s3_is_read_with_storage_options(spark: SparkSession, server: S3Server) -> None:
    uri = f"s3://{server.create_bucket()}/graph"
    options = server.lance_options()
    graph = omnigraph.init(uri, SOCIAL, storage_options=options)
    graph.load(ndjson(node("Person", name="Ann", age=3)), mode="append")
    source = spark.read.format("omnigraph").option("uri", uri).option("type", "Person")

    frame = source.options(**{f"storage.{name}": each for name, each in options.items()}).load()

    assert rows(frame) == [("Ann", 3, "Ann")]
