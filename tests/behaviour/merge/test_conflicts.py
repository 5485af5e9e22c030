"""Contradicting changes of two branches are refused, reported in full, and left to the caller."""

import math
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValueError, MergeConflictError, NotFoundError, Outcome
from omnigraph.model.errors import Conflict
from tests.support.graphs import build_graph, edge, ends, ndjson, node, pins, rows, unchanged
from tests.support.queries import query
from tests.support.teams import Step, ages, divided, does, kinds, merges, team


def conflicts_of(graph: Graph, source: str = "feature") -> tuple[Conflict, ...]:
    """What a merge into main refuses; fail unless it leaves the graph as it is."""
    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge(source)
    assert refused.value.outcome is Outcome.UNCHANGED
    dry = graph.merge(source, dry_run=True)
    assert (dry.outcome, dry.commit_id) == ("conflicts", None)
    assert dry.conflicts == refused.value.conflicts
    return refused.value.conflicts


# Conflicts

APART: Mapping[str, tuple[Step, Step, list[tuple[str, str, str]]]] = {
    "different ages": (
        does('update Person set { age: 31 } where name = "Alice"'),
        does('update Person set { age: 32 } where name = "Alice"'),
        [("Person", "Alice", "divergent_update")],
    ),
    "different newcomers of one name": (
        does('insert Person { name: "Eve", age: 1 }'),
        does('insert Person { name: "Eve", age: 2 }'),
        [("Person", "Eve", "divergent_insert")],
    ),
    "a change and a removal": (
        does('update Person set { age: 31 } where name = "Alice"'),
        does('delete Person where name = "Alice"'),
        [("Person", "Alice", "delete_vs_update")],
    ),
    "a null and an empty text": (
        does('insert Person { name: "Eve", note: "" }'),
        does('insert Person { name: "Eve" }'),
        [("Person", "Eve", "divergent_insert")],
    ),
}


@pytest.mark.parametrize("order", [1, -1], ids=["there", "back"])
@pytest.mark.parametrize(("left", "right", "expected"), APART.values(), ids=APART.keys())
def test_changes_that_contradict_each_other_are_refused(
    tmp_path: Path, left: Step, right: Step, expected: list[tuple[str, str, str]], order: int
) -> None:
    graph = team(tmp_path)
    first, second = (left, right)[::order]
    first(graph, "feature")
    second(graph, "main")

    assert kinds(conflicts_of(graph)) == expected


def test_all_conflicts_are_reported_together(tmp_path: Path) -> None:
    graph = team(tmp_path)
    for branch, age in (("feature", 1), ("main", 2)):
        graph.mutate(query(f"update Person set {{ age: {age} }} where age > 0"), branch=branch)
        graph.mutate(query(f'insert Person {{ name: "Eve", age: {age} }}'), branch=branch)

    found = conflicts_of(graph)

    assert kinds(found) == [
        ("Person", "Alice", "divergent_update"),
        ("Person", "Bob", "divergent_update"),
        ("Person", "Carol", "divergent_update"),
        ("Person", "Dan", "divergent_update"),
        ("Person", "Eve", "divergent_insert"),
    ]
    assert [each and each["age"] for each in (found[0].base, found[0].source, found[0].target)] == [
        30,
        1,
        2,
    ]
    assert (found[4].base, found[4].source) == (
        None,
        {"id": "Eve", "name": "Eve", "age": 1, "note": None},
    )


def test_an_edge_removed_with_its_node_and_changed_elsewhere_is_a_conflict(tmp_path: Path) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    graph.mutate(query('delete Person where name = "Bob"'), branch="feature")
    merges(edge("Knows", "Bob", "Carol", id=id, since=7))(graph, "main")

    (found,) = conflicts_of(graph)

    assert (found.type, found.id, found.kind) == ("Knows", id, "delete_vs_update")
    assert found.base == {"id": id, "src": "Bob", "dst": "Carol", "since": None}
    assert found.source is None
    assert found.target == {"id": id, "src": "Bob", "dst": "Carol", "since": 7}


@pytest.mark.parametrize("order", [1, -1], ids=["there", "back"])
def test_an_edge_to_a_node_that_the_other_side_removed_is_a_conflict(
    tmp_path: Path, order: int
) -> None:
    graph = team(tmp_path)
    adds, removes = ("feature", "main")[::order]
    graph.mutate(query('insert Knows { from: "Alice", to: "Dan" }'), branch=adds)
    graph.mutate(query('delete Person where name = "Dan"'), branch=removes)

    (found,) = conflicts_of(graph)

    assert (found.type, found.kind) == ("Knows", "orphan_edge")
    assert "'Dan' not found in Person" in found.message
    row = found.source if adds == "feature" else found.target
    assert row is not None
    assert (row["src"], row["dst"]) == ("Alice", "Dan")


def test_a_unique_value_taken_by_both_sides_is_a_conflict(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node U { name: String @key  email: String? @unique }")
    graph.create_branch("feature")
    graph.load(ndjson(node("U", name="x", email="e")), mode="append", branch="feature")
    graph.load(ndjson(node("U", name="y", email="e")), mode="append")

    assert kinds(conflicts_of(graph)) == [("U", "x", "unique_violation")]


def test_edges_of_both_sides_that_are_too_many_together_are_a_conflict(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node U { name: String @key } edge Leads: U -> U @card(0..1)",
        node("U", name="a"),
        node("U", name="b"),
    )
    graph.create_branch("feature")
    for branch in ("feature", "main"):
        graph.load(ndjson(edge("Leads", "a", "b", id=branch)), mode="append", branch=branch)

    (found,) = conflicts_of(graph)

    assert kinds((found,)) == [("Leads", "a", "cardinality_violation")]
    assert found.message.endswith("; resolve its edges 'feature'")
    with pytest.raises(InvalidValueError, match="by decisions about edges, by their ids"):
        graph.merge("feature", resolve={("Leads", "a"): "source"})
    assert graph.merge("feature", resolve={("Leads", "feature"): "target"}).outcome == "merged"


def test_a_cardinality_in_conflict_names_the_edges_that_the_source_took(tmp_path: Path) -> None:
    edges = [edge("Leads", "a", "b", id=f"e{number}", since=number) for number in range(8)]
    graph = build_graph(
        tmp_path,
        "node U { name: String @key } edge Leads: U -> U @card(1..) { since: I32? }",
        node("U", name="a"),
        node("U", name="b"),
        *edges,
    )
    graph.create_branch("feature")
    graph.mutate(query("delete Leads where since < 7"), branch="feature")
    graph.mutate(query("delete Leads where since = 7"))

    (found,) = conflicts_of(graph)

    assert found.message.endswith("; resolve its edges 'e0', 'e1', 'e2', 'e3', 'e4' and 2 more")


def test_a_conflict_of_the_two_zeros_names_the_property(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node P { name: String @key  f: F64? }", node("P", name="x"))
    graph.create_branch("feature")
    merges(node("P", name="x", f=0.0))(graph, "feature")
    merges(node("P", name="x", f=-0.0))(graph, "main")

    (found,) = conflicts_of(graph)

    assert found.message == "P 'x': both sides changed it, with different f"


def test_a_refused_merge_names_what_is_in_conflict(tmp_path: Path) -> None:
    graph = team(tmp_path)
    for branch, age in (("feature", 1), ("main", 2)):
        graph.mutate(
            query(f'update Person set {{ age: {age} }} where name = "Alice"'), branch=branch
        )

    with pytest.raises(MergeConflictError, match=r"Person 'Alice'.*age.*branch is unchanged"):
        graph.merge("feature")


# Decisions


@pytest.mark.parametrize(
    ("alice", "bob", "expected"),
    [
        ("source", "source", {"Alice": 31, "Carol": 40, "Dan": 50}),
        ("target", "target", {"Alice": 32, "Bob": 26, "Carol": 40, "Dan": 50}),
        (
            {"name": "Alice", "age": 99},
            {"name": "Bob"},
            {"Alice": 99, "Bob": None, "Carol": 40, "Dan": 50},
        ),
    ],
)
def test_a_merge_lands_with_the_decisions_of_its_caller(
    tmp_path: Path, alice: object, bob: object, expected: Mapping[str, int | None]
) -> None:
    graph = divided(tmp_path)

    merged = graph.merge("feature", resolve={("Person", "Alice"): alice, ("Person", "Bob"): bob})

    assert merged.outcome == "merged"
    assert ages(graph) == expected
    chosen = [(each.type, each.id, each.choice) for each in graph.commits()[-1].notes.resolutions]
    assert chosen == [
        ("Person", "Alice", alice if isinstance(alice, str) else "row"),
        ("Person", "Bob", bob if isinstance(bob, str) else "row"),
    ]
    assert graph.merge("feature").outcome == "already_up_to_date"


def test_the_row_of_a_decision_may_hold_what_a_loaded_row_may(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node U { name: String @key  born: Date? }", node("U", name="x"))
    graph.create_branch("feature")
    for branch, day in (("feature", "2024-01-01"), ("main", "2024-02-02")):
        merges(node("U", name="x", born=day))(graph, branch)

    graph.merge("feature", resolve={("U", "x"): {"name": "x", "born": date(2024, 3, 3)}})

    assert [str(row["born"]) for row in rows(graph, "U").values()] == ["2024-03-03"]


def test_decisions_about_some_leave_the_others_in_conflict(tmp_path: Path) -> None:
    graph = divided(tmp_path)

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature", resolve={("Person", "Alice"): "source"})

    assert kinds(refused.value.conflicts) == [("Person", "Bob", "delete_vs_update")]


def test_an_edge_without_its_node_is_resolved_by_a_decision_about_either(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('delete Person where name = "Dan"'), branch="feature")
    graph.mutate(query('insert Knows { from: "Alice", to: "Dan" }'))
    (found,) = graph.merge("feature", dry_run=True).conflicts

    planned = graph.merge("feature", dry_run=True, resolve={("Person", "Dan"): "target"})
    merged = graph.merge("feature", resolve={("Knows", found.id): "source"})

    assert (planned.outcome, merged.outcome) == ("merged", "merged")
    assert ends(graph, "Knows") == [("Bob", "Carol")]
    assert "Dan" not in ages(graph)


@pytest.mark.parametrize(
    ("resolve", "error", "words"),
    [
        ({("Persn", "Alice"): "source"}, NotFoundError, "Persn"),
        ({("Person", "Carol"): "source"}, InvalidValueError, "neither side changed"),
        ({("Person", "Alice"): "mine"}, InvalidValueError, '"source", "target"'),
        ({("Person", "Alice"): {"age": "old"}}, InvalidValueError, "Person 'Alice'"),
        ({("Person", "Alice"): {"name": "Bob"}}, InvalidValueError, "Person 'Alice'"),
        ({("Person", "Alice"): {"age": math.nan}}, InvalidValueError, "cannot be stored"),
        ({"Alice": "source"}, InvalidValueError, r"\(type, id\)"),
        ([("Person", "Alice")], InvalidValueError, r"\(type, id\)"),
    ],
)
def test_an_invalid_decision_is_refused(
    tmp_path: Path, resolve: object, error: type[Exception], words: str
) -> None:
    graph = divided(tmp_path)

    with unchanged(graph), pytest.raises(error, match=words):
        graph.merge("feature", resolve=resolve)  # type: ignore[arg-type]  # what a caller may do


@pytest.mark.parametrize("other", ["source", "target", {"name": "Alice", "age": 2}])
def test_two_decisions_about_one_entity_are_refused(tmp_path: Path, other: object) -> None:
    graph = divided(tmp_path)
    resolve = {("Person", "Alice"): "source", ("node:Person", "Alice"): other}

    with unchanged(graph), pytest.raises(InvalidValueError, match="'Alice' has two decisions"):
        graph.merge("feature", resolve=resolve)


def test_a_decision_names_its_type_where_two_types_share_a_name(tmp_path: Path) -> None:
    schema = "node Tie { name: String @key  size: I32? }  edge Tie: Tie -> Tie"
    graph = build_graph(tmp_path, schema, node("Tie", name="x"))
    graph.create_branch("feature")
    for branch, size in (("feature", 1), ("main", 2)):
        merges(node("Tie", name="x", size=size))(graph, branch)

    with pytest.raises(InvalidValueError, match=r"^resolve: .*write 'node:Tie' or 'edge:Tie'"):
        graph.merge("feature", resolve={("Tie", "x"): "source"})
    merged = graph.merge("feature", resolve={("node:Tie", "x"): "source"})

    assert merged.outcome == "merged"


# By property


def test_different_properties_of_one_row_merge_only_with_property_granularity(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'), branch="feature")
    graph.mutate(query('update Person set { note: "n" } where name = "Alice"'))

    assert kinds(conflicts_of(graph)) == [("Person", "Alice", "divergent_update")]
    merged = graph.merge("feature", granularity="property")

    assert merged.outcome == "merged"
    assert rows(graph, "Person")["Alice"] == {"name": "Alice", "age": 31, "note": "n"}


@pytest.mark.parametrize(("one", "other"), [("src", "note"), ("src", "dst")])
def test_properties_of_a_node_merge_one_by_one_whatever_their_names(
    tmp_path: Path, one: str, other: str
) -> None:
    schema = f"node P {{ name: String @key  {one}: String?  {other}: String? }}"
    graph = build_graph(tmp_path, schema, node("P", name="x"))
    graph.create_branch("feature")
    merges(node("P", name="x", **{one: "s"}))(graph, "feature")
    merges(node("P", name="x", **{other: "t"}))(graph, "main")

    merged = graph.merge("feature", granularity="property")

    assert merged.outcome == "merged"
    assert rows(graph, "P")["x"] == {"name": "x", one: "s", other: "t"}


def test_a_row_that_has_all_of_the_source_already_is_not_written_again(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('update Person set { age: 31 } where name = "Alice"')(graph, "feature")
    does('update Person set { age: 31, note: "n" } where name = "Alice"')(graph, "main")
    before = pins(graph)

    merged = graph.merge("feature", granularity="property")

    assert merged.outcome == "merged"
    assert pins(graph) == before


def test_an_unknown_granularity_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="neither row nor property"):
        team(tmp_path).merge("feature", granularity="cell")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("node U { name: String @key  age: I32?  @range(age, 0..9) }", 10),
        ("node U { name: String @key  age: enum(young, old)? }", "ancient"),
        ('node U { name: String @key  age: String?  @check(age, "[a-z]+") }', "9"),
    ],
)
def test_a_row_of_the_caller_that_breaks_a_rule_is_a_conflict(
    tmp_path: Path, schema: str, value: object
) -> None:
    graph = build_graph(tmp_path, schema, node("U", name="x"), node("U", name="y"))
    graph.create_branch("feature")
    graph.mutate(query('delete U where name = "x"'), branch="feature")

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.merge("feature", resolve={("U", "x"): {"name": "x", "age": value}})

    assert kinds(refused.value.conflicts) == [("U", "x", "value_constraint_violation")]
