"""A provider embeds texts over the network, or the error says why not and nothing changes.

The provider is a double on this machine with the protocol of the real ones.
"""

import logging
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.embed.profiles import parse_profile
from omnigraph.embed.providers import MockEmbedder, RemoteEmbedder, find_embedder
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import EmbeddingError, InvalidValueError
from tests.support.clocks import HandClock
from tests.support.connections import count_connections
from tests.support.embedding_server import (
    KEY,
    Dawdles,
    Drips,
    EmbeddingServer,
    HangsUp,
    Refuses,
    Says,
    Shortens,
    Turn,
    embedding_server,
)
from tests.support.graphs import build_graph, node, rows, unchanged

SCHEMA = """
node Memo { head: String @key  v: Vector(4)? @embed("head", model="test-model") }
"""
BY_TEXT = """
query q($text: String) {
  match { $m: Memo }
  return { $m.head as head, nearest($m.v, $text) as distance }
  order { distance }
  limit 3
}
"""
PROVIDERS = ["openai-compatible", "openai", "gemini"]


def memo_graph(root: Path, heads: Sequence[str], environment: dict[str, str]) -> Graph:
    """Memos without vectors, in a graph whose texts are embedded as an environment says."""
    build_graph(root, SCHEMA, *(node("Memo", head=head) for head in heads)).close()
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    settings = replace(
        settings, embedder=find_embedder(environment), spark_package="omnigraph.spark"
    )
    return open_graph(settings, actor=None, is_read_only=False)


def vectors(graph: Graph) -> dict[str, object]:
    """The vector of each memo."""
    return {head: memo.get("v") for head, memo in rows(graph, "Memo").items()}


def expected(heads: Sequence[str]) -> dict[str, object]:
    """The vectors that the double makes of heads, of length 1."""
    mock = MockEmbedder("")
    return {head: pytest.approx(list(mock.embed(head, 4)), abs=1e-6) for head in heads}


def patient(server: EmbeddingServer, clock: HandClock, **more: str) -> RemoteEmbedder:
    """An embedder whose clock advances only while it waits between attempts."""
    usual = {"OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "200"}
    return RemoteEmbedder(parse_profile(server.environment(**usual | more)), clock)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_rows_and_queries_are_embedded_by_the_same_model(tmp_path: Path, provider: str) -> None:
    heads = ["alpha", "beta", "gamma"]

    with embedding_server() as server:
        graph = memo_graph(tmp_path, heads, server.environment(provider))
        result = graph.embed("Memo")
        best, *_ = graph.query(BY_TEXT, {"text": "beta"})

    assert result.rows_by_property == {"v": 3}
    assert vectors(graph) == expected(heads)
    assert best == {"head": "beta", "distance": pytest.approx(0, abs=1e-6)}
    assert [sorted(each.texts) for each in server.received] == [heads, ["beta"]]


def test_gemini_requests_distinguish_documents_and_queries(tmp_path: Path) -> None:
    with embedding_server() as server:
        graph = memo_graph(tmp_path, ["alpha", "beta"], server.environment("gemini"))
        graph.embed("Memo")
        graph.query(BY_TEXT, {"text": "beta"})

    assert [(each.path, each.task) for each in server.received] == [
        ("/v1/models/test-model:batchEmbedContents", "RETRIEVAL_DOCUMENT"),
        ("/v1/models/test-model:embedContent", "RETRIEVAL_QUERY"),
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_many_rows_are_embedded_in_concurrent_batches(tmp_path: Path, provider: str) -> None:
    heads = [f"memo {number}" for number in range(300)]

    with embedding_server() as server:
        server.pause_s = 0.05
        graph = memo_graph(tmp_path, heads, server.environment(provider))
        graph.embed("Memo")

    assert vectors(graph) == expected(heads)
    assert [len(each.texts) for each in server.received].count(64) == 4
    assert len(server.received) == 5
    assert sorted(server.texts) == sorted(heads)
    assert 1 < server.at_once_max <= 4


def test_rows_without_a_word_stay_without_a_vector(tmp_path: Path) -> None:
    with embedding_server() as server:
        graph = memo_graph(tmp_path, ["", "alpha"], server.environment())
        result = graph.embed("Memo")

    assert result.rows_by_property == {"v": 1}
    assert server.texts == ["alpha"]
    assert vectors(graph)[""] is None


def test_a_query_text_is_embedded_once(tmp_path: Path) -> None:
    fused = """
    query q($text: String) {
      match { $m: Memo }
      return { $m.head as head }
      order { rrf(nearest($m.v, $text), nearest($m.v, "other")) }
      limit 3
    }
    """

    with embedding_server() as server:
        graph = memo_graph(tmp_path, ["alpha"], server.environment())
        for text in ("beta", "gamma", "beta"):
            graph.query(BY_TEXT, {"text": text})
            graph.query(fused, {"text": text})

    assert sorted(server.texts) == ["beta", "gamma", "other"]


def test_a_graph_without_a_key_runs_queries_that_embed_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_vector = BY_TEXT.replace("$text: String", "$text: Vector(4)")
    build_graph(tmp_path, SCHEMA, node("Memo", head="alpha", v=[1.0, 0.0, 0.0, 0.0])).close()
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "OMNIGRAPH_EMBEDDINGS_MOCK"):
        monkeypatch.delenv(name, raising=False)

    with omnigraph.open(tmp_path) as graph:
        found = graph.query(by_vector, {"text": [1.0, 0.0, 0.0, 0.0]})
        with pytest.raises(EmbeddingError, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
            graph.query(BY_TEXT, {"text": "alpha"})

    assert [each["head"] for each in found] == ["alpha"]


def test_an_unknown_provider_is_reported_when_a_text_is_embedded(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path, ["alpha"], {"OMNIGRAPH_EMBED_PROVIDER": "cohere"})

    with pytest.raises(EmbeddingError, match="unknown embedding provider 'cohere'"):
        graph.query(BY_TEXT, {"text": "alpha"})


def test_another_model_than_the_recorded_one_is_refused_before_a_request(tmp_path: Path) -> None:
    with embedding_server() as server:
        graph = memo_graph(
            tmp_path, ["alpha"], server.environment(OMNIGRAPH_EMBED_MODEL="other-model")
        )
        for call in (
            lambda: graph.query(BY_TEXT, {"text": "alpha"}),
            lambda: graph.embed("Memo"),
        ):
            with pytest.raises(InvalidValueError, match=r"'test-model'.*'other-model'"):
                call()

    assert not server.received


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "turns",
    [
        (Refuses(500), Refuses(503), Refuses(529)),
        (Refuses(429), Refuses(429)),
        (HangsUp(), HangsUp()),
    ],
)
def test_a_transient_failure_is_retried(turns: tuple[Turn, ...], provider: str) -> None:
    with embedding_server(*turns) as server:
        vector = find_embedder(server.environment(provider)).embed("alpha", 4)

    assert vector == pytest.approx(MockEmbedder("").embed("alpha", 4), abs=1e-6)
    assert len(server.received) == len(turns) + 1


def test_each_wait_is_twice_as_long() -> None:
    clock = HandClock()

    with embedding_server(Refuses(500), Refuses(502), Refuses(503)) as server:
        patient(server, clock).embed("alpha", 4)

    assert clock.passed_s == pytest.approx(0.2 + 0.4 + 0.8)


def test_the_retry_delay_of_a_provider_is_honoured() -> None:
    clock = HandClock()
    date = "Thu, 01 Jan 2026 00:00:09 GMT"

    with embedding_server(
        Refuses(429, headers={"Retry-After": "3"}),
        Refuses(429, headers={"Retry-After": date}),
        Refuses(503, headers={"Retry-After": "soon"}),
    ) as server:
        patient(server, clock).embed("alpha", 4)

    assert clock.passed_s == pytest.approx(9 + 0.8)


def test_the_number_of_attempts_is_bounded() -> None:
    turns = [Refuses(503, said="overloaded")] * 9

    with embedding_server(*turns) as server, pytest.raises(EmbeddingError) as refused:
        find_embedder(server.environment(OMNIGRAPH_EMBED_RETRY_ATTEMPTS="2")).embed("alpha", 4)

    assert "responded with status 503 (Service Unavailable): overloaded, 2 times" in str(
        refused.value
    )
    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("wait", "message"),
    [("59", "OMNIGRAPH_EMBED_DEADLINE_MS"), ("3600", "requests a wait of 3,600 s")],
)
def test_a_retry_delay_beyond_the_deadline_is_not_started(wait: str, message: str) -> None:
    clock = HandClock()
    clock.passed_s = 5.0
    late = Refuses(429, headers={"Retry-After": wait})

    with embedding_server(late) as server, pytest.raises(EmbeddingError, match=message):
        patient(server, clock, OMNIGRAPH_EMBED_DEADLINE_MS="58000").embed("alpha", 4)

    assert clock.passed_s == 5.0


def test_without_a_deadline_only_attempts_are_counted() -> None:
    clock = HandClock()
    slow = Refuses(429, headers={"Retry-After": "60"})

    with embedding_server(slow, slow, slow) as server:
        patient(server, clock, OMNIGRAPH_EMBED_DEADLINE_MS="0").embed("alpha", 4)

    assert clock.passed_s == pytest.approx(180)


@pytest.mark.parametrize("turn", [Dawdles(5.0), Drips(0.02)])
def test_a_response_that_takes_too_long_is_abandoned_and_retried(turn: Turn) -> None:
    with embedding_server(turn) as server:
        environment = server.environment(OMNIGRAPH_EMBED_TIMEOUT_MS="200")
        vector = find_embedder(environment).embed("alpha", 64)

    assert len(vector) == 64
    assert len(server.received) > 1


def test_the_deadline_spans_all_attempts() -> None:
    with embedding_server(*[Dawdles(5.0)] * 9) as server:
        environment = server.environment(
            OMNIGRAPH_EMBED_TIMEOUT_MS="200",
            OMNIGRAPH_EMBED_DEADLINE_MS="500",
            OMNIGRAPH_EMBED_RETRY_ATTEMPTS="9",
        )
        with pytest.raises(EmbeddingError, match="OMNIGRAPH_EMBED_DEADLINE_MS"):
            find_embedder(environment).embed("alpha", 4)

    assert len(server.received) < 9


def test_an_unreachable_provider_is_reported() -> None:
    with embedding_server() as server:
        environment = server.environment()

    with pytest.raises(EmbeddingError, match=r"could not be reached: connection refused, 4 times"):
        find_embedder(environment).embed("alpha", 4)


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (Refuses(400, said="at most 8192 tokens"), r"status 400 .*: at most 8192 tokens"),
        (Refuses(404, said="no such model"), "status 404 .*: no such model"),
        (Refuses(302, headers={"Location": "http://127.0.0.1:9/"}), "status 302"),
        (Says(b"<html>"), "it is not valid JSON"),
        (Says(b'{"data": []}'), "0 vectors for 1 texts"),
        (Says(b'{"error": {"message": "no credits"}}'), "no credits"),
        (Shortens(), "a vector has 3 numbers instead of 4"),
    ],
)
def test_a_permanent_failure_is_reported_at_once_and_changes_nothing(
    tmp_path: Path, turn: Turn, message: str
) -> None:
    with embedding_server(turn) as server:
        graph = memo_graph(tmp_path, ["alpha"], server.environment())
        with unchanged(graph), pytest.raises(EmbeddingError, match=message):
            graph.embed("Memo")

    assert len(server.received) == 1


def test_after_a_failure_no_more_rows_are_embedded(tmp_path: Path) -> None:
    heads = [f"memo {number}" for number in range(64 * 40)]

    with embedding_server(Refuses(400)) as server:
        server.pause_s = 0.05
        graph = memo_graph(tmp_path, heads, server.environment())
        with unchanged(graph), pytest.raises(EmbeddingError):
            graph.embed("Memo")

    assert len(server.received) < 20


def test_a_key_that_is_refused_is_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "sk-wrong-9876543210"

    with embedding_server(Refuses(500, said=f"{wrong} and {KEY}")) as server:
        graph = memo_graph(
            tmp_path, ["alpha"], server.environment(OPENAI_API_KEY=wrong, GEMINI_API_KEY=wrong)
        )
        with pytest.raises(EmbeddingError, match="check the key in OPENROUTER_API_KEY") as refused:
            graph.embed("Memo")

    assert wrong not in "".join(traceback.format_exception(refused.value)) + caplog.text


def test_a_key_that_a_provider_repeats_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    message = f"busy with\n{KEY}"

    with (
        embedding_server(Refuses(500, said=message), Refuses(400, said=message)) as server,
        pytest.raises(EmbeddingError, match=r"busy with \(the key\)") as refused,
    ):
        find_embedder(server.environment()).embed("alpha", 4)

    assert "busy with (the key)" in caplog.text
    assert KEY not in f"{refused.value!r} {caplog.text}"


def test_connections_are_reused() -> None:
    with embedding_server() as server, count_connections() as opened:
        embedder = RemoteEmbedder(parse_profile(server.environment()), HandClock())
        for number in range(5):
            embedder.embed(f"text {number}", 4)

    assert len(opened) == 1


def test_threads_share_a_provider(tmp_path: Path) -> None:
    heads = [f"memo {number}" for number in range(40)]

    with embedding_server() as server, ThreadPoolExecutor(8) as threads:
        graph = memo_graph(tmp_path, heads, server.environment())
        graph.embed("Memo")
        server.pause_s = 0.01
        found = threads.map(lambda head: graph.query(BY_TEXT, {"text": head}), heads)

        assert [next(iter(each))["head"] for each in found] == heads
    assert server.at_once_max > 1


def test_vectors_are_single_precision_numbers() -> None:
    with embedding_server() as server:
        embedder = find_embedder(server.environment())
        one = embedder.embed("alpha", 384)
        many = embedder.embed_many(["alpha"], 384)

    assert np.array(one, np.float32).tolist() == list(one) == many[0].tolist()
    assert np.linalg.norm(many[0].astype(np.float64)) == pytest.approx(1, rel=1e-6)
