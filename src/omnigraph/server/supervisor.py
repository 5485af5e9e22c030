"""The parent of the worker processes of a server: it starts, replaces and stops them.

The parent owns the listening socket, from which all workers accept connections, and opens no graph.
At the start one worker opens the graphs before the others do, so that an error that prevents the
start is reported once. A worker that ends is replaced, within a bound, and all workers then reload,
because the new one reads the configuration as it is now. A worker that cannot start ends the server
with its exit code. The workers stop when the parent ends in any way.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector

import orjson

from omnigraph.model.limits import (
    PROCESS_RESTARTS_MAX,
    PROCESS_RESTARTS_S,
    PROCESS_STOP_S_MAX,
)
from omnigraph.server.jobs import JobRecords
from omnigraph.server.peers import WorkerGroup
from omnigraph.server.telemetry import Log

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_CAUGHT = (*_STOPPING, signal.SIGHUP, signal.SIGCHLD)
_LINE_BYTES_MAX = 1024 * 1024

Command = Callable[[int, int, int], Sequence[str]]
"""The command line of a worker, from its number and two inherited file descriptors: the listening
socket and the connection to the parent."""

Started = Mapping[str, object]
"""What a worker reports when it serves requests."""


@dataclass(slots=True)
class _Worker:
    number: int
    child: subprocess.Popen[bytes]
    channel: socket.socket
    is_ready: bool


def find_exit_code(code: int, *, was_ready: bool, recent_ends: int) -> int | None:
    """The exit code of a server one of whose workers has ended; None if it is replaced.

    `code` is that of the worker, negative for a signal. A worker that was killed while it started
    may start the next time.
    """
    if code > 0 and not was_ready:
        return code
    return 1 if recent_ends > PROCESS_RESTARTS_MAX else None


class Supervisor:
    """The workers of a group; `reload` starts a reload of all of them and does not wait for it."""

    def __init__(
        self,
        group: WorkerGroup,
        command: Command,
        listening: socket.socket,
        *,
        reload: Callable[[], None],
        log: Log,
    ) -> None:
        self._group, self._command, self._listening = group, command, listening
        self._reload, self._log = reload, log
        # The number of a worker is that of its jobs; the parent has none.
        self._jobs = JobRecords(group.jobs, worker=0)
        self._selector = DefaultSelector()
        self._worker_by_number: dict[int, _Worker] = {}
        self._ends: deque[float] = deque(maxlen=PROCESS_RESTARTS_MAX + 1)
        self._may_all_open = self._is_started = self._is_reload_wanted = False
        self._exit_code: int | None = None
        self._stops_at = 0.0

    def run(self, on_started: Callable[[Started], None]) -> int:
        """Serve until a signal stops the server or its workers fail; the exit code.

        `on_started` is called once all workers serve requests.
        """
        with self._catching_signals() as signals:
            for number in range(1, self._group.count + 1):
                self._start(number)
            self._permit(1)
            while self._exit_code is None or self._worker_by_number:
                for key, _ in self._selector.select(self._left_s()):
                    if isinstance(key.data, _Worker):
                        self._read(key.data, on_started)
                    else:
                        for number in signals.recv(4096):
                            self._receive(number)
                if self._exit_code is not None and self._left_s() == 0:
                    self._kill()
        return self._exit_code

    def _left_s(self) -> float | None:
        return None if self._exit_code is None else max(0.0, self._stops_at - time.monotonic())

    @contextmanager
    def _catching_signals(self) -> Iterator[socket.socket]:
        receiving, sending = socket.socketpair()
        with ExitStack() as stack:
            stack.enter_context(receiving)
            stack.enter_context(sending)
            os.set_blocking(sending.fileno(), False)
            stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(sending.fileno()))
            for number in _CAUGHT:
                # A signal is written to the socket only if it has a handler.
                stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
            self._selector.register(receiving, EVENT_READ)
            yield receiving

    def _start(self, number: int) -> None:
        channel, inherited = socket.socketpair()
        with inherited:
            listening = self._listening.fileno()
            child = subprocess.Popen(
                self._command(number, listening, inherited.fileno()),
                pass_fds=(listening, inherited.fileno()),
                # Ctrl-C is sent to the parent only, which passes it on.
                process_group=0,
            )
        worker = _Worker(number, child, channel, is_ready=False)
        self._worker_by_number[number] = worker
        self._selector.register(channel, EVENT_READ, worker)
        self._log.event("worker started", worker=number, pid=child.pid)

    def _permit(self, number: int) -> None:
        """Let a worker open the graphs."""
        # The end of a worker is noticed by its signal.
        with suppress(OSError):
            self._worker_by_number[number].channel.sendall(b"\n")

    def _read(self, worker: _Worker, on_started: Callable[[Started], None]) -> None:
        """Read what a worker reports; the end of its connection is followed by its own."""
        if self._worker_by_number.get(worker.number) is not worker:
            # Its end was noticed in the same turn.
            return
        self._selector.unregister(worker.channel)
        try:
            with worker.channel.makefile("rb") as stream:
                line = stream.readline(_LINE_BYTES_MAX)
        except OSError:
            # The worker was killed before it had read that it may open the graphs.
            return
        if not line.endswith(b"\n") or self._exit_code is not None:
            return
        worker.is_ready = True
        if not self._may_all_open:
            self._may_all_open = True
            for number in range(2, self._group.count + 1):
                self._permit(number)
        if not self._is_all_ready():
            return
        if not self._is_started:
            self._is_started = True
            on_started(orjson.loads(line))
        if self._is_reload_wanted:
            self._is_reload_wanted = False
            self._reload()

    def _is_all_ready(self) -> bool:
        ready = sum(each.is_ready for each in self._worker_by_number.values())
        return ready == self._group.count

    def _receive(self, number: int) -> None:
        if number in _STOPPING:
            self._pass_on(number)
            self._stop(0)
        elif number == signal.SIGCHLD:
            self._reap()
        elif self._is_all_ready():
            self._reload()
        else:
            # A worker that is starting may have read the configuration already.
            self._is_reload_wanted = True

    def _stop(self, exit_code: int) -> None:
        """Accept no more connections, and end once all workers have ended."""
        if self._exit_code is None:
            self._exit_code = exit_code
            self._stops_at = time.monotonic() + PROCESS_STOP_S_MAX
            self._listening.close()

    def _pass_on(self, number: int) -> None:
        for each in self._worker_by_number.values():
            # One that is starting does not handle SIGINT yet.
            each.child.send_signal(number if each.is_ready else signal.SIGTERM)

    def _kill(self) -> None:
        for each in self._worker_by_number.values():
            self._log.warning("worker killed", worker=each.number, pid=each.child.pid)
            each.child.kill()
            each.child.wait()
        self._reap()

    def _reap(self) -> None:
        for each in tuple(self._worker_by_number.values()):
            code = each.child.poll()
            if code is not None:
                del self._worker_by_number[each.number]
                self._end(each, code)

    def _end(self, worker: _Worker, code: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(worker.channel)
        worker.channel.close()
        self._jobs.fail_all_of(worker.number)
        if self._exit_code is not None:
            if worker.is_ready and code != 0:
                self._exit_code = self._exit_code or 1
            return
        now = time.monotonic()
        self._ends.append(now)
        recent_ends = sum(now - each < PROCESS_RESTARTS_S for each in self._ends)
        fields: dict[str, object] = {"worker": worker.number, "pid": worker.child.pid, "code": code}
        exit_code = find_exit_code(code, was_ready=worker.is_ready, recent_ends=recent_ends)
        if exit_code is None:
            self._log.warning("worker ended", **fields)
            self._is_reload_wanted |= self._is_started
            self._start(worker.number)
            if self._may_all_open or worker.number == 1:
                self._permit(worker.number)
            return
        self._log.error("worker failed", error=None, **fields)
        self._pass_on(signal.SIGTERM)
        self._stop(exit_code)
