"""Servers of several worker processes: which worker a client is connected to, and their pids."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx

from tests.support.served_graphs import G
from tests.support.servers import ENDS_WITHIN_S, POLL_S, STARTS_WITHIN_S, Server

_NUMBERS = count()


def worker_pids(server: Server) -> dict[int, int]:
    """The process id of each worker that was started last."""
    pids: dict[int, int] = {}
    for line in server.log_lines():
        if line["event"] == "worker started":
            worker, pid = line["worker"], line["pid"]
            assert isinstance(worker, int)
            assert isinstance(pid, int)
            pids[worker] = pid
    return pids


def kill_worker(server: Server, worker: int) -> int:
    """Kill a worker and wait until its successor is started; the pid of the successor."""
    killed = worker_pids(server)[worker]
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + ENDS_WITHIN_S
    while (pid := worker_pids(server)[worker]) == killed:
        assert time.monotonic() < deadline, f"no other worker {worker}:\n{server.log_text()}"
        assert server.process.poll() is None, f"the server ended:\n{server.log_text()}"
        time.sleep(POLL_S)
    return pid


@contextmanager
def client_of_worker(server: Server, worker: int) -> Iterator[httpx.Client]:
    """A client whose connection a certain worker has accepted."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline:
        with server.client(token=None) as client:
            if worker_of(server, client) == worker:
                yield client
                return
    raise AssertionError(f"worker {worker} accepts no connection")


def worker_of(server: Server, client: httpx.Client) -> object:
    """The worker that a client is connected to."""
    request_id = f"find-{next(_NUMBERS)}"
    client.get(f"{G}/head", headers={"X-Request-Id": request_id})
    return server.wait_for_line("graph routed", request_id=request_id)["worker"]


def have_ended(server: Server, pids: Iterable[int]) -> bool:
    """Whether all of these workers have ended, once they have or time is up."""
    deadline = time.monotonic() + ENDS_WITHIN_S
    while any(is_worker(server, pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def is_worker(server: Server, pid: int) -> bool:
    """Whether a process is a worker of the server; its id may be that of a later process."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return str(server.store) in command and "--join" in command
