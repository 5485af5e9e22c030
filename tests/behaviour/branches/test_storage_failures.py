"""Branches created on a failing storage, or deleted during a read: the reported outcome is true."""

import itertools
import threading
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.errors import (
    AlreadyExistsError,
    CorruptError,
    GraphError,
    NotFoundError,
    Outcome,
    UnavailableError,
)
from omnigraph.model.names import BranchName
from omnigraph.storage.ports import TableRef
from tests.support.crashing import Fault, Scope, When
from tests.support.graphs import contents, ndjson, node, root_of, rows, social_graph
from tests.support.queries import query
from tests.support.sweeps import open_crashing, open_plain
from tests.support.table_stores import MAIN, PATH, Place, create_people

EVE = query('insert Person { name: "Eve" }')
REFERENCES = "__manifest/_refs/branches"


# Creating


def test_a_branch_whose_response_was_lost_is_created(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    graph = open_crashing(tmp_path, Fault(at=1, when=When.LOST, scope=Scope.EFFECTS))

    graph.create_branch("draft")

    assert graph.branches() == ["main", "draft"]
    graph.mutate(EVE, branch="draft")
    assert "Eve" in rows(graph, "Person", "draft")


def test_a_refused_branch_is_absent_and_can_be_created_again(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    graph = open_crashing(tmp_path, Fault(at=1, when=When.ERROR_ONCE, scope=Scope.EFFECTS))

    with pytest.raises(UnavailableError):
        graph.create_branch("draft")

    assert graph.branches() == ["main"]
    graph.create_branch("draft")
    assert contents(graph, "draft") == contents(graph)


def test_creating_a_branch_reports_the_true_outcome_whichever_call_fails(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    seen: set[Outcome | None] = set()

    for when in (When.LOST, When.ERROR_ONCE, When.ERROR_FOR_EVER):
        for at in itertools.count(1):
            fault = Fault(at=at, when=when, scope=Scope.CALLS)
            name = f"{when.name.lower()}-{at}"
            outcome = outcome_of_making(name, open_crashing(tmp_path, fault))
            is_there = name in open_plain(tmp_path, is_read_only=True).branches()
            assert is_there in truths(outcome), f"{fault} ended {outcome}"
            seen.add(outcome)
            if fault.hit is None:
                break

    # The caller who creates a branch is in doubt if the storage fails from then on.
    assert seen == {None, Outcome.UNCHANGED, Outcome.UNCERTAIN}


def test_a_load_that_creates_a_branch_continues_after_a_lost_response(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    graph = open_crashing(tmp_path, Fault(at=1, when=When.LOST, scope=Scope.EFFECTS))

    initech = ndjson(node("Company", name="Initech"))
    done = graph.load(initech, mode="append", branch="new", base="main")

    assert done.branch_created
    assert "Initech" in rows(graph, "Company", "new")


# Reading


def test_branches_are_listed_during_a_deletion(place: Place) -> None:
    store, onlooker = place.open(), place.open()
    at = create_people(store, ann=1)
    store.fork(at, branch="kept")
    is_done = threading.Event()
    seen: list[frozenset[str] | GraphError] = []

    def look() -> None:
        while not is_done.is_set():
            try:
                seen.append(onlooker.branches(PATH))
            except GraphError as error:
                seen.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(40 if place.is_local else 5):
        store.fork(at, branch="gone")
        store.delete_branch(TableRef(PATH, "gone"))
    is_done.set()
    looking.join()

    assert set(seen) <= {frozenset({"kept"}), frozenset({"kept", "gone"})}
    assert onlooker.find_head(MAIN) == 1


def test_a_commit_is_found_during_the_deletion_of_another_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("kept")
    graph.mutate(EVE, branch="kept")
    wanted = graph.head("kept")
    is_done = threading.Event()
    failures: list[GraphError] = []

    def look() -> None:
        while not is_done.is_set():
            try:
                list(graph.export(commit=wanted, types=["Company"]))
            except GraphError as error:
                failures.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(40):
        graph.create_branch("gone")
        remove_history("gone", root=tmp_path)
    is_done.set()
    looking.join()

    assert failures == []


def test_a_commit_of_a_deleted_branch_is_not_found(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("gone")
    graph.mutate(EVE, branch="gone")
    commit = graph.head("gone")

    remove_history("gone", root=tmp_path)

    with pytest.raises(NotFoundError, match=commit):
        list(graph.export(commit=commit))


@pytest.mark.parametrize(
    "content", [b"", b'{"parentBranch"', bytes(40)], ids=["nothing", "a part", "zeros"]
)
def test_a_branch_whose_name_was_half_written_is_named_and_can_be_removed(
    tmp_path: Path, content: bytes
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    reference = tmp_path / REFERENCES / "draft.json"
    reference.write_bytes(content)

    for call in (graph.head, graph.create_branch, graph.delete_branch):
        with pytest.raises(CorruptError, match=r"draft\.json.*delete it if"):
            call("draft")

    assert graph.branches() == ["main", "draft"]
    assert len(rows(graph, "Person")) == 4
    reference.unlink()
    assert graph.branches() == ["main"]
    graph.create_branch("draft")
    assert contents(graph, "draft") == contents(graph)


def remove_history(branch: str, *, root: Path) -> None:
    """Delete the history of a branch without any open graph."""
    settings = make_settings(root, storage_options=None, durability="relaxed")
    open_stores(settings).tables.delete_branch(manifest_ref(BranchName(branch)))


def outcome_of_making(name: str, graph: Graph) -> Outcome | None:
    """The outcome reported for creating a branch; None if it is created."""
    try:
        graph.create_branch(name)
    except AlreadyExistsError as error:
        raise AssertionError(f"{root_of(graph)} has {name} already") from error
    except GraphError as error:
        return error.outcome
    return None


def truths(outcome: Outcome | None) -> frozenset[bool]:
    """Whether the branch may exist, by the reported outcome."""
    match outcome:
        case None:
            return frozenset({True})
        case Outcome.UNCERTAIN:
            return frozenset({True, False})
        case Outcome.UNCHANGED | Outcome.MOVED:
            return frozenset({False})
        case Outcome.BROKEN:
            return frozenset()
