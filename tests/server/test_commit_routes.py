"""Snapshots, commits, differences and the change feed over HTTP."""

from __future__ import annotations

import time

import httpx
import pytest

import omnigraph
from tests.support.graphs import node
from tests.support.served_graphs import (
    G,
    add_person,
    fork,
    head_of,
    lines,
    names_on,
    require_refused,
)
from tests.support.servers import Server


def commits_of(client: httpx.Client, branch: str) -> list[dict[str, object]]:
    """The commits of a branch."""
    found: list[dict[str, object]] = client.get(f"{G}/commits", params={"branch": branch}).json()[
        "commits"
    ]
    return found


def test_a_snapshot_lists_types_by_key(server: Server, client: httpx.Client) -> None:
    branch = fork(client, "snapshot")
    add_person(client, "Eve", branch=branch)

    found = client.get(f"{G}/snapshot", params={"branch": branch}).json()

    with omnigraph.open(server.store, read_only=True) as graph:
        tables = graph.tables(branch)
    assert found["branch"] == branch
    assert found["commit_id"] == head_of(client, branch)
    assert [table["table_key"] for table in found["tables"]] == sorted(tables)
    for table in found["tables"]:
        state = tables[table["table_key"]]
        assert (table["table_version"], table["row_count"]) == (state.version, state.row_count)
        assert table["table_branch"] == state.branch
        assert state.path.removesuffix(f"/tree/{branch}").endswith(f"/{table['table_path']}")


def test_a_snapshot_is_of_main_unless_another_is_named(client: httpx.Client) -> None:
    found = client.get(f"{G}/snapshot")
    unknown = client.get(f"{G}/snapshot", params={"branch": "nowhere"})

    assert found.json()["branch"] == "main"
    require_refused(unknown, 404, code="not_found", says="nowhere")


def test_commits_come_oldest_first_with_their_microseconds(client: httpx.Client) -> None:
    branch = fork(client, "history")  # case 50, without the actor
    before_us = time.time_ns() // 1000
    add_person(client, "Eve", branch=branch)

    commits = commits_of(client, branch)

    newest = commits[-1]
    assert newest["graph_commit_id"] == head_of(client, branch)
    assert newest["manifest_branch"] == branch
    assert newest["parent_commit_id"] == commits[-2]["graph_commit_id"]
    assert newest["merged_parent_commit_id"] is None
    assert newest["actor_id"] is None
    created_at = newest["created_at"]
    assert isinstance(created_at, int)
    assert before_us - 1_000_000 <= created_at <= time.time_ns() // 1000 + 1_000_000
    assert commits[0]["manifest_branch"] is None


def test_history_is_mains_unless_a_branch_is_named(client: httpx.Client) -> None:
    assert client.get(f"{G}/commits").json()["commits"] == commits_of(client, "main")


def test_a_commit_is_shown_by_its_id(client: httpx.Client) -> None:
    listed = commits_of(client, "main")[-1]

    shown = client.get(f"{G}/commits/{listed['graph_commit_id']}")
    unknown = client.get(f"{G}/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert shown.json() == listed
    require_refused(unknown, 404, code="not_found", says="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_commit_is_undone_by_another(client: httpx.Client) -> None:
    branch = fork(client, "undone")
    done = add_person(client, "Mistake", branch=branch).json()["commit_id"]

    response = client.post(f"{G}/commits/{done}/revert", json={"branch": branch})

    assert response.json() == {
        "branch": branch,
        "outcome": "merged",
        "actor_id": None,
        "commit_id": head_of(client, branch),
    }
    assert "Mistake" not in names_on(client, branch)
    assert commits_of(client, branch)[-1]["reverted_commit_id"] == done


def test_a_commit_is_picked_onto_another_branch(client: httpx.Client) -> None:
    source, target = fork(client, "picked-from"), fork(client, "picked-onto")
    done = add_person(client, "Wanted", branch=source).json()["commit_id"]

    response = client.post(f"{G}/commits/{done}/cherry-pick", json={"onto": target})

    assert response.status_code == 200, response.text
    assert "Wanted" in names_on(client, target)
    assert commits_of(client, target)[-1]["picked_commit_id"] == done


def test_a_difference_has_the_row_before_and_after(client: httpx.Client) -> None:
    branch = fork(client, "compared")
    before = head_of(client, branch)
    rows = lines(node("Person", name="Bob", age=26), node("Person", name="Eve", age=1))
    client.post(f"{G}/load", json={"data": rows, "branch": branch})

    found = client.get(f"{G}/diff", params={"old": before, "new": branch}).json()

    assert (found["old_commit_id"], found["new_commit_id"]) == (before, head_of(client, branch))
    assert found["stats"] == {
        "inserts": 1,
        "updates": 1,
        "deletes": 0,
        "types_affected": ["Person"],
    }
    assert found["changes"] == [
        {
            "kind": "node",
            "type": "Person",
            "id": "Bob",
            "op": "update",
            "before": {"id": "Bob", "name": "Bob", "age": 25},
            "after": {"id": "Bob", "name": "Bob", "age": 26},
        },
        {
            "kind": "node",
            "type": "Person",
            "id": "Eve",
            "op": "insert",
            "before": None,
            "after": {"id": "Eve", "name": "Eve", "age": 1},
        },
    ]
    assert found["next_page_token"] is None


def test_a_long_difference_comes_in_pages(client: httpx.Client) -> None:
    branch = fork(client, "pages")
    before = head_of(client, branch)
    people = [node("Person", name=f"p{number:02}") for number in range(25)]
    client.post(f"{G}/load", json={"data": lines(*people), "branch": branch})
    request = {"old": before, "new": head_of(client, branch), "limit": "10"}

    ids: list[str] = []
    page = client.get(f"{G}/diff", params=request).json()
    while page["next_page_token"] is not None:
        ids += [change["id"] for change in page["changes"]]
        token = page["next_page_token"]
        page = client.get(f"{G}/diff", params={**request, "page_token": token}).json()
    ids += [change["id"] for change in page["changes"]]

    assert ids == [f"p{number:02}" for number in range(25)]


def test_a_difference_may_be_restricted_to_types_and_operations(client: httpx.Client) -> None:
    branch = fork(client, "selected")
    before = head_of(client, branch)
    add_person(client, "Eve", branch=branch)

    request = {"old": before, "new": branch}
    companies = client.get(f"{G}/diff", params={**request, "types": "Company,WorksAt"}).json()
    inserts = client.get(f"{G}/diff", params={**request, "types": "Person", "ops": "insert"}).json()

    assert companies["changes"] == []
    assert [change["id"] for change in inserts["changes"]] == ["Eve"]


@pytest.mark.parametrize(
    ("params", "status", "says"),
    [
        ({"old": "main"}, 400, "new"),
        ({"old": "main", "new": "nowhere"}, 404, "nowhere"),
        ({"old": "main", "new": "main", "types": "Nope"}, 400, "Nope"),
        ({"old": "main", "new": "main", "ops": "paint"}, 400, "paint"),
        ({"old": "main", "new": "main", "limit": "0"}, 400, "limit"),
        ({"old": "main", "new": "main", "limit": "100000"}, 413, "page"),
        ({"old": "main", "new": "main", "page_token": "x"}, 400, "token"),
    ],
)
def test_an_invalid_difference_request_is_refused(
    client: httpx.Client, params: dict[str, str], status: int, says: str
) -> None:
    response = client.get(f"{G}/diff", params=params)

    assert response.status_code == status, response.text
    assert says in response.json()["error"]


@pytest.mark.parametrize("name", ["limit", "page_token"])
def test_a_difference_as_arrow_refuses_options_of_pages(client: httpx.Client, name: str) -> None:
    params = {"old": "main", "new": "main", name: "1"}

    response = client.get(
        f"{G}/diff", params=params, headers={"Accept": "application/vnd.apache.arrow.stream"}
    )

    require_refused(response, 400, code="bad_request", says=f"'{name}'")


def test_a_feed_returns_each_commit_once_and_the_next_cursor(client: httpx.Client) -> None:
    branch = fork(client, "feed")
    start = client.get(f"{G}/changes", params={"start": "now", "branch": branch}).json()["cursor"]
    done = [add_person(client, name, branch=branch).json()["commit_id"] for name in ("A", "B", "C")]

    first = client.get(
        f"{G}/changes", params={"start": start, "branch": branch, "commits": "2"}
    ).json()
    rest = client.get(f"{G}/changes", params={"start": first["cursor"], "branch": branch}).json()
    nothing = client.get(f"{G}/changes", params={"start": rest["cursor"], "branch": branch}).json()

    commits = [*first["commits"], *rest["commits"]]
    assert [each["commit"]["graph_commit_id"] for each in commits] == done
    assert [change["id"] for each in commits for change in each["changes"]] == ["A", "B", "C"]
    assert nothing == {"branch": branch, "commits": [], "cursor": f"after:{done[-1]}"}


def test_changes_beyond_the_limit_of_a_feed_are_read_by_a_difference(client: httpx.Client) -> None:
    branch = fork(client, "big-commit")
    before = head_of(client, branch)
    people = [node("Person", name=f"p{number:02}") for number in range(5)]
    client.post(f"{G}/load", json={"data": lines(*people), "branch": branch})

    (commit,) = client.get(
        f"{G}/changes", params={"start": f"after:{before}", "branch": branch, "limit": "3"}
    ).json()["commits"]
    request = {
        "old": commit["commit"]["parent_commit_id"],
        "new": commit["commit"]["graph_commit_id"],
        "page_token": commit["next_page_token"],
    }
    rest = client.get(f"{G}/diff", params=request).json()

    found = [change["id"] for change in [*commit["changes"], *rest["changes"]]]
    assert commit["stats"]["inserts"] == 5
    assert found == [f"p{number:02}" for number in range(5)]


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({}, 400),
        ({"start": "yesterday"}, 400),
        ({"start": "after:01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404),
        ({"start": "now", "commits": "101"}, 400),
    ],
)
def test_a_feed_with_an_invalid_start_is_refused(
    client: httpx.Client, params: dict[str, str], status: int
) -> None:
    assert client.get(f"{G}/changes", params=params).status_code == status


def test_recoveries_are_listed(client: httpx.Client) -> None:
    assert client.get(f"{G}/recoveries").json() == {"recoveries": []}
