"""Background loads: started, polled and cancelled, and visible to their actor alone."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.support.graphs import node
from tests.support.served_graphs import G, fork, head_of, lines, names_on, require_refused
from tests.support.servers import running_server, wait_for_job


def start(client: httpx.Client, rows: str, branch: str, **fields: object) -> httpx.Response:
    """Request a background load."""
    return client.post(
        f"{G}/load", params={"async": "true"}, json={"data": rows, "branch": branch, **fields}
    )


def test_a_background_load_runs_and_reports_its_end(client: httpx.Client) -> None:
    branch = fork(client, "by-itself")
    rows = lines(node("Person", name="Zoe"), node("Person", name="Yan"))

    started = start(client, rows, branch)
    ended = wait_for_job(client, started.headers["location"])

    assert started.status_code == 202
    assert started.json()["status"] in ("waiting", "running")
    assert started.headers["location"] == f"{G}/jobs/{started.json()['job_id']}"
    assert (ended["status"], ended["error"]) == ("done", None)
    assert (ended["stage"], ended["done"], ended["total"]) == ("commit", 2, 2)
    result = ended["result"]
    assert isinstance(result, dict)
    assert result["commit_id"] == head_of(client, branch)
    assert result["tables"] == [{"table_key": "node:Person", "rows_loaded": 2}]
    assert {"Zoe", "Yan"} <= set(names_on(client, branch))


def test_a_failed_background_load_reports_the_error_of_a_plain_load(
    client: httpx.Client,
) -> None:
    branch = fork(client, "failing")
    body = {"data": '{"type":"Nope","data":{}}\n', "branch": branch}
    refused = client.post(f"{G}/load", json=body)

    started = start(client, body["data"], branch)
    ended = wait_for_job(client, started.headers["location"])

    assert (ended["status"], ended["result"]) == ("failed", None)
    assert ended["error"] == {"status": refused.status_code, **refused.json()}


@pytest.mark.parametrize("body", [{"data": 3}, {"data": "", "branch": "a b"}])
def test_an_invalid_background_load_is_refused_at_once(
    client: httpx.Client, body: dict[str, object]
) -> None:
    response = client.post(f"{G}/load", params={"async": "true"}, json=body)

    assert response.status_code in (400, 422)


def test_async_is_true_or_false(client: httpx.Client) -> None:
    response = client.post(f"{G}/load", params={"async": "maybe"}, json={"data": ""})

    require_refused(response, 400, code="bad_request", says="async")


def test_a_load_that_is_cancelled_writes_nothing_or_all(client: httpx.Client) -> None:
    branch = fork(client, "cancelled")
    before = head_of(client, branch)
    crowd = lines(*(node("Person", name=f"p{number}") for number in range(100_000)))
    jobs = [start(client, crowd, branch) for _ in range(6)]

    cancelled = [client.delete(job.headers["location"]) for job in jobs]
    ended = [wait_for_job(client, job.headers["location"]) for job in jobs]

    assert {response.status_code for response in cancelled} == {200}
    statuses = [job["status"] for job in ended]
    # Loads that were still queued have changed nothing.
    assert statuses[-2:] == ["cancelled", "cancelled"]
    assert set(statuses) <= {"cancelled", "done"}
    is_there = "p0" in names_on(client, branch)
    assert is_there == ("done" in statuses)
    assert is_there or head_of(client, branch) == before


def test_a_job_that_has_ended_stays_as_it_is(client: httpx.Client) -> None:
    branch = fork(client, "ended")
    location = start(client, lines(node("Person", name="Zoe")), branch).headers["location"]
    ended = wait_for_job(client, location)

    response = client.delete(location)

    assert response.json() == ended == client.get(location).json()


def test_jobs_are_listed_in_the_order_of_their_start(client: httpx.Client) -> None:
    branch = fork(client, "listed")
    ids = [
        start(client, lines(node("Person", name=name)), branch).json()["job_id"]
        for name in ("Zoe", "Yan")
    ]

    listed = [job["job_id"] for job in client.get(f"{G}/jobs").json()["jobs"]]

    assert listed[-2:] == ids


def test_an_unknown_job_is_not_found(client: httpx.Client) -> None:
    require_refused(client.get(f"{G}/jobs/none"), 404, code="not_found", says="none")
    require_refused(client.delete(f"{G}/jobs/none"), 404, code="not_found", says="none")


def test_a_job_is_visible_to_its_actor_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("actors")
    (folder / "policy.yaml").write_text(
        "version: 1\n"
        "groups: {team: [ann, bob]}\n"
        "protected_branches: [main]\n"
        "rules:\n"
        "  - {id: all, allow: {actors: {group: team}, actions: [read, change],"
        " branch_scope: any}}\n",
        encoding="utf-8",
    )
    tokens = {"ann": "token-ann", "bob": "token-bob"}
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens)}
    with (
        running_server(
            folder, "--policy", str(folder / "policy.yaml"), environment=environment
        ) as server,
        server.client(token=tokens["ann"]) as ann,
        server.client(token=tokens["bob"]) as bob,
    ):
        location = start(ann, lines(node("Person", name="Zoe")), "main").headers["location"]
        unseen = bob.get(location)
        untouched = bob.delete(location)
        ended = wait_for_job(ann, location)
        listed = bob.get(f"{G}/jobs").json()

    require_refused(unseen, 404, code="not_found", says="not found")
    assert untouched.content == unseen.content
    assert ended["status"] == "done"
    result = ended["result"]
    assert isinstance(result, dict)
    assert result["actor_id"] == "ann"
    assert listed == {"jobs": []}
