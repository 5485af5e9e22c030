"""Review through a server: what is shown and decided is the same as on the storage itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from tests.support.commands import invoke_command
from tests.support.graphs import SOCIAL, build_graph, edge, ndjson, node
from tests.support.servers import Server, open_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ann is 31 on `feature` and 32 on main; `feature` has a Dan who knows her."""
    folder = tmp_path_factory.mktemp("served")
    with build_graph(folder / "graph", SOCIAL, node("Person", name="Ann", age=30)) as graph:
        graph.create_branch("feature")
        came = [node("Person", name="Dan"), edge("Knows", "Dan", "Ann", since="2020-01-01")]
        changed = node("Person", name="Ann", age=31)
        graph.load(ndjson(changed, *came), mode="merge", branch="feature")
        graph.load(ndjson(node("Person", name="Ann", age=32)), mode="merge")
        graph.tag("reviewed", graph.head("feature"))
    with open_server(folder) as running:
        yield running


def at(server: Server) -> tuple[str, ...]:
    return ("--server", server.url, "--graph", "default")


@pytest.mark.parametrize(
    "arguments",
    [
        ("diff", "main", "feature"),
        ("diff", "main", "reviewed", "--json"),
        ("diff", "main", "feature", "--stat"),
        ("diff", "main", "feature", "--type", "Person", "--op", "update", "--stat", "--json"),
        ("changes", "--branch", "feature"),
        ("changes", "--branch", "feature", "--limit", "2"),
        ("changes", "--start", "now"),
        ("tag", "list"),
        ("tag", "list", "--json"),
        ("recoveries",),
        ("recoveries", "--json"),
        ("merge", "feature", "--dry-run", "--json"),
    ],
)
def test_what_is_read_through_a_server_is_the_same(
    server: Server, arguments: tuple[str, ...]
) -> None:
    served = invoke_command(*arguments, *at(server))
    embedded = invoke_command(*arguments, "--store", server.store)

    assert (served.code, served.out) == (embedded.code, embedded.out)
    assert served.err == embedded.err == ""


def test_a_refused_merge_shows_values_and_names_the_server(server: Server) -> None:
    ended = invoke_command("merge", "feature", *at(server))

    assert ended.code == 1
    assert ended.out == ""
    assert "    age  30    31      32" in ended.err
    assert ended.err.endswith(
        "  omnigraph merge feature --into main --resolve decisions.yaml "
        f"--server {server.url} --graph default\n"
    )


def test_a_branch_is_reviewed_decided_merged_and_taken_back(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "decisions.yaml"
    assert invoke_command("branch", "create", "copy", *at(server)).code == 0
    onto = ("--into", "copy", *at(server))
    assert invoke_command("merge", "feature", "--write-decisions", path, *onto).code == 1
    path.write_text(path.read_text().replace("choice:", "choice: target"))

    merged = invoke_command("merge", "feature", "--resolve", path, "--json", *onto)
    commit = str(merged.fields["commit_id"])
    tagged = invoke_command("tag", "create", "merged", commit, "--json", *at(server))
    undone = invoke_command("revert", commit, "--branch", "copy", "--json", *at(server))
    again = invoke_command("cherry-pick", commit, "--onto", "copy", *at(server))

    assert merged.fields["outcome"] == "merged"
    assert tagged.fields == {"name": "merged", "commit_id": commit}
    assert undone.fields["outcome"] == "merged"
    assert again.out.startswith(f"picked {commit} on copy: merged\n")
    with omnigraph.open(server.store, read_only=True) as graph:
        ann = graph.entity("Person", "Ann", branch="copy")
        assert ann is not None
        assert ann["age"] == 32
        assert graph.entity("Person", "Dan", branch="copy") is not None


def test_a_server_reports_later_changes_too(server: Server) -> None:
    with omnigraph.open(server.store) as graph:
        graph.create_branch("since")
        graph.load(ndjson(node("Person", name="Eve")), mode="append", branch="since")
        commit = graph.head("since")
        graph.load(ndjson(node("Person", name="Eve", age=4)), mode="merge", branch="since")

    ended = invoke_command("revert", commit, "--branch", "since", *at(server))

    assert ended.code == 1
    assert "conflict 1 of 1: Person Eve" in ended.err
