"""Branches that are deleted or recreated between two steps of a reader or writer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import NotFoundError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import build_graph, ndjson, node, open_with

NOTES = "node Note { name: String @key }"
WIDER = "node Note { name: String @key }\nnode Tag { name: String @key }"


def notes_graph(path: Path) -> Graph:
    """A graph with a branch that has a table branch for its only type."""
    graph = build_graph(path, NOTES)
    graph.load(ndjson(node("Note", name="first")), mode="append")
    graph.create_branch("draft")
    graph.load(ndjson(node("Note", name="old")), mode="append", branch="draft")
    return graph


def before_the_commit(meddle: Callable[[], None]) -> Callable[[str, int, int | None], None]:
    """A progress callback that acts once, when a load is prepared and holds no locks yet."""
    done = threading.Event()

    def progress(stage: str, ready: int, total: int | None) -> None:
        del ready, total
        if stage == "commit" and not done.is_set():
            done.set()
            meddle()

    return progress


def names(graph: Graph, branch: str) -> list[object]:
    found = graph.query(
        "query q() { match { $n: Note } return { $n.name } order { $n.name } }", branch=branch
    )
    return [row["n.name"] for row in found.rows]


def test_a_write_to_a_branch_deleted_meanwhile_is_not_found(tmp_path: Path) -> None:
    graph = notes_graph(tmp_path)

    with pytest.raises(NotFoundError, match="draft"):
        graph.load(
            ndjson(node("Note", name="new")),
            mode="append",
            branch="draft",
            progress=before_the_commit(lambda: graph.delete_branch("draft")),
        )

    assert graph.branches() == ["main"]
    assert graph.doctor().is_healthy


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_write_that_was_prepared_on_another_branch_of_that_name_is_prepared_again(
    tmp_path: Path, durability: str
) -> None:
    notes_graph(tmp_path).close()
    graph, other = (omnigraph.open(tmp_path, durability=durability) for _ in range(2))
    assert names(graph, "draft") == ["first", "old"]

    def recreate_branch() -> None:
        other.delete_branch("draft")
        other.create_branch("draft")
        other.load(ndjson(node("Note", name="other")), mode="append", branch="draft")

    graph.load(
        ndjson(node("Note", name="new")),
        mode="append",
        branch="draft",
        progress=before_the_commit(recreate_branch),
    )

    assert names(omnigraph.open(tmp_path), "draft") == ["first", "new", "other"]
    assert graph.doctor().is_healthy


def test_two_writers_that_bring_a_branch_up_to_date_both_succeed(tmp_path: Path) -> None:
    notes_graph(tmp_path).close()
    failpoints = Failpoints()
    slow, fast = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)
    fast.apply_schema(WIDER)
    add = 'query q() { insert Tag { name: "slow" } }'

    with failpoints.activate(
        Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, Park(timeout_s=60)
    ) as parked:
        writer = threading.Thread(target=lambda: slow.mutate(add, branch="draft"))
        writer.start()
        parked.wait_for_arrival()
        second = threading.Thread(
            target=lambda: fast.mutate(add.replace("slow", "fast"), branch="draft")
        )
        second.start()
        second.join(timeout=0.5)
        parked.release()
        writer.join()
        second.join()

    found = fast.query("query q() { match { $t: Tag } return { $t.name } }", branch="draft")
    assert {row["t.name"] for row in found.rows} == {"slow", "fast"}
    assert fast.recoveries() == []


def test_a_reader_of_a_branch_deleted_meanwhile_gets_not_found(tmp_path: Path) -> None:
    graph = notes_graph(tmp_path)
    lines = graph.export(branch="draft")
    graph.delete_branch("draft")

    with pytest.raises(NotFoundError, match="deleted"):
        list(lines)
