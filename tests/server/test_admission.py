"""Admission over HTTP: excess writes are refused at once, and reads are not."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.servers import FIND_PERSON, running_server

INSERT = "query add($n: String) { insert Person { name: $n } }"


def test_of_many_concurrent_writes_some_are_applied_and_the_others_get_retry_after(
    tmp_path: Path,
) -> None:
    with running_server(
        tmp_path, "--unauthenticated", environment={"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "1"}
    ) as server:

        def write(number: int) -> tuple[int, str | None, str]:
            with server.client(token=None) as client:
                response = client.post(
                    "/graphs/default/mutate",
                    json={"query": INSERT, "params": {"n": f"new {number}"}},
                )
                return response.status_code, response.headers.get("Retry-After"), response.text

        with ThreadPoolExecutor(8) as pool:
            responses = list(pool.map(write, range(16)))

        statuses = [status for status, _, _ in responses]
        assert set(statuses) == {200, 429}
        for status, retry_after, text in responses:
            if status == 429:
                assert retry_after == "60"
                assert "actor in-flight count cap 1 exceeded" in text
                assert '"code":"too_many_requests"' in text
        with server.client(token=None) as client:
            rows = client.post(
                "/graphs/default/query", json={"query": FIND_PERSON, "name": "all_people"}
            ).json()["rows"]
        assert len(rows) == 4 + statuses.count(200)


def test_bytes_beyond_the_budget_are_refused_and_reads_are_not(tmp_path: Path) -> None:
    with (
        running_server(
            tmp_path, "--unauthenticated", environment={"OMNIGRAPH_PER_ACTOR_BYTES_MAX": "10"}
        ) as server,
        server.client(token=None) as client,
    ):
        written = client.post(
            "/graphs/default/mutate", json={"query": INSERT, "params": {"n": "Eve"}}
        )
        read = client.post(
            "/graphs/default/query", json={"query": FIND_PERSON, "name": "all_people"}
        )

        assert written.status_code == 413
        assert read.status_code == 200


def test_a_client_that_does_not_read_its_response_blocks_no_request(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, "--unauthenticated") as server,
        server.client(token=None) as client,
    ):
        record = '{"type": "Person", "data": {"name": "%s"}}'
        lines = "\n".join(record % (f"{each} " + "x" * 500) for each in range(30_000))
        client.post(
            "/graphs/default/load", json={"mode": "append", "data": lines}
        ).raise_for_status()
        address = urlsplit(server.url)
        request = (
            b"POST /graphs/default/export HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )

        with _connections((address.hostname or "", address.port or 80), count=16) as deaf:
            for each in deaf:
                each.sendall(request)
                assert each.recv(1).startswith(b"H")
            written = client.post(
                "/graphs/default/mutate", json={"query": INSERT, "params": {"n": "Eve"}}
            )
            read = client.get("/graphs/default/schema")

        assert written.status_code == 200
        assert read.status_code == 200


@contextmanager
def _connections(address: tuple[str, int], *, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as opened:
        yield [
            opened.enter_context(socket.create_connection(address, timeout=60))
            for _ in range(count)
        ]
