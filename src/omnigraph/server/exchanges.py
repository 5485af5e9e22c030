"""One request and its answer on the wire: who asked, what was sent back.

Knows ASGI's messages and nothing of graphs' contents.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from starlette.types import Receive, Send

from omnigraph.server.answers import Answer, Header, Stream
from omnigraph.server.limits import STALLED_CLIENT_S_MAX
from omnigraph.server.served import Served
from omnigraph.server.serving import Revision

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

# Answers are facts about a graph that changes, and of somebody with a token.
_EVERYWHERE: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(slots=True)
class Exchange:
    """What is known of a request so far; filled in on its way through the frame."""

    request_id: str
    headers: Mapping[bytes, bytes]
    revision: Revision
    actor: str | None = None
    served: Served | None = None
    route: str = "unmatched"
    status: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether the status was sent, after which nothing else can be said."""
        return self.status != 0

    async def send(self, answer: Answer | Stream, *, receive: Receive, send: Send) -> None:
        """Send an answer; a stream ends early when its client has gone."""
        match answer:
            case Answer(body=body):
                length: tuple[Header, ...] = ((b"content-length", b"%d" % len(body)),)
                await self._start(answer, length, send)
                await send({"type": "http.response.body", "body": body})
            case Stream(pieces=pieces):
                # Left early, an iterator would be closed whenever the collector comes along.
                async with aclosing(pieces), _watching(receive) as has_gone:
                    await self._start(answer, (), send)
                    async for piece in pieces:
                        await _send_piece(piece, send)
                        if has_gone():
                            return
                    await send({"type": "http.response.body", "body": b""})

    def _tell_actor(self) -> tuple[Header, ...]:
        if self.actor is None:
            return ()
        return ((b"omnigraph-actor", quote(self.actor).encode("ascii")),)

    async def _start(self, answer: Answer | Stream, length: tuple[Header, ...], send: Send) -> None:
        self.status = answer.status
        headers = [
            (b"content-type", answer.content_type),
            *length,
            (b"x-request-id", self.request_id.encode("ascii")),
            *_EVERYWHERE,
            *self._tell_actor(),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def _send_piece(piece: bytes, send: Send) -> None:
    # Waits while the client does not read. The rows that follow are kept for as long.
    async with asyncio.timeout(STALLED_CLIENT_S_MAX):
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has gone, of whom nothing is expected any more."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def _watching(receive: Receive) -> AsyncIterator[Callable[[], bool]]:
    """Whether the client of a request has gone: what is sent to it then is dropped in silence."""

    waiting = asyncio.ensure_future(wait_until_gone(receive))
    try:
        yield waiting.done
    finally:
        waiting.cancel()


def read_headers(sent: Sequence[Header]) -> dict[bytes, bytes]:
    """Headers by their lower-case names, the last of several.

    Two of `Authorization` are as good as none: a proxy in front may have judged by the other one.
    """
    headers = dict(sent)
    if len(headers) < len(sent) and [name for name, _ in sent].count(b"authorization") > 1:
        del headers[b"authorization"]
    return headers


def find_request_id(headers: Mapping[bytes, bytes]) -> str | None:
    """The caller's own id of a request, if it is short and clean."""
    given = headers.get(b"x-request-id")
    if given is None or _REQUEST_ID.fullmatch(given) is None:
        return None
    return given.decode("ascii")
