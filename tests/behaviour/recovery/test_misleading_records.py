"""State that resembles a dead writer, an old graph or an old branch is not mistaken for one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import manifest_ref
from omnigraph.errors import KeyConflictError
from omnigraph.model.names import BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import ObjectStore, StoredObject
from tests.support.failpoints import Activation, Failpoints, Park
from tests.support.graphs import (
    build_graph,
    edge,
    ends,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
)
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
KEYED = "node Note { text: String @key }"


class MeddlingObjects:
    """An object store with an interruption right after the first sidecar of a write was read."""

    def __init__(self, objects: ObjectStore, meddle: Callable[[], None]) -> None:
        self._objects = objects
        self._meddle = meddle
        self._has_meddled = False
        self.list = objects.list
        self.tokens = objects.tokens
        self.put = objects.put
        self.put_if_absent = objects.put_if_absent
        self.put_if_match = objects.put_if_match
        self.delete = objects.delete
        self.delete_prefix = objects.delete_prefix

    def find(self, path: str) -> StoredObject | None:
        """The sidecars, including one deleted just before."""
        found = self._objects.find(path)
        if path.startswith("__recovery/") and not self._has_meddled:
            self._has_meddled = True
            self._meddle()
        return found


@contextmanager
def a_slow_write(path: Path) -> Iterator[tuple[threading.Thread, Activation]]:
    """A writer that has applied its changes and is paused before its publish."""
    failpoints = Failpoints()
    graph = open_with(path, failpoints)
    place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
    with failpoints.activate(place, Park(timeout_s=30)) as parked:
        writer = threading.Thread(target=lambda: graph.mutate(EVE, actor="ann"))
        writer.start()
        try:
            parked.wait_for_arrival()
            yield writer, parked
        finally:
            parked.release()
            writer.join()


def require_written_once(graph: Graph, path: Path) -> None:
    """Fail unless the slow write was published by its own writer."""
    assert "Eve" in rows(graph, "Person")
    assert [commit.actor for commit in graph.commits()].count("ann") == 1
    assert graph.recoveries() == []
    assert sidecars(path) == []
    assert head_versions(path) == pins(graph)
    require_linear(graph.commits())


def test_a_slow_writer_is_not_taken_for_dead(tmp_path: Path) -> None:
    social_graph(tmp_path).close()

    with a_slow_write(tmp_path), omnigraph.open(tmp_path) as other:
        other.refresh()
        assert "Eve" not in rows(other, "Person")

    require_written_once(omnigraph.open(tmp_path), tmp_path)


def test_a_write_that_ends_while_its_record_is_read_is_not_recovered(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    settings = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    stores = open_stores(settings)

    with a_slow_write(tmp_path) as (writer, parked):

        def let_it_end() -> None:
            parked.release()
            writer.join()

        meddling = replace(stores, objects=MeddlingObjects(stores.objects, let_it_end))
        Graph(settings, meddling, actor=None, is_read_only=False).refresh()

    require_written_once(omnigraph.open(tmp_path), tmp_path)


def test_a_key_is_looked_up_in_the_current_graph(tmp_path: Path) -> None:
    old = build_graph(tmp_path, KEYED)
    for text in ("a", "b", "c", "d"):
        old.load(ndjson(node("Note", text=text)), mode="append")
    new = omnigraph.init(tmp_path, KEYED, force=True)
    for text in ("w", "x", "y", "z"):
        new.load(ndjson(node("Note", text=text)), mode="append")

    with pytest.raises(KeyConflictError):
        old.load(ndjson(node("Note", text="x")), mode="append")

    assert sorted(rows(old, "Note")) == ["w", "x", "y", "z"]


def test_a_recreated_branch_shows_no_rows_of_a_leftover_table_branch(
    tmp_path: Path,
) -> None:
    with social_graph(tmp_path) as graph:
        graph.create_branch("draft")
        graph.mutate(query('insert Person { name: "Old" }'), branch="draft")
    settings = make_settings(str(tmp_path), storage_options=None, durability="relaxed")
    open_stores(settings).tables.delete_branch(manifest_ref(BranchName("draft")))
    renewed = omnigraph.open(tmp_path)
    renewed.create_branch("draft")

    renewed.mutate(EVE, branch="draft")

    assert rows(renewed, "Person", "draft").keys() - rows(renewed, "Person").keys() == {"Eve"}


def test_deleting_a_node_deletes_the_edges_that_end_at_it(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Person { name: String @key } edge Knows: Person -> Person",
        node("Person", name="ann"),
        node("Person", name="bob"),
        edge("Knows", "ann", "bob"),
        edge("Knows", "bob", "ann"),
        edge("Knows", "ann", "ann"),
    )

    graph.mutate(query('delete Person where name = "bob"'))

    assert ends(graph, "Knows") == [("ann", "ann")]
