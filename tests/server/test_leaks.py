"""No response of a server reveals what the caller may not see."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.graphs import build_graph, node
from tests.support.served_graphs import ALL_PEOPLE
from tests.support.servers import Server, running_server, wait_for_job

POLICY = """
version: 1
groups: { clerks: [rob], mergers: [mia] }
protected_branches: [main]
rules:
  - id: clerks-see-themselves
    allow:
      actors: { group: clerks }
      actions: [read]
      types:
        Person: { where: "name = $actor", hide: [pay] }
  - id: clerks-add
    allow: { actors: { group: clerks }, actions: [change] }
  - id: mergers-read-drafts
    allow: { actors: { group: mergers }, actions: [read], branch_scope: unprotected }
  - id: mergers-merge
    allow: { actors: { group: mergers }, actions: [change, branch_merge] }
"""
CLERK, MERGER = "token-of-rob", "token-of-mia"
SECRETS = ("987654321", "hidden", "pay")


def call_of(name: str, **arguments: object) -> dict[str, object]:
    """A message of an agent that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Rob sees himself without his pay, seen on `main` by others; Mia reads `draft` and merges."""
    folder = tmp_path_factory.mktemp("server")
    people = [node("Person", name=name, mail=f"{name[0]}@x") for name in ("rob", "hidden")]
    schema = "node Person { name: String @key  mail: String? @unique  pay: I32? }"
    with build_graph(folder / "graph", schema, *people) as graph:
        graph.create_branch("draft")
        graph.tag("signed", graph.head("main"))
        for branch, pay in (("main", 987654321), ("draft", 11)):
            text = f'query m() {{ update Person set {{ pay: {pay} }} where name = "rob" }}'
            graph.mutate(text, branch=branch)
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    tokens = json.dumps({"rob": CLERK, "mia": MERGER})
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": tokens}
    with running_server(folder, "--policy", str(policy), environment=environment) as started:
        yield started


@pytest.mark.parametrize(
    "record",
    [{"name": "new", "pai": 1}, {"name": "new", "mail": "h@x"}],
    ids=["a property that is nearly a hidden one", "a value that a hidden row has"],
)
def test_a_refused_load_reveals_nothing_hidden(record: dict[str, object], server: Server) -> None:
    line = json.dumps({"type": "Person", "data": record})

    response = server.request(
        "POST", "/graphs/default/load", token=CLERK, json={"data": line, "mode": "append"}
    )

    assert response.status_code == 400
    assert not [secret for secret in SECRETS if secret in response.text]


@pytest.mark.parametrize("is_dry_run", [True, False], ids=["dry run", "merge"])
def test_a_merge_reveals_no_row_of_an_unreadable_branch(
    *, is_dry_run: bool, server: Server
) -> None:
    request = {"source": "draft", "target": "main", "dry_run": is_dry_run}

    response = server.request("POST", "/graphs/default/branches/merge", token=MERGER, json=request)

    assert response.status_code == (200 if is_dry_run else 409)
    assert "divergent_update" in response.text
    assert "987654321" not in response.text


def test_a_cherry_pick_reveals_no_row_of_an_unreadable_branch(server: Server) -> None:
    head = server.request("GET", "/graphs/default/head?branch=draft", token=MERGER).json()[
        "commit_id"
    ]

    response = server.request(
        "POST", f"/graphs/default/commits/{head}/cherry-pick", token=MERGER, json={}
    )

    assert response.status_code == 409
    assert "987654321" not in response.text


@pytest.mark.parametrize(
    "path",
    [
        "snapshot",
        "schema",
        "commits",
        "changes?start=beginning",
        "diff?old=draft&new=main",
        "entity?type=Person&id=rob",
    ],
)
def test_a_read_reveals_nothing_hidden(path: str, server: Server) -> None:
    response = server.request("GET", f"/graphs/default/{path}", token=CLERK)

    assert response.status_code == 200
    assert not [secret for secret in SECRETS if secret in response.text]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", {"query": ALL_PEOPLE, "branch": "mai"}),
        ("retrieve", {"text": "rob", "branch": "nothing"}),
        ("mutate", {"query": 'query m() { insert Person { name: "x" } }', "branch": "nothing"}),
        ("mcp", call_of("query", query=ALL_PEOPLE, branch="nothing")),
    ],
)
def test_a_missing_branch_suggests_no_other_without_list_permission(
    path: str, body: object, server: Server
) -> None:
    headers = {"Accept": "application/json"}

    response = server.request(
        "POST", f"/graphs/default/{path}", token=MERGER, json=body, headers=headers
    )

    assert "not found" in response.text
    assert "main" not in response.text
    assert "draft" not in response.text


def test_a_job_reveals_no_branch_without_list_permission(server: Server) -> None:
    path = "/graphs/default/load?branch=nothing&async=true"
    headers = {"Content-Type": "application/x-ndjson"}
    with server.client(token=MERGER) as client:
        started = client.post(path, content=b'{"type": "Person"}', headers=headers)
        job = wait_for_job(client, started.headers["location"])

    assert "not found" in str(job["error"])
    assert "draft" not in str(job)


@pytest.mark.parametrize("path", ["query", "retrieve"])
def test_a_tag_does_not_reveal_the_name_of_an_unreadable_branch(path: str, server: Server) -> None:
    request = {"query": ALL_PEOPLE} if path == "query" else {"text": "rob"}
    body = {**request, "snapshot": "signed"}

    response = server.request("POST", f"/graphs/default/{path}", token=MERGER, json=body)

    assert response.status_code == 403
    assert "main" not in response.text
