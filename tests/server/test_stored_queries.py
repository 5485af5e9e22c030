"""Stored queries over HTTP: their catalog, their invocation, and their protection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import SOCIAL
from tests.support.served_graphs import G, fork, head_of, names_on, require_refused
from tests.support.servers import Server, open_server, refused_server, running_server

READS = """
query every_person() @description("All people.") @instruction("Ask rarely.") {
    match { $p: Person }
    return { $p.name }
    order { $p.name }
}
query find_person($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query kinds($big: I64, $few: [I32], $vector: Vector(4), $day: Date?) {
    match { $p: Person { age: $big } }
    return { $p.name }
}
"""
WRITES = """
query add_person($name: String) { insert Person { name: $name } }
"""
P2 = """
version: 1
groups: {invokers: [inv], full: [full], readers: [rd], invoke_only: [io]}
protected_branches: [main]
rules:
  - {id: invoke, allow: {actors: {group: invokers}, actions: [invoke_query]}}
  - {id: read, allow: {actors: {group: invokers}, actions: [read], branch_scope: any}}
  - {id: full-invoke, allow: {actors: {group: full}, actions: [invoke_query]}}
  - {id: full, allow: {actors: {group: full}, actions: [read, change], branch_scope: any}}
  - {id: readers, allow: {actors: {group: readers}, actions: [read], branch_scope: any}}
  - {id: io, allow: {actors: {group: invoke_only}, actions: [invoke_query]}}
"""
TOKENS = {actor: f"token-{actor}" for actor in ("inv", "full", "rd", "io")}


def write_queries(folder: Path) -> Path:
    """The queries as files of a folder."""
    queries = folder / "queries"
    queries.mkdir(parents=True)
    (queries / "reads.gq").write_text(READS, encoding="utf-8")
    (queries / "writes.gq").write_text(WRITES, encoding="utf-8")
    return queries


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
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "policy.yaml").write_text(P2, encoding="utf-8")
    arguments = ("--queries", str(write_queries(folder)), "--policy", str(folder / "policy.yaml"))
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


# The catalog


def test_the_catalog_describes_every_stored_query(client: httpx.Client) -> None:
    found = client.get(f"{G}/queries").json()["queries"]

    assert [query["name"] for query in found] == [
        "add_person",
        "every_person",
        "find_person",
        "kinds",
    ]
    assert found[0] == {
        "name": "add_person",
        "tool_name": "add_person",
        "mutation": True,
        "params": [{"name": "name", "kind": "string", "nullable": False}],
    }
    assert found[1] == {
        "name": "every_person",
        "tool_name": "every_person",
        "description": "All people.",
        "instruction": "Ask rarely.",
        "mutation": False,
        "params": [],
    }


def test_the_catalog_describes_the_types_of_parameters(client: httpx.Client) -> None:  # case 76
    found = {query["name"]: query for query in client.get(f"{G}/queries").json()["queries"]}

    assert found["kinds"]["params"] == [
        {"name": "big", "kind": "bigint", "nullable": False},
        {"name": "few", "kind": "list", "item_kind": "int", "nullable": False},
        {"name": "vector", "kind": "vector", "vector_dim": 4, "nullable": False},
        {"name": "day", "kind": "date", "nullable": True},
    ]


def test_a_graph_without_queries_has_an_empty_catalog(tmp_path: Path) -> None:  # case 77
    with open_server(tmp_path) as server, server.client(token=None) as client:
        listed = client.get(f"{G}/queries")
        invoked = client.post(f"{G}/queries/anything")

    assert (listed.status_code, listed.json()) == (200, {"queries": []})
    require_refused(invoked, 404, code="not_found", says="stored query not found")


# Invocation


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b"", {}),
        (b"", {"Content-Type": "application/json"}),
        (b"{}", {"Content-Type": "application/json"}),
        (b"null", {"Content-Type": "application/json"}),
    ],
    ids=["none", "empty-json", "object", "null"],
)
def test_a_query_without_parameters_needs_no_body(
    client: httpx.Client, content: bytes, headers: dict[str, str]
) -> None:  # case 70
    response = client.post(f"{G}/queries/every_person", content=content, headers=headers)

    assert response.status_code == 200, response.text
    assert response.json()["query_name"] == "every_person"
    assert response.json()["row_count"] >= 4


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"branch":3}'])
def test_an_invalid_invocation_body_is_refused(
    client: httpx.Client, content: bytes
) -> None:  # case 70
    headers = {"Content-Type": "application/json"}

    response = client.post(f"{G}/queries/every_person", content=content, headers=headers)

    require_refused(response, 400, code="bad_request", says="invalid stored-query invocation body")


def test_a_stored_read_returns_the_rows_of_its_text(client: httpx.Client) -> None:
    response = client.post(f"{G}/queries/find_person", json={"params": {"name": "Bob"}})

    assert response.json()["rows"] == [{"p.name": "Bob", "p.age": 25}]
    assert response.json()["target"] == {"branch": "main", "snapshot": None}


def test_a_stored_read_runs_on_a_branch_or_at_a_commit(client: httpx.Client) -> None:
    branch = fork(client, "read-stored")
    head = head_of(client, branch)

    at_branch = client.post(f"{G}/queries/every_person", json={"branch": branch})
    at_commit = client.post(f"{G}/queries/every_person", json={"snapshot": head})

    assert at_branch.json()["target"] == {"branch": branch, "snapshot": None}
    assert at_commit.json()["target"] == {"branch": None, "snapshot": head}


def test_a_stored_mutation_returns_its_affected_counts(client: httpx.Client) -> None:
    branch = fork(client, "mutate-stored")
    body = {"params": {"name": "Eve"}, "branch": branch, "expect_mutation": True}

    response = client.post(f"{G}/queries/add_person", json=body)

    assert response.json() == {
        "branch": branch,
        "query_name": "add_person",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
        "commit_id": head_of(client, branch),
    }
    assert "Eve" in names_on(client, branch)


@pytest.mark.parametrize(
    ("name", "is_mutation", "says"),
    [
        ("every_person", True, "'every_person' is a read — use omnigraph query every_person"),
        ("add_person", False, "'add_person' is a mutation — use omnigraph mutate add_person"),
    ],
)
def test_another_kind_than_expected_is_refused(
    client: httpx.Client, name: str, *, is_mutation: bool, says: str
) -> None:  # case 71
    response = client.post(f"{G}/queries/{name}", json={"expect_mutation": is_mutation})

    require_refused(response, 400, code="bad_request", says=says)


def test_a_mutation_does_not_run_at_a_commit(client: httpx.Client) -> None:
    body = {"params": {"name": "Eve"}, "snapshot": head_of(client, "main")}

    response = client.post(f"{G}/queries/add_person", json=body)

    require_refused(response, 400, code="bad_request", says="snapshot")


def test_a_read_refuses_the_head_that_a_write_would_require(client: httpx.Client) -> None:
    headers = {"Omnigraph-If-Graph-Commit": head_of(client, "main")}

    response = client.post(f"{G}/queries/every_person", json={}, headers=headers)

    require_refused(response, 400, code="bad_request", says="Omnigraph-If-Graph-Commit")


def test_a_parameter_that_is_missing_is_named(client: httpx.Client) -> None:
    response = client.post(f"{G}/queries/find_person")

    require_refused(response, 400, code="bad_request", says="'name' not provided")


def test_an_unknown_stored_query_is_not_found(client: httpx.Client) -> None:
    response = client.post(f"{G}/queries/no%2Fsuch")

    require_refused(response, 404, code="not_found", says="stored query not found")


# Protection


def test_without_invoke_permission_a_stored_query_is_not_found(
    guarded: Server,
) -> None:  # case 73
    body = {"params": {"name": "Bob"}}
    with guarded.client(token=TOKENS["inv"]) as invoker:
        unknown = invoker.post(f"{G}/queries/nothing", json=body)
        known = invoker.post(f"{G}/queries/find_person", json=body)
    with guarded.client(token=TOKENS["rd"]) as reader:
        denied = reader.post(f"{G}/queries/find_person", json=body)

    assert known.status_code == 200
    assert (unknown.status_code, denied.status_code) == (404, 404)
    assert unknown.content == denied.content


def test_invoke_permission_does_not_imply_read_permission(guarded: Server) -> None:  # case 74
    with guarded.client(token=TOKENS["io"]) as client:
        existing = client.post(f"{G}/queries/every_person")
        unknown = client.post(f"{G}/queries/nothing")

    assert (existing.status_code, unknown.status_code) == (403, 404)


def test_invoke_permission_does_not_imply_change_permission(guarded: Server) -> None:
    body = {"params": {"name": "Eve"}}
    with guarded.client(token=TOKENS["inv"]) as client:
        denied = client.post(f"{G}/queries/add_person", json=body)
    with guarded.client(token=TOKENS["full"]) as client:
        allowed = client.post(f"{G}/queries/add_person", json=body)

    require_refused(denied, 403, code="forbidden", says="policy denied action 'change'")
    assert allowed.json()["actor_id"] == "full"


def test_the_catalog_needs_the_read_permission(guarded: Server) -> None:
    with guarded.client(token=TOKENS["rd"]) as client:
        seen = client.get(f"{G}/queries")
    with guarded.client(token=TOKENS["io"]) as client:
        unseen = client.get(f"{G}/queries")

    assert (seen.status_code, unseen.status_code) == (200, 403)


def test_a_schema_that_would_break_a_stored_query_is_refused(
    client: httpx.Client,
) -> None:  # case 55
    without_age = SOCIAL.replace("  age: I32?", "")

    response = client.post(f"{G}/schema/apply", json={"schema_source": without_age})

    require_refused(response, 400, code="bad_request", says="'find_person'")
    plan = client.post(f"{G}/schema/plan", json={"schema_source": without_age}).json()
    assert plan["supported"] is False
    assert response.json()["error"] in plan["blockers"]
    assert "schema check" in response.json()["error"]
    assert client.get(f"{G}/schema").json() == {"schema_source": SOCIAL}


@pytest.mark.parametrize(
    "text",
    [
        "query broken() { match { $p: Absent } return { $p.name } }",
        "query twice() { match { $p: Person } return { $p.name } }\n" * 2,
        "no query at all",
    ],
    ids=["unknown-type", "same-name", "no-text"],
)
def test_a_server_does_not_start_with_a_query_that_does_not_fit(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.gq").write_text(text, encoding="utf-8")
    with open_server(tmp_path):
        pass

    ended = refused_server(
        tmp_path,
        "--store",
        str(tmp_path / "graph"),
        "--unauthenticated",
        "--queries",
        str(tmp_path / "broken.gq"),
    )

    assert ended.code == 1
