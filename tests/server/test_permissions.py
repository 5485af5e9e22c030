"""What a policy allows over HTTP, route by route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import node, social_graph
from tests.support.served_graphs import ALL_PEOPLE, G, add_person, lines, require_refused
from tests.support.servers import Server, running_server

P1 = """
version: 1
groups: {team: [andrew, bruno, ragnor], admins: [ragnor]}
protected_branches: [main]
rules:
  - {id: read, allow: {actors: {group: team}, actions: [read], branch_scope: any}}
  - {id: export, allow: {actors: {group: admins}, actions: [export], branch_scope: any}}
  - {id: change, allow: {actors: {group: team}, actions: [change], branch_scope: unprotected}}
  - id: integrate
    allow:
      actors: {group: admins}
      actions: [branch_delete, branch_merge]
      target_branch_scope: protected
"""
READS_PROTECTED = """
version: 1
groups: {readers: [rita]}
protected_branches: [main]
rules:
  - {id: read, allow: {actors: {group: readers}, actions: [read], branch_scope: protected}}
"""
LISTS = """
version: 1
groups: {operators: [rita]}
rules:
  - {id: list, allow: {actors: {group: operators}, actions: [graph_list]}}
"""


@contextmanager
def guarded_server(folder: Path, policy: str, *actors: str) -> Iterator[Server]:
    """A server of a graph with the branch `feature`, under a policy."""
    with social_graph(folder / "graph") as graph:
        graph.create_branch("feature")
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    tokens = {actor: f"token-{actor}" for actor in actors}
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens)}
    arguments = ("--policy", str(folder / "policy.yaml"))
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with guarded_server(folder, P1, "andrew", "bruno", "ragnor", "stranger") as running:
        yield running


@pytest.fixture(scope="module")
def bruno(server: Server) -> Iterator[httpx.Client]:
    with server.client(token="token-bruno") as opened:
        yield opened


@pytest.fixture(scope="module")
def ragnor(server: Server) -> Iterator[httpx.Client]:
    with server.client(token="token-ragnor") as opened:
        yield opened


def test_a_branch_that_is_protected_is_not_changed(bruno: httpx.Client) -> None:  # case 56
    protected = add_person(bruno, "Eve", branch="main")
    padded = add_person(bruno, "Eve", branch=" main ")
    allowed = add_person(bruno, "Eve", branch="feature")

    says = "policy denied action 'change' on branch 'main' for actor 'bruno'"
    require_refused(protected, 403, code="forbidden", says=says)
    require_refused(padded, 403, code="forbidden", says=says)
    assert allowed.json()["actor_id"] == "bruno"


def test_a_commit_is_by_the_holder_of_the_token(bruno: httpx.Client) -> None:  # case 50
    body = {
        "data": lines(node("Person", name="Zoe")),
        "branch": "feature",
        "actor_id": "another-actor",
    }
    bruno.post(f"{G}/load", json=body, headers={"X-Actor-Id": "another-actor"})

    commits = bruno.get(f"{G}/commits", params={"branch": "feature"}).json()["commits"]

    assert commits[-1]["actor_id"] == "bruno"


def test_export_is_a_permission_of_its_own(
    bruno: httpx.Client, ragnor: httpx.Client
) -> None:  # case 58
    denied = bruno.post(f"{G}/export", json={"branch": "main"})
    allowed = ragnor.post(f"{G}/export", json={"branch": "main"})

    require_refused(denied, 403, code="forbidden", says="policy denied action 'export'")
    assert allowed.status_code == 200


def test_deleting_a_branch_needs_its_own_permission(bruno: httpx.Client) -> None:  # case 59
    response = bruno.delete(f"{G}/branches/feature")

    require_refused(response, 403, code="forbidden", says="policy denied action 'branch_delete'")
    assert "feature" in bruno.get(f"{G}/branches").json()["branches"]


def test_a_merge_into_a_protected_branch_needs_permission(
    bruno: httpx.Client, ragnor: httpx.Client
) -> None:
    add_person(bruno, "Merged", branch="feature")

    denied = bruno.post(f"{G}/branches/merge", json={"source": "feature"})
    dry = bruno.post(f"{G}/branches/merge", json={"source": "feature", "dry_run": True})
    allowed = ragnor.post(f"{G}/branches/merge", json={"source": "feature"})

    assert (denied.status_code, dry.status_code) == (403, 403)
    assert allowed.json()["actor_id"] == "ragnor"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/branches", {"name": "new"}),
        ("POST", "/load", {"data": "", "branch": "new", "from": "main"}),
        ("POST", "/schema/apply", {"schema_source": "node X { name: String @key }"}),
        ("POST", "/tags", {"name": "v1", "commit": "x"}),
        ("DELETE", "/tags/v1", None),
        ("GET", "/recoveries", None),
        ("POST", "/commits/x/revert", {"branch": "main"}),
        ("POST", "/commits/x/cherry-pick", {"onto": "main"}),
    ],
)
def test_an_action_that_no_rule_allows_is_denied(
    ragnor: httpx.Client, method: str, path: str, body: object
) -> None:
    response = ragnor.request(method, f"{G}{path}", json=body)

    assert response.status_code == 403, response.text
    assert "policy denied action" in response.json()["error"]


def test_a_caller_in_no_group_reads_nothing(server: Server) -> None:  # case 64
    with server.client(token="token-stranger") as stranger:
        response = stranger.post(f"{G}/query", json={"query": ALL_PEOPLE})

    require_refused(response, 403, code="forbidden", says="stranger")


def test_reading_may_be_for_protected_branches_only(tmp_path: Path) -> None:  # case 61
    with (
        guarded_server(tmp_path, READS_PROTECTED, "rita") as server,
        server.client(token="token-rita") as rita,
    ):
        snapshot = rita.get(f"{G}/snapshot")
        branches = rita.get(f"{G}/branches")
        feature = rita.get(f"{G}/snapshot", params={"branch": "feature"})
        commit = snapshot.json()["commit_id"]
        at_commit = rita.post(f"{G}/query", json={"query": ALL_PEOPLE, "snapshot": commit})

    statuses = [each.status_code for each in (snapshot, branches, feature, at_commit)]
    assert statuses == [200, 403, 403, 200]


def test_graphs_are_listed_to_callers_whom_the_servers_policy_allows(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(LISTS, encoding="utf-8")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"rita": "t-rita", "sam": "t-sam"}'}
    arguments = ("--server-policy", str(tmp_path / "server.yaml"))
    with (
        running_server(tmp_path, *arguments, environment=environment) as server,
        server.client(token="t-rita") as rita,
        server.client(token="t-sam") as sam,
    ):
        allowed = rita.get("/graphs")
        denied = sam.get("/graphs")
        lines = [each for each in server.log_lines() if each["event"] == "policy decision"]

    assert [(each["actor"], each["action"], each["allowed"]) for each in lines] == [
        ("rita", "graph_list", True),
        ("sam", "graph_list", False),
    ]
    assert allowed.json() == {"graphs": [{"graph_id": "default", "uri": "/graphs/default"}]}
    require_refused(denied, 403, code="forbidden", says="graph_list")
