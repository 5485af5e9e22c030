"""Reverting one commit and cherry-picking another: a new commit each, or a refusal."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    ForbiddenError,
    InvalidValueError,
    MergeConflictError,
    NotFoundError,
    RecoveryRequiredError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    contents,
    edge,
    ends,
    ndjson,
    node,
    open_with,
    require_linear,
    rows,
    social_graph,
    unchanged,
    values,
)
from tests.support.queries import query


def mutate(graph: Graph, body: str, branch: str = "main") -> str:
    """The commit of a mutation."""
    return str(graph.mutate(query(body), branch=branch).commit_id)


def kinds(refused: MergeConflictError) -> list[tuple[str, str, str]]:
    """The conflicting rows, and why they conflict."""
    return [(each.type, each.id, each.kind) for each in refused.conflicts]


# Reverting

CHANGES = {
    "an insert": 'insert Person { name: "Eve", age: 1 }',
    "an update": 'update Person set { age: 99 } where name = "Alice"',
    "a delete that cascades": 'delete Person where name = "Alice"',
    "inserts of three types": 'insert Person { name: "Eve" } insert Company { name: "Initech" } '
    'insert WorksAt { from: "Eve", to: "Initech" }',
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_commit_that_is_reverted_leaves_the_rows_that_were_there_before(
    tmp_path: Path, change: str
) -> None:
    graph = social_graph(tmp_path)
    before = contents(graph)
    made = mutate(graph, change)

    undone = graph.revert(made, actor="ann")

    assert contents(graph) == before
    assert undone.outcome == "merged"
    commit = graph.commits()[-1]
    assert (commit.id, commit.parent_id, commit.actor) == (undone.commit_id, made, "ann")
    assert commit.merged_parent_id is None
    assert commit.notes.reverted_id == made
    require_linear(graph.commits())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_revert_can_be_reverted(tmp_path: Path, change: str) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, change)
    after = contents(graph)
    undone = graph.revert(made)

    graph.revert(str(undone.commit_id))

    assert contents(graph) == after


def test_a_load_that_replaced_everything_is_reverted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = contents(graph)
    loaded = graph.load(ndjson(edge("Knows", "Diana", "Alice")), mode="overwrite")

    graph.revert(str(loaded.commit_id))

    assert contents(graph) == before


def test_later_changes_remain_when_a_commit_is_reverted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'update Person set { age: 99 } where name = "Alice"')
    mutate(graph, 'update Person set { age: 1 } where name = "Bob"')
    mutate(graph, 'insert Person { name: "Eve" }')

    graph.revert(made)

    assert values(graph, "Person", "age") == {
        "Alice": 30,
        "Bob": 1,
        "Charlie": 35,
        "Diana": 28,
        "Eve": None,
    }


def test_a_commit_is_reverted_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'insert Person { name: "Eve" }')
    graph.revert(made)

    with unchanged(graph):
        again = graph.revert(made)

    assert (again.outcome, again.commit_id) == ("already_up_to_date", None)


def test_a_row_that_changed_again_since_is_not_reverted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'update Person set { age: 99 } where name = "Alice"')
    mutate(graph, 'update Person set { age: 100 } where name = "Alice"')

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.revert(made)

    assert kinds(refused.value) == [("Person", "Alice", "divergent_update")]
    (conflict,) = refused.value.conflicts
    versions = (conflict.base, conflict.source, conflict.target)
    assert [each and each["age"] for each in versions] == [99, 30, 100]


def test_a_revert_does_not_delete_a_node_that_has_new_edges(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'insert Person { name: "Eve" }')
    mutate(graph, 'insert Knows { from: "Alice", to: "Eve" }')

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.revert(made)

    assert [each.kind for each in refused.value.conflicts] == ["orphan_edge"]


def test_a_merge_is_reverted_to_what_its_target_was(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    mutate(graph, 'insert Person { name: "Eve" }', "feature")
    mutate(graph, 'delete Person where name = "Bob"', "feature")
    mutate(graph, 'update Person set { age: 99 } where name = "Alice"')
    before = contents(graph)
    merged = graph.merge("feature")

    graph.revert(str(merged.commit_id))

    assert contents(graph) == before
    assert graph.merge("feature").outcome == "already_up_to_date"


def test_a_commit_that_a_merge_brought_is_reverted_on_its_own(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    mutate(graph, 'insert Person { name: "Eve" }', "feature")
    second = mutate(graph, 'insert Person { name: "Fay" }', "feature")
    graph.merge("feature")

    graph.revert(second)

    assert "Eve" in rows(graph, "Person")
    assert "Fay" not in rows(graph, "Person")


def test_a_commit_is_reverted_on_the_branch_that_is_named(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'insert Person { name: "Eve" }')
    graph.create_branch("feature")

    graph.revert(made, branch="feature")

    assert "Eve" in rows(graph, "Person")
    assert "Eve" not in rows(graph, "Person", "feature")


def test_a_commit_of_another_branch_is_not_reverted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    made = mutate(graph, 'insert Person { name: "Eve" }', "feature")

    with unchanged(graph), pytest.raises(InvalidValueError, match="not in the history"):
        graph.revert(made)


def test_the_first_commit_is_neither_reverted_nor_picked(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.commits()[0].id

    for undo in (graph.revert, graph.cherry_pick):
        with unchanged(graph), pytest.raises(InvalidValueError, match="has no parent"):
            undo(first)


def test_a_missing_commit_is_neither_reverted_nor_picked(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    for undo in (graph.revert, graph.cherry_pick):
        with unchanged(graph), pytest.raises(NotFoundError):
            undo("01J00000000000000000000000")


def test_a_read_only_graph_refuses_reverts_and_picks(tmp_path: Path) -> None:
    made = mutate(social_graph(tmp_path), 'insert Person { name: "Eve" }')
    graph = omnigraph.open(tmp_path, read_only=True)

    for undo in (graph.revert, graph.cherry_pick):
        with pytest.raises(ForbiddenError, match="read_only"):
            undo(made)


# Picking


def test_one_commit_is_picked_without_those_before_it(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    mutate(graph, 'insert Person { name: "Eve" }', "feature")
    second = mutate(graph, 'update Person set { age: 99 } where name = "Alice"', "feature")

    picked = graph.cherry_pick(second, onto="main", actor="ann")

    assert values(graph, "Person", "age") == {"Alice": 99, "Bob": 25, "Charlie": 35, "Diana": 28}
    commit = graph.commits()[-1]
    assert (commit.id, commit.actor) == (picked.commit_id, "ann")
    assert commit.merged_parent_id is None
    assert commit.notes.picked_id == second


def test_a_picked_commit_does_not_conflict_with_a_merge(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    mutate(graph, 'insert Person { name: "Eve" }', "feature")
    second = mutate(graph, 'update Person set { age: 99 } where name = "Alice"', "feature")
    graph.cherry_pick(second)

    assert graph.merge("feature").outcome == "merged"

    assert contents(graph) == contents(graph, "feature")


def test_a_commit_that_the_branch_has_is_not_picked(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    made = mutate(graph, 'insert Person { name: "Eve" }')

    with unchanged(graph):
        picked = graph.cherry_pick(made)

    assert (picked.outcome, picked.commit_id) == ("already_up_to_date", None)


def test_a_commit_that_contradicts_the_branch_is_not_picked(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    made = mutate(graph, 'update Person set { age: 99 } where name = "Alice"', "feature")
    mutate(graph, 'delete Person where name = "Alice"')

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.cherry_pick(made)

    assert kinds(refused.value) == [("Person", "Alice", "delete_vs_update")]


def test_an_edge_whose_nodes_were_not_picked_is_not_picked(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    mutate(graph, 'insert Person { name: "Eve" }', "feature")
    made = mutate(graph, 'insert Knows { from: "Alice", to: "Eve" }', "feature")

    with unchanged(graph), pytest.raises(MergeConflictError) as refused:
        graph.cherry_pick(made)

    assert [each.kind for each in refused.value.conflicts] == ["orphan_edge"]


def test_a_commit_of_inserts_and_deletes_is_picked_whole(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    (known, *_) = [id for id, row in rows(graph, "Knows").items() if row["to"] == "Diana"]
    replaced = [edge("Knows", "Bob", "Diana", id=known, since="2020-01-01")]
    loaded = graph.load(
        ndjson(*replaced, edge("Knows", "Diana", "Alice")), mode="overwrite", branch="feature"
    )
    before = graph.tables()["edge:Knows"]

    graph.cherry_pick(str(loaded.commit_id))

    assert ends(graph, "Knows") == [("Bob", "Diana"), ("Diana", "Alice")]
    after = graph.tables()["edge:Knows"]
    assert (after.version, after.row_count) == (before.version + 1, 2)


# Recovery


def test_a_revert_that_stopped_before_its_publish_is_finished(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = contents(graph)
    made = mutate(graph, 'delete Person where name = "Alice"')
    failpoints = Failpoints()
    stopping = open_with(tmp_path, failpoints)
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        stopping.revert(made)

    recovered = omnigraph.open(tmp_path)
    assert contents(recovered) == before
    assert recovered.commits()[-1].notes.reverted_id == made


def test_a_picked_commit_that_stopped_before_its_publish_is_finished(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    made = mutate(graph, 'insert Person { name: "Eve" }', "feature")
    failpoints = Failpoints()
    stopping = open_with(tmp_path, failpoints)
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError):
        stopping.cherry_pick(made)

    recovered = omnigraph.open(tmp_path)
    assert contents(recovered) == contents(recovered, "feature")
    assert recovered.commits()[-1].notes.picked_id == made


def test_a_node_that_exists_by_another_write_is_not_a_conflict(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    made = mutate(graph, 'insert Person { name: "Eve", age: 5 }', "feature")
    graph.load(ndjson(node("Person", name="Eve", age=5)), mode="append")

    assert graph.cherry_pick(made).outcome == "already_up_to_date"


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_no_commit_at_all_is_not_taken_for_the_newest_one(tmp_path: Path, verb: str) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match="a text is needed"):
        getattr(graph, verb)(None)
