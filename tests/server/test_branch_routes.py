"""Branches, merges and tags over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.support.graphs import node
from tests.support.served_graphs import (
    SET_AGE,
    G,
    add_person,
    fork,
    head_of,
    lines,
    names_on,
    require_refused,
)


def set_age(client: httpx.Client, name: str, age: int, *, branch: str) -> None:
    """Change a person on a branch."""
    body = {"query": SET_AGE, "params": {"name": name, "age": age}, "branch": branch}
    assert client.post(f"{G}/mutate", json=body).json()["affected_nodes"] == 1


def merge(client: httpx.Client, source: str, **fields: object) -> httpx.Response:
    """Request a merge."""
    return client.post(f"{G}/branches/merge", json={"source": source, **fields})


def test_branches_are_listed_by_name(client: httpx.Client) -> None:  # case 40
    before = client.get(f"{G}/branches").json()["branches"]

    fork(client, "feature")

    after = client.get(f"{G}/branches").json()["branches"]
    assert "main" in before
    assert after == sorted([*before, "feature"])


def test_a_created_branch_is_reported_with_its_base(client: httpx.Client) -> None:
    fork(client, "first")

    response = client.post(f"{G}/branches", json={"name": "second", "from": "first"})

    assert response.json() == {
        "uri": "/graphs/default",
        "from": "first",
        "name": "second",
        "actor_id": None,
    }


def test_a_name_is_given_once(client: httpx.Client) -> None:  # case 41
    fork(client, "taken")

    again = client.post(f"{G}/branches", json={"name": "taken"})
    main = client.post(f"{G}/branches", json={"name": "main"})

    require_refused(again, 409, code="conflict", says="taken")
    require_refused(main, 400, code="bad_request", says="main")


@pytest.mark.parametrize("name", ["a//b", "../x", "a b", "", "__tx__1"])
def test_an_invalid_branch_name_is_refused_with_the_rule(client: httpx.Client, name: str) -> None:
    response = client.post(f"{G}/branches", json={"name": name})

    require_refused(response, 400, code="bad_request", says="invalid branch")


def test_a_branch_of_a_missing_one_is_not_found(client: httpx.Client) -> None:
    response = client.post(f"{G}/branches", json={"name": "child", "from": "nowhere"})

    require_refused(response, 404, code="not_found", says="nowhere")


def test_a_branch_is_deleted_by_its_encoded_name(client: httpx.Client) -> None:  # case 23
    fork(client, "a/b")

    response = client.delete(f"{G}/branches/a%2Fb")

    assert response.json()["name"] == "a/b"
    assert "a/b" not in client.get(f"{G}/branches").json()["branches"]


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("main", 400, "bad_request"), ("nowhere", 404, "not_found")],
)
def test_a_branch_that_cannot_be_deleted_stays(
    client: httpx.Client, name: str, status: int, code: str
) -> None:
    require_refused(client.delete(f"{G}/branches/{name}"), status, code=code, says=name)


def test_a_branch_with_children_is_not_deleted(client: httpx.Client) -> None:
    fork(client, "parent")
    add_person(client, "Inherited", branch="parent")
    client.post(f"{G}/branches", json={"name": "child-of-parent", "from": "parent"})

    response = client.delete(f"{G}/branches/parent")

    require_refused(response, 409, code="conflict", says="child-of-parent")


def test_a_merge_reports_its_outcome(client: httpx.Client) -> None:  # case 43
    fork(client, "target")
    client.post(f"{G}/branches", json={"name": "source", "from": "target"})
    add_person(client, "Eve", branch="source")

    first = merge(client, "source", target="target")
    again = merge(client, "source", target="target")
    add_person(client, "Ann", branch="source")
    add_person(client, "Uma", branch="target")
    third = merge(client, "source", target="target")

    assert first.json() == {
        "source": "source",
        "target": "target",
        "outcome": "fast_forward",
        "actor_id": None,
        "commit_id": first.headers["omnigraph-graph-commit"],
    }
    assert again.json()["outcome"] == "already_up_to_date"
    assert third.json()["outcome"] == "merged"
    assert {"Eve", "Ann", "Uma"} <= set(names_on(client, "target"))


def test_a_branch_cannot_be_merged_into_itself(client: httpx.Client) -> None:  # case 44
    require_refused(merge(client, "main"), 400, code="bad_request", says="itself")


def test_a_merge_of_a_missing_branch_is_not_found(client: httpx.Client) -> None:
    require_refused(merge(client, "nowhere"), 404, code="not_found", says="nowhere")


def test_conflicts_are_listed_and_the_target_is_unchanged(client: httpx.Client) -> None:
    fork(client, "mine")
    client.post(f"{G}/branches", json={"name": "yours", "from": "mine"})
    set_age(client, "Bob", 1, branch="mine")
    set_age(client, "Bob", 2, branch="yours")
    head = head_of(client, "mine")

    response = merge(client, "yours", target="mine")

    require_refused(
        response, 409, code="conflict", says="merge conflicts: node:Person:Bob (divergent_update)"
    )
    (conflict,) = response.json()["merge_conflicts"]
    assert {**conflict, "message": ""} == {
        "table_key": "node:Person",
        "row_id": "Bob",
        "kind": "divergent_update",
        "message": "",
    }
    assert head_of(client, "mine") == head


def test_a_message_names_three_conflicts_and_counts_the_others(client: httpx.Client) -> None:
    fork(client, "left")
    client.post(f"{G}/branches", json={"name": "right", "from": "left"})
    for branch, age in (("left", 1), ("right", 2)):
        people = [node("Person", name=f"p{number}", age=age) for number in range(5)]
        client.post(f"{G}/load", json={"data": lines(*people), "branch": branch})

    response = merge(client, "right", target="left")

    assert response.json()["error"] == (
        "merge conflicts: node:Person:p0 (divergent_insert); node:Person:p1 (divergent_insert); "
        "node:Person:p2 (divergent_insert); and 2 more"
    )
    assert len(response.json()["merge_conflicts"]) == 5


def test_a_dry_run_lists_conflicts_and_decisions_resolve_them(client: httpx.Client) -> None:
    fork(client, "one")
    client.post(f"{G}/branches", json={"name": "other", "from": "one"})
    set_age(client, "Bob", 1, branch="one")
    set_age(client, "Bob", 2, branch="other")
    head = head_of(client, "one")

    planned = merge(client, "other", target="one", dry_run=True)
    untouched = head_of(client, "one")
    decided = merge(
        client, "other", target="one", resolve=[{"type": "Person", "id": "Bob", "choice": "source"}]
    )

    assert planned.json()["outcome"] == "conflicts"
    (conflict,) = planned.json()["conflicts"]
    ages = [conflict[side]["age"] for side in ("base", "source", "target")]
    assert ages == [25, 2, 1]
    assert untouched == head
    assert decided.json()["outcome"] == "merged"
    bob = client.get(f"{G}/entity", params={"type": "Person", "id": "Bob", "branch": "one"})
    assert bob.json()["entity"]["age"] == 2


def test_a_decision_may_be_a_row(client: httpx.Client) -> None:
    fork(client, "row-one")
    client.post(f"{G}/branches", json={"name": "row-other", "from": "row-one"})
    set_age(client, "Bob", 1, branch="row-one")
    set_age(client, "Bob", 2, branch="row-other")
    row = {"name": "Bob", "age": 3}

    decided = merge(
        client,
        "row-other",
        target="row-one",
        resolve=[{"type": "Person", "id": "Bob", "row": row}],
    )

    assert decided.json()["outcome"] == "merged"
    bob = client.get(f"{G}/entity", params={"type": "Person", "id": "Bob", "branch": "row-one"})
    assert bob.json()["entity"]["age"] == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"granularity": "word"},
        {"resolve": [{"type": "Person", "id": "Bob"}]},
        {"resolve": [{"type": "Person", "id": "Bob", "choice": "neither"}]},
    ],
    ids=["granularity", "undecided", "no-side"],
)
def test_invalid_merge_options_are_refused(client: httpx.Client, fields: dict[str, object]) -> None:
    branch = fork(client, f"terms-{hash(str(fields))}")
    add_person(client, "Someone", branch=branch)

    response = merge(client, branch, **fields)

    assert response.status_code == 400
    assert response.json()["code"] == "bad_request"


def test_a_tag_names_a_commit_until_it_is_deleted(client: httpx.Client) -> None:
    commit = head_of(client, "main")

    made = client.post(f"{G}/tags", json={"name": "release/1", "commit": commit})
    listed = client.get(f"{G}/tags").json()["tags"]
    read_at = client.get(f"{G}/commits/release%2F1").json()
    again = client.post(f"{G}/tags", json={"name": "release/1", "commit": commit})
    other = client.post(f"{G}/tags", json={"name": "other", "commit": "release/1"})
    deleted = client.delete(f"{G}/tags/release%2F1")

    assert made.json() == {"name": "release/1", "commit_id": commit}
    assert {"name": "release/1", "commit_id": commit} in listed
    assert read_at["graph_commit_id"] == commit
    assert again.status_code in (200, 409)
    assert other.json() == {"name": "other", "commit_id": commit}
    assert deleted.json() == {"name": "release/1"}
    assert "release/1" not in [tag["name"] for tag in client.get(f"{G}/tags").json()["tags"]]


def test_a_merge_that_deletes_its_branch_deletes_it_once_it_is_merged(
    client: httpx.Client,
) -> None:
    client.post(f"{G}/branches", json={"name": "short-lived"}).raise_for_status()
    add_person(client, "Greta", branch="short-lived").raise_for_status()
    request = {"source": "short-lived", "delete_branch": True}

    planned = client.post(f"{G}/branches/merge", json={**request, "dry_run": True})
    branches_between = client.get(f"{G}/branches").json()["branches"]
    merged = client.post(f"{G}/branches/merge", json=request)
    branches_after = client.get(f"{G}/branches").json()["branches"]

    assert (planned.status_code, planned.json()["branch_deleted"]) == (200, False)
    assert "short-lived" in branches_between
    assert (merged.status_code, merged.json()["branch_deleted"]) == (200, True)
    assert "short-lived" not in branches_after


def test_a_retried_merge_that_deleted_its_branch_has_the_same_response(
    client: httpx.Client,
) -> None:
    target, source = fork(client, "kept"), fork(client, "retried")
    add_person(client, "Greta", branch=source).raise_for_status()
    request = {"source": source, "target": target, "delete_branch": True}
    headers = {"Idempotency-Key": "merge-and-delete"}

    first = client.post(f"{G}/branches/merge", json=request, headers=headers)
    again = client.post(f"{G}/branches/merge", json=request, headers=headers)

    assert first.json()["branch_deleted"] is True
    assert (again.status_code, again.json()) == (200, first.json())


def test_a_retried_merge_keeps_a_branch_with_commits_that_were_not_merged(
    client: httpx.Client,
) -> None:
    target, source = fork(client, "kept-too"), fork(client, "moved-on")
    add_person(client, "Greta", branch=source).raise_for_status()
    request = {"source": source, "target": target}
    headers = {"Idempotency-Key": "merge-then-delete"}
    client.post(f"{G}/branches/merge", json=request, headers=headers).raise_for_status()
    add_person(client, "Later", branch=source).raise_for_status()

    again = client.post(
        f"{G}/branches/merge", json={**request, "delete_branch": True}, headers=headers
    )

    assert (again.status_code, again.json()["branch_deleted"]) == (200, False)
    assert "Later" in names_on(client, source)
    assert "Later" not in names_on(client, target)


def test_a_merge_keeps_a_branch_that_a_tag_needs_and_says_so(client: httpx.Client) -> None:
    target, source = fork(client, "kept-again"), fork(client, "tagged")
    added = add_person(client, "Greta", branch=source).json()
    client.post(f"{G}/tags", json={"name": "needed", "commit": added["commit_id"]})

    merged = merge(client, source, target=target, delete_branch=True)

    assert (merged.status_code, merged.json()["branch_deleted"]) == (200, False)
    assert merged.json()["commit_id"] == head_of(client, target)
    assert source in client.get(f"{G}/branches").json()["branches"]


def test_a_merge_that_would_delete_main_is_refused_before_it_merges(client: httpx.Client) -> None:
    target = fork(client, "behind")
    add_person(client, "Ahead", branch="main").raise_for_status()
    before = head_of(client, target)

    response = merge(client, "main", target=target, delete_branch=True)

    require_refused(response, 400, code="bad_request", says="'main'")
    assert head_of(client, target) == before
