"""`omnigraph init` and `omnigraph schema`: what a schema is, what it would be."""

from pathlib import Path

import pytest

from tests.support.commands import invoke_command
from tests.support.graphs import SOCIAL
from tests.support.stored_people import store_people, write_schema, write_text

WITH_NICK = SOCIAL.replace("age: I32?", "age: I32?  nick: String?")
OTHER_TYPE = SOCIAL.replace("age: I32?", "age: I64?")


def test_a_new_graph_is_made_where_nothing_was(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "graph"

    ended = invoke_command("init", store, "--schema", write_schema(tmp_path))

    assert (ended.code, ended.out) == (0, f"initialized {store}\n")
    assert invoke_command("branch", "list", "--store", store).out == "main\n"


def test_a_graph_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    store, schema = store_people(tmp_path), write_schema(tmp_path)

    refused = invoke_command("init", store, "--schema", schema)
    forced = invoke_command("init", store, "--schema", schema, "--force", "--yes")

    assert refused.code == 1
    assert forced.code == 0, forced.err
    assert "rows=0" in invoke_command("snapshot", store).out


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_graph_with_commits_is_replaced_only_after_a_confirmation(
    tmp_path: Path, *, is_damaged: bool
) -> None:
    store, schema = store_people(tmp_path), write_schema(tmp_path)
    if is_damaged:
        (store / "_schema.pg").write_text("node {", encoding="utf-8")
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}

    ended = invoke_command("init", store, "--schema", schema, "--force")

    assert ended.code == 1
    assert "delete the graph and its history" in ended.err
    assert "--yes" in ended.err
    after = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert after == before


def test_an_empty_graph_is_replaced_without_a_confirmation(tmp_path: Path) -> None:
    store, schema = tmp_path / "graph", write_schema(tmp_path)
    invoke_command("init", store, "--schema", schema)

    forced = invoke_command("init", store, "--schema", schema, "--force")

    assert forced.code == 0, forced.err


@pytest.mark.parametrize("flags", [[], ["--force"], ["--force", "--yes"]], ids=" ".join)
def test_a_folder_of_other_files_does_not_become_a_graph(tmp_path: Path, flags: list[str]) -> None:
    schema = write_schema(tmp_path)

    ended = invoke_command("init", tmp_path, "--schema", schema, *flags)

    assert ended.code == 1
    assert f"not part of a graph ({schema.name})" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == [schema.name]


@pytest.mark.parametrize("is_json", [False, True])
def test_a_mistake_in_a_schema_is_reported_with_its_place(tmp_path: Path, *, is_json: bool) -> None:
    store = store_people(tmp_path)
    path = write_text(tmp_path, "wrong.pg", "\nnode P { name: Strin @key }")
    json = ["--json"] * is_json

    made = invoke_command("init", tmp_path / "new", "--schema", path)
    planned = invoke_command("schema", "plan", store, "--schema", path, *json)
    applied = invoke_command("schema", "apply", store, "--schema", path, *json)

    for ended in (made, planned, applied):
        assert ended.code == 1
        assert f"--> {path}:2:16" in ended.err


def test_the_schema_is_printed_as_it_was_written(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    shown = invoke_command("schema", "show", store)
    same = invoke_command("schema", "get", store)
    found = invoke_command("schema", "show", store, "--json")

    assert shown.out == SOCIAL == same.out
    assert found.body == {"schema_source": SOCIAL}


def test_a_plan_of_a_graph_lists_steps_and_changes_nothing(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    desired = write_text(tmp_path, "new.pg", WITH_NICK)

    ended = invoke_command("schema", "plan", store, "--schema", desired)

    assert ended.out.splitlines() == [
        f"schema plan for {store}",
        "supported: yes",
        "- add property Person.nick: String?",
    ]
    assert ended.err == ""
    assert invoke_command("schema", "show", store).out == SOCIAL


def test_a_change_of_type_is_planned_as_unsupported_and_not_applied(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    desired = write_text(tmp_path, "new.pg", OTHER_TYPE)

    planned = invoke_command("schema", "plan", store, "--schema", desired, "--json")
    applied = invoke_command("schema", "apply", store, "--schema", desired)

    assert planned.code == 0, planned.err
    assert (planned.fields["supported"], planned.fields["step_count"]) == (False, 1)
    steps = planned.fields["steps"]
    assert isinstance(steps, list)
    assert steps[0]["kind"] == "unsupported_change"
    assert applied.code == 1
    assert "changing property type" in applied.err


def test_a_schema_is_applied_once(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    desired = write_text(tmp_path, "new.pg", WITH_NICK)

    first = invoke_command("schema", "apply", store, "--schema", desired)
    again = invoke_command("schema", "apply", store, "--schema", desired)
    found = invoke_command("schema", "apply", store, "--schema", desired, "--json")

    assert first.out.splitlines() == [
        f"schema apply for {store}",
        "supported: yes",
        "applied: yes",
        "- add property Person.nick: String?",
    ]
    assert first.err == f"omnigraph schema apply → {store} (direct, local)\n"
    assert again.out.splitlines()[2:] == ["applied: no", "no schema changes"]
    assert {**found.fields, "manifest_version": 0} == {
        "uri": str(store),
        "supported": True,
        "applied": False,
        "step_count": 0,
        "manifest_version": 0,
        "steps": [],
        "commit_id": None,
    }


def test_a_plan_takes_one_accepted_schema(tmp_path: Path) -> None:
    schema = write_schema(tmp_path)

    ended = invoke_command("schema", "plan", "graph", "--from", schema, "--schema", schema)

    assert ended.code == 2


@pytest.fixture
def managed(tmp_path: Path) -> Path:
    """The place of a graph that a cluster manages."""
    (tmp_path / "__cluster").mkdir()
    write_text(tmp_path / "__cluster", "state.json", "{}")
    (tmp_path / "graphs").mkdir()
    return tmp_path / "graphs" / "x.omni"


@pytest.mark.parametrize("verb", [["init"], ["schema", "apply"]], ids=" ".join)
def test_what_a_cluster_manages_is_changed_by_the_cluster(
    verb: list[str], managed: Path, tmp_path: Path
) -> None:
    ended = invoke_command(*verb, managed, "--schema", write_schema(tmp_path))

    assert ended.code == 1
    assert "cluster apply" in ended.err
    assert not managed.exists()


def test_a_folder_with_only_the_name_of_a_cluster_folder_is_not_managed(tmp_path: Path) -> None:
    store = tmp_path / "graphs" / "x.omni"

    ended = invoke_command("init", store, "--schema", write_schema(tmp_path))

    assert ended.code == 0, ended.err
