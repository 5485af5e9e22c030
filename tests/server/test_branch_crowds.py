"""Branches created, merged and deleted under concurrent writers: refusals, and no server error."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import httpx

import omnigraph
from tests.support.processes import race
from tests.support.servers import Server, open_server

CLIENTS = 8
REQUESTS = 60
BRANCHES = ("b0", "b1", "b2")
INSERT = "query w($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
UPDATE = "query w($n: String, $a: I32) { update Person set { age: $a } where name = $n }"


def meddle(client: httpx.Client, chance: random.Random) -> httpx.Response:
    """One request about a branch that may have been deleted or recreated since the last."""
    branch, name = chance.choice(BRANCHES), f"p{chance.randrange(6)}"
    params = {"n": name, "a": chance.randrange(100)}
    rows = json.dumps({"type": "Person", "data": {"name": name}})
    match chance.randrange(8):
        case 0:
            return client.post("/branches", json={"name": branch})
        case 1:
            return client.delete(f"/branches/{branch}")
        case 2:
            return client.post("/branches/merge", json={"source": branch})
        case 3:
            return client.post("/load", json={"data": rows, "branch": branch, "from": "main"})
        case 4:
            body = {"query": UPDATE, "params": params, "branch": branch}
            return client.post("/mutate", json=body)
        case 5:
            return client.post("/export", json={"branch": branch})
        case _:
            body = {"query": INSERT, "params": params, "branch": branch}
            return client.post("/mutate", json=body)


def meddle_on(server: Server, number: int) -> list[str]:
    chance = random.Random(number)
    with httpx.Client(base_url=f"{server.url}/graphs/default", timeout=120.0) as client:
        responses = [meddle(client, chance) for _ in range(REQUESTS)]
    return [
        f"{each.status_code} {each.text}" if each.status_code >= 500 else str(each.status_code)
        for each in responses
    ]


def test_a_branch_deleted_under_its_writers_is_a_client_error(tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        responses_by_client = race(lambda number: meddle_on(server, number), count=CLIENTS)

    responses = Counter(response for each in responses_by_client for response in each)
    assert responses["200"] >= 100, responses
    # A response may say that a write must be recovered first; the next write recovers it.
    assert [each for each in responses if each.startswith("5") and not each.startswith("503")] == []
    with omnigraph.open(str(server.store)) as graph:
        assert graph.doctor().is_healthy
