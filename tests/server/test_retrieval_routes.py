"""Retrieval over HTTP: by a text, by a query, by a stored query, and replayed by a receipt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph import RemoteGraph
from omnigraph.engine.retrieval.receipts import parse_query
from omnigraph.engine.retrieval.requests import hash_query
from omnigraph.engine.retrieval.results import QueryRequest
from omnigraph.errors import ForbiddenError, InvalidValueError, NotFoundError, RequestError
from tests.support.graphs import social_graph
from tests.support.served_graphs import ALL_PEOPLE, G, head_of, require_refused
from tests.support.servers import Server, running_server, serving

SECRET = "a word that only the stored query knows"
STORED = f"""
query friends($name: String) {{
    match {{ $p: Person {{ name: $name }}  $p knows $q  $q.name != "{SECRET}" }}
    return {{ $q.name }}
    order {{ $q.name }}
}}
query how_many() {{ match {{ $p: Person }} return {{ count($p) as n }} }}
query add_person($name: String) {{ insert Person {{ name: $name }} }}
"""
POLICY = """
version: 1
groups: {full: [full], readers: [rd], invokers: [io], mains: [ma]}
protected_branches: [main]
rules:
  - {id: full-invoke, allow: {actors: {group: full}, actions: [invoke_query]}}
  - {id: full, allow: {actors: {group: full}, actions: [read], branch_scope: any}}
  - {id: readers, allow: {actors: {group: readers}, actions: [read], branch_scope: any}}
  - {id: io, allow: {actors: {group: invokers}, actions: [invoke_query]}}
  - {id: ma, allow: {actors: {group: mains}, actions: [read], branch_scope: protected}}
"""
TOKENS = {actor: f"token-{actor}" for actor in ("full", "rd", "io", "ma")}


def write_queries(folder: Path) -> Path:
    """The stored queries as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "stored.gq"
    file.write_text(STORED, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    queries = write_queries(folder)
    with running_server(folder, "--unauthenticated", "--queries", str(queries)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client(token=None) as opened:
        yield opened


@pytest.fixture(scope="module")
def graph(server: Server) -> Iterator[RemoteGraph]:
    with omnigraph.connect(server.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    queries = write_queries(folder)
    with social_graph(folder / "graph") as made:
        made.create_branch("feature")
        made.mutate('query m() { insert Person { name: "Zoe" } }', branch="feature")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    arguments = ("--queries", str(queries), "--policy", str(folder / "policy.yaml"))
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


def test_a_text_query_returns_passages_and_a_receipt(client: httpx.Client) -> None:
    response = client.post(f"{G}/retrieve", json={"text": "alice", "k": 1})

    body = response.json()
    assert body["text"].startswith('Person "Alice"\n')
    first = body["passages"][0]
    assert (first["rank"], first["type"], first["id"]) == (1, "Person", "Alice")
    assert first["properties"]["name"] == "Alice"
    assert body["receipt"]["commit_id"] == head_of(client, "main")
    assert response.headers["omnigraph-graph-commit"] == body["receipt"]["commit_id"]


def test_the_defaults_are_those_of_the_python_call(
    client: httpx.Client, graph: RemoteGraph
) -> None:
    response = client.post(f"{G}/retrieve", json={"text": "alice"})

    assert response.json()["receipt"] == graph.retrieve("alice").receipt.to_json()


def test_a_receipt_is_replayed_to_the_byte(client: httpx.Client) -> None:
    response = client.post(f"{G}/retrieve", json={"text": "bob", "hops": 2})

    again = client.post(f"{G}/replay", json={"receipt": response.json()["receipt"]})

    assert again.content == response.content


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/retrieve", {}, 422, "text"),
        ("/retrieve", {"text": "a", "hops": 3}, 400, "from 0 to 2"),
        ("/retrieve", {"text": "a", "types": ["Persn"]}, 400, "Person"),
        ("/retrieve", {"text": "a", "edges": ["Nows"]}, 400, "Knows"),
        ("/retrieve", {"text": "a", "branch": "nope"}, 404, "nope"),
        ("/retrieve", {"text": "a", "branch": "main", "snapshot": "x"}, 400, "not both"),
        ("/retrieve", {"text": "a", "seconds_max": 1e-6}, 413, "time"),
        ("/retrieve-by", {"query": "query m() { delete Person where name = 'x' }"}, 400, ""),
        ("/retrieve-by", {"query": STORED, "name": "how_many"}, 400, "returns groups, not nodes"),
        ("/retrieve-by", {"query": STORED, "name": "no"}, 400, "no"),
        ("/replay", {}, 422, "receipt"),
        ("/replay", {"receipt": {}}, 400, "format"),
        ("/queries/friends/retrieve", {}, 400, "name"),
        ("/queries/friends/retrieve", {"params": {"name": "x"}, "edges": ["No"]}, 400, "No"),
    ],
)
def test_an_invalid_retrieval_is_refused(
    client: httpx.Client, path: str, body: object, status: int, says: str
) -> None:
    response = client.post(f"{G}{path}", json=body)

    assert response.status_code == status, response.text
    assert says in response.json()["error"]


TEXT = {"text": "alice"}


@pytest.mark.parametrize(
    "field", ["format", "text", "types", "hops", "word_weight", "counted_by", "now", "params"]
)
@pytest.mark.parametrize("depth", [99, 300, 1_015])
def test_a_receipt_that_is_nested_deep_is_refused(
    client: httpx.Client, field: str, depth: int
) -> None:
    is_by_query = field in ("now", "params")
    path, body_of = ("retrieve-by", {"query": ALL_PEOPLE}) if is_by_query else ("retrieve", TEXT)
    receipt = client.post(f"{G}/{path}", json=body_of).json()["receipt"]
    changed = receipt if field == "format" else receipt["request"]
    changed[field] = "here"
    body = json.dumps({"receipt": receipt}).replace('"here"', "[" * depth + "]" * depth)

    response = client.post(
        f"{G}/replay", content=body, headers={"Content-Type": "application/json"}
    )

    require_refused(response, 400, code="bad_request", says="")
    assert len(response.content) < 1_000


@pytest.mark.parametrize("change", [{"edges": ["No"]}, {"types": ["No"]}])
def test_a_receipt_that_names_a_missing_node_is_refused(
    client: httpx.Client, change: dict[str, object]
) -> None:
    receipt = client.post(f"{G}/retrieve", json={"text": "alice"}).json()["receipt"]
    receipt["request"] |= change
    receipt["query_hash"] = hash_query(*parse_query(receipt))

    response = client.post(f"{G}/replay", json={"receipt": receipt})

    require_refused(response, 400, code="bad_request", says="'No' not found")


@pytest.mark.parametrize("path", ["/query", "/retrieve-by", "/queries/friends", "/mutate"])
def test_values_that_are_nested_deep_are_refused(client: httpx.Client, path: str) -> None:
    deep = "[" * 1_015 + "]" * 1_015
    body = json.dumps({"query": ALL_PEOPLE, "params": {"name": "here"}}).replace('"here"', deep)

    response = client.post(f"{G}{path}", content=body, headers={"Content-Type": "application/json"})

    require_refused(response, 400, code="bad_request", says="deep")


# Stored queries


def test_a_stored_query_says_what_a_retrieval_starts_from(
    client: httpx.Client, graph: RemoteGraph
) -> None:
    body = {"params": {"name": "Alice"}, "hops": 0}

    response = client.post(f"{G}/queries/friends/retrieve", json=body).json()

    invoked = client.post(f"{G}/queries/friends", json={"params": {"name": "Alice"}}).json()
    friends = [row["q.name"] for row in invoked["rows"]]
    assert [each["id"] for each in response["passages"]] == friends
    found = graph.retrieve_stored("friends", {"name": "Alice"}, hops=0)
    assert (found.text, found.receipt.to_json()) == (response["text"], response["receipt"])


def test_a_stored_querys_text_is_in_no_response_and_its_receipt_can_be_replayed(
    client: httpx.Client, graph: RemoteGraph
) -> None:
    response = client.post(f"{G}/queries/friends/retrieve", json={"params": {"name": "Alice"}})
    receipt = response.json()["receipt"]

    again = client.post(f"{G}/replay", json={"receipt": receipt})

    assert again.content == response.content
    assert SECRET not in response.text
    found = graph.replay(receipt)
    assert isinstance(found.receipt.request, QueryRequest)
    assert (found.receipt.request.name, found.receipt.request.query) == ("friends", None)
    assert graph.replay(found.receipt) == found


@pytest.mark.parametrize(
    "change", [{"params": {"name": "Bob"}}, {"hops": 0}, {"name": "how_many"}, {"query": "query"}]
)
def test_a_receipt_of_a_stored_query_that_was_changed_is_refused(
    graph: RemoteGraph, change: Mapping[str, object]
) -> None:
    receipt = graph.retrieve_stored("friends", {"name": "Alice"}).receipt.to_json()
    request = receipt["request"]
    assert isinstance(request, dict)

    with pytest.raises(RequestError) as refused:
        graph.replay({**receipt, "request": {**request, **change}})

    assert SECRET not in str(refused.value)


def test_a_receipt_of_a_stored_query_needs_the_server_that_has_the_query(
    server: Server, graph: RemoteGraph
) -> None:
    found = graph.retrieve_stored("friends", {"name": "Alice"})

    with (
        omnigraph.open(server.store, read_only=True) as embedded,
        pytest.raises(InvalidValueError, match="replay it there"),
    ):
        embedded.replay(found.receipt)


def test_a_receipt_of_a_stored_query_is_replayed_while_that_finds_the_same(
    server: Server, graph: RemoteGraph, tmp_path: Path
) -> None:
    found = graph.retrieve_stored("friends", {"name": "Alice"})
    more, other = tmp_path / "more.gq", tmp_path / "other.gq"
    more.write_text(f"{ALL_PEOPLE}\n{STORED}", encoding="utf-8")
    other.write_text(STORED.replace("order { $q.name }", "limit 0"), encoding="utf-8")

    def replay(queries: Path) -> object:
        arguments = ("--store", str(server.store), "--unauthenticated", "--queries", str(queries))
        with serving(tmp_path, *arguments) as later, omnigraph.connect(later.url) as there:
            return there.replay(found.receipt)

    assert replay(more) == found
    with pytest.raises(InvalidValueError, match="gives another result"):
        replay(other)


def test_a_stored_query_without_nodes_says_so_and_nothing_else(client: httpx.Client) -> None:
    groups = client.post(f"{G}/queries/how_many/retrieve")
    mutation = client.post(f"{G}/queries/add_person/retrieve", json={"params": {"name": "x"}})
    nothing = client.post(f"{G}/queries/nothing/retrieve")

    require_refused(groups, 400, code="bad_request", says="finds no nodes")
    assert "match" not in groups.text
    require_refused(mutation, 400, code="bad_request", says="is a mutation")
    require_refused(nothing, 404, code="not_found", says="stored query not found")


# The client


def test_a_function_that_counts_tokens_is_not_sent(graph: RemoteGraph) -> None:
    receipt = graph.retrieve("alice").receipt

    with pytest.raises(InvalidValueError, match="open the graph by its uri"):
        graph.retrieve("alice", count_tokens=len)
    with pytest.raises(InvalidValueError, match="open the graph by its uri"):
        graph.retrieve_by(ALL_PEOPLE, count_tokens=len)
    with pytest.raises(InvalidValueError, match="open the graph by its uri"):
        graph.replay(receipt, count_tokens=len)


def test_a_receipt_moves_between_a_server_and_an_open_graph(
    server: Server, graph: RemoteGraph
) -> None:
    with omnigraph.open(server.store, read_only=True) as embedded:
        here, there = embedded.retrieve_by(ALL_PEOPLE), graph.retrieve_by(ALL_PEOPLE)

        assert here == there
        assert graph.replay(here.receipt) == embedded.replay(there.receipt) == here


# Permissions


def test_a_retrieval_needs_the_read_permission_of_its_branch(guarded: Server) -> None:
    with (
        omnigraph.connect(guarded.url, token=TOKENS["rd"]) as reader,
        omnigraph.connect(guarded.url, token=TOKENS["ma"]) as of_main,
        omnigraph.connect(guarded.url, token=TOKENS["io"]) as invoker,
    ):
        found = reader.retrieve("zoe", branch="feature")
        receipt = found.receipt
        refused: list[Callable[[], object]] = [
            lambda: of_main.retrieve("zoe", branch="feature"),
            lambda: of_main.retrieve("zoe", commit=receipt.commit_id),
            lambda: of_main.retrieve_by(ALL_PEOPLE, branch="feature"),
            lambda: of_main.replay(receipt),
            lambda: invoker.retrieve("alice"),
            lambda: invoker.replay(receipt),
        ]

        assert [each.id for each in found.passages] == ["Zoe"]
        assert of_main.retrieve("alice") == reader.retrieve("alice")
        for call in refused:
            with pytest.raises(ForbiddenError):
                call()


def test_a_retrieval_by_stored_query_needs_invoke_and_read_permissions(guarded: Server) -> None:
    request = {"params": {"name": "Alice"}}
    path = f"{G}/queries/friends/retrieve"

    allowed = guarded.request("POST", path, token=TOKENS["full"], json=request)
    reader = guarded.request("POST", path, token=TOKENS["rd"], json=request)
    unknown = guarded.request("POST", f"{G}/queries/no/retrieve", token=TOKENS["rd"], json=request)
    invoker = guarded.request("POST", path, token=TOKENS["io"], json=request)

    assert allowed.status_code == 200, allowed.text
    assert (reader.status_code, reader.content) == (unknown.status_code, unknown.content)
    require_refused(reader, 404, code="not_found", says="stored query not found")
    require_refused(invoker, 403, code="forbidden", says="read")
    receipt = {"receipt": allowed.json()["receipt"]}
    replayed = guarded.request("POST", f"{G}/replay", token=TOKENS["full"], json=receipt)
    hidden = guarded.request("POST", f"{G}/replay", token=TOKENS["rd"], json=receipt)
    assert replayed.content == allowed.content
    require_refused(hidden, 404, code="not_found", says="stored query not found")


def test_a_missing_stored_query_is_not_found(graph: RemoteGraph) -> None:
    with pytest.raises(NotFoundError):
        graph.retrieve_stored("nothing")
