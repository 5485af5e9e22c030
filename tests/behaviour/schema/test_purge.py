"""Values that a schema purges are in no file afterwards; values that it only drops are."""

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import NotFoundError
from tests.support.graphs import build_graph, contents, ndjson, node
from tests.support.sweeps import open_plain

SECRET = "a word that is found nowhere else"

WITH_ALL = "node Person { name: String @key  secret: String? }  node Note { text: String @key }"
WITHOUT_PROPERTY = "node Person { name: String @key }  node Note { text: String @key }"
WITHOUT_TYPE = "node Person { name: String @key  secret: String? }"


def built_graph(root: Path) -> Graph:
    """A graph that holds the secret in a property and in a type, over several commits."""
    graph = build_graph(root, WITH_ALL)
    for number in range(3):
        rows = [
            node("Person", name=f"p{number}", secret=f"{SECRET}, {number} of Person"),
            node("Note", text=f"{SECRET}, {number} of Note"),
        ]
        graph.load(ndjson(*rows), mode="append")
    return graph


def files_with(root: Path, text: str) -> list[Path]:
    """The files that hold a text as it is."""
    wanted = text.encode()
    return [each for each in root.rglob("*") if each.is_file() and wanted in each.read_bytes()]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [(WITHOUT_PROPERTY, "Person"), (WITHOUT_TYPE, "Note")],
    ids=["property", "type"],
)
def test_purged_values_are_in_no_file(tmp_path: Path, schema: str, kind: str) -> None:
    graph = built_graph(tmp_path / "graph")
    then = graph.head()
    assert files_with(tmp_path, f" of {kind}")

    graph.apply_schema(schema, allow_data_loss=True)

    assert files_with(tmp_path, f" of {kind}") == []
    with pytest.raises(NotFoundError):
        contents_at(open_plain(tmp_path / "graph"), then, kind)
    assert len(contents(graph)["Person"]) == 3


def test_dropped_values_remain_readable_at_earlier_commits(tmp_path: Path) -> None:
    graph = built_graph(tmp_path / "graph")
    then = graph.head()

    graph.apply_schema(WITHOUT_TYPE)

    assert len(contents_at(graph, then, "Note")) == 3


def test_a_tagged_commit_survives_a_purge(tmp_path: Path) -> None:
    graph = built_graph(tmp_path / "graph")
    graph.tag("kept", graph.head())

    graph.apply_schema(WITHOUT_TYPE, allow_data_loss=True)

    assert len(contents_at(graph, "kept", "Note")) == 3


def contents_at(graph: Graph, commit: str, kind: str) -> list[str]:
    """The lines of a type as they were at a commit."""
    return list(graph.export(commit=commit, types=[kind]))
