"""Reading a request's body, never more of it than the route allows.

Knows what a route reads and nothing of what it means.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Receive

from omnigraph.server.problems import HttpError, bad_request, too_large, unsupported_type
from omnigraph.server.requests import is_json
from omnigraph.server.routing import Body, Route


async def read_body(route: Route, *, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The body of a request; 413 if it is too long, 415 if it is said to be something else."""
    if route.body is Body.NONE:
        return b""
    _require_length(route, headers)
    if route.body is Body.JSON:
        _require_json(headers)
    body = await _receive_all(receive, bytes_max=route.bytes_max)
    if route.body is Body.OPTIONAL_JSON and body:
        _require_json(headers)
    return body


def _require_length(route: Route, headers: Mapping[bytes, bytes]) -> None:
    # A client that says what it sends is refused before it has sent it.
    said = headers.get(b"content-length", b"0")
    if said.isdigit() and (len(said) > _DIGITS_MAX or int(said) > route.bytes_max):
        raise _too_large(route.bytes_max)


_DIGITS_MAX = 15


def _require_json(headers: Mapping[bytes, bytes]) -> None:
    if not is_json(headers.get(b"content-type", b"").decode("latin-1")):
        raise unsupported_type("the body has to be JSON: send `Content-Type: application/json`")


async def _receive_all(receive: Receive, *, bytes_max: int) -> bytes:
    body, has_more = await _receive(receive)
    if len(body) > bytes_max:
        raise _too_large(bytes_max)
    if not has_more:
        return body
    pieces, size = [body], len(body)
    while has_more:
        piece, has_more = await _receive(receive)
        size += len(piece)
        if size > bytes_max:
            raise _too_large(bytes_max)
        pieces.append(piece)
    return b"".join(pieces)


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    """The next piece of a body, and whether there are more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise bad_request("the request ended before its body did")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(bytes_max: int) -> HttpError:
    return too_large(f"the body is longer than the {bytes_max:,} bytes that are allowed here")
