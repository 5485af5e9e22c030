"""Branches that are made, merged and deleted under those who write to them: refused, no failure."""

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
    """One request about a branch that may have gone, or come again, since the last."""
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
        answers = [meddle(client, chance) for _ in range(REQUESTS)]
    return [
        f"{each.status_code} {each.text}" if each.status_code >= 500 else str(each.status_code)
        for each in answers
    ]


def test_a_branch_that_goes_away_under_its_writers_is_a_refusal(tmp_path: Path) -> None:
    with open_server(tmp_path) as server:
        told = race(lambda number: meddle_on(server, number), count=CLIENTS)

    answers = Counter(answer for each in told for answer in each)
    assert answers["200"] >= 100, answers
    # That a write has to be recovered first may be said; the next write has done so.
    assert [each for each in answers if each.startswith("5") and not each.startswith("503")] == []
    with omnigraph.open(str(server.store)) as graph:
        assert graph.doctor().is_healthy
