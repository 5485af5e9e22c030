"""Merging: the changes of two branches since their fork are combined in one commit, or refused."""

import threading
from collections.abc import Mapping
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    ForbiddenError,
    InvalidNameError,
    InvalidValueError,
    MergeConflictError,
    NotFoundError,
    RecoveryRequiredError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, Park
from tests.support.graphs import (
    contents,
    ends,
    ndjson,
    node,
    open_with,
    require_linear,
    rows,
    sidecars,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.teams import Step, ages, divided, does, kinds, nothing, team

PARK = Park(timeout_s=60)

# Outcomes


@pytest.mark.parametrize("change", [nothing, does('insert Person { name: "Eve" }')])
def test_a_branch_without_changes_of_its_own_is_already_merged(
    tmp_path: Path, change: Step
) -> None:
    graph = team(tmp_path)
    change(graph, "main")

    with unchanged(graph):
        merged = graph.merge("feature")

    assert (merged.outcome, merged.commit_id, merged.conflicts) == ("already_up_to_date", None, ())


def test_a_merge_into_an_unchanged_branch_is_a_commit_with_two_parents(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    before = graph.head()

    merged = graph.merge("feature", actor="ann")

    commit = graph.commits()[-1]
    assert merged.outcome == "fast_forward"
    assert (commit.id, commit.actor, commit.branch) == (merged.commit_id, "ann", "main")
    assert (commit.parent_id, commit.merged_parent_id) == (before, graph.head("feature"))
    assert contents(graph) == contents(graph, "feature")


def test_a_merge_of_two_branches_that_moved_has_what_both_did(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))
    before = graph.head()

    merged = graph.merge("feature")

    commit = graph.commits()[-1]
    assert merged.outcome == "merged"
    assert (commit.parent_id, commit.merged_parent_id) == (before, graph.head("feature"))
    assert ages(graph) == {"Alice": 31, "Bob": 25, "Carol": 40, "Dan": 50, "Eve": None}
    require_linear(graph.commits())


def test_a_merged_branch_is_already_merged(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('insert Person { name: "Fay" }'))
    graph.merge("feature")

    with unchanged(graph):
        again = graph.merge("feature")

    assert again.outcome == "already_up_to_date"


def test_a_merge_with_nothing_left_to_do_is_still_a_commit(tmp_path: Path) -> None:
    graph = team(tmp_path)
    for branch in ("feature", "main"):
        graph.mutate(query('update Person set { age: 31 } where name = "Alice"'), branch=branch)
    tables = graph.tables()

    merged = graph.merge("feature")

    assert merged.outcome == "merged"
    assert graph.head() == merged.commit_id
    assert graph.tables() == tables
    assert graph.merge("feature").outcome == "already_up_to_date"


def test_a_dry_run_says_what_a_merge_would_do_and_does_nothing(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")

    with unchanged(graph):
        ahead = graph.merge("feature", dry_run=True)
    graph.mutate(query('insert Person { name: "Fay" }'))
    with unchanged(graph):
        apart = omnigraph.open(tmp_path, read_only=True).merge("feature", dry_run=True)

    assert (ahead.outcome, ahead.commit_id, ahead.conflicts) == ("fast_forward", None, ())
    assert (apart.outcome, apart.commit_id, apart.conflicts) == ("merged", None, ())


# Combined changes

TOGETHER: Mapping[str, tuple[Step, Step, Mapping[str, int | None]]] = {
    "the same person added twice": (
        does('insert Person { name: "Eve", age: 22 }'),
        does('insert Person { name: "Eve", age: 22 }'),
        {"Alice": 30, "Bob": 25, "Carol": 40, "Dan": 50, "Eve": 22},
    ),
    "the same person removed twice": (
        does('delete Person where name = "Alice"'),
        does('delete Person where name = "Alice"'),
        {"Bob": 25, "Carol": 40, "Dan": 50},
    ),
    "the same change twice": (
        does('update Person set { age: 31 } where name = "Alice"'),
        does('update Person set { age: 31 } where name = "Alice"'),
        {"Alice": 31, "Bob": 25, "Carol": 40, "Dan": 50},
    ),
    "an addition and a change": (
        does('insert Person { name: "Eve" }'),
        does('update Person set { age: 31 } where name = "Alice"'),
        {"Alice": 31, "Bob": 25, "Carol": 40, "Dan": 50, "Eve": None},
    ),
    "a change and a removal of others": (
        does('update Person set { age: 31 } where name = "Alice"'),
        does('delete Person where name = "Bob"'),
        {"Alice": 31, "Carol": 40, "Dan": 50},
    ),
    "changes of different people": (
        does('update Person set { age: null } where name = "Alice"'),
        does('update Person set { age: 26 } where name = "Bob"'),
        {"Alice": None, "Bob": 26, "Carol": 40, "Dan": 50},
    ),
}


@pytest.mark.parametrize("order", [1, -1], ids=["there", "back"])
@pytest.mark.parametrize(("left", "right", "expected"), TOGETHER.values(), ids=TOGETHER.keys())
def test_changes_that_do_not_contradict_each_other_are_combined(
    tmp_path: Path, left: Step, right: Step, expected: Mapping[str, int | None], order: int
) -> None:
    graph = team(tmp_path)
    first, second = (left, right)[::order]
    first(graph, "feature")
    second(graph, "main")

    assert graph.merge("feature").outcome == "merged"

    assert ages(graph) == expected


def test_two_merges_in_opposite_directions_end_in_the_same_rows(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('delete Person where name = "Bob"'), branch="feature")
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))
    graph.create_branch("copy", base="main")

    graph.merge("feature", into="main")
    graph.merge("copy", into="feature")

    assert contents(graph, "main") == contents(graph, "feature")


def test_an_edge_added_by_both_sides_exists_twice(tmp_path: Path) -> None:
    graph = team(tmp_path)
    for branch in ("feature", "main"):
        graph.mutate(query('insert Knows { from: "Alice", to: "Carol" }'), branch=branch)

    assert graph.merge("feature").outcome == "merged"

    assert ends(graph, "Knows") == [("Alice", "Carol"), ("Alice", "Carol"), ("Bob", "Carol")]


def test_an_added_and_a_deleted_edge_are_both_merged(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Knows { from: "Alice", to: "Carol" }'), branch="feature")
    graph.mutate(query('delete Knows where from = "Bob"'))

    assert graph.merge("feature").outcome == "merged"

    assert ends(graph, "Knows") == [("Alice", "Carol")]


def test_a_text_that_became_empty_is_a_change(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('update Person set { note: "" } where name = "Alice"'), branch="feature")
    graph.mutate(query('insert Person { name: "Eve" }'))

    graph.merge("feature")

    assert values(graph, "Person", "note") == {
        "Alice": "",
        "Bob": None,
        "Carol": None,
        "Dan": None,
        "Eve": None,
    }


def test_rows_that_a_merge_leaves_alone_are_not_written_again(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))
    before = row_versions(graph)

    graph.merge("feature")

    after = row_versions(graph)
    assert {id: after[id] for id in before} == before
    assert after.keys() - before.keys() == {"Eve"}


def row_versions(graph: Graph) -> Mapping[str, tuple[int, int]]:
    """The versions of the table in which each person's row was created and last written."""
    at = graph.tables()["node:Person"]
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    found = lance.dataset(at.path, version=at.version).to_table(columns=columns).to_pylist()
    return {row["id"]: (row[columns[1]], row[columns[2]]) for row in found}


def test_added_rows_are_appended(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.load(
        ndjson(*(node("Person", name=f"p{number}") for number in range(50))),
        mode="append",
        branch="feature",
    )

    assert graph.merge("feature").outcome == "fast_forward"

    at = graph.tables()["node:Person"]
    newest = lance.dataset(at.path).get_transactions(1)[0]
    assert newest is not None
    assert type(newest.operation).__name__ == "Append"
    assert len(rows(graph, "Person")) == 54


def test_merged_rows_remain_after_their_branch_is_deleted(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('delete Knows where from = "Bob"'), branch="feature")
    graph.merge("feature")

    graph.delete_branch("feature")

    assert ages(omnigraph.open(tmp_path))["Eve"] is None
    assert ends(graph, "Knows") == []


# Refusals


def test_a_branch_is_not_merged_into_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="'feature' cannot be merged into itself"):
        team(tmp_path).merge("feature", into="feature")


@pytest.mark.parametrize(("source", "into"), [("featur", "main"), ("feature", "mian")])
def test_a_missing_branch_cannot_be_merged(tmp_path: Path, source: str, into: str) -> None:
    with pytest.raises(NotFoundError, match="did you mean"):
        team(tmp_path).merge(source, into=into)


@pytest.mark.parametrize(
    ("source", "into"), [("__schema_apply_lock__", "main"), ("feature", "__schema_apply_lock__")]
)
def test_an_internal_branch_cannot_be_merged(tmp_path: Path, source: str, into: str) -> None:
    with pytest.raises(InvalidNameError, match="internal system ref"):
        team(tmp_path).merge(source, into=into)


def test_a_read_only_graph_refuses_a_merge(tmp_path: Path) -> None:
    team(tmp_path)

    with pytest.raises(ForbiddenError, match="read_only"):
        omnigraph.open(tmp_path, read_only=True).merge("feature")


# Long histories


def test_branches_merge_back_and_forth_without_bringing_anything_back(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.merge("feature")
    graph.mutate(query('delete Person where name = "Eve"'))
    graph.mutate(query('insert Person { name: "Fay" }'), branch="feature")

    graph.merge("feature")
    graph.merge("main", into="feature")

    assert "Eve" not in ages(graph)
    assert contents(graph) == contents(graph, "feature")


def test_a_deleted_row_merged_through_a_third_branch_stays_deleted(
    tmp_path: Path,
) -> None:
    graph = team(tmp_path)
    graph.create_branch("third")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.merge("feature", into="third")
    graph.merge("third")
    graph.delete_branch("third")
    graph.mutate(query('delete Person where name = "Eve"'))
    graph.mutate(query('insert Person { name: "Fay" }'), branch="feature")

    merged = graph.merge("feature")

    assert merged.outcome == "merged"
    assert "Eve" not in ages(graph)
    assert "Fay" in ages(graph)


def crossed(path: Path) -> Graph:
    """Two branches merged into each other through copies: two merge bases."""
    graph = team(path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.mutate(query('delete Person where name = "Bob"'), branch="feature")
    graph.mutate(query('insert Person { name: "Fay" }'))
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))
    graph.create_branch("copy")
    graph.merge("feature")
    graph.merge("copy", into="feature")
    assert contents(graph) == contents(graph, "feature")
    return graph


@pytest.mark.parametrize(("source", "into"), [("feature", "main"), ("main", "feature")])
@pytest.mark.parametrize(
    "change",
    [
        does('delete Person where name = "Eve"'),
        does('delete Person where name = "Fay"'),
        does('update Person set { age: 30 } where name = "Alice"'),
        does('insert Person { name: "Bob", age: 25 }'),
    ],
    ids=["the one that came", "the other that came", "a value set back", "one that went"],
)
def test_a_change_reverted_after_mutual_merges_stays_reverted(
    tmp_path: Path, change: Step, source: str, into: str
) -> None:
    graph = crossed(tmp_path)
    change(graph, into)
    undone = contents(graph, into)

    merged = graph.merge(source, into=into)

    assert merged.outcome == "merged"
    assert contents(graph, into) == undone


@pytest.mark.parametrize(("source", "into"), [("feature", "main"), ("main", "feature")])
def test_branches_merged_in_both_directions_still_conflict(
    tmp_path: Path, source: str, into: str
) -> None:
    graph = crossed(tmp_path)
    for branch, age in ((source, 1), (into, 2)):
        graph.mutate(query(f'update Person set {{ age: {age} }} where name = "Eve"'), branch=branch)

    found = graph.merge(source, into=into, dry_run=True)

    assert kinds(found.conflicts) == [("Person", "Eve", "divergent_update")]


def test_a_branch_of_a_branch_merges_into_both(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'), branch="feature")
    graph.create_branch("child", base="feature")
    graph.mutate(query('update Person set { age: 3 } where name = "Eve"'), branch="child")

    graph.merge("child")
    graph.merge("child", into="feature")

    assert ages(graph)["Eve"] == ages(graph, "feature")["Eve"] == 3
    assert ages(graph, "child")["Eve"] == 3


def test_a_branch_that_never_wrote_a_type_gets_it_merged(tmp_path: Path) -> None:
    graph = team(tmp_path)
    graph.mutate(query('insert Person { name: "Eve" }'))

    merged = graph.merge("main", into="feature")

    assert merged.outcome == "fast_forward"
    assert contents(graph, "feature") == contents(graph)
    assert graph.tables("feature")["node:Person"].branch == "feature"
    assert graph.tables("feature")["edge:Knows"].branch is None


# Concurrent writes


def test_a_merge_is_prepared_again_when_its_target_moves(tmp_path: Path) -> None:
    team(tmp_path).mutate(query('insert Person { name: "Eve" }'), branch="feature")
    failpoints = Failpoints()
    graph, outcomes = open_with(tmp_path, failpoints), []
    place = Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION

    with failpoints.activate(place, PARK) as parked:
        writer = threading.Thread(target=lambda: outcomes.append(graph.merge("feature")))
        writer.start()
        parked.wait_for_arrival()
        moved = omnigraph.open(tmp_path).mutate(
            query('update Person set { age: 31 } where name = "Alice"')
        )
        parked.release()
        writer.join()

    assert [each.outcome for each in outcomes] == ["merged"]
    assert graph.commits()[-1].parent_id == moved.commit_id
    assert ages(graph) == {"Alice": 31, "Bob": 25, "Carol": 40, "Dan": 50, "Eve": None}


def test_a_merge_that_conflicts_after_its_target_moved_is_refused(tmp_path: Path) -> None:
    team(tmp_path).mutate(
        query('update Person set { age: 30 } where name = "Bob"'), branch="feature"
    )
    failpoints = Failpoints()
    graph, refusals = open_with(tmp_path, failpoints), []
    place = Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION

    def merge() -> None:
        with pytest.raises(MergeConflictError) as refused:
            graph.merge("feature")
        refusals.append(refused.value)

    with failpoints.activate(place, PARK) as parked:
        writer = threading.Thread(target=merge)
        writer.start()
        parked.wait_for_arrival()
        omnigraph.open(tmp_path).mutate(query('delete Person where name = "Bob"'))
        parked.release()
        writer.join()

    assert [kinds(each.conflicts) for each in refusals] == [[("Person", "Bob", "delete_vs_update")]]
    assert "Bob" not in ages(graph)
    assert sidecars(tmp_path) == []


def test_a_merge_takes_the_source_as_it_was_at_the_start(tmp_path: Path) -> None:
    started = team(tmp_path).mutate(query('insert Person { name: "Eve" }'), branch="feature")
    failpoints = Failpoints()
    graph, place = open_with(tmp_path, failpoints), Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION

    with failpoints.activate(place, PARK) as parked:
        writer = threading.Thread(target=graph.merge, args=("feature",))
        writer.start()
        parked.wait_for_arrival()
        omnigraph.open(tmp_path).mutate(query('insert Person { name: "Fay" }'), branch="feature")
        parked.release()
        writer.join()

    assert graph.commits()[-1].merged_parent_id == started.commit_id
    assert "Eve" in ages(graph)
    assert "Fay" not in ages(graph)


# Recovery


def test_a_merge_that_stopped_before_its_publish_is_finished_with_both_parents(
    tmp_path: Path,
) -> None:
    graph = divided(tmp_path)
    heads = graph.head(), graph.head("feature")
    failpoints = Failpoints()
    stopping = open_with(tmp_path, failpoints)
    decisions = {("Person", "Alice"): "source", ("Person", "Bob"): {"name": "Bob", "age": 1}}
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER

    with (
        failpoints.activate(place, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        stopping.merge("feature", actor="ann", resolve=decisions)

    recovered = omnigraph.open(tmp_path)
    commit = recovered.commits()[-1]
    assert (commit.parent_id, commit.merged_parent_id, commit.actor) == (*heads, "ann")
    assert [(each.id, each.choice) for each in commit.notes.resolutions] == [
        ("Alice", "source"),
        ("Bob", "row"),
    ]
    assert ages(recovered) == {"Alice": 31, "Bob": 1, "Carol": 40, "Dan": 50}
    assert recovered.merge("feature").outcome == "already_up_to_date"
