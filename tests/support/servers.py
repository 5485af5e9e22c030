"""Real server processes for tests: started on a free port, watched, and ended with the test.

A server holds the graph of the specification's fixture F unless it is given another. What it logs
is kept in a file beside the graph.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.graphs import social_graph

# The first import of Lance on a busy machine takes seconds.
STARTS_WITHIN_S = 120.0
ENDS_WITHIN_S = 30.0
POLL_S = 0.02

FIND_PERSON = """
query get_person($name: String) {
    match { $p: Person { name: $name } }
    return { $p.name, $p.age }
}
query all_people() {
    match { $p: Person }
    return { $p.name }
}
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a server that would not start ended."""

    code: int
    said: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server that listens at `url`; `graph_url` is where its graph is, without a token."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path

    @property
    def graph_url(self) -> str:
        """The url of the graph of a server that was started for one."""
        return f"{self.url}/graphs/default"

    @property
    def store(self) -> Path:
        """Where the graph is."""
        return self.folder / "graph"

    def client(self, *, token: str | None) -> httpx.Client:
        """A client of the server that shows a token, if there is one."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60.0)

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The response of the server to one request, over a connection of its own."""
        with self.client(token=token) as client:
            return client.request(method, path, json=json, headers=headers)

    def log_text(self) -> str:
        """All that the server has written so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8")

    def log_lines(self) -> list[dict[str, object]]:
        """Its log so far, line by line."""
        return [json.loads(line) for line in self.log_text().splitlines()]

    def wait_for_line(self, event: str, **fields: object) -> dict[str, object]:
        """The first line of an event with these fields, once it is logged.

        What is logged about a request may come shortly after its response.
        """
        deadline = time.monotonic() + ENDS_WITHIN_S
        while time.monotonic() < deadline:
            for line in self.log_lines():
                if line["event"] == event and fields.items() <= line.items():
                    return line
            time.sleep(POLL_S)
        raise AssertionError(f"no line {event!r} in:\n{self.log_text()}")

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; its exit code, negative if the signal killed it."""
        self.process.send_signal(number)
        return self.process.wait(ENDS_WITHIN_S)


@contextmanager
def running_server(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server of fixture F in a new folder, ended at the end of the block.

    `arguments` follow `--store`; without tokens in the environment one of them has to be
    `--unauthenticated`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "graph").exists():
        social_graph(folder / "graph").close()
    with serving(
        folder, "--store", str(folder / "graph"), *arguments, environment=environment
    ) as server:
        yield server


@contextmanager
def open_server(folder: Path) -> Iterator[Server]:
    """A server of fixture F that any caller may use."""
    with running_server(folder, "--unauthenticated") as server:
        yield server


@contextmanager
def serving(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server that is started with these arguments."""
    process = _start(folder, arguments, environment)
    try:
        yield Server(process, _wait_until_up(process, folder), folder)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(ENDS_WITHIN_S)


def refused_server(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Ended:
    """How a server that must not start ends."""
    folder.mkdir(parents=True, exist_ok=True)
    process = _start(folder, arguments, environment)
    code = process.wait(STARTS_WITHIN_S)
    return Ended(code, (folder / "server.log").read_text(encoding="utf-8"))


def wait_for_job(client: httpx.Client, location: str) -> dict[str, object]:
    """A load that goes on by itself, once it has ended."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        job: dict[str, object] = client.get(location).json()
        if job["status"] not in ("waiting", "running"):
            return job
        assert time.monotonic() < deadline, f"the job does not end: {job}"
        time.sleep(POLL_S)


def _start(
    folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")
    }
    bind = () if "--bind" in arguments else ("--bind", "127.0.0.1:0")
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "omnigraph.server", *arguments, *bind],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**inherited, **(environment or {})},
        )


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path) -> str:
    """The url of a server, once it says that it listens."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        said = (folder / "server.log").read_text(encoding="utf-8")
        found = re.search(r'"url":"(http://[^"]+)"', said)
        if found is not None:
            return found[1]
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}:\n{said}")
        time.sleep(POLL_S)
    process.kill()
    raise AssertionError("the server does not listen")
