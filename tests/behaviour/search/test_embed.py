"""Embedding: rows without vectors get those of their texts, and nothing else changes."""

from pathlib import Path

import numpy as np
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.errors import (
    ForbiddenError,
    GraphError,
    InvalidValueError,
    MovedError,
    NotFoundError,
    UnavailableError,
)
from tests.support.embedders import TOO_SHORT, Listening, embedding
from tests.support.graphs import (
    build_graph,
    contents,
    edge,
    ndjson,
    node,
    rows,
    unchanged,
    values,
)
from tests.support.queries import query
from tests.support.spark_loads import files_below

SCHEMA = """
node Memo {
  head: String @key
  body: String?
  of_head: Vector(4)? @embed("head", model="A")
  order: Vector(3)? @embed("body") @index
  photo: Blob?
}
node Plain { name: String @key  place: Vector(2)? }
edge Cites: Memo -> Memo
"""
GIVEN = [9.0, 9.0, 9.0, 9.0]


def memo_graph(root: Path) -> Graph:
    """Three memos, one with a vector and one without a body, and an edge."""
    return build_graph(
        root,
        SCHEMA,
        node("Memo", head="alpha", body="same", photo="base64:aGk="),
        node("Memo", head="beta", body="same", of_head=GIVEN),
        node("Memo", head="gamma"),
        edge("Cites", "alpha", "beta"),
    )


def vector(text: str, dimension: int) -> list[float]:
    """The vector of a text by the built-in provider, as an export writes it."""
    return [float(str(np.float32(each))) for each in MockEmbedder("A").embed(text, dimension)]


def test_rows_get_the_vectors_they_lack_by_one_commit(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("A"))
    before = contents(graph)

    result = graph.embed("Memo", actor="ann")

    assert result.rows_by_property == {"order": 2, "of_head": 2}
    assert (result.type, result.branch, result.engine) == ("Memo", "main", "local")
    assert result.commit_id == graph.head()
    assert graph.commits()[-1].actor == "ann"
    assert values(graph, "Memo", "of_head") == {
        "alpha": vector("alpha", 4),
        "beta": GIVEN,
        "gamma": vector("gamma", 4),
    }
    assert values(graph, "Memo", "order") == {
        "alpha": vector("same", 3),
        "beta": vector("same", 3),
        "gamma": None,
    }
    for id, row in rows(graph, "Memo").items():
        unchanged_properties = {"head", "body", "photo"}
        assert {name: row[name] for name in unchanged_properties} == {
            name: before["Memo"][id][name] for name in unchanged_properties
        }
    assert contents(graph)["Cites"] == before["Cites"]


def test_rows_with_a_vector_are_not_changed(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("A"))
    graph.embed("Memo")
    graph.mutate(query('update Memo set { body: "other" } where head = "alpha"'))

    with unchanged(graph):
        again = graph.embed("Memo")

    assert again.commit_id is None
    assert again.rows_by_property == {"order": 0, "of_head": 0}


def test_all_vectors_are_recomputed_on_request(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("A"))

    result = graph.embed("Memo", only_missing=False)

    assert result.rows_by_property == {"order": 2, "of_head": 3}
    assert values(graph, "Memo", "of_head")["beta"] == vector("beta", 4)


def test_one_property_can_be_embedded_alone(tmp_path: Path) -> None:
    listening = Listening()
    graph = embedding(memo_graph(tmp_path), listening)

    result = graph.embed("Memo", property="order")

    assert result.rows_by_property == {"order": 2}
    assert values(graph, "Memo", "of_head")["alpha"] is None
    assert listening.requested == ["same"], "a text of two rows is embedded once"


def test_embedding_a_branch_does_not_change_its_base(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("A"))
    graph.create_branch("draft")
    before = contents(graph)

    result = graph.embed("Memo", branch="draft")

    assert result.branch == "draft"
    assert contents(graph) == before
    assert values(graph, "Memo", "of_head", "draft")["gamma"] == vector("gamma", 4)
    graph.merge("draft")
    assert contents(graph) == contents(graph, "draft")


def test_a_branch_learns_of_a_new_vector_before_it_is_embedded(tmp_path: Path) -> None:
    build_graph(tmp_path, "node Memo { head: String @key }", node("Memo", head="alpha")).close()
    graph = embedding(omnigraph.open(str(tmp_path)), MockEmbedder("A"))
    graph.create_branch("draft")
    graph.apply_schema('node Memo { head: String @key  v: Vector(3)? @embed("head") }')

    result = graph.embed("Memo", branch="draft")

    assert result.rows_by_property == {"v": 1}
    assert values(graph, "Memo", "v", "draft") == {"alpha": vector("alpha", 3)}


def test_texts_are_found_by_their_vectors(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("A"))
    graph.ensure_indices()

    graph.embed("Memo", only_missing=False)

    text = "query q() { match { $m: Memo } return { $m.head as head } "
    nearest = 'order { nearest($m.of_head, "gamma") } limit 1 }'
    assert [row["head"] for row in graph.query(text + nearest)] == ["gamma"]


def test_an_empty_type_needs_no_commit(tmp_path: Path) -> None:
    graph = embedding(build_graph(tmp_path, SCHEMA), MockEmbedder("A"))

    assert graph.embed("Memo").commit_id is None


@pytest.mark.parametrize(
    ("type_name", "property_name", "kind", "words"),
    [
        ("Absent", None, NotFoundError, "Absent"),
        ("Cites", None, InvalidValueError, "name a node type"),
        ("Plain", None, InvalidValueError, "@embed"),
        ("Memo", "of_heed", NotFoundError, "did you mean 'of_head'"),
        ("Memo", "body", InvalidValueError, "@embed"),
        ("Memo", "of_head", InvalidValueError, "configure 'A'"),
    ],
)
def test_an_invalid_embedding_request_is_refused_with_the_reason(
    tmp_path: Path,
    type_name: str,
    property_name: str | None,
    kind: type[GraphError],
    words: str,
) -> None:
    graph = embedding(memo_graph(tmp_path), MockEmbedder("B"))

    with unchanged(graph), pytest.raises(kind, match=words):
        graph.embed(type_name, property=property_name)


def test_a_graph_without_a_provider_says_how_to_get_one(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), None)

    with unchanged(graph), pytest.raises(UnavailableError, match="OMNIGRAPH_EMBEDDINGS_MOCK"):
        graph.embed("Memo")


def test_a_read_only_graph_cannot_be_embedded(tmp_path: Path) -> None:
    memo_graph(tmp_path).close()

    with omnigraph.open(str(tmp_path), read_only=True) as graph, pytest.raises(ForbiddenError):
        graph.embed("Memo")


def test_a_vector_of_another_length_leaves_nothing_behind(tmp_path: Path) -> None:
    graph = embedding(memo_graph(tmp_path), Listening())
    graph.load(ndjson(node("Memo", head=TOO_SHORT)), mode="append")
    files = files_below(tmp_path)

    with unchanged(graph), pytest.raises(UnavailableError, match="1 numbers"):
        graph.embed("Memo")

    assert files_below(tmp_path) == files


def test_concurrently_changed_rows_are_not_overwritten(tmp_path: Path) -> None:
    other = memo_graph(tmp_path)
    change = query('update Memo set { body: "new" } where head = "alpha"')
    files: set[str] = set()

    def meddle() -> None:
        other.mutate(change)
        files.update(files_below(tmp_path))

    graph = embedding(other, Listening(before=meddle))

    with pytest.raises(MovedError):
        graph.embed("Memo", property="order")

    assert values(graph, "Memo", "body")["alpha"] == "new"
    assert set(values(graph, "Memo", "order").values()) == {None}
    left = [path for path in files_below(tmp_path) - files if "/data/" in path]
    assert not left, "unnamed rows are removed"
