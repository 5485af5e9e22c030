"""A graph that `force` recreates under a handle of the old one, on every kind of storage."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from tests.support.graphs import require_linear, rows
from tests.support.queries import query
from tests.support.s3_server import S3Server

LOOSE = "node Note { text: String? }  node Word { text: String @key }"
NOTE = query('insert Note { text: "x" }')
OLD_NOTES = 2


@dataclass(frozen=True, slots=True)
class Remade:
    """Two handles of one place: one of the former graph, one of the current graph."""

    old: Graph
    new: Graph


@pytest.fixture(params=["disk", "s3"])
def where(
    request: pytest.FixtureRequest, tmp_path: Path, server: S3Server
) -> tuple[str, dict[str, str] | None]:
    """An empty place and how to reach it."""
    if request.param == "disk":
        return str(tmp_path / "graph"), None
    return f"s3://{server.create_bucket()}/graph", server.lance_options()


def remake(where: tuple[str, dict[str, str] | None], *, notes: int) -> Remade:
    """A graph whose rows an old handle has read, recreated with so many rows."""
    uri, options = where
    old = omnigraph.init(uri, LOOSE, storage_options=options)
    for _ in range(OLD_NOTES):
        old.mutate(NOTE)
    assert len(rows(old, "Note")) == OLD_NOTES
    new = omnigraph.init(uri, LOOSE, force=True, storage_options=options)
    for _ in range(notes):
        new.mutate(NOTE)
    return Remade(old, new)


# Fewer versions than before, as many, more, and many more than history keeps apart.
@pytest.mark.parametrize("notes", [0, 1, 2, 3, 40])
def test_an_old_handle_reads_the_current_graph(
    where: tuple[str, dict[str, str] | None], notes: int
) -> None:
    remade = remake(where, notes=notes)

    found = rows(remade.old, "Note")

    assert found == rows(remade.new, "Note")
    assert len(found) == notes
    assert remade.old.commits() == remade.new.commits()
    assert remade.old.tables() == remade.new.tables()


@pytest.mark.parametrize("notes", [0, 1, 2, 3])
def test_an_old_handle_appends_to_the_current_graph(
    where: tuple[str, dict[str, str] | None], notes: int
) -> None:
    remade = remake(where, notes=notes)

    remade.old.mutate(NOTE)

    for graph in (remade.old, remade.new):
        assert len(rows(graph, "Note")) == notes + 1
        require_linear(graph.commits())


def test_ids_of_the_old_graph_are_not_used_for_the_new_graph(
    where: tuple[str, dict[str, str] | None],
) -> None:
    uri, options = where
    old = omnigraph.init(uri, LOOSE, storage_options=options)
    old.mutate(query('insert Word { text: "same" }'))
    old.mutate(query('insert Word { text: "old" }'))
    new = omnigraph.init(uri, LOOSE, force=True, storage_options=options)
    new.mutate(query('insert Word { text: "same" }'))
    new.mutate(query('insert Word { text: "new" }'))

    old.mutate(query('insert Word { text: "old" }'))

    assert sorted(rows(new, "Word")) == ["new", "old", "same"]


def test_detecting_a_recreated_graph_adds_no_requests(server: S3Server) -> None:
    remade = remake((f"s3://{server.create_bucket()}/graph", server.lance_options()), notes=2)
    remade.old.head()

    with server.recording() as unmoved:
        remade.old.head()
    remade.new.mutate(NOTE)
    with server.recording() as moved:
        remade.old.head()

    # A read of the root and one of history; then the new versions of history and their rows.
    assert [len(unmoved), len(moved)] == [2, 4]
