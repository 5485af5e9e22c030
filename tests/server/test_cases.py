"""Cases of permissions, and of a caller with restricted access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.graphs import build_graph, edge, node
from tests.support.raw_requests import send_raw
from tests.support.servers import Server, open_server, running_server

GRAPH = "/graphs/default"

# Permissions


def test_in_open_mode_every_caller_lists_the_graphs_and_reloads(tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        listed = server.request("GET", "/graphs", token=None)
        reloaded = server.request("POST", "/admin/reload", token=None)

    assert listed.status_code == 200
    assert [each["graph_id"] for each in listed.json()["graphs"]] == ["default"]
    assert reloaded.status_code == 200


SECRET_SCHEMA = """
node Doc { slug: String @key  team: String  budget: String?  note: String? }
node Vault { code: String @key }
edge Cites: Doc -> Doc { why: String? }
"""
POLICIES = """
version: 1
groups: { limited: [lim] }
rules:
  - id: red documents
    allow:
      actors: { group: limited }
      actions: [read, export]
      types:
        Doc: { where: 'team = "red"', hide: [budget] }
        Vault: { where: none }
  - id: calling
    allow: { actors: { group: limited }, actions: [invoke_query, change, admin] }
"""
STORED = """
query all_of_it() { match { $d: Doc } return { $d.slug, $d.budget } }
query how_many() { match { $d: Doc } return { count($d) as n } }
"""
HIDDEN = ("budget", "9000 coins", "hidden-doc", "hidden-why", "blue", "vault-code")


@pytest.fixture(scope="module")
def restricted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("limited")
    build_graph(
        folder / "graph",
        SECRET_SCHEMA,
        node("Doc", slug="d1", team="red", budget="9000 coins"),
        node("Doc", slug="d2", team="red"),
        node("Doc", slug="hidden-doc", team="blue", budget="9000 coins"),
        node("Vault", code="vault-code"),
        edge("Cites", "d1", "d2"),
        edge("Cites", "d1", "hidden-doc", why="hidden-why"),
    ).close()
    (folder / "policy.yaml").write_text(POLICIES, encoding="utf-8")
    (folder / "stored.gq").write_text(STORED, encoding="utf-8")
    arguments = ("--policy", f"{folder}/policy.yaml", "--queries", f"{folder}/stored.gq")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"lim": "t-lim"}', "OMNIGRAPH_LOG": "debug"}
    with running_server(folder, *arguments, environment=tokens) as running:
        yield running


@pytest.mark.parametrize(
    "path",
    [
        "/snapshot",
        "/schema",
        "/queries",
        "/commits",
        "/recoveries",
        "/entity?type=Doc&id=d1",
        "/entity?type=Nothing&id=d1",
        "/blob?type=Doc&id=d1&property=budge",
        "/changes?start=beginning",
        "/diff?old={first}&new=main",
        "/diff?old={first}&new=main&types=Vault",
    ],
)
def test_a_get_response_contains_nothing_hidden(restricted: Server, path: str) -> None:
    commits = restricted.request("GET", f"{GRAPH}/commits", token="t-lim").json()["commits"]
    filled = path.format(first=commits[0]["graph_commit_id"])

    response = restricted.request("GET", f"{GRAPH}{filled}", token="t-lim")

    assert response.status_code in (200, 404)
    assert [word for word in HIDDEN if word in response.text] == []


@pytest.mark.parametrize("accepted", ["application/json", "application/vnd.apache.arrow.stream"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query", {"query": "query q() { match { $d: Doc } return { $d.slug, $d.note } }"}),
        ("/query", {"query": "query q() { match { $d: Doc  $d cites $e } return { $e.slug } }"}),
        ("/query", {"query": "query q() { match { $d: Doc } return { $d.budge } }"}),
        ("/query", {"query": "query q() { match { $v: Vault } return { $v.code } }"}),
        ("/explain", {"query": "query q() { match { $d: Doc } return { $d.slug } }"}),
        ("/retrieve", {"text": "d1", "hops": 2, "vector_weight": 0}),
        ("/retrieve", {"text": "d1", "types": ["Vault"]}),
        ("/retrieve-by", {"query": "query q() { match { $d: Doc } return { $d.slug } }"}),
        ("/queries/all_of_it/retrieve", {"hops": 2}),
        ("/export", {}),
        ("/export", {"type_names": ["Vault"]}),
        ("/export", {"type_names": ["Nothing"]}),
        ("/schema/plan", {"schema_source": ""}),
        ("/queries/all_of_it", {}),
        ("/queries/how_many", {}),
        ("/load", {"mode": "append", "data": '{"type": "Doc", "data": {"slug": "n", "x": 1}}'}),
        ("/load", {"mode": "merge", "data": '{"type": "Doc", "data": {"slug": "d1"}}'}),
        ("/mutate", {"query": 'query w() { delete Doc where slug = "d1" }'}),
        ("/branches/merge", {"source": "main", "target": "other"}),
    ],
)
def test_a_post_response_contains_nothing_hidden(
    restricted: Server, path: str, body: Mapping[str, object], accepted: str
) -> None:
    response = restricted.request(
        "POST", f"{GRAPH}{path}", token="t-lim", json=body, headers={"Accept": accepted}
    )

    # A field that every receipt has holds one of the words.
    said = response.content.replace(b"budget_tokens", b"")
    assert response.status_code < 500
    assert [word for word in HIDDEN if word.encode() in said] == []


def test_a_count_covers_only_visible_rows(restricted: Server) -> None:
    response = restricted.request("POST", f"{GRAPH}/queries/how_many", token="t-lim", json={})
    snapshot = restricted.request("GET", f"{GRAPH}/snapshot", token="t-lim").json()

    assert response.json()["rows"] == [{"n": 2}]
    counts = {each["table_key"]: each["row_count"] for each in snapshot["tables"]}
    assert counts == {"node:Doc": 2, "edge:Cites": 1}, "the hidden type is not listed"


def test_two_authorization_headers_are_refused_in_any_order(restricted: Server) -> None:
    headers = [(b"Authorization", b"Bearer wrong"), (b"Authorization", b"Bearer t-lim")]

    first = send_raw(restricted.url, b"GET", b"/graphs/default/schema", headers, b"")
    last = send_raw(restricted.url, b"GET", b"/graphs/default/schema", headers[::-1], b"")

    assert (first.status, last.status) == (401, 401)
