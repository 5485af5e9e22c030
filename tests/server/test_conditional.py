"""Conditional writes: only at the expected commit of the branch, and only once per key."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.support.graphs import SOCIAL, node
from tests.support.served_graphs import (
    G,
    add_person,
    fork,
    head_of,
    lines,
    names_on,
    require_refused,
)

IF_COMMIT = "Omnigraph-If-Graph-Commit"
KEY = "Idempotency-Key"

Headers = dict[str, str]


def load(client: httpx.Client, branch: str, headers: Headers) -> httpx.Response:
    """Load one person."""
    body = {"data": lines(node("Person", name="Zoe")), "branch": branch}
    return client.post(f"{G}/load", json=body, headers=headers)


def merge(client: httpx.Client, branch: str, headers: Headers) -> httpx.Response:
    """Merge a commit into a branch."""
    source = f"{branch}-source"
    if source not in client.get(f"{G}/branches").json()["branches"]:
        client.post(f"{G}/branches", json={"name": source, "from": branch})
        add_person(client, "Merged", branch=source)
    body = {"source": source, "target": branch}
    return client.post(f"{G}/branches/merge", json=body, headers=headers)


def revert(client: httpx.Client, branch: str, headers: Headers) -> httpx.Response:
    """Revert the first own commit of the branch."""
    commits = client.get(f"{G}/commits", params={"branch": branch}).json()["commits"]
    own = [each for each in commits if each["manifest_branch"] == branch]
    url = f"{G}/commits/{own[0]['graph_commit_id']}/revert"
    return client.post(url, json={"branch": branch}, headers=headers)


def mutate(client: httpx.Client, branch: str, headers: Headers) -> httpx.Response:
    """Add one person."""
    return add_person(client, "Eve", branch=branch, headers=headers)


WRITES = pytest.mark.parametrize("write", [mutate, load, merge, revert])
Write = Callable[[httpx.Client, str, Headers], httpx.Response]


@WRITES
def test_a_write_is_applied_at_the_expected_commit(client: httpx.Client, write: Write) -> None:
    branch = fork(client, f"there-{write.__name__}")
    add_person(client, "First", branch=branch)
    write_needs = head_of(client, branch)

    response = write(client, branch, {IF_COMMIT: write_needs})

    assert response.status_code == 200, response.text
    assert response.json()["commit_id"] == head_of(client, branch)


@WRITES
def test_a_write_is_refused_at_another_commit(client: httpx.Client, write: Write) -> None:
    branch = fork(client, f"elsewhere-{write.__name__}")
    stale = head_of(client, branch)
    add_person(client, "First", branch=branch)
    head = head_of(client, branch)

    response = write(client, branch, {IF_COMMIT: stale})

    require_refused(response, 412, code="precondition_failed", says=stale)
    assert head_of(client, branch) == head


def test_a_schema_is_applied_only_at_the_expected_commit_of_main(client: httpx.Client) -> None:
    body = {"schema_source": SOCIAL + "\nnode City { name: String @key }\n"}

    refused = client.post(
        f"{G}/schema/apply", json=body, headers={IF_COMMIT: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    )
    applied = client.post(
        f"{G}/schema/apply", json=body, headers={IF_COMMIT: head_of(client, "main")}
    )

    require_refused(refused, 412, code="precondition_failed", says="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert applied.json()["applied"] is True


def test_a_branch_is_created_or_deleted_only_at_the_expected_commit(client: httpx.Client) -> None:
    stale = {IF_COMMIT: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    fork(client, "to-delete")

    unborn = client.post(f"{G}/branches", json={"name": "unborn"}, headers=stale)
    undeleted = client.delete(f"{G}/branches/to-delete", headers=stale)

    assert (unborn.status_code, undeleted.status_code) == (412, 412)
    branches = client.get(f"{G}/branches").json()["branches"]
    assert "unborn" not in branches
    assert "to-delete" in branches


@WRITES
def test_a_retried_request_is_applied_once(client: httpx.Client, write: Write) -> None:
    branch = fork(client, f"once-{write.__name__}")
    add_person(client, "First", branch=branch)
    headers = {KEY: f"key-{write.__name__}"}

    first = write(client, branch, headers)
    again = write(client, branch, headers)

    assert first.status_code == 200, first.text
    assert again.json() == first.json()
    assert head_of(client, branch) == first.json()["commit_id"]


def test_a_key_is_for_one_request(client: httpx.Client) -> None:
    branch = fork(client, "other-request")
    headers = {KEY: "used"}
    add_person(client, "Eve", branch=branch, headers=headers)

    response = add_person(client, "Another person", branch=branch, headers=headers)

    require_refused(response, 409, code="conflict", says="used")
    assert "Another person" not in names_on(client, branch)


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_has_a_length(client: httpx.Client, key: str) -> None:
    response = add_person(client, "Absent", branch="main", headers={KEY: key})

    assert response.status_code == 400


def test_a_key_works_for_a_background_load(client: httpx.Client) -> None:
    branch = fork(client, "keyed-job")
    done = load(client, branch, {KEY: "job"})
    body = {"data": lines(node("Person", name="Zoe")), "branch": branch}

    started = client.post(f"{G}/load", params={"async": "true"}, json=body, headers={KEY: "job"})
    job = client.get(started.headers["location"]).json()
    while job["status"] in ("waiting", "running"):
        job = client.get(started.headers["location"]).json()

    assert job["result"]["commit_id"] == done.json()["commit_id"] == head_of(client, branch)
