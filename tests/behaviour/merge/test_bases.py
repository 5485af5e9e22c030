"""Merges of branches that merged a third one, since deleted: its changes are not new to them."""

from pathlib import Path

from omnigraph import Graph
from tests.support.graphs import contents, edge, ends
from tests.support.teams import Step, ages, does, kinds, merges, team


def met_and_parted(path: Path, *steps: Step) -> Graph:
    """Two branches that both merged a third one, which is then deleted."""
    graph = team(path)
    graph.create_branch("staging")
    for step in steps:
        step(graph, "feature")
    does('insert Person { name: "Sam" }')(graph, "staging")
    does('insert Person { name: "Mia" }')(graph, "main")
    graph.merge("feature", into="staging")
    graph.merge("feature")
    graph.delete_branch("feature")
    return graph


def test_a_deleted_row_merged_from_a_deleted_branch_stays_deleted(
    tmp_path: Path,
) -> None:
    graph = met_and_parted(tmp_path, does('insert Person { name: "Eve" }'))
    does('delete Person where name = "Eve"')(graph, "main")

    graph.merge("staging")

    assert ages(graph).keys() == {"Alice", "Bob", "Carol", "Dan", "Sam", "Mia"}


def test_a_row_deleted_through_a_deleted_branch_may_be_inserted_again(tmp_path: Path) -> None:
    graph = met_and_parted(tmp_path, does('delete Person where name = "Dan"'))
    does('insert Person { name: "Dan", age: 50 }')(graph, "main")

    graph.merge("staging")

    assert ages(graph)["Dan"] == 50


def test_a_change_merged_from_a_deleted_branch_is_not_a_conflict(
    tmp_path: Path,
) -> None:
    graph = met_and_parted(tmp_path, does('update Person set { age: 31 } where name = "Alice"'))
    does('update Person set { age: 40 } where name = "Alice"')(graph, "main")

    graph.merge("staging")

    assert ages(graph)["Alice"] == 40


def test_changes_after_the_deletion_of_a_common_branch_still_conflict(tmp_path: Path) -> None:
    graph = met_and_parted(tmp_path, does('update Person set { age: 31 } where name = "Alice"'))
    for branch, age in (("main", 40), ("staging", 41)):
        does(f'update Person set {{ age: {age} }} where name = "Alice"')(graph, branch)

    found = graph.merge("staging", dry_run=True).conflicts

    assert kinds(found) == [("Person", "Alice", "divergent_update")]
    assert found[0].base is not None
    assert found[0].base["age"] == 31


def test_a_deleted_edge_merged_from_a_deleted_branch_stays_deleted(
    tmp_path: Path,
) -> None:
    graph = met_and_parted(tmp_path, merges(edge("Knows", "Alice", "Dan")))
    does('delete Knows where from = "Alice"')(graph, "main")

    graph.merge("staging")

    assert ends(graph, "Knows") == [("Bob", "Carol")]


def test_a_deleted_row_merged_later_by_one_branch_stays_deleted(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.create_branch("staging")
    does('insert Person { name: "Eve", age: 1 }')(graph, "feature")
    graph.merge("feature", into="staging")
    does('update Person set { age: 2 } where name = "Eve"')(graph, "feature")
    graph.merge("feature")
    graph.delete_branch("feature")
    does('delete Person where name = "Eve"')(graph, "staging")

    found = graph.merge("staging", dry_run=True).conflicts

    # One side deleted a row that the other changed further: a conflict, not a new row.
    assert kinds(found) == [("Person", "Eve", "delete_vs_update")]
    assert found[0].base is not None
    assert found[0].base["age"] == 1


def test_a_property_merged_from_a_deleted_branch_is_not_a_conflict(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.create_branch("staging")
    does('update Person set { age: 31 } where name = "Alice"')(graph, "feature")
    does('update Person set { note: "n" } where name = "Alice"')(graph, "staging")
    does('insert Person { name: "Mia" }')(graph, "main")
    graph.merge("feature", into="staging", granularity="property")
    graph.merge("feature")
    graph.delete_branch("feature")
    does('update Person set { age: 40 } where name = "Alice"')(graph, "main")

    graph.merge("staging", granularity="property")

    assert contents(graph)["Person"]["Alice"] == {"name": "Alice", "age": 40, "note": "n"}


def test_a_deleted_row_merged_through_deleted_branches_stays_deleted(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    for name in ("staging", "relay"):
        graph.create_branch(name)
    does('insert Person { name: "Eve" }')(graph, "feature")
    graph.merge("feature", into="relay")
    does('insert Person { name: "Ray" }')(graph, "relay")
    does('insert Person { name: "Mia" }')(graph, "main")
    does('insert Person { name: "Sam" }')(graph, "staging")
    graph.merge("relay", into="staging")
    graph.merge("feature")
    for name in ("relay", "feature"):
        graph.delete_branch(name)
    does('delete Person where name = "Eve"')(graph, "main")

    graph.merge("staging")

    assert ages(graph).keys() == {"Alice", "Bob", "Carol", "Dan", "Sam", "Mia", "Ray"}


def test_a_resolved_row_is_not_evidence_of_the_branchs_earlier_rows(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.create_branch("staging")
    does('update Person set { age: 31 } where name = "Alice"')(graph, "feature")
    does('update Person set { age: 32 } where name = "Alice"')(graph, "staging")
    decided = {"name": "Alice", "age": 33}
    graph.merge("feature", into="staging", resolve={("Person", "Alice"): decided})
    does('insert Person { name: "Mia" }')(graph, "main")
    graph.merge("feature")
    graph.delete_branch("feature")

    graph.merge("staging")

    assert ages(graph)["Alice"] == 33
