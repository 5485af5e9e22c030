"""`omnigraph merge`: try, look, decide, merge."""

from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import Ended, invoke_command
from tests.support.graphs import SOCIAL, build_graph, ndjson, node

ANNS_OWN = "- {type: Person, id: Ann, choice: target}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ann is 31 on `feature` and 32 on main; `feature` has a Dan."""
    root = tmp_path / "graph"
    with build_graph(root, SOCIAL, node("Person", name="Ann", age=30)) as graph:
        graph.create_branch("feature")
        both = [node("Person", name="Ann", age=31), node("Person", name="Dan")]
        graph.load(ndjson(*both), mode="merge", branch="feature")
        graph.load(ndjson(node("Person", name="Ann", age=32)), mode="merge")
    return root


def merge(store: Path, *arguments: str | Path) -> Ended:
    return invoke_command("merge", "feature", *arguments, "--store", store)


def age_of_ann(store: Path) -> object:
    with omnigraph.open(store, read_only=True) as graph:
        found = graph.entity("Person", "Ann")
    assert found is not None
    return found["age"]


def test_a_dry_run_shows_conflicts_side_by_side_and_what_to_type_next(store: Path) -> None:
    ended = merge(store, "--dry-run")

    lines = ended.out.splitlines()
    assert ended.code == 1
    assert ended.err == ""
    assert lines[0] == "merge conflicts: feature and main have 1 conflict"
    assert lines[2] == "conflict 1 of 1: Person Ann (divergent_update)"
    assert lines[4:6] == ["         base  source  target", "    age  30    31      32"]
    assert lines[-1] == (
        f"  omnigraph merge feature --into main --resolve decisions.yaml --store {store}"
    )


def test_a_merge_with_conflicts_is_an_error_with_the_same_view(store: Path) -> None:
    ended = merge(store)

    assert ended.code == 1
    assert ended.out == ""
    assert (
        "Error: merge conflicts: feature and main have 1 conflict; main is unchanged" in ended.err
    )
    assert "    age  30    31      32" in ended.err
    assert age_of_ann(store) == 32


def test_conflicts_as_json_are_the_body_and_still_a_failure(store: Path) -> None:
    for arguments in (["--dry-run", "--json"], ["--json"]):
        ended = merge(store, *arguments)

        assert ended.code == 1
        assert ended.fields["outcome"] == "conflicts"
        assert ended.fields["conflicts"] == [
            {
                "table_key": "node:Person",
                "row_id": "Ann",
                "kind": "divergent_update",
                "message": "Person 'Ann': both sides changed it, with different age",
                "base": {"id": "Ann", "age": 30, "name": "Ann"},
                "source": {"id": "Ann", "age": 31, "name": "Ann"},
                "target": {"id": "Ann", "age": 32, "name": "Ann"},
            }
        ]


def test_decisions_are_written_filled_in_and_merged(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "decisions.yaml"
    tried = merge(store, "--dry-run", "--write-decisions", path)
    assert tried.code == 1
    assert f"{path} has an entry for each" in tried.out
    undecided = merge(store, "--resolve", path)
    assert undecided.code == 1
    assert "Person 'Ann' is undecided" in undecided.err
    path.write_text(path.read_text().replace("choice:", "choice: source"))

    ended = merge(store, "--resolve", path)

    assert ended.code == 0
    assert ended.out == "merged feature into main: merged\n"
    assert ended.err == f"omnigraph merge → {store} (direct, local)\n"
    assert age_of_ann(store) == 31


@pytest.mark.parametrize("flags", [(), ("--dry-run",)], ids=["merge", "dry run"])
def test_decisions_may_go_through_a_pipe(store: Path, flags: tuple[str, ...]) -> None:
    tried = merge(store, "--write-decisions", "-", *flags)
    decided = tried.out.replace("choice:", "choice: source")
    merged = invoke_command("merge", "feature", "--resolve", "-", "--store", store, stdin=decided)

    assert tried.code == 1
    assert tried.out.splitlines()[-3:] == ["- type: Person", "  id: Ann", "  choice:"]
    assert "    age  30    31      32" in tried.err
    assert "--resolve decisions.yaml" in tried.err
    assert (merged.code, age_of_ann(store)) == (0, 31)


def test_of_decisions_and_json_one_is_printed(store: Path) -> None:
    ended = merge(store, "--dry-run", "--json", "--write-decisions", "-")

    assert (ended.code, ended.out) == (2, "")


def test_merging_is_a_command_of_branches_too(store: Path) -> None:
    with omnigraph.open(store) as graph:
        graph.create_branch("other")
    arguments = ("branch", "merge", "feature", "--into", "other", "--uri", store)

    refused = invoke_command(*arguments)
    merged = invoke_command(*arguments, "--resolve", "-", stdin=ANNS_OWN)

    assert refused.code == 1
    assert "    age  30    31      32" in refused.err
    assert merged.out == "merged feature into other: merged\n"
    assert merged.err == f"omnigraph branch merge → {store} (direct, local)\n"


def test_a_row_may_be_decided(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    path.write_text('[{"type": "Person", "id": "Ann", "row": {"name": "Ann", "age": 40}}]')

    ended = merge(store, "--resolve", path, "--json")

    assert ended.fields["outcome"] == "merged"
    assert age_of_ann(store) == 40


def test_decisions_of_a_person_are_not_written_over(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "decisions.yaml"
    path.write_text("mine")

    ended = merge(store, "--dry-run", "--write-decisions", path)

    assert ended.code == 1
    assert "exists already" in ended.err
    assert path.read_text() == "mine"


def test_a_dry_run_without_conflicts_changes_nothing(store: Path) -> None:
    arguments = ("merge", "main", "--into", "other", "--store", store)
    with omnigraph.open(store) as graph:
        graph.create_branch("other")
        before = graph.head("other")

    ended = invoke_command(*arguments, "--dry-run", "--write-decisions", store / "d.yaml")

    assert ended.code == 0
    assert ended.out == "would merge main into other: already_up_to_date\n"
    assert "there are no conflicts" in ended.err
    with omnigraph.open(store, read_only=True) as graph:
        assert graph.head("other") == before


def test_a_merge_for_another_commit_is_refused(store: Path) -> None:
    ended = merge(store, "--if-commit", "01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert ended.code == 4
    assert "01ARZ3NDEKTSV4RRFFQ69G5FAV" in ended.err


def test_an_unknown_granularity_is_a_usage_error(store: Path) -> None:
    assert merge(store, "--granularity", "cell").code == 2
