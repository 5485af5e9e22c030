"""`omnigraph tag …`: names for commits."""

from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import invoke_command
from tests.support.graphs import ndjson, node, social_graph


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "graph"
    social_graph(root).close()
    return root


def head_of(store: Path) -> str:
    with omnigraph.open(store, read_only=True) as graph:
        return graph.head()


def test_a_tag_is_created_listed_and_deleted(store: Path) -> None:
    commit = head_of(store)

    created = invoke_command("tag", "create", "v1", commit, "--uri", store)
    listed = invoke_command("tag", "list", "--uri", store)
    deleted = invoke_command("tag", "delete", "v1", "--uri", store)

    assert created.out == f"created tag v1 at {commit}\n"
    assert listed.out == f"v1  {commit}\n"
    assert deleted.out == "deleted tag v1\n"
    assert invoke_command("tag", "list", "--uri", store, "--json").fields == {"tags": []}


def test_without_a_commit_the_head_of_main_is_named(store: Path) -> None:
    created = invoke_command("tag", "create", "v1", "--uri", store)

    assert created.out == f"created tag v1 at {head_of(store)}\n"


def test_a_tag_as_json_names_its_commit(store: Path) -> None:
    commit = head_of(store)
    invoke_command("tag", "create", "v1", commit, "--uri", store)

    ended = invoke_command("tag", "create", "again", "v1", "--uri", store, "--json")

    assert ended.fields == {"name": "again", "commit_id": commit}


def test_a_name_is_taken_once(store: Path) -> None:
    assert invoke_command("tag", "create", "v1", head_of(store), "--uri", store).code == 0
    with omnigraph.open(store) as graph:
        graph.load(ndjson(node("Person", name="Zoe")), mode="append")

    ended = invoke_command("tag", "create", "v1", head_of(store), "--uri", store)

    assert ended.code == 1
    assert "tag 'v1'" in ended.err
