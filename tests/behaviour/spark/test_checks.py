"""The rules that a load on Spark checks against staged and committed rows, and its report."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from omnigraph import Graph
from omnigraph.errors import IntegrityError, KeyConflictError
from omnigraph.model.errors import LoadReport
from omnigraph.model.limits import PLACES_SHOWN_MAX, VIOLATIONS_MAX
from tests.support.graphs import build_graph, edge, ends, ndjson, node, unchanged, values
from tests.support.spark_loads import share_small_inputs, write_lines

TEAM = """
node Person { name: String @key  mail: String? @unique  age: I32?  @range(age, 0..150) }
node Team { floor: I32  room: String  size: F64? @unique  @key(floor, room) }
node Note { text: String @unique }
edge Leads: Person -> Team @card(0..1)
edge Backs: Person -> Person @card(2..3) { rank: I32?  @unique(src, dst) }
"""


def team_graph(path: Path) -> Graph:
    """Three people, one of whom backs the others, and two teams, one of which is led."""
    return build_graph(
        path,
        TEAM,
        node("Person", name="Ann", mail="ann@x"),
        node("Person", name="Bob", mail="bob@x"),
        node("Person", name="Cyd"),
        node("Team", floor=1, room="a", size=0.0),
        node("Team", floor=1, room="b"),
        node("Note", id="n1", text="first"),
        edge("Leads", "Ann", '["1","a"]', id="l1"),
        edge("Backs", "Ann", "Bob", id="b1"),
        edge("Backs", "Ann", "Cyd", id="b2"),
    )


def refuse(graph: Graph, given: object, *, mode: str, spark: SparkSession) -> IntegrityError:
    """The refusal of a load."""
    with unchanged(graph), pytest.raises(IntegrityError) as refused:
        graph.load(given, mode=mode, spark=spark)
    return refused.value


def report_of(error: IntegrityError) -> LoadReport:
    """The report of a refusal."""
    assert error.report is not None
    assert error.report.count == error.count
    return error.report


def test_every_violated_rule_is_counted_and_reported_with_places(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = team_graph(tmp_path / "graph")
    persons = write_lines(
        tmp_path / "persons.jsonl",
        *(node("Person", name=f"p{number}", age=number + 100) for number in range(100)),
        node("Person", name="p7", mail="bob@x"),
        node("Person", name="Yan", mail="bob@x"),
    )
    edges = write_lines(
        tmp_path / "edges.jsonl",
        edge("Leads", "p1", '["1","a"]', id="x1"),
        edge("Leads", "Ann", '["1","b"]', id="x2"),
        edge("Leads", "Absent", '["9","z"]', id="x3"),
        edge("Backs", "p1", "p2", id="x4"),
    )

    refused = refuse(graph, [persons, edges], mode="append", spark=spark)

    report = report_of(refused)
    assert [(each.type, each.rule, each.property, each.count) for each in report.rules] == [
        ("Backs", "cardinality", None, 1),
        ("Leads", "endpoint", "src", 1),
        ("Leads", "endpoint", "dst", 1),
        ("Leads", "cardinality", None, 1),
        ("Person", "range", "age", 49),
        ("Person", "unique", "mail", 1),
        ("Person", "key", "name", 1),
    ]
    ages = report.rules[4]
    assert len(ages.shown) == PLACES_SHOWN_MAX
    assert ages.shown[0].place == f"{persons}: record 52 (line 52)"
    assert "151" in ages.shown[0].message
    assert [each.place for each in report.rules[5].shown] == [f"{persons}: record 102 (line 102)"]
    assert [each.place for each in report.rules[6].shown] == [f"{persons}: record 101 (line 101)"]
    assert [each.place for each in report.rules[1].shown] == [f"{edges}: record 3 (line 3)"]
    assert [each.place for each in report.rules[3].shown] == [""]
    assert f"49 x range on Person.age\n  {persons}: record 52 (line 52): " in str(report)
    assert "\n  and 39 more\n" in str(report)
    assert refused.count == 55
    assert len(refused.violations) == 55


def test_a_rule_that_many_rows_violate_is_counted_in_full_and_reported_in_part(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = team_graph(tmp_path / "graph")
    count = 3 * VIOLATIONS_MAX
    persons = pa.table({"name": ["Zoe"] * count, "age": pa.array([200] * count, pa.int32())})

    refused = refuse(graph, {"Person": persons}, mode="append", spark=spark)

    assert refused.count == count + count - 1
    assert len(refused.violations) == VIOLATIONS_MAX
    assert [(each.rule, each.count) for each in report_of(refused).rules] == [
        ("range", count),
        ("key", count - 1),
    ]


def test_rows_of_a_frame_are_named_by_their_numbers(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    frame = spark.createDataFrame(
        [(f"p{number}", 151 if number == 33 else number) for number in range(40)],
        "name string, age int",
    )

    refused = refuse(graph, {"Person": frame}, mode="append", spark=spark)

    ((shown,),) = (each.shown for each in report_of(refused).rules)
    assert shown.place == "row 34"


def test_the_smallest_of_the_existing_keys_is_reported(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    path = write_lines(
        tmp_path / "rows.jsonl",
        node("Person", name="Cyd"),
        node("Person", name="Bob"),
        node("Team", floor=1, room="a"),
    )

    with unchanged(graph), pytest.raises(KeyConflictError) as refused:
        graph.load(path, mode="append", spark=spark)

    assert (refused.value.type, refused.value.id) == ("Person", "Bob")


def test_unique_values_that_a_merge_releases_are_free(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    path = write_lines(
        tmp_path / "rows.jsonl",
        node("Person", name="Ann", mail="bob@x"),
        node("Person", name="Bob", mail="ann@x"),
        edge("Leads", "Bob", '["1","a"]', id="l1"),
        edge("Leads", "Ann", '["1","b"]'),
    )

    graph.load(path, mode="merge", spark=spark)

    assert values(graph, "Person", "mail") == {"Ann": "bob@x", "Bob": "ann@x", "Cyd": None}
    assert ends(graph, "Leads") == [("Ann", '["1","b"]'), ("Bob", '["1","a"]')]


def test_a_source_that_a_merge_takes_edges_from_keeps_enough_of_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = team_graph(tmp_path / "graph")
    path = write_lines(
        tmp_path / "rows.jsonl",
        edge("Backs", "Cyd", "Ann", id="b1"),
        edge("Backs", "Cyd", "Bob"),
    )

    refused = refuse(graph, path, mode="merge", spark=spark)

    assert [each.message for each in refused.violations] == [
        "@card violation on edge Backs: source 'Ann' has 1 edge (min 2)"
    ]


def test_an_overwrite_leaves_no_edge_without_its_nodes(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    path = write_lines(
        tmp_path / "rows.jsonl", node("Person", name="Ann"), node("Person", name="Bob")
    )

    refused = refuse(graph, path, mode="overwrite", spark=spark)

    (rule,) = report_of(refused).rules
    assert (rule.type, rule.rule, rule.property) == ("Backs", "endpoint", "dst")
    assert [each.place for each in rule.shown] == [""]
    assert [each.id for each in refused.violations] == ["b2"]


def test_zeros_and_not_a_numbers_are_one_value_each(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    nan = float("nan")
    teams = {"floor": [3, 3, 3], "room": ["a", "b", "c"], "size": [nan, nan, -0.0]}
    frame = spark.createDataFrame(pa.table(teams))

    refused = refuse(graph, {"Team": frame}, mode="append", spark=spark)

    with pytest.raises(IntegrityError) as expected:
        graph.load({"Team": pa.table(teams)}, mode="append")
    assert refused.violations == expected.value.violations
    assert refused.count == 2


def test_rows_are_checked_against_rows_of_other_inputs(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    frame = spark.createDataFrame([("Zoe", "same@x")], "name string, mail string")
    path = write_lines(
        tmp_path / "rows.jsonl",
        node("Person", name="Yan", mail="same@x"),
        edge("Leads", "Zoe", '["1","b"]'),
    )

    job = graph.bulk(mode="append", spark=spark)
    job.records(path)
    job.nodes("Person", frame)

    with unchanged(graph), pytest.raises(IntegrityError) as refused, job:
        pass

    (rule,) = report_of(refused.value).rules
    assert (rule.rule, rule.property) == ("unique", "mail")
    assert [each.place for each in rule.shown] == ["row 1"]


def test_deleted_rows_hold_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = team_graph(tmp_path / "graph")
    graph.load(ndjson(node("Note", id="n1", text="second")), mode="merge")
    path = write_lines(tmp_path / "rows.jsonl", node("Note", text="first"))

    graph.load(path, mode="append", spark=spark)

    assert sorted(map(str, values(graph, "Note", "text").values())) == ["first", "second"]
