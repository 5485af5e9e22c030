"""Tools over HTTP, called by the client of the SDK: what each token permits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.agents import Agent, http_agent, stdio_agent
from tests.support.graphs import SOCIAL, build_graph, node
from tests.support.servers import Server, running_server

QUERIES = """
query every_person() @description("All people.") @instruction("Ask rarely.") {
    match { $p: Person }
    return { $p.name }
    order { $p.name }
}
query find_person($name: String, $age: I32?) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query add_person($name: String) { insert Person { name: $name } }
"""
POLICY = """
version: 1
groups:
  {writers: [ann, tom], drafters: [dora], invokers: [ivo], readers: [rob], others: [otto],
   blind: [ian], limited: [lea]}
protected_branches: [main, release]
rules:
  - {id: w-invoke, allow: {actors: {group: writers}, actions: [invoke_query]}}
  - {id: w-data, allow: {actors: {group: writers}, actions: [read, change], branch_scope: any}}
  - {id: w-fork, allow: {actors: {group: writers}, actions: [branch_create]}}
  - {id: d-invoke, allow: {actors: {group: drafters}, actions: [invoke_query]}}
  - {id: d-data, allow: {actors: {group: drafters}, actions: [read, change]}}
  - {id: i-invoke, allow: {actors: {group: invokers}, actions: [invoke_query]}}
  - {id: i-read, allow: {actors: {group: invokers}, actions: [read]}}
  - {id: r-read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: b-invoke, allow: {actors: {group: blind}, actions: [invoke_query]}}
  - {id: l-invoke, allow: {actors: {group: limited}, actions: [invoke_query]}}
  - id: l-read
    allow:
      actors: {group: limited}
      actions: [read]
      types: {Person: {where: 'name != "Bob"', hide: [age]}}
  - {id: o-export, allow: {actors: {group: others}, actions: [export]}}
"""
TOKENS = {
    name: f"sesame-of-{name}" for name in ("ann", "dora", "ian", "ivo", "lea", "otto", "rob", "tom")
}
FIND_ALL = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


def write_files(folder: Path) -> tuple[str, ...]:
    """A graph of two people with stored queries and a policy; the flags that serve them."""
    people = (node("Person", name="Alice", age=30), node("Person", name="Bob", age=None))
    graph = build_graph(folder / "graph", SOCIAL, *people)
    graph.create_branch("release")
    graph.close()
    (folder / "queries.gq").write_text(QUERIES, encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return ("--queries", str(folder / "queries.gq"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guarded")
    arguments = (*write_files(folder), "--policy", str(folder / "policy.yaml"))
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    with running_server(folder, *arguments, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def ann(server: Server) -> Iterator[Agent]:
    with agent_of(server, "ann") as connected:
        yield connected


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("open")
    arguments = (*write_files(folder), "--unauthenticated", "--mcp-allow-main")
    with running_server(folder, *arguments) as running:
        yield running


def agent_of(server: Server, actor: str, *, mode: str = "auto") -> AbstractContextManager[Agent]:
    """An agent with the token of an actor."""
    return http_agent(f"{server.graph_url}/mcp", token=TOKENS[actor], mode=mode)


# Tool lists


def test_stored_queries_are_typed_tools_beside_two_that_read(ann: Agent) -> None:
    tools = ann.tools()

    assert sorted(tools) == ["add_person", "every_person", "find_person", "query", "retrieve"]
    assert tools["every_person"].description == "All people.\n\nAsk rarely."
    schema = tools["find_person"].input_schema
    assert schema["properties"]["name"] == {"type": "string"}
    assert schema["required"] == ["name"]
    assert schema["additionalProperties"] is False


def test_a_caller_without_invoke_permission_sees_no_stored_query(server: Server) -> None:
    with agent_of(server, "rob") as rob:
        assert sorted(rob.tools()) == ["query", "retrieve"]


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "resources/read", "initialize"])
def test_a_caller_without_any_tool_permission_is_refused_for_every_message(
    server: Server, method: str
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method}

    response = server.request("POST", "/graphs/default/mcp", token=TOKENS["otto"], json=message)

    assert response.status_code == 403
    assert "policy denied action 'read'" in response.json()["error"]


def test_a_denied_tool_and_an_unknown_one_return_the_same_error(server: Server) -> None:
    with agent_of(server, "rob") as rob:
        denied = rob.refused("every_person")
        unknown = rob.refused("no_such_tool")
    over_http = server.request(
        "POST", "/graphs/default/queries/every_person", token=TOKENS["rob"], json={}
    )

    assert denied == unknown
    assert (over_http.status_code, over_http.json()["error"]) == (404, denied["message"])
    assert over_http.json()["code"] == denied["code"]


# Reading


def test_a_stored_read_returns_rows(ann: Agent) -> None:
    response = ann.call("find_person", name="Alice")

    assert (response["columns"], response["row_count"]) == (["p.name", "p.age"], 1)
    assert response["rows"] == [{"p.name": "Alice", "p.age": 30}]


def test_ad_hoc_queries_need_the_read_permission(server: Server) -> None:
    with agent_of(server, "rob") as rob, agent_of(server, "ian") as ian:
        assert rob.call("query", query=FIND_ALL)["row_count"] == 2
        assert ian.refused("query", query=FIND_ALL)["code"] == "not_found"


def test_a_value_of_the_wrong_type_is_reported_with_its_parameter(ann: Agent) -> None:
    refused = ann.refused("find_person", name="Alice", age="old")

    assert (refused["code"], refused["outcome"]) == ("bad_request", "unchanged")
    assert str(refused["message"]).startswith("param 'age':")


def test_a_stored_query_does_not_reveal_its_text(server: Server) -> None:
    with agent_of(server, "lea") as lea:
        refused = lea.refused("find_person", name="Alice")

    assert refused["code"] == "bad_request"
    assert refused["message"] == (
        "stored query 'find_person' is not valid for the schema that the caller may see"
    )


def test_a_commit_is_hidden_from_a_caller_who_may_not_read_its_branch(
    server: Server, ann: Agent
) -> None:
    commit = ann.call("every_person")["commit_id"]

    with agent_of(server, "ian") as ian:
        on_branch = ian.refused("every_person")
        at_commit = ian.refused("every_person", commit=commit)

    assert (on_branch["code"], at_commit["code"]) == ("forbidden", "forbidden")


def test_tools_show_the_rows_that_the_policy_shows(server: Server) -> None:
    with agent_of(server, "lea") as lea:
        assert lea.call("every_person")["rows"] == [{"p.name": "Alice"}]
        assert lea.call("query", query=FIND_ALL)["rows"] == [{"p.name": "Alice"}]


# Writing


def test_a_write_creates_and_uses_the_branch_of_its_actor(ann: Agent, server: Server) -> None:
    done = ann.call("add_person", name="Cid")

    assert done["branch"] == "agent/ann"
    assert ann.call("find_person", name="Cid")["row_count"] == 0
    assert ann.call("find_person", name="Cid", branch="agent/ann")["row_count"] == 1
    listed = server.request(
        "GET", "/graphs/default/commits?branch=agent%2Fann", token=TOKENS["ann"], json=None
    )
    commit = listed.json()["commits"][-1]
    assert (commit["graph_commit_id"], commit["actor_id"]) == (done["commit_id"], "ann")


def test_concurrent_writes_share_the_branch_that_the_first_creates(server: Server) -> None:
    names = [f"Guest {number}" for number in range(8)]
    with agent_of(server, "tom") as tom:
        call = tom.client.call_tool
        started = [tom.portal.start_task_soon(call, "add_person", {"name": name}) for name in names]
        branches = {each.result().structured_content["branch"] for each in started}
        found = tom.call("every_person", branch="agent/tom")["rows"]

    assert branches == {"agent/tom"}
    assert isinstance(found, list)
    assert {row["p.name"] for row in found} == {"Alice", "Bob", *names}


@pytest.mark.parametrize("branch", ["main", "release"])
def test_protected_branches_are_refused_whatever_the_policy_allows(ann: Agent, branch: str) -> None:
    refused = ann.refused("add_person", name="Eve", branch=branch)

    assert (refused["code"], refused["outcome"]) == ("forbidden", "unchanged")
    assert refused["message"] == f"tools do not write to the branch '{branch}'"
    assert "agent/ann" in str(refused["advice"])


def test_a_mutation_takes_no_commit(ann: Agent) -> None:
    refused = ann.refused("add_person", name="Eve", commit="main")

    assert (refused["code"], refused["outcome"]) == ("bad_request", "unchanged")
    assert str(refused["message"]).startswith("param 'commit':")


def test_a_change_that_the_policy_denies_is_reported_as_denied(server: Server) -> None:
    with agent_of(server, "ivo") as ivo:
        assert ivo.call("every_person")["row_count"] == 2
        refused = ivo.refused("add_person", name="Eve")

    assert refused["code"] == "forbidden"
    assert "policy denied action 'change' on branch 'agent/ivo'" in str(refused["message"])
    assert "Calling again will not help" in str(refused["advice"])


def test_a_branch_is_not_created_without_permission(server: Server) -> None:
    with agent_of(server, "dora") as dora:
        refused = dora.refused("add_person", name="Eve")
        listed = json.loads(dora.read("omnigraph://graph/branches"))["branches"]

    assert "policy denied action 'branch_create'" in str(refused["message"])
    assert "agent/dora" not in listed


def test_a_server_that_allows_it_lets_agents_write_to_main(open_server: Server) -> None:
    with http_agent(f"{open_server.graph_url}/mcp", token=None, mode="auto") as agent:
        named = agent.call("add_person", name="Cid", branch="main")
        unnamed = agent.call("add_person", name="Dan")

    assert (named["branch"], unnamed["branch"]) == ("main", "agent/local")


# Resources


def test_resources_contain_only_what_the_policy_allows(server: Server, ann: Agent) -> None:
    with agent_of(server, "ian") as ian:
        refused = ian.read_refused("omnigraph://graph/schema")

    assert "node Person" in ann.read("omnigraph://graph/schema")
    assert "main" in json.loads(ann.read("omnigraph://graph/branches"))["branches"]
    assert json.loads(ann.read("omnigraph://graph/commits/main"))["commit_count"] >= 1
    assert "policy denied action 'read'" in str(refused)


# Authentication and requests


def test_a_client_of_the_older_protocol_gets_the_same_results(server: Server) -> None:
    with agent_of(server, "ann", mode="legacy") as agent:
        assert agent.call("find_person", name="Alice")["row_count"] == 1
        assert agent.refused("find_person", name=1)["code"] == "bad_request"


def test_an_agent_without_a_token_is_refused(server: Server) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    response = server.request("POST", "/graphs/default/mcp", token=None, json=hello)

    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")


def test_a_graph_that_is_not_served_has_no_tools(server: Server) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    response = server.request("POST", "/graphs/other/mcp", token=TOKENS["ann"], json=hello)

    assert response.status_code == 404


def test_the_endpoint_has_no_sessions_to_open_or_end(server: Server) -> None:
    for method in ("GET", "DELETE"):
        response = server.request(method, "/graphs/default/mcp", token=TOKENS["ann"], json=None)

        assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[::1", 403),
        ("http://localhost:6274", 200),
        ("http://127.0.0.1", 200),
    ],
)
def test_a_page_of_another_origin_cannot_call_tools_of_an_open_server(
    open_server: Server, origin: str, status: int
) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Origin": origin, "Accept": "application/json, text/event-stream"}

    response = open_server.request(
        "POST", "/graphs/default/mcp", token=None, json=hello, headers=headers
    )

    assert response.status_code == status


def test_requests_of_agents_have_ids_and_are_counted(server: Server) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"X-Request-Id": "mine", "Accept": "application/json"}

    response = server.request(
        "POST", "/graphs/default/mcp", token=TOKENS["ann"], json=hello, headers=headers
    )
    counted = server.request("GET", "/metrics", token=TOKENS["ann"], json=None).text

    assert response.headers["x-request-id"] == "mine"
    assert "/graphs/{graph_id}/mcp" in counted


def test_a_body_that_is_too_long_or_not_a_message_is_refused(server: Server) -> None:
    long = server.request(
        "POST", "/graphs/default/mcp", token=TOKENS["ann"], json={"x": "y" * (1024 * 1024)}
    )
    senseless = server.request(
        "POST",
        "/graphs/default/mcp",
        token=TOKENS["ann"],
        json={"no": "message"},
        headers={"Accept": "application/json"},
    )

    assert (long.status_code, senseless.status_code) == (413, 400)


# Through the command line


def test_the_tools_of_a_server_are_reached_by_the_command_line_too(server: Server) -> None:
    arguments = ("--server", server.url, "--graph", "default", "--ad-hoc")
    env = {"OMNIGRAPH_BEARER_TOKEN": TOKENS["ann"]}

    with stdio_agent(*arguments, mode="auto", env=env) as agent:
        assert "find_person" in agent.tools()
        assert agent.call("find_person", name="Alice")["row_count"] == 1
        assert agent.call("query", query=FIND_ALL)["row_count"] == 2
        assert agent.call("add_person", name="Fay")["branch"] == "agent/ann"
        assert agent.call("find_person", name="Fay", branch="agent/ann")["row_count"] == 1
        assert agent.refused("add_person", name="Gus", branch="main")["code"] == "forbidden"
        assert agent.refused("find_person", name=1)["code"] == "bad_request"


def test_the_command_line_is_subject_to_the_servers_policy(server: Server) -> None:
    arguments = ("--server", server.url, "--graph", "default", "--allow-main")
    env = {"OMNIGRAPH_BEARER_TOKEN": TOKENS["ivo"]}

    with stdio_agent(*arguments, mode="auto", env=env) as agent:
        refused = agent.refused("add_person", name="Eve", branch="main")

    assert "policy denied action 'change' on branch 'main'" in str(refused["message"])
