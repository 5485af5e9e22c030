"""A server of several worker processes: one set of graphs, one port, one state for all callers."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import node
from tests.support.served_graphs import G, add_person, fork, head_of, lines, names_on
from tests.support.server_workers import (
    client_of_worker,
    have_ended,
    is_worker,
    kill_worker,
    worker_pids,
)
from tests.support.servers import (
    ENDS_WITHIN_S,
    STARTS_WITHIN_S,
    Server,
    refused_server,
    running_server,
    wait_for_job,
)

ONE_QUERY = "query one() { match { $p: Person } return { $p.name } }"
CROWD = lines(*(node("Person", name=f"p{number}") for number in range(100_000)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("workers")
    (folder / "stored.gq").write_text(ONE_QUERY)
    arguments = ("--unauthenticated", "--queries", str(folder / "stored.gq"))
    with running_server(folder, *arguments, environment={"OMNIGRAPH_WORKERS": "2"}) as running:
        yield running


@pytest.fixture(scope="module")
def clients(server: Server) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A client of each of the two workers."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(client_of_worker(server, worker)) for worker in (1, 2))
        yield first, second


Clients = tuple[httpx.Client, httpx.Client]


def load_in_background(client: httpx.Client, rows: str, branch: str) -> str:
    """Start a background load; the location of its job."""
    response = client.post(
        f"{G}/load", params={"async": "true"}, json={"data": rows, "branch": branch}
    )
    assert response.status_code == 202, response.text
    location: str = response.headers["location"]
    return location


def stored_queries(client: httpx.Client) -> list[str]:
    return [each["name"] for each in client.get(f"{G}/queries").json()["queries"]]


def test_all_workers_respond_and_each_shows_the_metrics_of_all(clients: Clients) -> None:
    for client in clients:
        assert client.get("/healthz").json()["status"] == "ok"

    texts = [client.get("/metrics").text for client in clients]

    for text in texts:
        counted = re.findall(
            r'omnigraph_http_requests_total\{worker="(\d)",method="GET",route="/healthz",.*\} (.*)',
            text,
        )
        assert [worker for worker, number in counted if float(number) >= 1] == ["1", "2"]


def test_a_commit_of_one_worker_is_read_through_the_other_at_once(clients: Clients) -> None:
    branch = fork(clients[0], "to-and-fro")
    expected = set(names_on(clients[1], branch))

    for number in range(10):
        writing, reading = clients[number % 2], clients[1 - number % 2]
        add_person(writing, f"n{number}", branch=branch)
        expected.add(f"n{number}")

        assert set(names_on(reading, branch)) == expected
        # The response of the same query may be cached at both.
        assert set(names_on(writing, branch)) == expected


def test_a_retry_with_its_key_is_applied_once_by_any_worker(clients: Clients) -> None:
    branch = fork(clients[0], "retried")
    key = {"Idempotency-Key": "the same"}

    first, again = (add_person(each, "Zoe", branch=branch, headers=key) for each in clients)

    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["commit_id"] == again.json()["commit_id"] == head_of(clients[0], branch)
    assert names_on(clients[1], branch).count("Zoe") == 1


def test_of_conflicting_writes_to_two_workers_one_is_applied(clients: Clients) -> None:
    branch = fork(clients[0], "contested")
    rounds = 10

    with ThreadPoolExecutor(2) as pool:
        for number in range(rounds):
            condition = {"Omnigraph-If-Graph-Commit": head_of(clients[0], branch)}
            writes = [
                pool.submit(add_person, each, f"{n}-{number}", branch=branch, headers=condition)
                for n, each in enumerate(clients)
            ]
            statuses = sorted(each.result().status_code for each in writes)
            assert statuses == [200, 412]

    written = [name for name in names_on(clients[1], branch) if "-" in name]
    assert len(written) == rounds


def test_a_job_is_the_same_through_every_worker(clients: Clients) -> None:
    branch = fork(clients[0], "loaded")

    locations = [
        load_in_background(client, lines(node("Person", name=f"by {n}")), branch)
        for n, client in enumerate(clients)
    ]

    for location, other in zip(locations, reversed(clients), strict=True):
        ended = wait_for_job(other, location)
        assert (ended["status"], ended["done"], ended["total"]) == ("done", 1, 1)
    listed = [client.get(f"{G}/jobs").json()["jobs"] for client in clients]
    assert listed[0] == listed[1]
    assert [f"{G}/jobs/{job['job_id']}" for job in listed[0]][-2:] == locations
    assert {"by 0", "by 1"} <= set(names_on(clients[0], branch))
    assert [client.get(f"{G}/jobs/none").status_code for client in clients] == [404, 404]


def test_a_job_is_cancelled_through_another_worker(clients: Clients) -> None:
    branch = fork(clients[0], "cancelled")
    # More than a worker runs at a time.
    locations = [load_in_background(clients[0], CROWD, branch) for _ in range(5)]

    cancelled = [clients[1].delete(location).status_code for location in locations]
    ended = [wait_for_job(clients[1], location)["status"] for location in locations]

    assert set(cancelled) == {200}
    assert ended[-1] == "cancelled"
    assert set(ended) <= {"cancelled", "done"}
    assert ("p0" in names_on(clients[0], branch)) == ("done" in ended)


def test_a_tool_of_an_agent_is_the_same_through_every_worker(clients: Clients) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}

    first, second = (client.post(f"{G}/mcp", json=listing, headers=accept) for client in clients)

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()


def test_a_reload_through_any_worker_reloads_all(server: Server, clients: Clients) -> None:
    stored = server.folder / "stored.gq"
    before = [stored_queries(client) for client in clients]

    stored.write_text(ONE_QUERY.replace("one()", "two()"))
    response = clients[1].post("/admin/reload")

    after = [stored_queries(client) for client in clients]
    assert response.json() == {"revision": None, "graphs": ["default"], "quarantined": []}
    assert (before, after) == ([["one"]] * 2, [["two"]] * 2)

    stored.write_text("query broken(")
    refused = clients[0].post("/admin/reload")

    assert refused.status_code == 409
    assert [stored_queries(client) for client in clients] == [["two"]] * 2

    stored.write_text(ONE_QUERY)
    server.process.send_signal(signal.SIGHUP)
    wait_until_both_store(clients, "one")


def wait_until_both_store(clients: Clients, name: str) -> None:
    """Return once both workers serve this stored query and no other."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda client: wait_until_stored(client, name), clients))


def wait_until_stored(client: httpx.Client, name: str) -> None:
    for _ in range(1000):
        if stored_queries(client) == [name]:
            return
    raise AssertionError(f"the worker does not serve {name}")


def test_a_killed_worker_is_replaced_and_its_jobs_have_failed(tmp_path: Path) -> None:
    stored = tmp_path / "stored.gq"
    stored.write_text(ONE_QUERY)
    arguments = ("--unauthenticated", "--queries", str(stored), "--workers", "2")
    with running_server(tmp_path, *arguments) as server:
        with client_of_worker(server, 2) as second:
            branch = fork(second, "loaded")
            with client_of_worker(server, 1) as first:
                location = load_in_background(first, CROWD, branch)
                job = second.get(location)
                assert job.json()["status"] in ("waiting", "running")
                # A replaced worker reads the configuration again, so the others do as well.
                stored.write_text(ONE_QUERY.replace("one()", "two()"))
                kill_worker(server, 1)

            ended = wait_for_job(second, location)
            with client_of_worker(server, 1) as successor:
                server.wait_for_line("reloaded", worker=2)
                assert successor.get(location).json() == second.get(location).json() == ended
                stored_by = [stored_queries(each) for each in (successor, second)]
                # The write that was interrupted is completed or undone.
                add_person(successor, "Zoe", branch=branch)
                names = names_on(second, branch)

        assert stored_by == [["two"], ["two"]]
        assert ended["status"] == "failed"
        assert isinstance(ended["error"], dict)
        assert ended["error"]["code"] == "recovery_required"
        assert "Zoe" in names
        assert sum(name.startswith("p") for name in names) in (0, 100_000)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminated_server_finishes_the_requests_of_all_workers(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running_server(tmp_path, "--unauthenticated", "--workers", "2") as server:
        pids = worker_pids(server)
        with (
            client_of_worker(server, 1) as first,
            client_of_worker(server, 2) as second,
            ThreadPoolExecutor(2) as pool,
        ):
            under_way = [
                pool.submit(
                    each.post, f"{G}/load", json={"data": CROWD}, headers={"X-Request-Id": name}
                )
                for name, each in (("first", first), ("second", second))
            ]
            for name in ("first", "second"):
                server.wait_for_line("graph routed", request_id=name)

            code = server.end(number)

            # Both load the same rows: one of them may lose to the other, but neither is cut.
            statuses = {each.result().status_code for each in under_way}

        assert statuses <= {200, 409}
        assert 200 in statuses
        assert code == 0
        assert have_ended(server, pids.values())
        with pytest.raises(httpx.ConnectError):
            server.request("GET", "/healthz", token=None)


def test_no_worker_outlives_its_server(tmp_path: Path) -> None:
    with running_server(tmp_path, "--unauthenticated", "--workers", "2") as server:
        pids = worker_pids(server)

        assert all(is_worker(server, pid) for pid in pids.values())
        server.end(signal.SIGKILL)

        assert len(pids) == 2
        assert have_ended(server, pids.values())


def test_a_worker_that_cannot_start_ends_the_server(tmp_path: Path) -> None:
    ended = refused_server(
        tmp_path, "--store", str(tmp_path / "none"), "--unauthenticated", "--workers", "2"
    )

    assert ended.code == 1
    assert ended.said.count("no graph can be served") == 1
    assert "Traceback" not in ended.said

    folder = tmp_path / "moved"
    with running_server(folder, "--unauthenticated", "--workers", "2") as server:
        shutil.move(folder / "graph", folder / "elsewhere")
        pids = (worker_pids(server)[1], kill_worker(server, 2))

        assert server.process.wait(STARTS_WITHIN_S) == 1
        assert "no graph can be served" in server.log_text()
        assert have_ended(server, pids)


def test_workers_are_replaced_a_bounded_number_of_times(tmp_path: Path) -> None:
    with running_server(tmp_path, "--unauthenticated", "--workers", "2") as server:
        for _ in range(5):
            kill_worker(server, 1)
        os.kill(worker_pids(server)[1], signal.SIGKILL)

        assert server.process.wait(ENDS_WITHIN_S) == 1
        server_log = server.log_text()
        assert server_log.count('"worker ended"') == 5
        assert server_log.count('"worker failed"') == 1


def test_a_number_of_workers_out_of_bounds_is_a_usage_error(tmp_path: Path) -> None:
    assert refused_server(tmp_path, "--workers", "0").code == 2
