"""`omnigraph export`, `entity` and `explain`: what is stored, and how it is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import command_environment, invoke_command, run_command
from tests.support.graphs import build_graph, node
from tests.support.stored_people import ALL, store_people


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_people(tmp_path_factory.mktemp("export"))


def records(*flags: str | Path) -> list[dict[str, object]]:
    ended = invoke_command("export", *flags)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_what_is_exported_loads_again(store: Path, tmp_path: Path) -> None:
    schema = invoke_command("schema", "show", store).out
    omnigraph.init(tmp_path / "copy", schema).close()

    exported = run_command("export", store)
    loaded = run_command(
        *("load", "--data", "-", "--mode", "append", tmp_path / "copy", "--json"),
        stdin=exported.out,
    )

    assert (exported.code, exported.err) == (0, "")
    assert (loaded.fields["nodes_loaded"], loaded.fields["edges_loaded"]) == (6, 5)
    assert invoke_command("export", tmp_path / "copy").out == exported.out


def test_edges_come_before_nodes(store: Path) -> None:
    kinds = ["edge" if "edge" in each else "node" for each in records(store)]

    assert kinds == ["edge"] * 5 + ["node"] * 6


def test_only_the_types_that_are_named_are_exported(store: Path) -> None:
    by_name = records(store, "--type", "Person", "--type", "Company")
    by_key = records(store, "--table", "edge:Knows")

    assert {each["type"] for each in by_name} == {"Person", "Company"}
    assert [each["edge"] for each in by_key] == ["Knows"] * 3


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--type", "Persn"], "Persn"),
        (["--table", "node:Knows"], "node:Knows"),
        (["--table", "Person"], "node:Name or edge:Name"),
    ],
)
def test_a_type_that_is_not_there_is_named(flags: list[str], says: str, store: Path) -> None:
    ended = invoke_command("export", store, *flags)

    assert ended.code == 1
    assert ended.out == ""
    assert says in ended.err


def test_the_old_flag_warns_and_changes_nothing(store: Path) -> None:
    ended = invoke_command("export", store, "--jsonl")

    assert "`--jsonl` is deprecated" in ended.err
    assert ended.out == invoke_command("export", store).out


def test_files_are_written_where_they_are_wanted(store: Path, tmp_path: Path) -> None:
    ended = invoke_command("export", store, "--out", tmp_path / "out", "--format", "parquet")

    assert ended.code == 0, ended.err
    assert f"{tmp_path / 'out' / 'Person.parquet'} Person rows=4" in ended.out.splitlines()
    assert (tmp_path / "out" / "Person.parquet").exists()


def test_a_format_is_for_files(store: Path) -> None:
    assert invoke_command("export", store, "--format", "parquet").code == 2


def test_a_reader_that_has_enough_ends_an_export_without_a_word(tmp_path: Path) -> None:
    people = (node("P", name=f"{number:06}" * 20) for number in range(20_000))
    build_graph(tmp_path / "g", "node P { name: String @key }", *people).close()
    export = [sys.executable, "-m", "omnigraph", "export", str(tmp_path / "g")]

    with subprocess.Popen(
        export, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=command_environment()
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        first = running.stdout.readline()
        running.stdout.close()
        complaint = running.stderr.read()

    assert json.loads(first)["type"] == "P"
    assert complaint == b""


def test_one_entity_is_shown_with_all_it_has(store: Path) -> None:
    shown = invoke_command("entity", "Person", "Alice", "--uri", store)
    entity = invoke_command("entity", "Person", "Alice", "--uri", store, "--json")

    assert set(shown.out.splitlines()) == {"id: Alice", "name: Alice", "age: 30"}
    assert entity.body == {
        "type": "Person",
        "id": "Alice",
        "entity": {"id": "Alice", "age": 30, "name": "Alice"},
    }


def test_an_entity_that_is_not_there_ends_with_1(store: Path) -> None:
    shown = invoke_command("entity", "Person", "Zoe", "--uri", store)
    entity = invoke_command("entity", "Person", "Zoe", "--uri", store, "--json")

    assert (shown.code, shown.out) == (1, "")
    assert "Person 'Zoe' not found" in shown.err
    assert entity.code == 1
    assert entity.fields["entity"] is None


def test_a_query_is_explained_without_being_run(store: Path) -> None:
    shown = invoke_command("explain", "-e", ALL, "--store", store)
    entity = invoke_command("explain", "-e", ALL, "--store", store, "--json")

    assert "scan $p: Person" in shown.out
    assert entity.body == {"plan": shown.out.removesuffix("\n")}


def test_nothing_to_explain_is_a_usage_error(store: Path) -> None:
    assert invoke_command("explain", "--store", store).code == 2
