"""Less common cases of branches: partially forked, beside a dead writer, during a merge."""

import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    AlreadyExistsError,
    InvalidNameError,
    NotFoundError,
    RecoveryRequiredError,
    StillNeededError,
    UnavailableError,
)
from omnigraph.model.limits import BRANCH_FILE_CHARACTERS_MAX, BRANCH_NAME_CHARACTERS_MAX
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, Park
from tests.support.graphs import (
    contents,
    init_with,
    open_with,
    row_counts,
    rows,
    sidecars,
    social_graph,
)
from tests.support.processes import race
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
PARK = Park(timeout_s=60)


def forked(graph: Graph, branch: str) -> set[str]:
    """The types of which a branch has a table branch."""
    tables = graph.tables(branch).items()
    return {key.partition(":")[2] for key, table in tables if table.branch == branch}


# Starting


def test_a_branch_starts_at_a_branch_and_at_nothing_else(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.tag("release", graph.head())

    for base in (graph.head(), "release", "nowhere"):
        with pytest.raises(NotFoundError) as refused:
            graph.create_branch("feature", base=base)
        assert refused.value.kind == "branch"

    assert graph.branches() == ["main"]


def test_an_existing_branch_cannot_be_created(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(EVE, branch="feature")

    with pytest.raises(AlreadyExistsError, match="branch 'feature' already exists"):
        graph.create_branch(" feature ")

    assert "Eve" in rows(graph, "Person", "feature")


def test_of_two_nested_branch_names_created_at_once_one_exists(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    for number in range(10):
        names = (f"a{number}", f"a{number}/b/c")

        def attempt(turn: int, *, names: tuple[str, str] = names) -> str:
            try:
                omnigraph.open(tmp_path, durability="relaxed").create_branch(names[turn])
            except InvalidNameError:
                return "refused"
            return "made"

        outcomes = race(attempt, count=2)

        assert sorted(outcomes) == ["made", "refused"]
        assert len({*names} & {*graph.branches()}) == 1


@pytest.mark.parametrize("folders", [0, 3, 10, 35])
def test_a_name_of_maximum_length_is_valid_and_a_longer_one_is_refused(
    tmp_path: Path, folders: int
) -> None:
    graph = social_graph(tmp_path)
    longest = min(BRANCH_NAME_CHARACTERS_MAX, BRANCH_FILE_CHARACTERS_MAX - 4 * folders)
    name = "a/" * folders + "b" * (longest - 2 * folders)

    graph.create_branch(name)
    with pytest.raises(InvalidNameError, match="more than"):
        graph.create_branch(f"{name}b")

    graph.mutate(EVE, branch=name)
    assert graph.branches() == ["main", name]
    assert "Eve" in rows(graph, "Person", name)


def test_a_branch_name_may_start_like_a_run(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.create_branch("__run__1")

    assert graph.branches() == ["main", "__run__1"]
    graph.mutate(EVE, branch="__run__1")
    assert graph.merge("__run__1").outcome == "fast_forward"


# Writing


def test_an_edge_that_is_written_alone_forks_only_its_type(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    graph.mutate(query('insert Knows { from: "Alice", to: "Diana" }'), branch="feature")

    assert forked(graph, "feature") == {"Knows"}
    assert row_counts(graph, "feature") == {**row_counts(graph), "edge:Knows": 4}


def test_e10_an_unclassified_table_branch_is_retained_and_the_write_can_be_retried(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path)
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    graph.create_branch("feature")
    graph.mutate(EVE, branch="feature")
    with failpoints.activate(Failpoint.BRANCH_DELETE_BEFORE_TABLE_CLEANUP, FAIL_ALWAYS):
        graph.delete_branch("feature")
    graph.create_branch("feature")
    line = Path(graph.tables()["node:Person"].path) / "tree" / "feature"
    left = sorted(line.rglob("*"))

    with (
        failpoints.activate(Failpoint.FORK_BEFORE_CLASSIFY, FAIL_ALWAYS),
        pytest.raises(UnavailableError),
    ):
        graph.mutate(FRANK, branch="feature")

    assert left
    assert sorted(line.rglob("*")) == left
    graph.mutate(FRANK, branch="feature")
    assert rows(graph, "Person", "feature").keys() - rows(graph, "Person").keys() == {"Frank"}


def test_a_merge_under_way_does_not_block_another_branch(tmp_path: Path) -> None:
    built = social_graph(tmp_path)
    for name in ("feature", "other"):
        built.create_branch(name)
    built.mutate(EVE, branch="feature")
    failpoints = Failpoints()
    slow, quick = open_with(tmp_path, failpoints), omnigraph.open(tmp_path, durability="relaxed")

    with failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, PARK) as parked:
        merging = threading.Thread(target=slow.merge, args=("feature",))
        merging.start()
        parked.wait_for_arrival()
        quick.mutate(FRANK, branch="feature")
        quick.mutate(FRANK, branch="other")
        seen = rows(quick, "Person").keys()
        parked.release()
        merging.join()

    assert "Eve" not in seen
    assert "Frank" in rows(built, "Person", "feature")
    assert "Frank" in rows(built, "Person", "other")
    assert rows(built, "Person").keys() == seen | {"Eve"}


# Deleting


def test_deleting_a_branch_also_deletes_what_a_dead_writer_left_on_it(tmp_path: Path) -> None:
    social_graph(tmp_path).create_branch("feature")
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(EVE, branch="feature")

    graph.delete_branch("feature")

    assert graph.branches() == ["main"]
    assert sidecars(tmp_path) == []
    graph.create_branch("feature")
    assert contents(graph, "feature") == contents(graph)


def test_an_interrupted_merge_is_finished_before_its_source_is_deleted(tmp_path: Path) -> None:
    failpoints = Failpoints()
    graph = init_with(tmp_path, "node Person { name: String @key }", failpoints)
    graph.create_branch("feature")
    graph.mutate(EVE, branch="feature")
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.merge("feature")

    graph.delete_branch("feature")

    assert graph.branches() == ["main"]
    assert rows(graph, "Person").keys() == {"Eve"}


# Children


def test_a_child_branch_is_unchanged_after_its_parent_is_merged_and_written(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("parent")
    graph.mutate(EVE, branch="parent")
    graph.create_branch("child", base="parent")
    before = contents(graph, "child")

    graph.merge("parent")
    graph.mutate(query('delete Person where name = "Eve"'), branch="parent")
    graph.mutate(query('delete Person where name = "Eve"'))

    assert contents(graph, "child") == before
    assert contents(omnigraph.open(tmp_path), "child") == before
    with pytest.raises(StillNeededError):
        graph.delete_branch("parent")
    graph.mutate(FRANK, branch="child")
    assert rows(graph, "Person", "child").keys() == before["Person"].keys() | {"Frank"}


def test_a_child_without_commits_of_its_own_merges_as_its_parent_does(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("parent")
    graph.mutate(EVE, branch="parent")
    graph.create_branch("child", base="parent")

    outcomes = [graph.merge(name).outcome for name in ("child", "parent")]

    assert outcomes == ["fast_forward", "already_up_to_date"]
    assert graph.commits()[-1].merged_parent_id == graph.head("child") == graph.head("parent")
