"""`omnigraph branch` and `omnigraph snapshot`: branches, and what one consists of."""

from pathlib import Path

import omnigraph
from tests.support.commands import invoke_command
from tests.support.stored_people import ADD, store_people


def test_a_branch_is_made_listed_merged_and_deleted(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    made = invoke_command("branch", "create", "feature", "--uri", store)
    listed = invoke_command("branch", "list", "--store", store)
    invoke_command(
        *("mutate", "-e", ADD, "--params", '{"name": "Eve"}', "--branch", "feature"),
        *("--store", store),
    )
    merged = invoke_command("branch", "merge", "feature", "--uri", store)
    deleted = invoke_command("branch", "delete", "feature", "--uri", store)

    assert made.out == "created branch feature from main\n"
    assert made.err == f"omnigraph branch create → {store} (direct, local)\n"
    assert listed.out == "feature\nmain\n"
    assert merged.out.startswith("merged feature into main: fast_forward")
    assert merged.err == f"omnigraph branch merge → {store} (direct, local)\n"
    assert deleted.out == "deleted branch feature\n"


def test_branches_are_printed_as_json(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    made = invoke_command("branch", "create", "b", "--uri", store, "--as", "ann", "--json")
    listed = invoke_command("branch", "list", "--uri", store, "--json")
    merged = invoke_command("branch", "merge", "b", "--uri", store, "--json")
    deleted = invoke_command("branch", "delete", "b", "--uri", store, "--json")

    assert made.body == {"uri": str(store), "from": "main", "name": "b", "actor_id": "ann"}
    assert listed.body == {"branches": ["b", "main"]}
    assert merged.body == {
        "source": "b",
        "target": "main",
        "outcome": "already_up_to_date",
        "actor_id": None,
        "commit_id": None,
    }
    assert deleted.body == {"uri": str(store), "name": "b", "actor_id": None}


def test_main_stays(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    ended = invoke_command("branch", "delete", "main", "--uri", store)

    assert ended.code == 1
    assert "cannot delete branch 'main'" in ended.err


def test_a_branch_of_a_server_is_deleted_only_with_consent() -> None:
    command = ("branch", "delete", "x", "--server", "http://localhost:1", "--graph", "g", "--json")

    refused = invoke_command(*command)
    agreed = invoke_command(*command, "--yes")

    assert refused.code == 1
    assert "--yes" in refused.err
    assert agreed.code == 1
    assert "--yes" not in agreed.err


def test_a_snapshot_lists_types_with_their_versions(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    shown = invoke_command("snapshot", store)
    reported = invoke_command("snapshot", store, "--json")

    assert shown.out.splitlines()[0] == "branch: main"
    assert shown.out.splitlines()[1].startswith("manifest_version: ")
    assert shown.out.splitlines()[-1] == "node:Person v2 branch=main rows=4"
    tables = reported.fields["tables"]
    assert isinstance(tables, list)
    assert [each["table_key"] for each in tables] == [
        "edge:Knows",
        "edge:WorksAt",
        "node:Company",
        "node:Person",
    ]
    assert (store / tables[0]["table_path"]).exists()


def test_a_branch_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = store_people(tmp_path)

    ended = invoke_command("snapshot", store, "--branch", "nowhere")

    assert ended.code == 1
    assert "branch 'nowhere' not found" in ended.err


def test_a_branch_is_made_only_where_its_base_is_said_to_be(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    with omnigraph.open(store) as graph:
        before = graph.commits()[0].id

    ended = invoke_command("branch", "create", "b", "--uri", store, "--if-commit", before)

    assert ended.code == 4
    assert invoke_command("branch", "list", "--uri", store).out == "main\n"
