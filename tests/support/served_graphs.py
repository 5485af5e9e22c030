"""What tests of routes share: texts to send, branches to work on, and checks of responses.

One server serves a whole module, so every test that writes works on a branch of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx

from tests.support.graphs import Record

G = "/graphs/default"

GET_PERSON = """
query get_person($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
"""
ALL_PEOPLE = """
query all_people() {
    match { $p: Person }
    return { $p.name }
    order { $p.name }
}
"""
ADD_PERSON = """
query add_person($name: String, $age: I32?) {
    insert Person { name: $name, age: $age }
}
"""
SET_AGE = """
query set_age($name: String, $age: I32) {
    update Person set { age: $age } where name = $name
}
"""

PEOPLE = ["Alice", "Bob", "Charlie", "Diana"]


def lines(*records: Record) -> str:
    """Records as a load reads them."""
    return "".join(f"{json.dumps(record)}\n" for record in records)


def fork(client: httpx.Client, name: str) -> str:
    """A new branch of main, by its name."""
    response = client.post(f"{G}/branches", json={"name": name})
    assert response.status_code == 200, response.text
    return name


def add_person(
    client: httpx.Client,
    name: str,
    *,
    branch: str,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Ask for another person on a branch."""
    return client.post(
        f"{G}/mutate",
        json={"query": ADD_PERSON, "params": {"name": name}, "branch": branch},
        headers=dict(headers or {}),
    )


def names_on(client: httpx.Client, branch: str) -> list[str]:
    """The names of the people of a branch."""
    response = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "branch": branch})
    assert response.status_code == 200, response.text
    return [row["p.name"] for row in response.json()["rows"]]


def head_of(client: httpx.Client, branch: str) -> str:
    """The commit that a branch is at."""
    response = client.get(f"{G}/head", params={"branch": branch})
    assert response.status_code == 200, response.text
    commit_id: str = response.json()["commit_id"]
    return commit_id


def require_refused(response: httpx.Response, status: int, *, code: str, says: str) -> None:
    """Raise unless a response is an error of this kind with this message."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body["code"] == code
    assert says in body["error"]
