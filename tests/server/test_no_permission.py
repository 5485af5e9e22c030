"""Every route checks permission first: a caller without any is shown no content, and a restricted
caller is shown only visible content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from omnigraph.server.context import Route
from omnigraph.server.routes.table import make_routes
from omnigraph.server.telemetry import Metrics
from tests.support.graphs import build_graph, node
from tests.support.servers import Server, running_server

SCHEMA = """
node Person { name: String @key  wage_kept: I32  motto: String? }
node Vault { code: String @key }
edge Opens: Person -> Vault
edge Knows: Person -> Person
"""
POLICY = """
version: 1
groups: { readers: [rita], partial: [pam] }
rules:
  - {id: reading, allow: {actors: {group: readers}, actions: [read]}}
  - id: partial-reading
    allow:
      actors: {group: partial}
      actions: [read, export]
      types:
        Person: {where: 'name = "Pam"', hide: [wage_kept]}
        Vault: {where: none}
  - id: partial-writing
    allow:
      actors: {group: partial}
      actions: [change, schema_apply, branch_create, branch_delete, branch_merge, admin,
                invoke_query]
"""
STORED = """
query remove_hannah() { delete Person where name = "Hannah" }
query wages() { match { $p: Person } return { $p.wage_kept } }
"""
TOKENS = {"rita": "token-of-rita", "nil": "token-of-nil", "pam": "token-of-pam"}
CONTENT = ("Person", "Hannah", "remove_hannah", "wage_kept", "Vault", "Knows")
UNSEEN = ("Hannah", "wage_kept", "987654", "vault-code")
PEOPLE = "query q() { match { $p: Person } return { $p.name } }"
BODIES: dict[str, dict[str, object]] = {
    "query": {"query": PEOPLE},
    "read": {"query_source": PEOPLE},
    "explain": {"query": PEOPLE},
    "mutate": {"query": 'query m() { insert Person { name: "Ned" } }'},
    "change": {"query": 'query m() { insert Person { name: "Ned" } }'},
    "load": {"data": '{"type":"Person","data":{"name":"Ned","wage":1}}'},
    "ingest": {"data": '{"type":"Person","data":{"name":"Ned"}}', "mode": "append"},
    "retrieve": {"text": "motto"},
    "retrieve-by": {"query": PEOPLE},
    "schema.plan": {"schema_source": "node Other { name: String @key }"},
    "schema.apply": {"schema_source": "node Other { name: String @key }"},
    "branches": {"name": "b"},
    "branches.merge": {"source": "draft"},
    "tags": {"name": "t", "commit": "signed"},
    "mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
    },
}
ARGUMENTS = {
    "entity": "?type=Person&id=Pam",
    "blob": "?type=Person&id=Pam&property=wage",
    "diff": "?old=draft&new=main",
    "changes": "?start=beginning",
}
PUBLIC = {"/healthz", "/openapi.json"}
FOR_EVERY_TOKEN = {"/metrics"}
ROUTES = [
    each
    for each in make_routes(
        version="0",
        source_version=None,
        metrics=Metrics(),
        group=None,
        is_authenticated=True,
        agents_write_main=False,
    )
    if each.path not in PUBLIC
]
GUARDED = [each for each in ROUTES if each.path not in FOR_EVERY_TOKEN]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Pam sees herself without her wage and no vault; Rita reads everything; Nil may do nothing."""
    folder: Path = tmp_path_factory.mktemp("server")
    people = [
        node("Person", name=name, wage_kept=987654, motto="motto") for name in ("Pam", "Hannah")
    ]
    with build_graph(
        folder / "graph", SCHEMA, *people, node("Vault", code="vault-code-1")
    ) as graph:
        graph.create_branch("draft")
        graph.tag("signed", graph.head("main"))
        graph.mutate('query m() { insert Vault { code: "vault-code-2" } }', branch="draft")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "stored.gq").write_text(STORED, encoding="utf-8")
    arguments = ("--policy", str(folder / "policy.yaml"), "--queries", str(folder / "stored.gq"))
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def receipt(server: Server) -> dict[str, object]:
    """The receipt that Rita got with a retrieval."""
    response = server.request(
        "POST", "/graphs/default/retrieve", token=TOKENS["rita"], json={"text": "motto"}
    )
    found: dict[str, object] = response.json()["receipt"]
    return found


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the same kind of graph that lets every caller do everything."""
    folder: Path = tmp_path_factory.mktemp("open")
    with build_graph(
        folder / "graph", SCHEMA, node("Person", name="Pam", wage_kept=1, motto="motto")
    ) as graph:
        graph.create_branch("draft")
        graph.tag("signed", graph.head("main"))
    (folder / "stored.gq").write_text(STORED, encoding="utf-8")
    with running_server(
        folder, "--unauthenticated", "--queries", str(folder / "stored.gq")
    ) as running:
        yield running


def send(
    server: Server, route: Route, receipt: dict[str, object], *, actor: str | None
) -> httpx.Response:
    """The response of a route to one caller, for a request that an allowed caller could make."""
    names = {"graph_id": "default", "name": "wages", "branch": "b", "tag": "t", "job_id": "j"}
    path = route.path.format(**names, commit_id="signed")
    path += ARGUMENTS.get(route.name, "") if route.method == "GET" else ""
    body = BODIES.get(route.name, {}) if route.method == "POST" else None
    body = {"receipt": receipt} if route.name == "replay" else body
    token = None if actor is None else TOKENS[actor]
    return server.request(route.method, path, token=token, json=body)


@pytest.mark.parametrize("route", GUARDED, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_refuses_a_caller_who_may_do_nothing_before_any_content(
    server: Server, route: Route, receipt: dict[str, object]
) -> None:
    response = send(server, route, receipt, actor="nil")

    # Stored queries look absent to a caller who may run none.
    assert response.status_code == (404 if "/queries/" in route.path else 403), response.text
    assert not [name for name in CONTENT if name in response.text]


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_shows_a_restricted_caller_only_visible_content(
    server: Server, route: Route, receipt: dict[str, object]
) -> None:
    response = send(server, route, receipt, actor="pam")

    assert response.status_code < 500
    assert response.status_code != 422, f"the request to this route is not valid: {response.text}"
    shown = [*response.headers.values(), response.text]
    assert not [each for each in shown if str(server.folder) in each], shown
    assert not [name for name in UNSEEN if any(name in each for each in shown)], shown


@pytest.mark.parametrize("path", ["query", "retrieve", "export"])
def test_a_caller_who_may_do_nothing_cannot_find_out_which_tags_exist(
    server: Server, path: str
) -> None:
    body = {"query": PEOPLE} if path == "query" else {"text": "x"} if path == "retrieve" else {}

    known, unknown = (
        server.request(
            "POST",
            f"/graphs/default/{path}",
            token=TOKENS["nil"],
            json={**body, "snapshot": snapshot},
        )
        for snapshot in ("signed", "no-such-tag")
    )

    assert known.status_code == 403
    assert unknown.json() == known.json()


def test_metrics_name_no_graph_that_the_caller_may_not_read(server: Server) -> None:
    shown = server.request("GET", "/metrics", token=TOKENS["rita"]).text
    hidden = server.request("GET", "/metrics", token=TOKENS["nil"]).text

    assert 'graph="default"' in shown
    assert 'graph="default"' not in hidden
    assert "omnigraph_http_requests" in hidden


def test_a_snapshot_omits_types_without_visible_rows(server: Server) -> None:
    whole, part = (
        server.request("GET", "/graphs/default/snapshot", token=TOKENS[actor]).json()["tables"]
        for actor in ("rita", "pam")
    )

    assert [each["table_key"] for each in whole] == [
        "edge:Knows",
        "edge:Opens",
        "node:Person",
        "node:Vault",
    ]
    assert [each["table_key"] for each in part] == ["edge:Knows", "node:Person"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_no_route_is_forbidden_without_tokens_or_reveals_where_a_graph_is_stored(
    open_to_all: Server, route: Route
) -> None:
    receipt = open_to_all.request(
        "POST", "/graphs/default/retrieve", token=None, json={"text": "motto"}
    ).json()["receipt"]

    response = send(open_to_all, route, receipt, actor=None)

    assert response.status_code < 500
    assert response.status_code not in (401, 403), "without tokens every action is allowed"
    assert str(open_to_all.folder) not in response.text
    assert not [each for each in response.headers.values() if str(open_to_all.folder) in each]
