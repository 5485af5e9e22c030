"""`omnigraph load`: files and pipes of rows as one commit, and its old form `ingest`."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph
from tests.support.commands import invoke_command, run_command
from tests.support.graphs import SOCIAL, edge, node
from tests.support.stored_people import store_people, write_rows, write_text


def empty_graph(folder: Path) -> Path:
    omnigraph.init(folder / "graph", SOCIAL).close()
    return folder / "graph"


def test_a_load_counts_what_it_brought_in(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)

    ended = invoke_command(
        "load", "--data", write_rows(tmp_path), "--mode", "overwrite", store, "--json"
    )

    assert ended.code == 0, ended.err
    assert {**ended.fields, "commit_id": ""} == {
        "uri": str(store),
        "branch": "main",
        "mode": "overwrite",
        "branch_created": False,
        "nodes_loaded": 6,
        "edges_loaded": 5,
        "node_types_loaded": 2,
        "edge_types_loaded": 2,
        "rejected": 0,
        "commit_id": "",
        "actor_id": None,
        "engine": "inline",
    }


def test_a_load_reports_the_same_as_text(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)

    ended = invoke_command("load", "--data", write_rows(tmp_path), "--mode", "merge", store)

    assert ended.out == (
        f"loaded {store} on branch main with merge: 6 nodes across 2 node types, "
        "5 edges across 2 edge types\n"
    )
    assert ended.err == f"omnigraph load → {store} (direct, local)\n"


@pytest.mark.parametrize(
    "flags",
    [
        ["--data", "rows.jsonl"],
        ["--mode", "merge"],
        ["--mode", "replace", "--data", "rows.jsonl"],
        ["--mode", "merge", "--data", "-", "--data", "rows.jsonl"],
        ["--mode", "merge", "--data", "rows.jsonl", "--spark-conf", "memory"],
        ["--mode", "merge", "--data", "x", "--engine", "inline", "--spark-master", "local[1]"],
    ],
    ids=" ".join,
)
def test_a_load_that_is_not_fully_said_is_a_usage_error(flags: list[str], tmp_path: Path) -> None:
    ended = invoke_command("load", tmp_path / "graph", *flags)

    assert ended.code == 2
    assert ended.out == ""


def test_a_missing_branch_is_made_only_if_its_base_is_said(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    rows = write_rows(tmp_path, node("Person", name="Eve"))
    command = ("load", "--data", rows, "--mode", "merge", store, "--branch", "new")

    refused = invoke_command(*command)
    made = invoke_command(*command, "--from", "main", "--json")
    again = invoke_command(*command, "--from", "main")

    assert refused.code == 1
    assert "branch 'new' not found" in refused.err
    assert made.code == 0, made.err
    assert (made.fields["branch_created"], made.fields["base_branch"]) == (True, "main")
    assert again.out.count("\n") == 1


def test_a_created_branch_is_reported(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    rows = write_rows(tmp_path, node("Person", name="Eve"))

    ended = invoke_command(
        *("load", "--data", rows, "--mode", "merge", store, "--branch", "new", "--from", "main")
    )

    assert ended.out.splitlines()[1:] == ["branch new created from main"]


def test_rows_may_come_through_a_pipe(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)

    ended = run_command(
        *("load", "--data", "-", "--mode", "append", "--store", store, "--json", "--quiet"),
        stdin='{"type": "Person", "data": {"name": "Ann"}}\n',
    )

    assert (ended.code, ended.err) == (0, "")
    assert ended.fields["nodes_loaded"] == 1


def test_several_files_of_several_formats_are_one_commit(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)
    people = tmp_path / "Person.parquet"
    parquet.write_table(
        pa.table({"name": ["Ann", "Bo"], "age": pa.array([30, 25], pa.int32())}), people
    )
    companies = write_text(tmp_path, "Company.csv", "name\nAcme\n")
    jobs = write_rows(tmp_path, edge("WorksAt", "Ann", "Acme"))

    ended = invoke_command(
        *("load", "--data", people, "--data", companies, "--data", jobs),
        *("--mode", "append", store, "--json"),
    )

    assert ended.code == 0, ended.err
    assert (ended.fields["nodes_loaded"], ended.fields["edges_loaded"]) == (3, 1)
    with omnigraph.open(store) as graph:
        assert len(graph.commits()) == 2


def test_rows_that_break_a_rule_leave_the_graph_as_it_was(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    rows = write_rows(tmp_path, edge("Knows", "Alice", "Absent"))

    ended = invoke_command("load", "--data", rows, "--mode", "merge", store)

    assert ended.code == 1
    assert ended.out == ""
    assert "Absent" in ended.err


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)

    ended = invoke_command("load", "--data", tmp_path / "no.jsonl", "--mode", "merge", store)

    assert ended.code == 1
    assert "no.jsonl" in ended.err
    assert "Traceback" not in ended.err


def test_overwriting_a_remote_graph_requires_confirmation(tmp_path: Path) -> None:
    rows = write_rows(tmp_path)

    ended = invoke_command(
        "load", "--data", rows, "--mode", "overwrite", "s3://bucket/graph", "--json"
    )

    assert ended.code == 1
    assert "--yes" in ended.err


def test_a_server_has_its_own_spark(tmp_path: Path) -> None:
    ended = invoke_command(
        *("load", "--data", write_rows(tmp_path), "--mode", "merge"),
        *("--server", "http://localhost:1", "--graph", "g", "--spark-master", "local[1]"),
    )

    assert ended.code == 1
    assert "--engine spark" in ended.err


def test_the_old_form_warns_and_says_what_the_server_says(tmp_path: Path) -> None:
    store = empty_graph(tmp_path)

    ended = invoke_command("ingest", "--data", write_rows(tmp_path), store, "--json")

    assert ended.code == 0, ended.err
    assert "`omnigraph ingest` is deprecated" in ended.err
    assert (ended.fields["mode"], ended.fields["base_branch"]) == ("merge", "main")
    assert ended.fields["tables"] == [
        {"table_key": "edge:Knows", "rows_loaded": 3},
        {"table_key": "edge:WorksAt", "rows_loaded": 2},
        {"table_key": "node:Company", "rows_loaded": 2},
        {"table_key": "node:Person", "rows_loaded": 4},
    ]
