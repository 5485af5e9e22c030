"""Tools over the standard streams, called by the client of the SDK."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.model.limits import ROWS_MAX
from tests.support.agents import Agent, stdio_agent
from tests.support.commands import command_environment, run_command
from tests.support.graphs import SOCIAL, build_graph, ndjson, node

QUERIES = """
query every_person() @description("All people.") @instruction("Ask rarely.") {
    match { $p: Person }
    return { $p.name }
    order { $p.name }
}
query find_person($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query kinds(
    $big: I64, $few: [I32], $vector: Vector(4), $day: Date?, $at: DateTime, $is: Bool, $f: F64
) {
    match { $p: Person { age: $big } }
    return { $p.name }
}
query on_branch($branch: String, $commit: String?) {
    match { $p: Person { name: $branch } }
    return { $p.name }
}
query query_person($name: String) { match { $p: Person { name: $name } } return { $p.age } }
query add_person($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
"""
FIND_ALL = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


def make_graph(folder: Path) -> tuple[Path, Path]:
    """A graph with two people in it, and a file of queries."""
    store, queries = folder / "graph", folder / "queries.gq"
    people = (node("Person", name="Alice", age=30), node("Person", name="Bob", age=None))
    build_graph(store, SOCIAL, *people).close()
    queries.write_text(QUERIES, encoding="utf-8")
    return store, queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("graph")
    make_graph(found)
    return found


@pytest.fixture(scope="module")
def agent(folder: Path) -> Iterator[Agent]:
    arguments = ("--store", folder / "graph", "--queries", folder / "queries.gq", "--ad-hoc")
    with stdio_agent(*arguments, mode="auto", env={}) as connected:
        yield connected


# Tool descriptions


def test_every_stored_query_is_a_tool_with_its_texts(agent: Agent) -> None:
    tools = agent.tools()

    assert sorted(tools) == [
        "add_person",
        "every_person",
        "find_person",
        "kinds",
        "on_branch",
        "query",
        "query_person",
        "retrieve",
    ]
    assert tools["every_person"].description == "All people.\n\nAsk rarely."
    assert tools["find_person"].description == "The stored query `find_person`."


def test_parameters_are_typed_and_nothing_else_is_taken(agent: Agent) -> None:
    schema = agent.tools()["kinds"].input_schema

    of = schema["properties"]
    assert of["big"]["anyOf"] == [
        {"type": "integer"},
        {"type": "string", "pattern": "^-?[0-9]{1,20}$"},
    ]
    assert of["few"]["items"] == {
        "type": "integer",
        "minimum": -(2**31),
        "maximum": 2**32 - 1,
    }
    assert (of["vector"]["minItems"], of["vector"]["maxItems"]) == (4, 4)
    assert of["day"]["anyOf"][0]["format"] == "date"
    assert of["day"]["anyOf"][1] == {"type": "null"}
    assert of["at"]["format"] == "date-time"
    assert (of["is"]["type"], of["f"]["type"]) == ("boolean", "number")
    assert schema["required"] == ["big", "few", "vector", "at", "is", "f"]
    assert schema["additionalProperties"] is False


def test_a_read_takes_a_branch_or_commit_and_a_write_only_a_branch(agent: Agent) -> None:
    tools = agent.tools()

    assert {"branch", "commit"} < tools["find_person"].input_schema["properties"].keys()
    assert tools["add_person"].input_schema["properties"].keys() == {"name", "age", "branch"}
    assert tools["add_person"].input_schema["required"] == ["name"]


def test_a_parameter_called_branch_stays_the_querys_own(agent: Agent) -> None:
    properties = agent.tools()["on_branch"].input_schema["properties"]

    assert properties.keys() == {"branch", "commit", "graph_branch", "graph_commit"}
    assert agent.call("on_branch", branch="Alice", graph_branch="main")["row_count"] == 1


def test_hints_say_which_tools_only_read(agent: Agent) -> None:
    tools = agent.tools()

    reading, changing = tools["find_person"].annotations, tools["add_person"].annotations
    assert reading is not None
    assert changing is not None
    assert (reading.read_only_hint, reading.idempotent_hint) == (True, True)
    assert (changing.read_only_hint, changing.destructive_hint) == (False, True)
    assert changing.idempotent_hint is False


def test_tool_descriptions_state_where_writes_go(agent: Agent) -> None:
    assert "`agent/local`" in str(agent.client.instructions)


# Reading


def test_a_read_returns_rows_and_the_commit_that_was_read(agent: Agent, folder: Path) -> None:
    result = agent.call("find_person", name="Alice")

    with omnigraph.open(str(folder / "graph")) as graph:
        assert result == {
            "columns": ["p.name", "p.age"],
            "rows": [{"p.name": "Alice", "p.age": 30}],
            "row_count": 1,
            "commit_id": graph.head(),
        }


def test_a_read_at_a_commit_returns_the_rows_of_that_commit(agent: Agent, folder: Path) -> None:
    with omnigraph.open(str(folder / "graph")) as graph:
        first = graph.commits()[0].id

    assert agent.call("every_person", commit=first)["rows"] == []


def test_an_agent_runs_reads_of_its_own_where_that_is_allowed(agent: Agent) -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }"

    result = agent.call("query", query=text, params={"n": "Bob"})

    assert result["rows"] == [{"p.name": "Bob"}]


def test_an_agent_retrieves_what_the_graph_holds_about_a_text(tmp_path: Path) -> None:
    schema = "node Note { key: String @key  body: String @index }"
    build_graph(tmp_path / "graph", schema, node("Note", key="n1", body="wind turns mills")).close()

    with stdio_agent("--store", tmp_path / "graph", "--ad-hoc", mode="auto", env={}) as agent:
        found = agent.call("retrieve", text="wind mills", types=["Note"])
        refused = agent.refused("retrieve", text="wind", types="Note")

    assert "wind turns mills" in str(found["text"])
    assert found["passages"] == [{"rank": 1, "type": "Note", "id": "n1"}]
    assert refused["message"] == "types: expected a list of names"


def test_a_read_tool_refuses_to_write(agent: Agent) -> None:
    refused = agent.refused("query", query='query q() { insert Person { name: "Eve" } }')

    assert (refused["code"], refused["outcome"]) == ("bad_request", "unchanged")


def test_a_result_that_is_too_long_is_truncated_and_says_so(tmp_path: Path) -> None:
    store, queries = make_graph(tmp_path)
    with omnigraph.open(str(store)) as graph:
        people = [node("Person", name=f"P{number:04}") for number in range(ROWS_MAX)]
        graph.load(ndjson(*people), mode="append")

    with stdio_agent("--store", store, "--queries", queries, mode="auto", env={}) as agent:
        result = agent.call("every_person")

    rows = result["rows"]
    assert isinstance(rows, list)
    assert (len(rows), result["row_count"]) == (ROWS_MAX, ROWS_MAX + 2)
    assert str(result["note"]).startswith("Only the first 500 of 502 rows are shown")


def test_long_rows_are_cut_before_they_fill_a_context(tmp_path: Path) -> None:
    schema = "node Note { key: String @key  body: String }"
    notes = [node("Note", key=f"n{number}", body="x" * 100_000) for number in range(4)]
    build_graph(tmp_path / "graph", schema, *notes).close()
    text = "query q() { match { $n: Note } return { $n.key, $n.body } order { $n.key } }"

    with stdio_agent("--store", tmp_path / "graph", "--ad-hoc", mode="auto", env={}) as agent:
        result = agent.call("query", query=text)

    rows = result["rows"]
    assert isinstance(rows, list)
    assert [row["n.key"] for row in rows] == ["n0", "n1"]
    assert result["row_count"] == 4
    assert "2 of 4 rows" in str(result["note"])


# Writing


def test_a_write_goes_to_the_agents_own_branch_and_is_read_there(tmp_path: Path) -> None:
    store, queries = make_graph(tmp_path)

    with stdio_agent("--store", store, "--queries", queries, mode="auto", env={}) as agent:
        done = agent.call("add_person", name="Cid", age=41)
        on_main = agent.call("find_person", name="Cid")
        on_branch = agent.call("find_person", name="Cid", branch=done["branch"])
        again = agent.call("add_person", name="Dan")

    assert (done["affected_nodes"], done["affected_edges"]) == (1, 0)
    assert done["branch"] == again["branch"] == "agent/local"
    assert (on_main["row_count"], on_branch["row_count"]) == (0, 1)
    assert on_branch["commit_id"] == done["commit_id"]


def test_the_branch_is_named_after_the_actor_of_its_commits(tmp_path: Path) -> None:
    store, queries = make_graph(tmp_path)
    arguments = ("--store", store, "--queries", queries, "--as", "ann@example.org")

    with stdio_agent(*arguments, mode="auto", env={}) as agent:
        branch = str(agent.call("add_person", name="Cid")["branch"])

    assert branch.startswith("agent/ann-example-org-")
    with omnigraph.open(str(store)) as graph:
        assert graph.commits(branch)[-1].actor == "ann@example.org"


def test_a_write_to_main_is_refused_with_advice(agent: Agent, folder: Path) -> None:
    refused = agent.refused("add_person", name="Eve", branch="main")

    assert refused == {
        "code": "forbidden",
        "message": "tools do not write to the branch 'main'",
        "outcome": "unchanged",
        "advice": "Nothing was changed. Leave out the branch to write to 'agent/local'; a person "
        "reviews it and merges it into 'main'.",
    }
    with omnigraph.open(str(folder / "graph")) as graph:
        assert [row["p.name"] for row in graph.query(FIND_ALL)] == ["Alice", "Bob"]


def test_with_permission_main_is_written_to_if_it_is_named(tmp_path: Path) -> None:
    store, queries = make_graph(tmp_path)
    arguments = ("--store", store, "--queries", queries, "--allow-main")

    with stdio_agent(*arguments, mode="auto", env={}) as agent:
        named = agent.call("add_person", name="Cid", branch="main")
        unnamed = agent.call("add_person", name="Dan")

    assert (named["branch"], unnamed["branch"]) == ("main", "agent/local")


def test_only_the_agents_own_branch_is_created_on_demand(agent: Agent) -> None:
    refused = agent.refused("add_person", name="Eve", branch="elsewhere")

    assert (refused["code"], refused["outcome"]) == ("not_found", "unchanged")


# Refusals


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "parameter 'name' not provided"),
        ({"name": 7}, "a string is needed, not a number"),
        ({"name": "Alice", "nmae": "x"}, "the query declares no such parameter"),
        ({"name": "Alice", "branch": "a..b"}, "invalid branch 'a..b'"),
        ({"name": "Alice", "branch": "main", "commit": "x"}, "not at both"),
    ],
)
def test_invalid_arguments_are_reported(
    agent: Agent, arguments: dict[str, object], problem: str
) -> None:
    refused = agent.refused("find_person", **arguments)

    assert refused["code"] == "bad_request"
    assert problem in str(refused["message"])
    assert refused["advice"] == "Nothing was changed. Change the arguments and call again."


def test_an_unknown_tool_is_reported_as_by_a_server(agent: Agent) -> None:
    refused = agent.refused("no_such_tool")

    assert (refused["code"], refused["message"]) == ("not_found", "stored query not found")


def test_without_permission_an_agent_runs_no_ad_hoc_queries(tmp_path: Path) -> None:
    store, queries = make_graph(tmp_path)

    with stdio_agent("--store", store, "--queries", queries, mode="auto", env={}) as agent:
        assert not {"query", "retrieve"} & agent.tools().keys()
        assert agent.refused("query", query=FIND_ALL)["code"] == "not_found"


# Resources


def test_schema_branches_and_commits_are_resources(agent: Agent, folder: Path) -> None:
    listed = agent.portal.call(agent.client.list_resources).resources
    templates = agent.portal.call(agent.client.list_resource_templates).resource_templates

    assert [each.uri for each in listed] == [
        "omnigraph://graph/schema",
        "omnigraph://graph/branches",
        "omnigraph://graph/commits/main",
    ]
    assert [each.uri_template for each in templates] == ["omnigraph://graph/commits/{branch}"]
    with omnigraph.open(str(folder / "graph")) as graph:
        assert agent.read("omnigraph://graph/schema") == graph.schema_source
        assert "main" in json.loads(agent.read("omnigraph://graph/branches"))["branches"]
        history = json.loads(agent.read("omnigraph://graph/commits/main"))
        assert history["commits"][0]["graph_commit_id"] == graph.head()
        assert history["commit_count"] == len(graph.commits())


def test_the_commits_of_a_branch_are_found_by_its_encoded_name(agent: Agent) -> None:
    agent.call("add_person", name="Zoe")

    history = json.loads(agent.read("omnigraph://graph/commits/agent%2Flocal"))

    assert history["branch"] == "agent/local"


def test_an_unknown_resource_is_reported(agent: Agent) -> None:
    assert "resource 'omnigraph://graph/rows' not found" in str(
        agent.read_refused("omnigraph://graph/rows")
    )
    assert "not found" in str(agent.read_refused("omnigraph://graph/commits/nowhere"))


# The process


def test_a_client_of_the_older_protocol_gets_the_same_results(folder: Path) -> None:
    arguments = ("--store", folder / "graph", "--queries", folder / "queries.gq")

    with stdio_agent(*arguments, mode="legacy", env={}) as agent:
        assert agent.call("find_person", name="Alice")["row_count"] == 1
        assert agent.refused("find_person", name=1)["code"] == "bad_request"


def test_the_command_ends_with_its_input_and_prints_only_messages(folder: Path) -> None:
    store, queries = folder / "graph", folder / "queries.gq"

    ended = run_command("mcp", "--store", store, "--queries", queries)

    assert (ended.code, ended.out) == (0, "")
    assert f"omnigraph mcp → {store}" in ended.err


def test_an_invalid_message_gets_a_response_and_does_not_end_the_session(folder: Path) -> None:
    command = [sys.executable, "-m", "omnigraph", "mcp", "--store", str(folder / "graph")]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }

    finished = subprocess.run(
        command,
        input=f"no JSON\n{json.dumps(hello)}\n",
        env=command_environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    responses = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [each["result"]["serverInfo"]["name"] for each in responses if "result" in each] == [
        "omnigraph"
    ]


def test_queries_that_do_not_fit_the_schema_keep_it_from_starting(
    folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gq"
    broken.write_text("query q() { match { $p: Persn } return { $p.name } }", encoding="utf-8")

    ended = run_command("mcp", "--store", folder / "graph", "--queries", broken)

    assert (ended.code, ended.out) == (1, "")
    assert "Persn" in ended.err
