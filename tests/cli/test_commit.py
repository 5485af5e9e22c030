"""`omnigraph commit`: history for people newest first, for programs oldest first."""

from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import invoke_command
from tests.support.stored_people import store_people


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = store_people(tmp_path_factory.mktemp("commits"))
    with omnigraph.open(place) as graph:
        graph.mutate('query a() { insert Person { name: "Eve" } }', actor="ann")
        graph.create_branch("side")
        graph.mutate('query b() { insert Person { name: "Fay" } }', branch="side", actor="ann")
        graph.mutate('query c() { insert Person { name: "Gus" } }', branch="side")
    return place


def ids(*flags: str | Path) -> list[str]:
    ended = invoke_command("commit", "list", *flags)
    assert ended.code == 0, ended.err
    return [line.partition(" ")[0] for line in ended.out.splitlines()]


def test_people_see_the_newest_first_and_programs_the_oldest(store: Path) -> None:
    listed = invoke_command("commit", "list", store, "--json").fields["commits"]

    assert isinstance(listed, list)
    assert ids(store) == [each["graph_commit_id"] for each in reversed(listed)]
    assert listed[0]["parent_commit_id"] is None


def test_a_line_says_branch_version_and_actor(store: Path) -> None:
    ended = invoke_command("commit", "list", store, "--branch", "side", "--limit", "2")

    newest, second = ended.out.splitlines()
    assert newest.split()[1] == "branch=side"
    assert newest.split()[2].startswith("version=")
    assert "actor=" not in newest
    assert second.endswith(" actor=ann")


def test_commits_are_picked_by_actor_branch_and_time(store: Path) -> None:
    side = ("--branch", "side")

    by_ann = ids(store, *side, "--filter", "actor=ann")
    by_ann_on_main = ids(store, *side, "--filter", "actor=ann", "--filter", "branch=main")
    later = ids(store, *side, "--filter", "since=9000-01-01")
    since = ids(store, *side, "--filter", "since=2020-01-01T00:00:00Z")

    assert len(by_ann) == 2
    assert by_ann_on_main == by_ann[1:]
    assert later == []
    assert since == ids(store, *side)


def test_a_filter_on_the_recovery_actor_finds_no_commit(store: Path) -> None:
    ended = invoke_command(
        "commit", "list", store, "--filter", "actor=omnigraph:recovery", "--json"
    )

    assert ended.body == {"commits": []}


@pytest.mark.parametrize("written", ["actor", "colour=red", "since=yesterday"])
def test_an_unknown_filter_is_a_usage_error(written: str, store: Path) -> None:
    ended = invoke_command("commit", "list", store, "--filter", written)

    assert ended.code == 2


def test_one_commit_is_shown_by_id(store: Path) -> None:
    (newest, *_) = ids(store, "--filter", "actor=ann")

    shown = invoke_command("commit", "show", newest, "--uri", store)
    listed = invoke_command("commit", "show", newest, "--uri", store, "--json")

    assert f"graph_commit_id: {newest}" in shown.out.splitlines()
    assert "actor_id: ann" in shown.out.splitlines()
    assert listed.fields["graph_commit_id"] == newest
    assert isinstance(listed.fields["created_at"], int)


def test_a_commit_that_is_not_there_is_an_error(store: Path) -> None:
    ended = invoke_command("commit", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--uri", store)

    assert ended.code == 1
    assert "01ARZ3NDEKTSV4RRFFQ69G5FAV" in ended.err
