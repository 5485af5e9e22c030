"""A server that follows a script: responses, truncated responses or silence, in turn.

For what no server of ours does on purpose. It speaks just enough HTTP for a client that keeps its
connections, and remembers what it was sent.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

import orjson

WAITS_S = 10.0


@dataclass(frozen=True, slots=True)
class Responds:
    """A complete response."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hangs:
    """Nothing for a while, and then the end of the connection."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HangsUp:
    """The end of the connection, after some bytes of a response."""

    sent: bytes = b""


Turn = Responds | Hangs | HangsUp


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class ScriptedServer:
    """Where the server listens, and what it has received so far."""

    url: str
    turns: list[Turn]
    listening: socket.socket
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

    @property
    def keys(self) -> list[str | None]:
        """The key of each request."""
        return [each.headers.get("idempotency-key") for each in self.received]


def responds(body: object, *, status: int = 200, **headers: str) -> Responds:
    """A response in JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Responds(status, orjson.dumps(body), named)


@contextmanager
def scripted_server(*turns: Turn) -> Iterator[ScriptedServer]:
    """A server that takes these turns, one a request, and then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAITS_S)
        host, port = listening.getsockname()
        server = ScriptedServer(f"http://{host}:{port}", list(turns), listening)
        Thread(target=_accept, args=(listening, server), daemon=True).start()
        yield server


@contextmanager
def closed_port() -> Iterator[str]:
    """The url of a port on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
    yield f"http://{host}:{port}"


def _accept(listening: socket.socket, server: ScriptedServer) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            server.connections += 1
            connection.settimeout(WAITS_S)
            Thread(target=_serve, args=(connection, server), daemon=True).start()


def _serve(connection: socket.socket, server: ScriptedServer) -> None:
    with connection, suppress(OSError), connection.makefile("rb") as incoming:
        while (line := incoming.readline()) and server.turns:
            method, target, _ = line.decode().split()
            headers = dict(_read_headers(iter(incoming.readline, b"\r\n")))
            body = incoming.read(int(headers.get("content-length", "0")))
            server.received.append(Received(method, target, headers, body))
            match server.turns.pop(0):
                case Responds() as response:
                    connection.sendall(_encode(response))
                case Hangs(seconds=seconds):
                    time.sleep(seconds)
                    return
                case HangsUp(sent=sent):
                    connection.sendall(sent)
                    return


def _read_headers(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        yield name.strip().lower(), value.strip()


def _encode(response: Responds) -> bytes:
    headers = {"content-type": "application/json", **response.headers}
    lines: Sequence[str] = [
        f"HTTP/1.1 {response.status} Scripted",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(response.body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + response.body
