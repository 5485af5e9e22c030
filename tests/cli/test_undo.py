"""`omnigraph revert`, `omnigraph cherry-pick` and `omnigraph recoveries`."""

from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import invoke_command
from tests.support.damaging import stop_half_way
from tests.support.graphs import SOCIAL, build_graph, ndjson, node, social_graph


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Main with Ann, and a branch `other` as it was before Bob came to main."""
    root = tmp_path / "graph"
    with build_graph(root, SOCIAL, node("Person", name="Ann")) as graph:
        graph.create_branch("other")
        graph.load(ndjson(node("Person", name="Bob")), mode="append")
    return root


def head_of(store: Path, branch: str) -> str:
    with omnigraph.open(store, read_only=True) as graph:
        return graph.head(branch)


def has_bob(store: Path, branch: str) -> bool:
    with omnigraph.open(store, read_only=True) as graph:
        return graph.entity("Person", "Bob", branch=branch) is not None


def test_a_commit_is_undone_by_another(store: Path) -> None:
    commit = head_of(store, "main")

    ended = invoke_command("revert", commit, "--uri", store, "--as", "ann")

    assert ended.code == 0
    assert ended.out.splitlines() == [
        f"reverted {commit} on main: merged",
        f"commit: {head_of(store, 'main')}",
    ]
    assert ended.err == f"omnigraph revert → {store} (direct, local)\n"
    assert not has_bob(store, "main")


def test_a_commit_is_repeated_elsewhere(store: Path) -> None:
    commit = head_of(store, "main")

    ended = invoke_command("cherry-pick", commit, "--onto", "other", "--uri", store, "--json")

    assert ended.fields == {
        "branch": "other",
        "outcome": "merged",
        "actor_id": None,
        "commit_id": head_of(store, "other"),
    }
    assert has_bob(store, "other")


def test_what_was_changed_since_is_shown_and_left_alone(store: Path) -> None:
    commit = head_of(store, "main")
    with omnigraph.open(store) as graph:
        graph.load(ndjson(node("Person", name="Bob", age=4)), mode="merge")

    ended = invoke_command("revert", commit, "--uri", store)

    assert ended.code == 1
    assert ended.out == ""
    assert "conflict 1 of 1: Person Bob" in ended.err
    assert ended.err.endswith(f"  omnigraph diff {commit} main --store {store}\n")
    assert has_bob(store, "main")


def test_an_unknown_commit_is_an_error(store: Path) -> None:
    ended = invoke_command("revert", "nope", "--uri", store)

    assert ended.code == 1
    assert "nope" in ended.err


def test_a_graph_whose_writes_all_ended_has_no_recoveries(store: Path) -> None:
    assert invoke_command("recoveries", store).out == "no recoveries\n"
    assert invoke_command("recoveries", store, "--json").fields == {"recoveries": []}


def test_a_write_that_stopped_is_ended_by_a_repair_and_listed(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    social_graph(root).close()
    stop_half_way(root)
    assert invoke_command("repair", root).code == 0

    listed = invoke_command("recoveries", root)

    assert "Rolled" in listed.out
    assert "node:Person" in listed.out
