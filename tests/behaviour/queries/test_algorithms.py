"""Algorithms over a graph: their input, their results, and results written back."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.engine.analysis import solve
from omnigraph.errors import (
    ForbiddenError,
    IntegrityError,
    InvalidValueError,
    LimitExceededError,
    NotFoundError,
)
from omnigraph.spark import algorithms
from omnigraph.spark.load.load import load
from tests.support.graphs import build_graph, edge, footprint, ndjson, node, unchanged, values

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    rank: F64?
    hops: I32?
    small: I32?
    way: [String]?
    group: String? @index
    @range(small, 0..1)
}
node Place { name: String @key  rank: F64? }
edge Knows: Person -> Person
edge Follows: Person -> Person
edge Lives: Person -> Place
"""


def town_graph(path: Path) -> Graph:
    """Ann knows Bob, who knows Cyd; Dan knows no one; Ann lives in Ulm, and Bob follows Ann."""
    return build_graph(
        path,
        SCHEMA,
        *(node("Person", name=name, age=30) for name in ("Ann", "Bob", "Cyd", "Dan")),
        node("Place", name="Ulm"),
        edge("Knows", "Ann", "Bob"),
        edge("Knows", "Bob", "Cyd"),
        edge("Follows", "Bob", "Ann"),
        edge("Lives", "Ann", "Ulm"),
    )


# Input


def test_every_node_of_the_connected_types_has_a_row_in_order(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    found = graph.algorithms("Knows").degrees()

    assert found.columns == ["type", "id", "in_degree", "out_degree", "degree"]
    assert [list(row.values()) for row in found] == [
        ["Person", "Ann", 0, 1, 1],
        ["Person", "Bob", 1, 1, 2],
        ["Person", "Cyd", 1, 0, 1],
        ["Person", "Dan", 0, 0, 0],
    ]


def test_edges_of_several_types_count_together(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    found = graph.algorithms(["Knows", "Follows", "lives"]).degrees()

    degrees = {(row["type"], row["id"]): row["degree"] for row in found}
    assert degrees == {
        ("Person", "Ann"): 3,
        ("Person", "Bob"): 3,
        ("Person", "Cyd"): 1,
        ("Person", "Dan"): 0,
        ("Place", "Ulm"): 1,
    }


def test_an_analysis_is_of_a_branch_or_of_a_commit(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    before = graph.head()
    graph.create_branch("draft")
    graph.load(ndjson(edge("Knows", "Cyd", "Dan")), mode="append", branch="draft")

    on_main, on_draft, in_the_past = (
        graph.algorithms("Knows", **at).connected_components().rows[3]["component"]
        for at in ({}, {"branch": "draft"}, {"commit": before})
    )

    assert (on_main, on_draft, in_the_past) == ("Dan", "Ann", "Dan")


def test_results_of_one_analysis_are_of_one_commit(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows")

    graph.load(ndjson(node("Person", name="Eve")), mode="append")

    assert len(found.degrees()) == 4
    assert len(graph.algorithms("Knows").degrees()) == 5


def test_a_type_that_the_graph_does_not_have_is_not_found(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    with pytest.raises(NotFoundError, match="edge type 'Know' not found; did you mean `Knows`"):
        graph.algorithms("Know")
    with pytest.raises(NotFoundError, match="it is a node type"):
        graph.algorithms("Person")
    with pytest.raises(InvalidValueError, match="name at least one edge type"):
        graph.algorithms([])


def test_in_process_work_starts_no_session(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    with pytest.raises(InvalidValueError, match="does not accept a session"):
        graph.algorithms("Knows", spark=object())


def test_an_analysis_that_needs_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = town_graph(tmp_path)
    monkeypatch.setattr(solve, "ANALYSIS_BYTES_MAX", 500)

    with pytest.raises(LimitExceededError, match='engine="local" in bytes is 800'):
        graph.algorithms("Knows").degrees()


# Paths


def test_a_path_names_every_node_on_the_way(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    found = graph.algorithms(["Follows", "Lives"]).shortest_paths(("Person", "Bob"))

    assert found.rows == [
        {"type": "Person", "id": "Ann", "distance": 1, "path_types": ["Person"] * 2}
        | {"path": ["Bob", "Ann"]},
        {"type": "Person", "id": "Bob", "distance": 0, "path_types": ["Person"], "path": ["Bob"]},
        {"type": "Place", "id": "Ulm", "distance": 2, "path_types": ["Person", "Person", "Place"]}
        | {"path": ["Bob", "Ann", "Ulm"]},
    ]


def test_an_id_names_the_start_of_paths_where_there_is_one_type(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    found = graph.algorithms("Knows").shortest_paths("Ann", hops_max=1, with_paths=False)

    assert found.columns == ["type", "id", "distance"]
    assert [row["id"] for row in found] == ["Ann", "Bob"]
    with pytest.raises(InvalidValueError, match="the edges connect Person and Place"):
        graph.algorithms("Lives").shortest_paths("Ann")


def test_paths_from_a_missing_node_are_refused(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    with pytest.raises(NotFoundError, match="Person 'Zoe' not found"):
        graph.algorithms("Knows").shortest_paths("Zoe")
    with pytest.raises(NotFoundError, match="node type 'Ship' not found"):
        graph.algorithms("Knows").shortest_paths(("Ship", "Ann"))


def test_paths_that_take_too_much_memory_are_refused_and_distances_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = town_graph(tmp_path)
    monkeypatch.setattr(solve, "ANALYSIS_PATH_BYTES_MAX", 40)

    with pytest.raises(LimitExceededError, match="with_paths=False and hops_max need less"):
        graph.algorithms("Knows").shortest_paths("Ann")

    assert len(graph.algorithms("Knows").shortest_paths("Ann", hops_max=1)) == 2
    assert len(graph.algorithms("Knows").shortest_paths("Ann", with_paths=False)) == 3


# Results written back


def test_values_become_a_property_by_one_commit(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows").shortest_paths("Ann")
    commits = len(graph.commits())

    done = found.write_property("hops", actor="analyst")

    assert done.affected_nodes == 3
    assert values(graph, "Person", "hops") == {"Ann": 0, "Bob": 1, "Cyd": 2, "Dan": None}
    assert set(values(graph, "Person", "age").values()) == {30}
    head = graph.commits()[-1]
    assert (head.id, head.actor, len(graph.commits())) == (done.commit_id, "analyst", commits + 1)


def test_a_column_may_be_chosen(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)

    graph.algorithms("Knows").shortest_paths("Ann").write_property("way", column="path")

    assert values(graph, "Person", "way")["Cyd"] == ["Ann", "Bob", "Cyd"]


def test_nodes_that_have_their_value_already_are_not_written(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows").connected_components()
    found.write_property("group")
    graph.load(ndjson(edge("Knows", "Cyd", "Dan")), mode="append")

    with unchanged(graph):
        assert found.write_property("group").commit_id is None
    done = graph.algorithms("Knows").connected_components().write_property("group")

    assert done.affected_nodes == 1
    assert set(values(graph, "Person", "group").values()) == {"Ann"}


def test_concurrent_writes_are_preserved(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows").pagerank()
    graph.mutate('query q() { update Person set { age: 31 } where name = "Ann" }')
    graph.mutate('query q() { delete Person where name = "Bob" }')
    graph.load(ndjson(node("Person", name="Eve")), mode="append")

    done = found.write_property("rank")

    assert done.affected_nodes == 3
    assert values(graph, "Person", "age") == {"Ann": 31, "Cyd": 30, "Dan": 30, "Eve": None}
    assert values(graph, "Person", "rank")["Eve"] is None


def test_values_are_written_to_the_analysed_branch_unless_another_is_named(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    graph.create_branch("draft")
    past = graph.algorithms("Knows", commit=graph.head()).degrees()

    graph.algorithms("Knows", branch="draft").degrees().write_property("hops")

    assert values(graph, "Person", "hops", "draft")["Bob"] == 2
    assert values(graph, "Person", "hops")["Bob"] is None
    with pytest.raises(InvalidValueError, match="name the branch"):
        past.write_property("hops")
    past.write_property("hops", branch="main")
    assert values(graph, "Person", "hops")["Bob"] == 2


def test_all_types_get_the_property_or_the_one_that_is_named(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms(["Knows", "Lives"]).pagerank()

    done = found.write_property("rank", type="Place")
    everywhere = found.write_property("rank")

    assert (done.affected_nodes, everywhere.affected_nodes) == (1, 4)
    with pytest.raises(InvalidValueError, match="'Ship' is none of Person, Place"):
        found.write_property("rank", type="Ship")


def test_a_property_that_is_missing_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    ranked = graph.algorithms("Knows").pagerank()

    with unchanged(graph):
        with pytest.raises(InvalidValueError, match="add `score: F64\\?` to node Person and apply"):
            ranked.write_property("score")
        with pytest.raises(InvalidValueError, match="declared as I32 and cannot hold `rank`"):
            ranked.write_property("hops")
        with pytest.raises(InvalidValueError, match="a key names its node"):
            graph.algorithms("Knows").connected_components().write_property("name")
        with pytest.raises(InvalidValueError, match="'id' is none of rank"):
            ranked.write_property("rank", column="id")


def test_values_that_break_a_rule_change_nothing(tmp_path: Path) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows").degrees()

    with unchanged(graph), pytest.raises(IntegrityError, match="small"):
        found.write_property("small")


def test_a_graph_that_is_read_only_can_be_analysed_and_not_written_to(tmp_path: Path) -> None:
    town_graph(tmp_path).close()
    graph = omnigraph.open(str(tmp_path), read_only=True)

    found = graph.algorithms("Knows").degrees()

    assert len(found) == 4
    with pytest.raises(ForbiddenError, match="write a property"):
        found.write_property("hops")


# On Spark


def test_values_that_spark_worked_out_become_the_same_property(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = town_graph(tmp_path)
    graph.create_branch("draft")
    found = graph.algorithms("Knows", engine="spark", spark=spark).shortest_paths("Ann")
    commits = len(graph.commits("draft"))

    done = found.write_property("hops", branch="draft")

    assert done.affected_nodes == 3
    assert values(graph, "Person", "hops", "draft") == {"Ann": 0, "Bob": 1, "Cyd": 2, "Dan": None}
    assert set(values(graph, "Person", "age", "draft").values()) == {30}
    assert len(graph.commits("draft")) == commits + 1
    before = footprint(graph)
    assert found.write_property("hops", branch="draft").commit_id is None
    with pytest.raises(InvalidValueError, match="add `score: I64\\?` to node Person"):
        found.write_property("score")
    assert footprint(graph) == before


def test_rows_on_spark_stay_there_until_they_are_collected(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows", engine="spark", spark=spark).degrees()

    frame = found.to_spark()

    assert frame.columns == found.columns
    assert frame.where("degree = 2").toArrow().to_pylist() == [found.rows[1]]
    with pytest.raises(InvalidValueError, match="another session"):
        found.to_spark(object())


def test_concurrent_writes_are_preserved_while_spark_works(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = town_graph(tmp_path)
    found = graph.algorithms("Knows", engine="spark", spark=spark).degrees()

    def load_late(*arguments: object) -> object:
        monkeypatch.undo()
        graph.mutate('query q() { update Person set { age: 31 } where name = "Ann" }')
        return load(*arguments)  # type: ignore[arg-type]  # passed on as they are

    monkeypatch.setattr(algorithms, "load", load_late)
    found.write_property("hops")

    assert values(graph, "Person", "age")["Ann"] == 31
    assert values(graph, "Person", "hops") == {"Ann": 1, "Bob": 2, "Cyd": 1, "Dan": 0}
