"""A server and Spark embed texts by the same provider as the calling process."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph import Graph
from omnigraph.embed.providers import MockEmbedder, find_embedder
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import EmbeddingError, InvalidValueError
from tests.support.agents import http_agent
from tests.support.commands import run_command
from tests.support.embedding_server import KEY, EmbeddingServer, Refuses, embedding_server
from tests.support.graphs import build_graph, ndjson, node, rows, unchanged
from tests.support.servers import running_server

SCHEMA = """
node Memo { head: String @key  v: Vector(4)? @embed("head", model="test-model") }
"""
BY_TEXT = """
query q($text: String) {
  match { $m: Memo }
  return { $m.head as head }
  order { nearest($m.v, $text) }
  limit 2
}
"""
NO_KEYS = {"OPENROUTER_API_KEY": "", "OPENAI_API_KEY": ""}
BODY = {"query": BY_TEXT, "params": {"text": "beta"}}
QUERY_ROUTE = "/graphs/default/query"


def memo_graph(root: Path) -> Graph:
    """Three memos with the vectors of their own heads."""
    mock = MockEmbedder("")
    heads = ("alpha", "beta", "gamma")
    return build_graph(
        root, SCHEMA, *(node("Memo", head=head, v=list(mock.embed(head, 4))) for head in heads)
    )


def test_a_served_text_is_embedded_by_the_server(tmp_path: Path) -> None:
    memo_graph(tmp_path / "graph").close()

    with (
        embedding_server() as provider,
        running_server(
            tmp_path, "--unauthenticated", environment=provider.environment("gemini")
        ) as server,
    ):
        first = server.request("POST", QUERY_ROUTE, token=None, json=BODY)
        server.request("POST", QUERY_ROUTE, token=None, json=BODY)
        server.wait_for_line("texts were embedded", provider="gemini", text_count=1)
        said = server.log_text()

    assert first.json()["rows"][0] == {"head": "beta"}
    assert provider.texts == ["beta"]
    assert KEY not in said


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (NO_KEYS, "OPENROUTER_API_KEY or OPENAI_API_KEY"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "cohere"}, "unknown embedding provider"),
    ],
)
def test_a_server_without_a_provider_says_which_variables_it_lacks(
    tmp_path: Path, environment: dict[str, str], message: str
) -> None:
    memo_graph(tmp_path / "graph").close()

    with running_server(tmp_path, "--unauthenticated", environment=environment) as server:
        response = server.request("POST", QUERY_ROUTE, token=None, json=BODY)
        with omnigraph.connect(server.url) as graph, pytest.raises(EmbeddingError) as refused:
            graph.query(BY_TEXT, {"text": "beta"})

    assert response.status_code == 500
    assert message in response.json()["error"]
    assert message in str(refused.value)


def test_a_model_mismatch_is_reported_to_the_caller(tmp_path: Path) -> None:
    memo_graph(tmp_path / "graph").close()
    environment = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_MODEL": "other"}

    with running_server(tmp_path, "--unauthenticated", environment=environment) as server:
        response = server.request("POST", QUERY_ROUTE, token=None, json=BODY)
        with omnigraph.connect(server.url) as graph, pytest.raises(InvalidValueError):
            graph.query(BY_TEXT, {"text": "beta"})

    assert response.status_code == 400
    assert "'test-model'" in response.json()["error"]


ADD = "query add($head: String) { insert Memo { head: $head } }"
WRITE = "/graphs/default"


def empty_graph(root: Path) -> Graph:
    """No memos."""
    return build_graph(root, SCHEMA)


def heads_with_vectors(graph: Graph) -> set[str]:
    """The memos that have the vectors of their own heads; the others have none."""
    mock, found = MockEmbedder(""), {head: row["v"] for head, row in rows(graph, "Memo").items()}
    filled = {head for head, vector in found.items() if vector is not None}
    for head in filled:
        assert found[head] == pytest.approx(list(mock.embed(head, 4)), abs=1e-6)
    return filled


def test_a_server_fills_the_vectors_of_what_is_written_by_it(tmp_path: Path) -> None:
    empty_graph(tmp_path / "graph").close()
    (tmp_path / "stored.gq").write_text(ADD)
    flags = ("--unauthenticated", "--queries", str(tmp_path / "stored.gq"))

    with (
        embedding_server() as provider,
        running_server(tmp_path, *flags, environment=provider.environment()) as server,
    ):
        body = {"data": ndjson(node("Memo", head="loaded")).getvalue()}
        assert server.request("POST", f"{WRITE}/load", token=None, json=body).status_code == 200
        request = {"query": ADD, "params": {"head": "mutated"}}
        assert (
            server.request("POST", f"{WRITE}/mutate", token=None, json=request).status_code == 200
        )
        with omnigraph.connect(server.url) as remote:
            remote.load(ndjson(node("Memo", head="remote")), mode="append")
            remote.invoke("add", {"head": "invoked"})
            with remote.transaction() as begun:
                begun.mutate(ADD, {"head": "in one"})
        with http_agent(f"{server.url}/graphs/default/mcp", token=None, mode="auto") as agent:
            agent.call("add", head="by an agent")

    graph = omnigraph.open(str(tmp_path / "graph"))
    assert heads_with_vectors(graph) == {"loaded", "mutated", "remote", "invoked", "in one"}
    assert "by an agent" in provider.texts


def test_a_server_leaves_vectors_empty_when_a_request_says_later(tmp_path: Path) -> None:
    empty_graph(tmp_path / "graph").close()
    (tmp_path / "stored.gq").write_text(ADD)
    flags = ("--unauthenticated", "--queries", str(tmp_path / "stored.gq"))

    with (
        embedding_server() as provider,
        running_server(tmp_path, *flags, environment=provider.environment()) as server,
    ):
        lines = ndjson(node("Memo", head="lines")).getvalue()
        with server.client(token=None) as client:
            response = client.post(
                f"{WRITE}/load?mode=append&embed=later",
                content=lines,
                headers={"Content-Type": "application/x-ndjson"},
            )
            soon = client.post(f"{WRITE}/load", json={"data": lines, "embed": "soon"})
        body = {"query": ADD, "params": {"head": "mutated"}, "embed": "later"}
        server.request("POST", f"{WRITE}/mutate", token=None, json=body)
        with omnigraph.connect(server.url) as remote:
            remote.load(ndjson(node("Memo", head="remote")), mode="append", embed="later")
            remote.mutate(ADD, {"head": "by text"}, embed="later")
            remote.invoke("add", {"head": "invoked"}, embed="later")

    graph = omnigraph.open(str(tmp_path / "graph"))
    assert (response.status_code, soon.status_code) == (200, 400)
    assert "neither now nor later" in soon.json()["error"]
    assert set(rows(graph, "Memo")) == {"lines", "mutated", "remote", "by text", "invoked"}
    assert heads_with_vectors(graph) == set()
    assert provider.received == []


def test_a_server_whose_provider_fails_writes_nothing_and_says_so(tmp_path: Path) -> None:
    empty_graph(tmp_path / "graph").close()

    with (
        embedding_server(*[Refuses(400, "no such model")] * 2) as provider,
        running_server(tmp_path, "--unauthenticated", environment=provider.environment()) as server,
    ):
        body = {"data": ndjson(node("Memo", head="loaded")).getvalue()}
        response = server.request("POST", f"{WRITE}/load", token=None, json=body)
        with omnigraph.connect(server.url) as remote, pytest.raises(EmbeddingError) as refused:
            remote.mutate(ADD, {"head": "mutated"})

    assert response.status_code == 500
    assert "so the graph is unchanged" in response.json()["error"]
    assert "no such model" in str(refused.value)
    assert rows(omnigraph.open(str(tmp_path / "graph")), "Memo") == {}


def test_the_command_line_fills_vectors_unless_a_flag_says_later(tmp_path: Path) -> None:
    empty_graph(tmp_path / "graph").close()
    graph, lines = tmp_path / "graph", ndjson(node("Memo", head="later")).getvalue()

    with embedding_server() as provider:
        for head in ("loaded", "ingested"):
            rows_of = tmp_path / f"{head}.ndjson"
            rows_of.write_text(ndjson(node("Memo", head=head)).getvalue())
        env = provider.environment()
        ended = [
            run_command(
                "load", graph, "--data", tmp_path / "loaded.ndjson", "--mode", "append", env=env
            ),
            run_command("ingest", graph, "--data", tmp_path / "ingested.ndjson", env=env),
            run_command(
                *("mutate", "--store", graph, "-e", ADD, "--params", '{"head": "mutated"}'), env=env
            ),
            run_command(
                *("load", graph, "--data", "-", "--mode", "append", "--embed", "later"),
                stdin=lines,
                env=env,
            ),
            run_command(
                *("mutate", "--store", graph, "-e", ADD, "--params", '{"head": "not yet"}'),
                *("--embed", "later"),
                env=env,
            ),
        ]

    opened = omnigraph.open(str(graph))
    assert [each.code for each in ended] == [0] * 5, [each.err for each in ended]
    assert heads_with_vectors(opened) == {"loaded", "ingested", "mutated"}
    assert set(rows(opened, "Memo")) == {"loaded", "ingested", "mutated", "later", "not yet"}


def on_spark(root: Path, provider: EmbeddingServer) -> Graph:
    """Memos without vectors in two files, in a graph that may use Spark."""
    heads = [f"memo {number}" for number in range(150)]
    graph = build_graph(root, SCHEMA, *(node("Memo", head=head) for head in heads[:100]))
    graph.load(ndjson(*(node("Memo", head=head) for head in heads[100:])), mode="append")
    settings = replace(
        make_settings(str(root), storage_options=None, durability="relaxed"),
        embedder=find_embedder(provider.environment()),
        spark_package="omnigraph.spark",
    )
    return open_graph(settings, actor=None, is_read_only=False)


def test_executors_call_the_provider_themselves(
    tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with embedding_server() as provider:
        graph = on_spark(tmp_path, provider)
        result = graph.embed("Memo", engine="spark", spark=spark)

    mock = MockEmbedder("")
    assert result.rows_by_property == {"v": 150}
    assert {head: memo["v"] for head, memo in rows(graph, "Memo").items()} == {
        head: pytest.approx(list(mock.embed(head, 4)), abs=1e-6) for head in set(provider.texts)
    }
    assert len(provider.texts) == 150
    assert KEY not in "".join(capfd.readouterr())


def test_a_provider_error_on_an_executor_keeps_its_class_and_message(
    tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with embedding_server(*[Refuses(400, said=f"not with {KEY}")] * 20) as provider:
        graph = on_spark(tmp_path, provider)
        with unchanged(graph), pytest.raises(EmbeddingError, match=r"not with \(the key\)"):
            graph.embed("Memo", engine="spark", spark=spark)

    assert KEY not in "".join(capfd.readouterr())
