"""Texts given to `nearest` are embedded by the provider that the graph was opened with."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.errors import InvalidValueError, UnavailableError
from tests.support.graphs import build_graph, node

SCHEMA = """
node Memo { head: String @key  emb: Vector(4)? @embed("head", model="A") }
"""
BY_TEXT = """
query q($text: String) {
  match { $m: Memo }
  return { $m.head as head, nearest($m.emb, $text) as distance }
  order { distance }
  limit 2
}
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A graph whose memos hold the vectors of their own heads."""
    mock = MockEmbedder(model="A")
    heads = ("alpha", "beta", "gamma")
    memos = [node("Memo", head=head, emb=list(mock.embed(head, 4))) for head in heads]
    build_graph(tmp_path, SCHEMA, *memos).close()
    return str(tmp_path)


def use_mock(monkeypatch: pytest.MonkeyPatch, *, model: str) -> None:
    """Let graphs that are opened from now on embed by the built-in provider."""
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", model)


def test_a_text_is_compared_by_its_vector(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_mock(monkeypatch, model="A")

    with omnigraph.open(place) as graph:
        best, second = graph.query(BY_TEXT, {"text": "beta"})

    assert best == {"head": "beta", "distance": 0.0}
    assert isinstance(second["distance"], float)
    assert second["distance"] > 0


def test_f19_a_model_that_made_other_vectors_is_refused_by_name(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_mock(monkeypatch, model="B")

    with omnigraph.open(place) as graph, pytest.raises(InvalidValueError) as refused:
        graph.query(BY_TEXT, {"text": "beta"})

    assert "'A'" in str(refused.value)
    assert "'B'" in str(refused.value)


def test_without_a_provider_the_error_says_how_to_get_one(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMNIGRAPH_EMBEDDINGS_MOCK", "OPENROUTER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    with omnigraph.open(place) as graph, pytest.raises(UnavailableError) as refused:
        graph.query(BY_TEXT, {"text": "beta"})

    assert "OMNIGRAPH_EMBEDDINGS_MOCK=1" in str(refused.value)


def test_a_traversal_mode_that_does_not_exist_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "fast")

    with pytest.raises(InvalidValueError, match="auto, csr and indexed"):
        omnigraph.open(place)
