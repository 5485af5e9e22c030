"""`omnigraph optimize`, `repair`, `cleanup` and `doctor`: what keeps a graph whole and fast."""

from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import invoke_command
from tests.support.damaging import edit_schema, lose_rows, stop_half_way, write_past_history
from tests.support.graphs import ndjson, node, social_graph


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A social graph of some commits: people came one by one."""
    root = tmp_path / "graph"
    with social_graph(root) as graph:
        for name in ("Eve", "Finn", "Gus"):
            graph.load(ndjson(node("Person", name=name)), mode="append")
    return root


def tables_of(fields: dict[str, object]) -> dict[str, dict[str, object]]:
    tables = fields["tables"]
    assert isinstance(tables, list)
    return {each["table_key"]: each for each in tables}


def test_files_become_few_and_indexes_are_built(store: Path) -> None:
    ended = invoke_command("optimize", store)

    assert ended.code == 0
    assert "node:Person: 4 files became 1" in ended.out.splitlines()
    assert ended.err == f"omnigraph optimize → {store} (direct, local)\n"
    assert "node:Person: nothing to do" in invoke_command("optimize", store).out


def test_an_optimize_as_json_reports_every_type(store: Path) -> None:
    ended = invoke_command("optimize", store, "--json", "--quiet")

    fields = ended.fields
    assert list(fields) == ["uri", "tables"]
    assert fields["uri"] == str(store)
    person = tables_of(fields)["node:Person"]
    assert list(person) == [
        "table_key",
        "fragments_removed",
        "fragments_added",
        "committed",
        "skipped",
        "manifest_version",
        "lance_head_version",
        "pending_indexes",
    ]
    assert (person["fragments_removed"], person["fragments_added"]) == (4, 1)
    assert ended.err == ""


def test_another_branch_is_optimized_by_name(store: Path) -> None:
    with omnigraph.open(store) as graph:
        graph.create_branch("feature")

    ended = invoke_command("optimize", store, "--branch", "feature")

    assert "node:Person: skipped, because the branch has not changed it" in ended.out


def test_optimize_does_not_accept_a_server() -> None:
    ended = invoke_command("optimize", "--server", "prod")

    assert ended.code == 1
    for part in ("optimize", "direct (storage-native)", "--server", "does not apply"):
        assert part in ended.err
    assert "--cluster <dir> --graph <id>" in ended.err


def test_a_cleanup_without_confirmation_only_reports(store: Path) -> None:
    ended = invoke_command("cleanup", store, "--keep", "1")

    assert ended.code == 0
    assert ended.out == ""
    assert "would delete" in ended.err
    assert tables_of(invoke_command("cleanup", store, "--keep", "1", "--confirm", "--json").fields)


def test_a_cleanup_as_json_reports_what_was_retained(store: Path) -> None:
    ended = invoke_command(
        "cleanup", store, "--keep", "5", "--older-than", "2d", "--confirm", "--json"
    )

    fields = ended.fields
    assert ended.code == 0
    assert list(fields) == ["uri", "keep_versions", "older_than_secs", "tables"]
    assert (fields["keep_versions"], fields["older_than_secs"]) == (5, 172_800)
    assert tables_of(fields)["node:Person"] == {
        "table_key": "node:Person",
        "bytes_removed": 0,
        "old_versions_removed": 0,
        "error": None,
    }


def test_a_cleanup_that_keeps_nothing_in_particular_is_refused(store: Path) -> None:
    ended = invoke_command("cleanup", store, "--confirm")

    assert ended.code == 1
    assert "--keep" in ended.err
    assert "--older-than" in ended.err


@pytest.mark.parametrize("arguments", [("--older-than", "7y"), ("--keep", "some")])
def test_a_cleanup_that_cannot_be_read_is_a_usage_error(arguments: tuple[str, str]) -> None:
    assert invoke_command("cleanup", "graph", *arguments).code == 2


def test_a_cleanup_far_away_needs_a_yes() -> None:
    ended = invoke_command("cleanup", "s3://bucket/graph", "--keep", "1", "--confirm", "--json")

    assert ended.code == 1
    assert "--yes" in ended.err


def test_nothing_to_repair_is_said_by_type(store: Path) -> None:
    ended = invoke_command("repair", store)

    assert ended.code == 0
    assert "node:Person: unchanged" in ended.out


def test_what_others_wrote_is_shown_refused_and_adopted_by_force(store: Path) -> None:
    write_past_history(store)

    shown = invoke_command("repair", store, "--json")
    refused = invoke_command("repair", store, "--confirm", "--json")
    forced = invoke_command("repair", store, "--confirm", "--force", "--json")

    assert (shown.code, refused.code, forced.code) == (0, 1, 0)
    actions = [tables_of(each.fields)["node:Person"]["action"] for each in (shown, refused, forced)]
    assert actions == ["preview", "refused", "forced"]
    assert shown.fields["manifest_version"] is None
    assert isinstance(forced.fields["manifest_version"], int)
    assert "repair did not adopt" in refused.err
    assert refused.err.endswith(f"  omnigraph repair --confirm --force --store {store}\n")
    assert list(shown.fields) == ["uri", "confirm", "force", "manifest_version", "tables"]


def test_force_without_consent_is_a_usage_error(store: Path) -> None:
    assert invoke_command("repair", store, "--force").code == 2


def test_a_healthy_graph_passes_its_examination(store: Path) -> None:
    invoke_command("optimize", store)

    ended = invoke_command("doctor", store)

    assert ended.code == 0
    assert ended.out == f"{store} is healthy\n"


def test_a_finding_ends_with_the_command_that_repairs_it(store: Path) -> None:
    ended = invoke_command("doctor", store, "--quick")

    assert ended.code == 0
    assert f"-> `omnigraph optimize --store {store}`" in ended.out
    assert ended.out.endswith("; rows were not checked\n")


def test_a_damaged_graph_fails_its_examination(store: Path) -> None:
    lose_rows(store)

    ended = invoke_command("doctor", store, "--json")

    fields = ended.fields
    assert ended.code == 1
    assert (fields["healthy"], fields["deep"]) == (False, True)


def test_a_graph_that_cannot_be_opened_is_examined_all_the_same(store: Path) -> None:
    edit_schema(store)
    assert invoke_command("snapshot", store).code == 1

    ended = invoke_command("doctor", store)

    assert ended.code == 1
    assert "is damaged" in ended.out


def test_the_advice_of_the_doctor_repairs_a_stopped_write(store: Path) -> None:
    stop_half_way(store)
    found = invoke_command("doctor", store, "--json").fields["findings"]
    assert isinstance(found, list)
    (left,) = [each for each in found if each["code"] == "write_left"]
    assert left["command"] == f"omnigraph repair --store {store}"

    assert invoke_command(*left["command"].split()[1:]).code == 0

    assert "write_left" not in invoke_command("doctor", store).out


def test_a_graph_that_is_not_there_is_not_examined(tmp_path: Path) -> None:
    ended = invoke_command("doctor", tmp_path / "nowhere")

    assert ended.code == 1
    assert ended.out == ""


def test_a_moved_graph_is_relocated_by_the_command_that_its_branch_was_refused_with(
    store: Path, tmp_path: Path
) -> None:
    with omnigraph.open(store) as graph:
        graph.create_branch("draft")
        graph.load(ndjson(node("Person", name="Hal")), mode="append", branch="draft")
    moved = store.rename(tmp_path / "moved")
    refused = invoke_command("export", moved, "--branch", "draft")
    found = invoke_command("doctor", moved)

    command = f"omnigraph repair {moved} --relocate"
    relocated = invoke_command(*command.split()[1:])
    again = invoke_command(*command.split()[1:], "--json")

    assert refused.code != 0
    assert command in refused.err
    assert f"omnigraph repair --relocate --store {moved}" in found.out
    assert relocated.code == 0
    assert f"branch 'draft': now refers to this graph, no longer to {store}" in relocated.out
    assert again.fields == {"uri": str(moved), "branches": []}
    assert "Hal" in invoke_command("export", moved, "--branch", "draft").out
    assert invoke_command("doctor", moved).code == 0


@pytest.mark.parametrize("flag", ["--confirm", "--force"])
def test_relocation_takes_no_consent_to_adopt(store: Path, flag: str) -> None:
    assert invoke_command("repair", store, "--relocate", flag).code == 2
