"""Messages between the processes of one server: their metrics, and a reload of all of them.

Each worker process responds on a Unix socket in a folder that only the user of the server can open.
A reload is one for all: every worker prepares its next revision, and they switch to it only once
all of them could. A worker that does not respond prevents a reload, and is missing from metrics.
The module knows no HTTP and no graphs.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from shutil import rmtree
from threading import Thread

import orjson

from omnigraph.http.responses import ReloadOutput
from omnigraph.model.limits import PROCESS_METRICS_S_MAX, PROCESS_RELOAD_S_MAX
from omnigraph.server.settings import StartupError
from omnigraph.server.telemetry import merge_metrics

_METRICS, _RELOAD, _SWITCH = b"metrics\n", b"reload\n", b"switch\n"
_BACKLOG = 64
_ACCEPT_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """The worker processes of one server, numbered from 1, and the folder that they share."""

    folder: Path
    count: int

    @property
    def jobs(self) -> str:
        """The place of the records of background loads."""
        return str(self.folder / "jobs.db")

    def socket_of(self, number: int) -> Path:
        """The socket on which a worker responds to the other processes."""
        return self.folder / f"{number}.sock"

    def read_metrics(self) -> bytes:
        """The metrics of all workers in text format; those that do not respond are left out."""
        text_by_worker: dict[int, bytes] = {}
        for number in range(1, self.count + 1):
            with (
                suppress(OSError),
                self._connected(number, within_s=PROCESS_METRICS_S_MAX) as stream,
            ):
                _send(stream, _METRICS)
                text_by_worker[number] = stream.read()
        return merge_metrics(text_by_worker)

    def reload(self) -> ReloadOutput:
        """Reload all workers; `StartupError`, and every worker stays as it is, if one cannot."""
        with ExitStack() as connections:
            streams: list[BufferedIOBase] = []
            outputs: list[ReloadOutput] = []
            # All reloads go through the workers in this order, so that of two at once the second
            # waits at the first worker and they do not block each other.
            for number in range(1, self.count + 1):
                connected = self._connected(number, within_s=PROCESS_RELOAD_S_MAX)
                try:
                    stream = connections.enter_context(connected)
                    response = _request(stream, _RELOAD)
                except OSError as error:
                    raise StartupError(
                        f"worker process {number} does not respond; try again later"
                    ) from error
                if "refused" in response:
                    raise StartupError(str(response["refused"]))
                streams.append(stream)
                outputs.append(response["prepared"])
            output = merge_reloads(outputs)
            for stream in streams:
                # A worker that ended meanwhile is replaced by one that reads the same state.
                with suppress(OSError):
                    _request(stream, _SWITCH)
        return output

    @contextmanager
    def _connected(self, number: int, *, within_s: float) -> Iterator[BufferedIOBase]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(within_s)
            connection.connect(str(self.socket_of(number)))
            with connection.makefile("rwb") as stream:
                yield stream


def merge_reloads(outputs: Sequence[ReloadOutput]) -> ReloadOutput:
    """What all workers serve after a reload; `StartupError` if they read different revisions."""
    revisions = {each["revision"] for each in outputs}
    if len(revisions) > 1:
        raise StartupError("the state of the cluster changed meanwhile; reload again")
    served = frozenset[str].intersection(*(frozenset(each["graphs"]) for each in outputs))
    missing = {left["graph_id"]: left for each in outputs for left in each["quarantined"]}
    return {
        "revision": outputs[0]["revision"],
        "graphs": sorted(served),
        "quarantined": [missing[id] for id in sorted(missing)],
    }


def _request(stream: BufferedIOBase, request: bytes) -> dict[str, ReloadOutput]:
    _send(stream, request)
    response = stream.readline()
    if not response.endswith(b"\n"):
        raise ConnectionResetError("the worker process ended")
    parsed: dict[str, ReloadOutput] = orjson.loads(response)
    return parsed


Confirm = Callable[[ReloadOutput], None]
"""Called with what a worker has prepared; raises `StartupError` if it must not switch to it."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One worker process of a group: its number, the shared socket, and the tie to its parent."""

    group: WorkerGroup
    number: int
    listening: socket.socket
    parent: socket.socket

    def wait_for_turn(self) -> bool:
        """Wait until the parent allows this worker to open its graphs; False if it has ended."""
        with suppress(OSError):
            return bool(self.parent.recv(1))
        return False

    def announce(self, started: object) -> None:
        """Report to the parent that requests are served; stop when the parent ends."""
        # A parent that has ended is noticed by the thread.
        with suppress(OSError):
            self.parent.sendall(_encode(started))
        Thread(target=self._stop_with_parent, daemon=True).start()

    def _stop_with_parent(self) -> None:
        with suppress(OSError):
            while self.parent.recv(1):
                pass
        # A parent that was killed could not remove it.
        rmtree(self.group.folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)

    def listen(
        self, encode_metrics: Callable[[], bytes], reload: Callable[[Confirm], object]
    ) -> None:
        """Respond to the other processes, on threads, from now on; `StartupError` if it cannot."""
        path = self.group.socket_of(self.number)
        # The predecessor of a replaced worker could not remove it.
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
        except OSError as error:
            # The path may be too long for a Unix socket, depending on `TMPDIR`.
            raise StartupError(f"cannot listen at {path}: {error.strerror or error}") from error
        listening.listen(_BACKLOG)
        Thread(target=_accept, args=(listening, encode_metrics, reload), daemon=True).start()


def _accept(
    listening: socket.socket,
    encode_metrics: Callable[[], bytes],
    reload: Callable[[Confirm], object],
) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            # The process has too many files open at present.
            time.sleep(_ACCEPT_AGAIN_S)
            continue
        Thread(target=_respond, args=(connection, encode_metrics, reload), daemon=True).start()


def _respond(
    connection: socket.socket,
    encode_metrics: Callable[[], bytes],
    reload: Callable[[Confirm], object],
) -> None:
    # The process that sent the request may end at any time.
    with suppress(OSError), connection, connection.makefile("rwb") as stream:
        match stream.readline():
            case b"metrics\n":
                _send(stream, encode_metrics())
            case b"reload\n":
                _reload(stream, reload)
            case _:
                pass


def _reload(stream: BufferedIOBase, reload: Callable[[Confirm], object]) -> None:
    def confirm(prepared: ReloadOutput) -> None:
        # The wait is not bounded: a worker that gave up while the others switch would differ. It
        # ends with the process that requested it.
        try:
            _send(stream, _encode({"prepared": prepared}))
            is_confirmed = stream.readline() == _SWITCH
        except OSError:
            is_confirmed = False
        if not is_confirmed:
            raise StartupError("another worker process cannot reload")

    try:
        reload(confirm)
    except StartupError as error:
        _send(stream, _encode({"refused": str(error)}))
    else:
        _send(stream, _encode({}))


def _encode(message: object) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)


def _send(stream: BufferedIOBase, message: bytes) -> None:
    stream.write(message)
    stream.flush()
