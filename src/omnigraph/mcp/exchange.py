"""One request over HTTP, answered by the SDK: the head and the body in, a status and a body out.

Nothing is kept from one request to the next: each shows its own token, and any server of several
may answer it. Whoever calls has read the body, within bounds, and knows who asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anyio import sleep_forever
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message

from omnigraph.mcp.protocol import State

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the SDK answered; a notification is answered with a status alone."""

    status: int
    content_type: bytes | None
    body: bytes


async def exchange(
    server: Server[State], *, path: str, headers: Iterable[Header], body: bytes, bytes_max: int
) -> Reply:
    """What a server answers to one POST."""
    # One a request: it cannot be run twice, and without sessions there is nothing to share.
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=bytes_max
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        # The token has done its work, and what does not need it does not get it.
        "headers": [(name, text) for name, text in headers if name != b"authorization"],
    }
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if not messages:
            # That the client has gone is seen elsewhere.
            await sleep_forever()
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    async with manager.run():
        await manager.handle_request(scope, receive, send)
    return _make_reply(sent)


def _make_reply(sent: Iterable[Message]) -> Reply:
    status, content_type, pieces = 500, None, []
    for message in sent:
        if message["type"] == "http.response.start":
            status = message["status"]
            content_type = dict(message["headers"]).get(b"content-type")
        else:
            pieces.append(message.get("body", b""))
    return Reply(status, content_type, b"".join(pieces))
