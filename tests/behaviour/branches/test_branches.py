"""Branches: created at no cost, forked type by type when written, deleted in one step."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import (
    CorruptError,
    ForbiddenError,
    GraphError,
    InvalidNameError,
    NotFoundError,
    Outcome,
    StillNeededError,
    UnavailableError,
)
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import TableRef, TableStore
from tests.support.crashing import CrashingTables, Fault, Scope, When
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, Park
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    ends,
    node,
    open_with,
    pins,
    require_linear,
    root_of,
    row_counts,
    rows,
    social_graph,
    table_paths,
)
from tests.support.queries import query
from tests.support.sweeps import each_fault, files_untouched, open_crashing, open_plain

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')


def lines(graph: Graph) -> dict[str, set[str]]:
    """The branches of each type's table that has any, read from disk."""
    found = {
        key.partition(":")[2]: set(lance.dataset(str(path)).branches.list())
        for key, path in table_paths(root_of(graph)).items()
    }
    return {name: branches for name, branches in found.items() if branches}


def people(graph: Graph, branch: str) -> set[str]:
    """Who is on a branch and not on main."""
    return rows(graph, "Person", branch).keys() - rows(graph, "Person").keys()


# Starting


def test_e01_a_new_branch_has_all_rows_of_its_base_and_no_table_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.create_branch("feature")

    assert graph.branches() == ["main", "feature"]
    assert graph.tables("feature") == graph.tables()
    assert {table.branch for table in graph.tables("feature").values()} == {None}
    assert contents(graph, "feature") == contents(graph)
    assert lines(graph) == {}


def test_starting_a_branch_touches_only_history(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with files_untouched(tmp_path / "nodes"), files_untouched(tmp_path / "edges"):
        graph.create_branch("feature")

    assert graph.head("feature") == graph.head()


def test_e17_a_branch_is_not_named_inside_another(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("a")
    graph.create_branch("b/c")

    for name in ("a/b", "b", "b/c/d", "main/x"):
        with pytest.raises(InvalidNameError, match="folder of another"):
            graph.create_branch(name)

    assert graph.branches() == ["main", "a", "b/c"]


@pytest.mark.parametrize("name", ["__schema_apply_lock__", "__tx__01ABC"])
def test_e05_a_reserved_branch_name_is_refused(tmp_path: Path, name: str) -> None:
    graph = social_graph(tmp_path)

    for call in (graph.create_branch, graph.delete_branch, graph.head, graph.commits):
        with pytest.raises(InvalidNameError, match="internal system ref"):
            call(name)

    assert graph.branches() == ["main"]


def test_e05_main_is_neither_created_nor_deleted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(InvalidNameError, match="cannot create branch 'main'"):
        graph.create_branch("main")
    with pytest.raises(InvalidNameError, match="cannot delete branch 'main'"):
        graph.delete_branch(" main ")

    assert len(rows(graph, "Person")) == 4


# Writing


def test_e02_a_write_forks_only_the_type_that_it_writes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    before = pins(graph)

    graph.mutate(EVE, branch="feature")

    forked = {key for key, table in graph.tables("feature").items() if table.branch == "feature"}
    assert forked == {"node:Person"}
    assert graph.tables("feature")["node:Person"].version == before["node:Person"] + 1
    assert lines(graph) == {"Person": {"feature"}}
    assert pins(graph) == before
    assert people(graph, "feature") == {"Eve"}


def test_e04_a_first_write_that_cascades_forks_every_type_it_touches(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    before = contents(graph)

    graph.mutate(query('delete Person where name = "Alice"'), branch="feature")

    assert lines(graph) == {name: {"feature"} for name in ("Person", "Knows", "WorksAt")}
    assert row_counts(graph, "feature") == {
        "edge:Knows": 1,
        "edge:WorksAt": 1,
        "node:Company": 2,
        "node:Person": 3,
    }
    assert ends(graph, "Knows", "feature") == [("Bob", "Diana")]
    assert contents(graph) == before


def test_e16_a_fork_that_the_storage_refuses_is_an_error_and_deletes_nothing(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).create_branch("feature")
    settings = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    stores = open_stores(settings)
    # The first durable effect of a first write on a branch is the fork.
    fault = Fault(at=1, when=When.ERROR_ONCE, scope=Scope.EFFECTS)
    tables = RecordingTables(stores.tables, fault)
    graph = Graph(settings, replace(stores, tables=tables), actor=None, is_read_only=False)

    with pytest.raises(UnavailableError, match="did not respond"):
        graph.mutate(EVE, branch="feature")

    assert fault.hit == "fork"
    assert tables.deleted == []
    graph.mutate(EVE, branch="feature")
    assert people(graph, "feature") == {"Eve"}


class RecordingTables(CrashingTables):
    """A table store that records which branches it deletes."""

    def __init__(self, tables: TableStore, fault: Fault) -> None:
        super().__init__(tables, fault)
        self.deleted: list[TableRef] = []
        self.delete_branch = self._note

    def _note(self, ref: TableRef) -> None:
        self.deleted.append(ref)


def test_a_delete_that_matches_nothing_forks_nothing(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    graph.mutate(query('delete Person where name = "Absent"'), branch="feature")

    assert lines(graph) == {}
    assert graph.head("feature") == graph.head()


# Deleting


def test_deleting_a_branch_deletes_its_files(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    graph.create_branch("feature/one")
    graph.mutate(query('delete Person where name = "Alice"'), branch="feature/one")

    graph.delete_branch("feature/one")

    assert graph.branches() == ["main"]
    assert lines(graph) == {}
    left = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.parent.name for path in left} <= {"__locks"}
    assert len(rows(graph, "Person")) == 4


def test_a_deleted_branch_is_not_found_by_any_handle(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    commit = graph.mutate(EVE, branch="feature").commit_id
    onlooker = omnigraph.open(tmp_path)
    assert people(onlooker, "feature") == {"Eve"}

    graph.delete_branch("feature")

    for handle in (graph, onlooker, omnigraph.open(tmp_path)):
        for call in (
            lambda handle=handle: rows(handle, "Person", "feature"),
            lambda handle=handle: handle.head("feature"),
            lambda handle=handle: handle.mutate(FRANK, branch="feature"),
            lambda handle=handle: handle.delete_branch("feature"),
        ):
            with pytest.raises(NotFoundError, match="feature") as refused:
                call()
            assert refused.value.kind == "branch"
        with pytest.raises(NotFoundError, match=commit):
            list(handle.export(commit=commit))


def test_deleting_a_branch_that_is_not_there_is_refused(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")

    with pytest.raises(NotFoundError, match="did you mean 'feature'"):
        graph.delete_branch("featur")

    assert graph.branches() == ["main", "feature"]


def test_e07_a_recreated_branch_has_no_rows_of_its_predecessor(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    graph.mutate(EVE, branch="feature")
    graph.delete_branch("feature")
    graph.create_branch("feature")

    graph.mutate(FRANK, branch="feature")

    assert people(graph, "feature") == {"Frank"}
    assert people(omnigraph.open(tmp_path), "feature") == {"Frank"}
    require_linear(graph.commits("feature"))


def test_e08_a_table_branch_that_could_not_be_deleted_is_never_read(tmp_path: Path) -> None:
    built = social_graph(tmp_path)
    built.create_branch("feature")
    built.mutate(EVE, branch="feature")
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with failpoints.activate(Failpoint.BRANCH_DELETE_BEFORE_TABLE_CLEANUP, FAIL_ALWAYS):
        graph.delete_branch("feature")

    assert graph.branches() == ["main"]
    assert lines(graph) == {"Person": {"feature"}}
    graph.create_branch("feature")
    assert people(graph, "feature") == set()
    graph.mutate(FRANK, branch="feature")
    assert people(graph, "feature") == {"Frank"}


def test_a_completed_deletion_is_visible_whatever_outcome_is_reported(tmp_path: Path) -> None:
    social_graph(tmp_path).create_branch("feature")
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with failpoints.activate(Failpoint.BRANCH_DELETE_POST_NATIVE, FAIL_ALWAYS):
        graph.delete_branch("feature")

    assert graph.branches() == ["main"]


@pytest.mark.parametrize("when", [When.LOST, When.ERROR_ONCE, When.ERROR_FOR_EVER])
def test_deleting_a_branch_reports_the_true_outcome_whichever_call_fails(
    tmp_path: Path, when: When
) -> None:
    outcomes: set[Outcome | None] = set()

    def play(fault: Fault) -> None:
        root = tmp_path / f"{fault.seen}-{len(list(tmp_path.iterdir()))}"
        built = build_graph(root, SOCIAL, node("Person", name="Ann"))
        built.create_branch("feature")
        built.mutate(EVE, branch="feature")
        outcome = outcome_of_deleting("feature", open_crashing(root, fault))
        outcomes.add(outcome)
        is_there = "feature" in open_plain(root).branches()
        match outcome:
            case None:
                assert not is_there, "it was reported as deleted"
            case Outcome.UNCHANGED | Outcome.MOVED:
                assert is_there, "it was reported as retained"
            case Outcome.UNCERTAIN | Outcome.BROKEN:
                assert outcome is Outcome.UNCERTAIN

    each_fault(play, whens=[when], scope=Scope.CALLS)

    assert None in outcomes
    assert (Outcome.UNCERTAIN in outcomes) is (when is When.ERROR_FOR_EVER)


def outcome_of_deleting(name: str, graph: Graph) -> Outcome | None:
    """The outcome reported for deleting a branch; None if it is deleted."""
    try:
        graph.delete_branch(name)
    except GraphError as error:
        return error.outcome
    return None


def test_a_branch_with_children_cannot_be_deleted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("parent")
    graph.mutate(EVE, branch="parent")
    graph.create_branch("child", base="parent")

    with pytest.raises(StillNeededError, match="branch 'child' still depends on it") as refused:
        graph.delete_branch("parent")

    assert (refused.value.name, refused.value.needed_by) == ("parent", "branch 'child'")
    assert graph.branches() == ["main", "child", "parent"]
    assert people(graph, "child") == people(graph, "parent") == {"Eve"}
    graph.delete_branch("child")
    graph.delete_branch("parent")
    assert graph.branches() == ["main"]
    assert lines(graph) == {}


def test_a_child_is_readable_and_writable_after_a_sibling_is_deleted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("parent")
    graph.mutate(EVE, branch="parent")
    for name in ("one", "two"):
        graph.create_branch(name, base="parent")
    graph.mutate(FRANK, branch="one")

    graph.delete_branch("one")

    assert people(graph, "two") == {"Eve"}
    graph.mutate(FRANK, branch="two")
    assert people(graph, "two") == {"Eve", "Frank"}


def test_a_branch_is_not_deleted_under_a_writer(tmp_path: Path) -> None:
    built = social_graph(tmp_path)
    built.create_branch("feature")
    failpoints = Failpoints()
    slow, quick = open_with(tmp_path, failpoints), omnigraph.open(tmp_path, durability="relaxed")
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
    written: list[object] = []

    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        writer = threading.Thread(
            target=lambda: written.append(slow.mutate(EVE, branch="feature").commit_id)
        )
        writer.start()
        parked.wait_for_arrival()
        deleter = threading.Thread(target=quick.delete_branch, args=("feature",))
        deleter.start()
        deleter.join(0.2)
        is_waiting = deleter.is_alive()
        parked.release()
        writer.join()
        deleter.join()

    assert is_waiting
    assert written != [None]
    assert len(written) == 1
    assert built.branches() == ["main"]
    assert lines(built) == {}


def test_others_read_and_write_while_a_branch_is_being_deleted(tmp_path: Path) -> None:
    built = social_graph(tmp_path)
    for name in ("feature", "other"):
        built.create_branch(name)
    failpoints = Failpoints()
    slow, quick = open_with(tmp_path, failpoints), omnigraph.open(tmp_path, durability="relaxed")
    place = Failpoint.BRANCH_DELETE_POST_TABLE_GATES

    with failpoints.activate(place, Park(timeout_s=60)) as parked:
        deleter = threading.Thread(target=slow.delete_branch, args=("feature",))
        deleter.start()
        parked.wait_for_arrival()
        quick.mutate(EVE, branch="other")
        quick.mutate(FRANK)
        seen = rows(quick, "Person", "feature").keys()
        quick.create_branch("third")
        parked.release()
        deleter.join()

    assert seen == {"Alice", "Bob", "Charlie", "Diana"}
    assert built.branches() == ["main", "other", "third"]
    assert people(built, "other") == {"Eve"}


def test_a_branch_and_the_deletion_of_its_base_cannot_both_succeed(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    outcomes: set[str] = set()
    for number in range(12):
        base, child = f"base{number}", f"child{number}"
        graph.create_branch(base)
        graph.mutate(EVE, branch=base)
        results: dict[str, BaseException | None] = {}

        def attempt(
            name: str, *arguments: str, results: dict[str, BaseException | None] = results
        ) -> None:
            handle = omnigraph.open(tmp_path, durability="relaxed")
            try:
                if name == "delete":
                    handle.delete_branch(arguments[0])
                else:
                    handle.create_branch(arguments[0], base=arguments[1])
                results[name] = None
            except (NotFoundError, StillNeededError) as error:
                results[name] = error

        racers = [
            threading.Thread(target=attempt, args=("create", child, base)),
            threading.Thread(target=attempt, args=("delete", base)),
        ]
        for racer in racers[:: 1 if number % 2 else -1]:
            racer.start()
        for racer in racers:
            racer.join()

        if results["delete"] is None:
            outcomes.add("deleted")
            assert isinstance(results["create"], NotFoundError)
            assert child not in graph.branches()
        else:
            outcomes.add("retained")
            assert results["create"] is None
            assert people(graph, child) == {"Eve"}

    assert outcomes


def test_a_read_only_handle_deletes_no_branch(tmp_path: Path) -> None:
    social_graph(tmp_path).create_branch("feature")
    graph = omnigraph.open(tmp_path, read_only=True)

    with pytest.raises(ForbiddenError, match="delete a branch"):
        graph.delete_branch("feature")

    assert graph.branches() == ["main", "feature"]


def test_a_reader_of_a_branch_during_its_deletion_gets_not_found(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    errors: list[GraphError] = []
    is_done = threading.Event()

    def look() -> None:
        onlooker = omnigraph.open(tmp_path, read_only=True)
        while not is_done.is_set():
            try:
                rows(onlooker, "Person", "feature")
            except GraphError as error:
                errors.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(15):
        graph.create_branch("feature")
        graph.mutate(EVE, branch="feature")
        graph.delete_branch("feature")
    is_done.set()
    looking.join()

    assert {type(error) for error in errors} <= {NotFoundError}
    assert errors


# Interrupted steps of Lance


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_branch_whose_deletion_was_interrupted_is_absent(
    tmp_path: Path, *, is_cached: bool
) -> None:
    built = social_graph(tmp_path)
    built.create_branch("feature")
    built.mutate(EVE, branch="feature")
    (tmp_path / "__manifest" / "_refs" / "branches" / "feature.json").unlink()
    graph = built if is_cached else omnigraph.open(tmp_path)

    with pytest.raises(NotFoundError):
        graph.mutate(FRANK, branch="feature")

    assert "feature" not in graph.branches()
    graph.create_branch("feature")
    assert people(graph, "feature") == set()
    graph.mutate(FRANK, branch="feature")
    assert people(graph, "feature") == {"Frank"}


@pytest.mark.parametrize("is_original_there", [True, False], ids=["copied", "moved"])
def test_a_branch_of_a_copied_graph_never_reads_the_original(
    tmp_path: Path, *, is_original_there: bool
) -> None:
    with social_graph(tmp_path / "graph") as graph:
        graph.create_branch("draft")
        graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")
    shutil.copytree(tmp_path / "graph", tmp_path / "copy")
    if not is_original_there:
        shutil.rmtree(tmp_path / "graph")

    with omnigraph.open(tmp_path / "copy") as copied:
        assert len(rows(copied, "Person")) == 4
        with pytest.raises(CorruptError, match="copied or moved"):
            rows(copied, "Person", "draft")
        with pytest.raises(CorruptError, match="copied or moved"):
            copied.mutate(query('insert Person { name: "Finn" }'), branch="draft")
