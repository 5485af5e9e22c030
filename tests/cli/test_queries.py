"""`omnigraph queries list` and `validate`: what a cluster serves, and whether it still fits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph
from tests.support.clusters import (
    FIND_PERSON,
    PEOPLE,
    PLACES,
    applied_cluster,
    knowledge_cluster,
    write_config,
    write_files,
)
from tests.support.commands import Ended, invoke_command

ADD = (
    "query add_person($name: String, $tags: [String], $near: Vector(3)?)\n"
    '  @description("Add a person.\\nThe name is the key.")\n'
    '  @instruction("Ask before.")\n'
    "{ insert Person { name: $name } }\n"
)
ALL_PLACES = "query all_places() {\n  match { $p: Place }\n  return { $p.name }\n}\n"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of two graphs, each with queries."""
    folder = tmp_path_factory.mktemp("two")
    write_files(
        folder,
        {
            "people.pg": PEOPLE,
            "places.pg": PLACES,
            # One file for both, as a folder may have it.
            "people/all.gq": FIND_PERSON + ADD,
            "places.gq": ALL_PLACES,
        },
    )
    write_config(
        folder,
        {
            "graphs": {
                "knowledge": {"schema": "people.pg", "queries": "people"},
                "map": {"schema": "places.pg", "queries": "places.gq"},
            }
        },
    )
    return applied_cluster(folder)


def migrated(folder: Path, schema: str) -> Path:
    """A cluster with a graph whose schema was changed without the cluster."""
    applied_cluster(knowledge_cluster(folder))
    with omnigraph.open(folder / "graphs/knowledge.omni") as graph:
        graph.apply_schema(schema, allow_data_loss=True)
    return folder


def test_queries_are_listed_with_all_that_tools_need(two: Path) -> None:
    ended = invoke_command("queries", "list", "--cluster", two, "--graph", "knowledge", "--json")

    assert ended.code == 0
    assert ended.fields == {
        "queries": [
            {
                "graph": "knowledge",
                "name": "add_person",
                "mcp_expose": True,
                "tool_name": "add_person",
                "mutation": True,
                "description": "Add a person.\nThe name is the key.",
                "instruction": "Ask before.",
                "params": [
                    {"name": "name", "type": "String", "nullable": False},
                    {"name": "tags", "type": "[String]", "nullable": False},
                    {"name": "near", "type": "Vector(3)", "nullable": True},
                ],
            },
            {
                "graph": "knowledge",
                "name": "find_person",
                "mcp_expose": True,
                "tool_name": "find_person",
                "mutation": False,
                "params": [{"name": "name", "type": "String", "nullable": False}],
            },
        ]
    }


def test_queries_are_listed_for_people(two: Path) -> None:
    ended = invoke_command("queries", "list", "--cluster", two, "--graph", "knowledge")

    assert ended.out.splitlines() == [
        "mutation  add_person($name: String, $tags: [String], $near: Vector(3)?)",
        "    description: Add a person.",
        "                 The name is the key.",
        "    instruction: Ask before.",
        "read  find_person($name: String)",
    ]


def test_the_queries_of_several_graphs_are_distinguished(two: Path) -> None:
    listed = invoke_command("queries", "list", "--cluster", two)
    encoded = invoke_command("queries", "list", "--cluster", two, "--json").fields["queries"]

    assert [line for line in listed.out.splitlines() if not line.startswith(" ")] == [
        "graph knowledge",
        "mutation  add_person($name: String, $tags: [String], $near: Vector(3)?)",
        "read  find_person($name: String)",
        "graph map",
        "read  all_places()",
    ]
    assert isinstance(encoded, list)
    assert [(each["graph"], each["name"]) for each in encoded] == [
        ("knowledge", "add_person"),
        ("knowledge", "find_person"),
        ("map", "all_places"),
    ]


def test_what_was_applied_is_listed_and_not_what_is_in_the_files(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    write_files(tmp_path, {"queries/people.gq": "nonsense"})

    ended = invoke_command("queries", "list", "--cluster", tmp_path)

    assert ended.out == "read  find_person($name: String)\n"


def test_a_cluster_without_queries_says_so(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg"}}})
    applied_cluster(tmp_path)

    listed = invoke_command("queries", "list", "--cluster", tmp_path)
    encoded = invoke_command("queries", "list", "--cluster", tmp_path, "--json")
    checked = invoke_command("queries", "validate", "--cluster", tmp_path)

    assert listed.out == "(no stored queries registered)\n"
    assert encoded.fields == {"queries": []}
    assert (checked.code, checked.out) == (
        0,
        "OK  0 stored queries type-check against the schema\n",
    )


def test_queries_that_fit_are_counted(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))

    checked = invoke_command("queries", "validate", "--cluster", tmp_path)
    encoded = invoke_command("queries", "validate", "--cluster", tmp_path, "--json")

    assert (checked.code, checked.out) == (0, "OK  1 stored query type-check against the schema\n")
    assert encoded.fields == {"ok": True, "breakages": [], "warnings": []}


def test_a_vector_that_callers_have_to_bring_is_warned_about(two: Path) -> None:
    checked = invoke_command("queries", "validate", "--cluster", two)
    encoded = invoke_command("queries", "validate", "--cluster", two, "--json").fields

    assert checked.code == 0
    assert checked.out.splitlines()[0] == "OK  3 stored queries type-check against the schema"
    assert "WARN   query 'add_person': `$near` is a Vector(3)?" in checked.out
    warnings = encoded["warnings"]
    assert isinstance(warnings, list)
    assert [(each["graph"], each["query"]) for each in warnings] == [("knowledge", "add_person")]


def test_a_query_that_no_longer_fits_its_graph_is_a_breakage(tmp_path: Path) -> None:
    migrated(tmp_path, PEOPLE.replace("  age: I32?\n", ""))

    checked = invoke_command("queries", "validate", "--cluster", tmp_path)
    encoded = invoke_command("queries", "validate", "--cluster", tmp_path, "--json")

    assert (checked.code, encoded.code) == (1, 1)
    assert "ERROR  query 'find_person': type error: Person has no property `age`" in checked.out
    assert "OK" not in checked.out
    assert encoded.fields["ok"] is False
    [breakage] = json.loads(encoded.out)["breakages"]
    assert (breakage["graph"], breakage["query"]) == ("knowledge", "find_person")
    assert "`age`" in breakage["message"]


def test_a_graph_that_is_not_applied_has_no_queries(two: Path) -> None:
    for verb in ("list", "validate"):
        ended = invoke_command("queries", verb, "--cluster", two, "--graph", "other")

        assert (ended.code, ended.out) == (1, "")
        assert "'other' is not applied in cluster" in ended.err


def test_a_graph_that_is_being_changed_is_left_out_and_reported(tmp_path: Path, two: Path) -> None:
    write_files(
        tmp_path,
        {
            each.relative_to(two).as_posix(): each.read_text()
            for each in two.rglob("*")
            if each.is_file() and "graphs" not in each.relative_to(two).parts
        },
    )
    sidecar = {
        "schema_version": 1,
        "operation_id": "01K0000000000000000000000A",
        "started_at": "2026-01-01T00:00:00Z",
        "actor": None,
        "kind": "schema_apply",
        "graph_id": "knowledge",
        "graph_uri": "somewhere",
        "observed_manifest_version": 1,
        "expected_manifest_version": 2,
        "desired_schema_digest": "0" * 64,
        "state_cas_base": "sha256:0",
        "approval_id": None,
    }
    path = f"__cluster/recoveries/{sidecar['operation_id']}.json"
    write_files(tmp_path, {path: json.dumps(sidecar)})

    listed = invoke_command("queries", "list", "--cluster", tmp_path)
    named = invoke_command("queries", "list", "--cluster", tmp_path, "--graph", "knowledge")

    assert (listed.code, listed.out) == (0, "read  all_places()\n")
    assert "warning: graph 'knowledge' is skipped" in listed.err
    assert (named.code, named.out) == (1, "")
    assert "graph 'knowledge' is skipped" in named.err


def test_a_tampered_query_is_not_listed(tmp_path: Path) -> None:
    applied_cluster(knowledge_cluster(tmp_path))
    [blob] = (tmp_path / "__cluster/resources/query/knowledge/find_person").iterdir()
    blob.write_text(FIND_PERSON.replace("age", "name"))

    ended = invoke_command("queries", "list", "--cluster", tmp_path)

    assert (ended.code, ended.out) == (1, "")
    assert "does not match its name" in ended.err


def test_a_profile_of_a_cluster_names_its_queries(two: Path, tmp_path: Path) -> None:
    write_files(
        tmp_path, {"config.yaml": f"profiles: {{ p: {{ cluster: {two}, default_graph: map }} }}"}
    )

    ended = invoke_command("queries", "list", "--profile", "p", home=tmp_path)

    assert ended.out == "read  all_places()\n"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "--cluster <dir|uri|name>"),
        (["--store", "g"], "g is not one"),
        (["--server", "http://h:1"], "--server does not apply"),
    ],
)
def test_queries_are_those_of_a_cluster(flags: list[str], problem: str) -> None:
    def refused(verb: str) -> Ended:
        return invoke_command("queries", verb, *flags)

    for verb in ("list", "validate"):
        assert refused(verb).code == 1
        assert problem in refused(verb).err
