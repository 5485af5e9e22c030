"""The socket and the loop: taking connections until a signal says to end.

Knows nothing of what is answered. What a client sends before its request is complete is bounded
here, in size and in time, because nobody knows yet who it is.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.server.limits import (
    IDLE_CONNECTION_S_MAX,
    REQUEST_HEAD_BYTES_MAX,
    REQUEST_HEAD_S_MAX,
    SHUTDOWN_S_MAX,
    STALLED_CLIENT_S_MAX,
)

_BACKLOG = 2048
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\ncontent-length: 72\r\nconnection: close\r\n\r\n"
    b'{"error":"the headers of the request are too long","code":"bad_request"}'
)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; they wait until somebody answers. Raises `OSError`."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def url_of(listening: socket.socket) -> str:
    """Where clients reach a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def answer_until_told(
    app: ASGIApp, listening: socket.socket, *, on_hangup: Callable[[], None]
) -> None:
    """Answer until SIGINT or SIGTERM; requests that are under way then are still answered.

    SIGHUP has `on_hangup` called, in a thread of its own; several while it runs ask for it once.
    """
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=IDLE_CONNECTION_S_MAX,
        timeout_graceful_shutdown=int(SHUTDOWN_S_MAX),
    )
    # Uvicorn raises again the signal that ended it, by default the end of this process; but to be
    # told to end and to end is no failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    # Of all queues the one that may be filled while it is being filled, as signals interrupt.
    hangups: SimpleQueue[None] = SimpleQueue()
    signal.signal(signal.SIGHUP, lambda *_: hangups.put(None))
    Thread(target=_follow, args=(hangups, on_hangup), daemon=True).start()
    uvicorn.Server(config).run(sockets=[listening])


def _follow(hangups: SimpleQueue[None], on_hangup: Callable[[], None]) -> None:
    while True:
        hangups.get()
        while not hangups.empty():
            hangups.get()
        on_hangup()


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, which would hold any amount of headers, and wait for the rest for ever.

    By inheritance, because that is the only way in: uvicorn asks for a class of its own kind.
    """

    _head_bytes = 0
    _is_in_head = False
    _is_incomplete = False
    _deadline: asyncio.TimerHandle | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A client has come; it has to say something soon."""
        super().connection_made(transport)
        self._wait(REQUEST_HEAD_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._end_waiting()
        self._end_patience()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes its answer slower than it is written."""
        super().pause_writing()
        self._be_patient(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """It has taken enough to go on."""
        self._end_patience()
        super().resume_writing()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_in_head = self._is_incomplete = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are complete; what follows is bounded by its route."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._is_incomplete = False
        super().on_message_complete()

    def data_received(self, received: bytes) -> None:
        """The client has sent something."""
        self._head_bytes += len(received)
        super().data_received(received)
        if not self._is_incomplete:
            self._end_waiting()
        elif not self._is_in_head:
            self._wait(STALLED_CLIENT_S_MAX)
        elif self._head_bytes > REQUEST_HEAD_BYTES_MAX:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        elif self._deadline is None:
            # Once for the whole of the headers: a byte every second is not soon enough.
            self._wait(REQUEST_HEAD_S_MAX)

    def _wait(self, seconds: float) -> None:
        self._end_waiting()
        self._deadline = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()

    def _be_patient(self, unsent_bytes: int) -> None:
        self._end_patience()
        self._patience = self.loop.call_later(
            STALLED_CLIENT_S_MAX, self._look_whether_it_takes, unsent_bytes
        )

    def _look_whether_it_takes(self, unsent_before: int) -> None:
        self._patience = None
        unsent = self.transport.get_write_buffer_size()
        if unsent >= unsent_before:
            # To close would wait for the client to take what it does not take.
            self.transport.abort()
        else:
            self._be_patient(unsent)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _end_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
