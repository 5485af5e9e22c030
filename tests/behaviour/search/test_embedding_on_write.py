"""Empty vectors are filled when rows are written, before anything is staged and without a lock.

The provider is the built-in one, or a double on this machine with the protocol of the real ones.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder
from omnigraph.errors import (
    AlreadyExistsError,
    EmbeddingError,
    IntegrityError,
    InvalidValueError,
    LimitExceededError,
)
from omnigraph.model import limits
from tests.support.embedders import TOO_SHORT, Listening, embedding, filling
from tests.support.embedding_server import Dawdles, HangsUp, Refuses, Shortens, embedding_server
from tests.support.graphs import build_graph, contents, ndjson, node, rows, unchanged, values
from tests.support.queries import query
from tests.support.spark_loads import files_below

SCHEMA = """
node Memo {
  head: String @key
  body: String?
  stars: I32?
  photo: Blob?
  of_head: Vector(4) @embed("head", model="A")
  of_body: Vector(3)? @embed("body")
}
"""
OPTIONAL = """
node Memo { head: String @key  v: Vector(4)? @embed("head", model="test-model") }
"""
GIVEN = [9.0, 9.0, 9.0, 9.0]
WAIT_S = 60.0
INSERT = """
query insert($head: String, $body: String?) { insert Memo { head: $head, body: $body } }
"""


def vector(text: str, dimension: int) -> list[float]:
    """The vector of a text by the built-in provider, as an export writes it."""
    return [float(str(np.float32(each))) for each in MockEmbedder("A").embed(text, dimension)]


def memo_graph(root: Path, embedder: Listening | MockEmbedder | None = None) -> Graph:
    """No memos yet; a provider fills the vectors of new ones."""
    return filling(build_graph(root, SCHEMA), embedder or MockEmbedder("A"))


def open_by_environment(
    root: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Graph:
    """A graph that is opened as a program with an environment opens it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return omnigraph.open(str(root))


# Filled vectors


def test_a_load_fills_empty_vectors_and_keeps_those_that_are_given(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)

    loaded = graph.load(
        ndjson(
            node("Memo", head="alpha", body="same", photo="base64:aGk="),
            node("Memo", head="beta", body="same", of_head=GIVEN),
            node("Memo", head="gamma", body=""),
        ),
        mode="append",
    )

    assert loaded.commit_id == graph.head()
    assert values(graph, "Memo", "of_head") == {
        "alpha": vector("alpha", 4),
        "beta": GIVEN,
        "gamma": vector("gamma", 4),
    }
    assert values(graph, "Memo", "of_body") == {
        "alpha": vector("same", 3),
        "beta": vector("same", 3),
        "gamma": None,
    }
    assert len(graph.commits()) == 2, "vectors are part of the commit that brings the rows"


def test_inserts_and_updates_fill_empty_vectors(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)
    graph.mutate(INSERT, {"head": "alpha", "body": "first"})
    graph.mutate(INSERT, {"head": "beta", "body": "later"}, embed="now")

    graph.mutate(query('update Memo set { of_body: null } where head = "alpha"'))

    assert values(graph, "Memo", "of_body") == {
        "alpha": vector("first", 3),
        "beta": vector("later", 3),
    }
    assert values(graph, "Memo", "of_head")["beta"] == vector("beta", 4)


def test_a_vector_follows_the_text_that_an_update_changes(tmp_path: Path) -> None:
    listening = Listening()
    graph = memo_graph(tmp_path, listening)
    for head in ("alpha", "beta", "gamma"):
        graph.mutate(INSERT, {"head": head, "body": "first"})
    listening.requested.clear()

    graph.mutate(query('update Memo set { body: "second" } where head = "alpha"'))
    graph.mutate(query('update Memo set { body: null } where head = "beta"'))
    graph.mutate(query('update Memo set { body: "first", stars: 3 } where head = "gamma"'))

    assert values(graph, "Memo", "of_body") == {
        "alpha": vector("second", 3),
        "beta": None,
        "gamma": vector("first", 3),
    }
    assert listening.requested == ["second"], "an unchanged text is not embedded"


def test_a_vector_given_by_an_update_is_stored_whatever_its_text(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)
    graph.mutate(INSERT, {"head": "alpha", "body": "first"})

    graph.mutate(
        query('update Memo set { body: "second", of_body: [1.0, 2.0, 2.0] } where head = "alpha"')
    )

    assert values(graph, "Memo", "of_body") == {"alpha": [1.0, 2.0, 2.0]}


def test_a_transaction_and_a_new_branch_fill_vectors_too(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)

    with graph.transaction() as begun:
        begun.mutate(INSERT, {"head": "alpha", "body": "first"})
        begun.load(ndjson(node("Memo", head="beta", body="b")), mode="append")
    graph.load(ndjson(node("Memo", head="gamma")), mode="append", branch="side", base="main")

    assert values(graph, "Memo", "of_head") == {
        "alpha": vector("alpha", 4),
        "beta": vector("beta", 4),
    }
    assert values(graph, "Memo", "of_head", "side")["gamma"] == vector("gamma", 4)


# Vectors left empty


def test_later_leaves_vectors_empty_for_embed_to_fill(tmp_path: Path) -> None:
    listening = Listening(model="test-model")
    graph = filling(build_graph(tmp_path, OPTIONAL), listening)

    graph.load(ndjson(node("Memo", head="alpha")), mode="append", embed="later")
    graph.mutate(query('insert Memo { head: "beta" }'), embed="later")
    with graph.transaction() as begun:
        begun.load(ndjson(node("Memo", head="gamma")), mode="append", embed="later")
        begun.mutate(query('insert Memo { head: "delta" }'), embed="later")

    assert set(values(graph, "Memo", "v").values()) == {None}
    assert listening.requested == []
    assert graph.embed("Memo").rows_by_property == {"v": 4}


def test_later_empties_the_vector_of_a_text_that_an_update_changes(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)
    graph.mutate(INSERT, {"head": "alpha", "body": "first"})

    graph.mutate(query('update Memo set { body: "second" } where head = "alpha"'), embed="later")

    assert values(graph, "Memo", "of_body") == {"alpha": None}
    graph.embed("Memo")
    assert values(graph, "Memo", "of_body") == {"alpha": vector("second", 3)}


def test_later_refuses_rows_without_a_vector_that_they_need(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError, match="missing required property"):
        graph.load(ndjson(node("Memo", head="alpha")), mode="append", embed="later")


def test_without_a_provider_vectors_are_what_callers_give(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, OPTIONAL, node("Memo", head="alpha"))

    assert values(graph, "Memo", "v") == {"alpha": None}
    with unchanged(graph), pytest.raises(EmbeddingError, match="needs a key"):
        graph.load(ndjson(node("Memo", head="beta")), mode="append", embed="now")


def test_a_provider_is_required_only_when_a_write_embeds_now(tmp_path: Path) -> None:
    graph = embedding(build_graph(tmp_path, SCHEMA), MockEmbedder("A"))

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.mutate(INSERT, {"head": "alpha"})
    graph.mutate(INSERT, {"head": "alpha"}, embed="now")

    assert values(graph, "Memo", "of_head") == {"alpha": vector("alpha", 4)}


def test_a_property_of_another_model_stays_empty_unless_now_is_said(tmp_path: Path) -> None:
    graph = filling(build_graph(tmp_path, OPTIONAL), MockEmbedder("another"))
    graph.load(ndjson(node("Memo", head="alpha")), mode="append")

    with unchanged(graph), pytest.raises(EmbeddingError, match="configure 'test-model'"):
        graph.load(ndjson(node("Memo", head="beta")), mode="append", embed="now")

    assert values(graph, "Memo", "v") == {"alpha": None}


def test_an_embedding_time_other_than_now_or_later_is_refused(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match="neither now nor later"):
        graph.load(ndjson(node("Memo", head="alpha")), mode="append", embed="soon")
    with unchanged(graph), pytest.raises(InvalidValueError, match="neither now nor later"):
        graph.mutate(INSERT, {"head": "alpha"}, embed="")


# Requests to the provider


def test_texts_of_a_load_are_sent_in_batches_and_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_graph(tmp_path, OPTIONAL).close()
    heads = [f"memo {number}" for number in range(300)]

    with embedding_server(Refuses(503)) as server:
        graph = open_by_environment(tmp_path, server.environment(), monkeypatch)
        graph.load(ndjson(*(node("Memo", head=head) for head in heads)), mode="append")

    assert len(server.received) == 6, "five batches of up to 64, one of them twice"
    assert set(server.texts) == set(heads)
    expected = {head: pytest.approx(vector(head, 4), abs=1e-6) for head in heads}
    assert values(graph, "Memo", "v") == expected


def test_a_retried_request_embeds_nothing(tmp_path: Path) -> None:
    listening = Listening()
    graph = memo_graph(tmp_path, listening)
    lines = ndjson(node("Memo", head="alpha", body="first"))
    first = graph.load(lines, mode="append", idempotency_key="k")
    inserted = graph.mutate(INSERT, {"head": "beta"}, idempotency_key="m")
    listening.requested.clear()

    again = graph.load(
        ndjson(node("Memo", head="alpha", body="first")), mode="append", idempotency_key="k"
    )

    assert again == first
    assert graph.mutate(INSERT, {"head": "beta"}, idempotency_key="m") == inserted
    assert listening.requested == []
    with pytest.raises(AlreadyExistsError):
        graph.mutate(INSERT, {"head": "beta"}, idempotency_key="m", embed="later")


def test_conflicting_writers_embed_each_text_once(tmp_path: Path) -> None:
    listening = Listening()
    graph = memo_graph(tmp_path, listening)
    heads = [f"memo {number}" for number in range(12)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda head: graph.mutate(INSERT, {"head": head}), heads))

    assert sorted(listening.requested) == sorted(heads)
    assert values(graph, "Memo", "of_head") == {head: vector(head, 4) for head in heads}


def test_other_writes_proceed_during_an_embedding_request(tmp_path: Path) -> None:
    other = filling(build_graph(tmp_path, SCHEMA), MockEmbedder("A"))
    other.mutate(INSERT, {"head": "alpha", "body": "first"}, embed="now")
    other.mutate(query('update Memo set { of_body: null } where head = "alpha"'), embed="later")
    change = query('update Memo set { body: "second" } where head = "alpha"')
    meddling = [lambda: other.mutate(change, embed="later")]
    listening = Listening(before=lambda: meddling.pop()() if meddling else None)
    graph = filling(other, listening)

    graph.mutate(query('update Memo set { stars: 1 } where head = "alpha"'))

    assert listening.requested == ["first", "second"], (
        "the text had changed when the vector was there"
    )
    (row,) = rows(graph, "Memo").values()
    assert (row["stars"], row["body"], row["of_body"]) == (1, "second", vector("second", 3))


def test_rows_that_violate_a_rule_are_refused_before_embedding(tmp_path: Path) -> None:
    listening = Listening()
    graph = memo_graph(tmp_path, listening)
    twice = ndjson(node("Memo", head="alpha"), node("Memo", head="alpha"))

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.load(twice, mode="append")

    assert listening.requested == []


def test_too_many_vectors_for_one_process_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = memo_graph(tmp_path)
    monkeypatch.setattr("omnigraph.engine.ops.embeddings.WRITE_VECTOR_BYTES_MAX", 20)
    assert limits.WRITE_VECTOR_BYTES_MAX > 20

    with unchanged(graph), pytest.raises(LimitExceededError, match='engine="spark"'):
        graph.load(ndjson(node("Memo", head="a"), node("Memo", head="b")), mode="append")


# When a provider fails

Write = Callable[[Graph], object]


@pytest.mark.parametrize(
    "write",
    [
        lambda graph: graph.load(ndjson(node("Memo", head="beta")), mode="append"),
        lambda graph: graph.load(ndjson(node("Memo", head="beta")), mode="overwrite"),
        lambda graph: graph.mutate(query('insert Memo { head: "beta" }')),
        lambda graph: graph.load(
            ndjson(node("Memo", head="beta")), mode="append", branch="new", base="main"
        ),
    ],
    ids=["load", "overwrite", "mutation", "new branch"],
)
@pytest.mark.parametrize(
    ("turn", "words"),
    [(Refuses(400, "no such model"), "no such model"), (Shortens(), "invalid response")],
    ids=["refusal", "wrong length"],
)
def test_a_provider_that_fails_refuses_the_write_and_nothing_changes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Write,
    turn: Refuses | Shortens,
    words: str,
) -> None:
    build_graph(tmp_path, OPTIONAL, node("Memo", head="alpha", v=GIVEN)).close()

    with embedding_server(turn) as server:
        graph = open_by_environment(tmp_path, server.environment(), monkeypatch)
        before = graph.head(), graph.branches(), contents(graph), files_below(tmp_path)
        with pytest.raises(EmbeddingError, match=words) as refused:
            write(graph)

    assert "so the graph is unchanged" in str(refused.value)
    assert 'embed="later"' in str(refused.value)
    assert (graph.head(), graph.branches(), contents(graph), files_below(tmp_path)) == before


def test_a_provider_that_is_named_without_a_key_refuses_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_graph(tmp_path, OPTIONAL).close()
    graph = open_by_environment(tmp_path, {"OMNIGRAPH_EMBED_PROVIDER": "gemini"}, monkeypatch)

    with unchanged(graph), pytest.raises(EmbeddingError, match="GEMINI_API_KEY"):
        graph.load(ndjson(node("Memo", head="alpha")), mode="append")


def test_a_model_that_gives_another_length_refuses_the_write(tmp_path: Path) -> None:
    graph = memo_graph(tmp_path, Listening())

    with unchanged(graph), pytest.raises(EmbeddingError, match="returned a vector of 1 numbers"):
        graph.load(ndjson(node("Memo", head=TOO_SHORT)), mode="append")


# On Spark


def test_executors_fill_the_same_vectors_as_a_load_in_process(
    tmp_path: Path, spark: SparkSession
) -> None:
    memos = [
        node("Memo", head=f"memo {number}", body=f"body {number % 7}", photo="base64:aGk=")
        for number in range(100)
    ]
    given = node("Memo", head="given", of_head=GIVEN)
    inline = memo_graph(tmp_path / "inline")
    bulk = memo_graph(tmp_path / "bulk")
    lines = tmp_path / "memos.ndjson"
    lines.write_text(ndjson(*memos, given).getvalue())

    inline.load(str(lines), mode="append", engine="inline")
    loaded = bulk.load(str(lines), mode="append", engine="spark", spark=spark)

    assert loaded.engine == "spark"
    assert contents(bulk) == contents(inline)
    assert values(bulk, "Memo", "of_head")["given"] == GIVEN


def test_executors_embed_in_batches_and_once_for_rows_beside_refused_ones(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_graph(tmp_path / "graph", OPTIONAL, node("Memo", head="memo 7", v=GIVEN)).close()
    heads = [f"memo {number}" for number in range(100)]
    lines = tmp_path / "memos.ndjson"
    lines.write_text(ndjson(*(node("Memo", head=head) for head in heads)).getvalue())

    with embedding_server() as server:
        graph = open_by_environment(tmp_path / "graph", server.environment(), monkeypatch)
        loaded = graph.load(
            str(lines), mode="append", engine="spark", spark=spark, on_error="quarantine"
        )

    assert loaded.rejected == 1
    assert sorted(server.texts) == sorted(heads), "no text is embedded twice"
    assert len(server.received) == 2, "two batches of up to 64"
    assert values(graph, "Memo", "v") == {
        head: GIVEN if head == "memo 7" else pytest.approx(vector(head, 4), abs=1e-6)
        for head in heads
    }


def test_executors_retry_a_request_that_failed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_graph(tmp_path / "graph", OPTIONAL).close()

    with embedding_server(Refuses(503), HangsUp()) as server:
        graph = open_by_environment(tmp_path / "graph", server.environment(), monkeypatch)
        graph.load(ndjson(node("Memo", head="alpha")), mode="append", engine="spark", spark=spark)

    assert server.texts == ["alpha"] * 3
    assert values(graph, "Memo", "v") == {"alpha": pytest.approx(vector("alpha", 4), abs=1e-6)}


@pytest.mark.parametrize("engine", ["inline", "spark"])
def test_a_write_waits_for_a_silent_provider_until_the_deadline_and_changes_nothing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    build_graph(tmp_path / "graph", OPTIONAL, node("Memo", head="alpha", v=GIVEN)).close()

    with embedding_server(*[Dawdles(WAIT_S)] * 9) as server:
        environment = server.environment(
            OMNIGRAPH_EMBED_TIMEOUT_MS="200",
            OMNIGRAPH_EMBED_DEADLINE_MS="500",
            OMNIGRAPH_EMBED_RETRY_ATTEMPTS="9",
        )
        graph = open_by_environment(tmp_path / "graph", environment, monkeypatch)
        before = files_below(tmp_path / "graph")
        with unchanged(graph), pytest.raises(EmbeddingError, match="EMBED_DEADLINE_MS"):
            graph.load(
                ndjson(node("Memo", head="beta")),
                mode="append",
                engine=engine,
                spark=spark if engine == "spark" else None,
            )

    assert 1 < len(server.received) < 9
    assert files_below(tmp_path / "graph") == before


def test_a_bulk_job_fills_vectors_of_frames_unless_it_says_later(
    tmp_path: Path, spark: SparkSession
) -> None:
    graph = filling(build_graph(tmp_path, OPTIONAL), MockEmbedder("test-model"))
    now = spark.createDataFrame([("alpha",), ("beta",)], "head string")
    later = spark.createDataFrame([("gamma",)], "head string")

    with graph.bulk(mode="append", spark=spark) as job:
        job.nodes("Memo", now)
    with graph.bulk(mode="append", spark=spark, embed="later") as job:
        job.nodes("Memo", later)

    assert values(graph, "Memo", "v") == {
        "alpha": vector("alpha", 4),
        "beta": vector("beta", 4),
        "gamma": None,
    }


def test_a_provider_that_fails_on_executors_leaves_no_file_behind(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_graph(tmp_path / "graph", OPTIONAL, node("Memo", head="alpha", v=GIVEN)).close()
    rows_to_load = spark.createDataFrame([(f"memo {n}",) for n in range(8)], "head string")

    with embedding_server(Refuses(400, "no such model")) as server:
        graph = open_by_environment(tmp_path / "graph", server.environment(), monkeypatch)
        before = files_below(tmp_path / "graph")
        with (
            unchanged(graph),
            pytest.raises(EmbeddingError, match="no such model") as refused,
        ):
            graph.load(
                {"Memo": rows_to_load.repartition(2)}, mode="append", branch="new", base="main"
            )

    assert 'embed="later"' in str(refused.value)
    assert graph.branches() == ["main"]
    assert files_below(tmp_path / "graph") == before
