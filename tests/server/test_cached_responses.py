"""Cached responses: never an outdated one, and never one of another caller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import social_graph
from tests.support.served_graphs import ADD_PERSON, ALL_PEOPLE, GET_PERSON, G
from tests.support.servers import Server, running_server

POLICY = """
version: 1
groups: {all: [ann], some: [sam]}
rules:
  - {id: everything, allow: {actors: {group: all}, actions: [read, change]}}
  - id: grown
    allow:
      actors: {group: some}
      actions: [read]
      types: {Person: {where: "age >= 30"}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    social_graph(folder / "graph").close()
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ann": "a", "sam": "s"})}
    arguments = ("--policy", str(folder / "policy.yaml"))
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


def run_query(client: httpx.Client, query: str, **params: object) -> httpx.Response:
    """The response to a query on main."""
    response = client.post(f"{G}/query", json={"query": query, "params": params})
    assert response.status_code == 200, response.text
    return response


def test_a_restricted_caller_gets_no_cached_response_of_another(server: Server) -> None:
    with server.client(token="a") as ann, server.client(token="s") as sam:
        whole = [run_query(ann, ALL_PEOPLE).json()["row_count"] for _ in range(2)]

        part = run_query(sam, ALL_PEOPLE).json()["rows"]

        again = run_query(ann, ALL_PEOPLE).json()["row_count"]

    assert part == [{"p.name": "Alice"}, {"p.name": "Charlie"}]
    assert whole == [again, again] == [4, 4]


def test_a_cached_response_is_returned_until_the_branch_moves(server: Server) -> None:
    with server.client(token="a") as ann:
        before = [run_query(ann, GET_PERSON, name="Zoe") for _ in range(2)]
        ann.post(f"{G}/mutate", json={"query": ADD_PERSON, "params": {"name": "Zoe"}})

        after = run_query(ann, GET_PERSON, name="Zoe")

    assert before[0].content == before[1].content
    assert [each.json()["row_count"] for each in (*before, after)] == [0, 0, 1]
    assert after.json()["commit_id"] != before[0].json()["commit_id"]


def test_equal_numbers_of_different_types_are_different_cache_keys(server: Server) -> None:
    older = "query q($age: I32) { match { $p: Person  $p.age = $age } return { $p.name } }"
    with server.client(token="a") as ann:
        run_query(ann, older, age=30)

        refused = ann.post(f"{G}/query", json={"query": older, "params": {"age": True}})

    assert refused.status_code == 400
