"""Queries on Spark over more rows than the calling process reads itself: one commit, lazily."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CompileError, GraphError, InvalidValueError
from omnigraph.model.limits import SPARK_LOCAL_ROWS_MAX
from tests.support.queries import query

NODES, EDGES = SPARK_LOCAL_ROWS_MAX + 2_000, 3 * SPARK_LOCAL_ROWS_MAX

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
node Club { name: String @key }
edge Knows: Person -> Person { since: I32 }
edge Joined: Person -> Club
"""

READS = (
    "match { $a: Person  $a knows $b  $b knows $c } return { count(*) as n }",
    "match { $a: Person { age: 7 }  $a knows $b } return { $a.name, $b.name } limit 50",
    "match { $a: Person  $a knows $b  $b.age > 90 } "
    "return { $b.age as age, count($a) as n, avg($a.age) as mean } order { n desc } limit 9",
    'match { $a: Person { name: "p000003" }  $a knows{1,4} $b } return { count($b) as n }',
    "match { $a: Person { age: 3 }  $a knows{1,6} $b } return distinct { $b.age as age }",
    "match { $a: Person { age: 5 }  $b: Person { age: 6 }  $a knows $c  $b knows $c } "
    "return { $a.name, $b.name, $c.name }",
    "match { $a: Person  $a knows $b  $b knows $a } return { $a.name, $b.name } limit 20",
    "match { $a: Person { age: 11 }  not { $a knows $b  $b.age > 50 } } return { $a.name }",
    "match { $a: Person { age: 12 }  optional { $a joined $c } } return { $a.name, $c.name }",
    "match { $a: Person  $a $e: knows $b  $e.since < 3 } return { count($e) as n }",
    'match { $a: Person  search($a.bio, "tall") } '
    'return { $a.name, bm25($a.bio, "tall sailor") as score } '
    'order { bm25($a.bio, "tall sailor") } limit 7',
)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """A graph whose types are read by tasks, in several files, some of whose rows are gone."""
    folder = tmp_path_factory.mktemp("crowd")
    with omnigraph.init(folder / "g", schema=SCHEMA, durability="relaxed") as graph:
        chance = np.random.default_rng(7)
        names = np.char.mod("p%06d", np.arange(NODES))
        words = np.array(["tall", "short", "sailor", "baker", "and the"])
        ages = pa.array(chance.integers(0, 100, NODES), pa.int32(), mask=chance.random(NODES) < 0.1)
        bios = [" ".join(each) for each in words[chance.integers(0, len(words), (NODES, 3))]]
        people = pa.table({"name": names, "age": ages, "bio": bios})
        clubs = pa.table({"name": np.char.mod("c%02d", np.arange(20))})
        graph.load({"Person": people, "Club": clubs}, mode="append")
        for part in range(3):
            graph.load({"Knows": _edges(chance, names)}, mode="append")
            graph.mutate(query(f'delete Person where name = "p{part:06}"'))
        joined = pa.table({"src": names[100:4_100], "dst": clubs["name"].take([0] * 4_000)})
        graph.load({"Joined": joined}, mode="append")
        yield graph


def _edges(
    chance: np.random.Generator, names: np.ndarray[tuple[int], np.dtype[np.str_]]
) -> pa.Table:
    ends = 10 + chance.zipf(1.5, (2, EDGES // 3)) % (NODES - 10)
    since = pa.array(chance.integers(0, 50, EDGES // 3), pa.int32())
    return pa.table({"src": names[ends[0]], "dst": names[ends[1]], "since": since})


@pytest.mark.parametrize("body", READS)
def test_tasks_read_what_the_process_would_have_read(
    crowd: Graph, spark: SparkSession, body: str
) -> None:
    text = query(body)

    here = crowd.query(text).to_arrow()

    assert crowd.query(text, engine="spark", spark=spark).to_arrow() == here
    assert here.num_rows


def test_a_frame_shows_the_commit_of_its_query_however_late_it_runs(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = omnigraph.init(tmp_path / "g", schema=SCHEMA, durability="relaxed")
    graph.mutate(query('insert Club { name: "chess" }'))
    text = query("match { $c: Club } return { $c.name as name }")
    found = graph.query(text, engine="spark", spark=spark)
    frame, first = found.to_spark(), graph.head()

    graph.mutate(query('insert Club { name: "rowing" }'))

    assert "1 rows" not in repr(found)
    assert [row.name for row in frame.collect()] == ["chess"]
    assert (len(found), found.commit_id) == (1, first)
    later = graph.query(text, engine="spark", spark=spark)
    assert [row["name"] for row in later] == ["chess", "rowing"]
    past = graph.query(text, commit=first, engine="spark", spark=spark)
    assert past.rows == [{"name": "chess"}]


def test_a_query_in_names_of_the_present_reads_the_past_on_spark_as_in_process(
    tmp_path: Path, spark: SparkSession
) -> None:
    schema = "node Club { name: String @key  size: I32? }"
    graph = omnigraph.init(tmp_path / "g", schema=schema, durability="relaxed")
    graph.mutate(query('insert Club { name: "chess", size: 3 }'))
    first = graph.head()
    graph.apply_schema(
        'node Team @rename_from("Club") { name: String @key  members: I32? @rename_from("size") }'
    )
    text = query("match { $t: Team { members: 3 } } return { $t.name, $t.members }")

    there = graph.query(text, commit=first, engine="spark", spark=spark)

    def read(**options: str) -> list[Row]:
        reader = spark.read.format("omnigraph").options(commit=first, **options)
        return reader.load(str(tmp_path / "g")).collect()

    assert there.rows == graph.query(text, commit=first).rows
    assert there.columns == ["t.name", "t.members"]
    assert [tuple(row) for row in read(query=text)] == [("chess", 3)]
    assert [row["name"] for row in read(type="Team", where="members = 3")] == ["chess"]


def test_rows_are_found_behind_files_without_any(tmp_path: Path, spark: SparkSession) -> None:
    graph = omnigraph.init(tmp_path / "g", schema=SCHEMA, durability="relaxed")
    for age, name in ((1, "a"), (2, "b"), (1, "c")):
        graph.mutate(query(f'insert Person {{ name: "{name}", age: {age} }}'))
    text = query("match { $p: Person { age: 1 } } return { $p.name as name }")

    found = graph.query(text, engine="spark", spark=spark)

    assert [row["name"] for row in found] == ["a", "c"]


def test_an_explanation_shows_the_steps_and_their_spark_plan(
    crowd: Graph, spark: SparkSession
) -> None:
    text = query(
        "match { $a: Person { age: $age }  $a knows $b } return { $b.name }", parameters="$age: I32"
    )

    reported = crowd.explain(text, {"age": 4}, engine="spark", spark=spark)

    assert "scan $a: Person" in reported
    assert "Physical Plan" in reported
    assert "MapInArrow" in reported


def test_a_large_type_is_not_sent_to_every_executor(crowd: Graph, spark: SparkSession) -> None:
    text = query("match { $a: Person  $a knows $b  $b.age = 4 } return { $a.name, $b.name }")
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "100KB")
    try:
        reported = crowd.explain(text, engine="spark", spark=spark)
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", str(before))

    assert "SortMergeJoin" in reported
    assert "BroadcastHashJoin" not in reported


@pytest.mark.parametrize(
    ("body", "params"),
    [
        ("match { $a: Person } return { $a.name } limit $n", {"n": -1}),
        ("match { $a: Person } return { $a.nick } limit $n", {"n": 1}),
        ("match { $a: Person } return { $a.name } limit $n", {"n": 2**70}),
    ],
)
def test_both_executors_report_the_same_errors(
    crowd: Graph, spark: SparkSession, body: str, params: dict[str, object]
) -> None:
    text = query(body, parameters="$n: I64")

    with pytest.raises(GraphError) as here:
        crowd.query(text, params)
    with pytest.raises(GraphError) as there:
        crowd.query(text, params, engine="spark", spark=spark)

    assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))
    assert isinstance(here.value, InvalidValueError | CompileError)


def test_an_unknown_engine_is_refused(crowd: Graph, spark: SparkSession) -> None:
    text = query("match { $a: Person } return { $a.name }")

    for engine, session in (("duckdb", None), ("local", spark)):
        with pytest.raises(InvalidValueError, match="engine"):
            crowd.query(text, engine=engine, spark=session)
        with pytest.raises(InvalidValueError, match="engine"):
            crowd.explain(text, engine=engine, spark=session)


def test_a_result_stays_in_the_session_that_it_is_worked_out_in(
    crowd: Graph, spark: SparkSession
) -> None:
    text = query("match { $a: Person } return { $a.name } limit 1")
    found = crowd.query(text, engine="spark", spark=spark)

    with pytest.raises(InvalidValueError, match="another session"):
        found.to_spark(spark.newSession())

    assert found.to_spark(spark).count() == 1
