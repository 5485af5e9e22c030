"""Rows that cannot be loaded are set aside with the reason, and the rest is one commit."""

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.engine.results import LoadResult
from omnigraph.errors import IntegrityError, LimitExceededError, UnavailableError
from tests.support.graphs import (
    build_graph,
    contents,
    edge,
    ends,
    node,
    root_of,
    rows,
    sidecars,
    unchanged,
    values,
)
from tests.support.s3_server import S3Server
from tests.support.spark_loads import changing, files_below, share_small_inputs, write_lines

TEAM = """
node Person {
  name: String @key  motto: String  mail: String? @unique  age: I32?  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person
edge Backs: Person -> Person @card(2..3)
"""


def person(name: str, **more: object) -> Mapping[str, object]:
    """A person with a motto."""
    return node("Person", name=name, motto="m", **more)


def set_aside(result: LoadResult) -> Path:
    """The file of the rows that a load left out."""
    assert result.report.location is not None
    return Path(result.report.location) / "rejected.ndjson"


def reasons(result: LoadResult) -> list[dict[str, str]]:
    """Why each of them was left out."""
    text = set_aside(result).with_name("reasons.ndjson").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_refused_rows_are_quarantined_and_the_rest_is_one_commit(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = build_graph(tmp_path / "graph", TEAM, person("Ann", mail="ann@x"))
    path = tmp_path / "in.jsonl"
    good = [person(f"p{number}") for number in range(40)]
    bad: list[tuple[object, str]] = [
        (person("Ann"), "exists"),
        (person("p3"), "key"),
        (person("old", age=151), "range"),
        (person("twin", mail="ann@x"), "unique"),
        (node("Person", name="mute"), "required"),
        (edge("Knows", "p1", "absent"), "endpoint"),
        (edge("Backs", "p1", "p2"), "cardinality"),
        ({"type": "Robot"}, "value"),
        (person("zed", age="old"), "value"),
    ]
    lines = [json.dumps(each) for each in good]
    for number, (record, _) in enumerate(bad):
        lines.insert(5 + 4 * number, json.dumps(record))
    path.write_text("\n\n".join(lines))
    before = len(graph.commits())

    done = graph.load(path, mode="append", spark=spark, on_error="quarantine")

    assert (done.nodes_loaded, done.edges_loaded) == ({"Person": 40}, {})
    assert len(graph.commits()) == before + 1
    assert sorted(rows(graph, "Person")) == sorted(["Ann", *(f"p{n}" for n in range(40))])
    assert values(graph, "Person", "mail")["Ann"] == "ann@x"
    assert set_aside(done).read_text().splitlines() == [json.dumps(record) for record, _ in bad]
    reported = reasons(done)
    assert [each["rule"] for each in reported] == [rule for _, rule in bad]
    assert [each["place"] for each in reported] == [
        f"{path}: record {6 + 4 * number} (line {11 + 8 * number})" for number in range(len(bad))
    ]
    assert done.rejected == done.report.count == len(bad)
    assert f"rejected rows are in {set_aside(done).parent}" in str(done.report)
    assert graph.doctor().is_healthy


def test_quarantined_rows_can_be_corrected_and_loaded(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", TEAM, person("Ann"))
    people = pa.table({"name": ["Bob", "Cyd"], "motto": [None, "m"], "age": [1, 2**40]})
    knows = pa.table({"src": ["Ann", "Ann"], "dst": ["Bob", "Ann"]})

    done = graph.load(
        {"Person": spark.createDataFrame(people), "Knows": knows},
        mode="append",
        on_error="quarantine",
        quarantine=tmp_path / "aside",
    )

    path = set_aside(done)
    assert path.is_relative_to(tmp_path / "aside")
    assert done.rejected == 3
    assert (done.nodes_loaded, done.edges_loaded) == ({}, {"Knows": 1})
    corrected = (
        path.read_text()
        .replace(str(2**40), "2")
        .replace('"name":"Bob"', '"name":"Bob","motto":"m"')
    )
    path.write_text(corrected.replace(',"motto":null', ""))
    assert graph.load(path, mode="append").nodes_loaded == {"Person": 2}
    assert ends(graph, "Knows") == [("Ann", "Ann"), ("Ann", "Bob")]


def test_the_edges_of_a_quarantined_node_are_quarantined_too(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_small_inputs(monkeypatch)
    graph = build_graph(tmp_path / "graph", TEAM)
    names = [f"p{number}" for number in range(10)]
    path = write_lines(
        tmp_path / "in.jsonl",
        edge("Backs", "p1", "p2"),
        edge("Backs", "p1", "p3"),
        edge("Knows", "p2", "p3"),
        edge("Knows", "p3", "p2"),
        edge("Knows", "p4", "p5"),
        *(person(name, age=151 if name == "p2" else 1) for name in names),
    )

    done = graph.load(path, mode="append", spark=spark, on_error="quarantine")

    assert [each["rule"] for each in reasons(done)] == [
        "endpoint",
        "cardinality",
        "endpoint",
        "endpoint",
        "range",
    ]
    assert done.nodes_loaded == {"Person": 9}
    assert ends(graph, "Knows") == [("p4", "p5")]


def test_a_merge_quarantines_rows_that_it_cannot_replace(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(
        tmp_path / "graph",
        TEAM,
        person("Ann", age=1),
        person("Bob", age=1),
        node("Note", id="n", text="a"),
    )
    path = write_lines(
        tmp_path / "in.jsonl",
        person("Ann", age=2),
        person("Bob", age=200),
        node("Note", id="n", text="b"),
        node("Note", id="n", text="c"),
    )

    done = graph.load(path, mode="merge", spark=spark, on_error="quarantine")

    assert [each["type"] for each in reasons(done)] == ["Person"]
    assert values(graph, "Person", "age") == {"Ann": 2, "Bob": 1}
    assert values(graph, "Note", "text") == {"n": "c"}
    assert graph.doctor().is_healthy


def test_a_load_without_faults_quarantines_nothing(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", TEAM)
    path = write_lines(tmp_path / "in.jsonl", person("Ann"))

    done = graph.load(path, mode="append", spark=spark, on_error="quarantine")

    assert (done.rejected, done.report.rules, done.report.location) == (0, (), None)
    assert not (root_of(graph) / "__quarantine").exists()


def test_a_load_of_only_refused_rows_makes_no_commit(tmp_path: Path, spark: SparkSession) -> None:
    graph = build_graph(tmp_path / "graph", TEAM)
    path = write_lines(tmp_path / "in.jsonl", person("Ann", age=151), {"type": "Robot"})

    with unchanged(graph):
        done = graph.load(path, mode="append", spark=spark, on_error="quarantine")

    assert (done.commit_id, done.rejected) == (None, 2)
    assert len(set_aside(done).read_text().splitlines()) == 2


def test_a_violation_by_committed_rows_leaves_the_graph_unchanged(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(
        tmp_path / "graph", TEAM, person("Ann"), person("Bob"), edge("Knows", "Ann", "Bob")
    )
    path = write_lines(tmp_path / "in.jsonl", person("Ann"), person("Zoe", age=151))
    before = files_below(root_of(graph))

    with unchanged(graph), pytest.raises(IntegrityError, match="the untouched edge Knows"):
        graph.load(path, mode="overwrite", spark=spark, on_error="quarantine")

    assert files_below(root_of(graph)) == before
    assert not list(root_of(graph).glob("__quarantine/*"))
    assert not sidecars(root_of(graph))


def test_too_many_faults_are_the_fault_of_the_input(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.spark.load.staged.QUARANTINED_ROWS_MAX", 3)
    graph = build_graph(tmp_path / "graph", TEAM)
    path = write_lines(tmp_path / "in.jsonl", *(person(f"p{n}", age=151) for n in range(4)))
    before = files_below(root_of(graph))

    with unchanged(graph), pytest.raises(LimitExceededError) as refused:
        graph.load(path, mode="append", spark=spark, on_error="quarantine")

    assert (refused.value.limit, refused.value.found) == (3, 4)
    assert files_below(root_of(graph)) == before


def test_a_frame_that_changes_when_it_is_read_again_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = build_graph(tmp_path / "graph", TEAM)
    named = spark.range(4).mapInArrow(changing, "name string")
    knows = named.selectExpr("name as src", "'absent' as dst")
    before = files_below(root_of(graph))

    with unchanged(graph), pytest.raises(UnavailableError, match="persist the frame"):
        graph.load({"Knows": knows}, mode="append", on_error="quarantine")

    assert files_below(root_of(graph)) == before


def test_rows_of_a_bucket_are_quarantined_in_a_bucket(
    server: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    bucket = server.create_bucket()
    store = server.object_store(bucket, prefix="")
    content = write_lines(tmp_path / "in", person("Ann"), person("Bob", age=151)).read_bytes()
    store.put("in.jsonl", content)
    graph = omnigraph.init(
        f"s3://{bucket}/graph", schema=TEAM, storage_options=server.lance_options()
    )

    done = graph.load(f"s3://{bucket}/in.jsonl", mode="append", spark=spark, on_error="quarantine")

    assert sorted(contents(graph)["Person"]) == ["Ann"]
    location = str(done.report.location)
    assert location.startswith(f"s3://{bucket}/graph/")
    key = f"{location.removeprefix(f's3://{bucket}/')}/rejected.ndjson"
    assert bytes(store.get(key).bytes()) == content.splitlines(keepends=True)[1]
