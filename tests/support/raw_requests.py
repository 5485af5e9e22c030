"""Requests that no client library would send, byte by byte, and what came back.

Every request has a connection of its own. Does not know the product.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlsplit

RESPONSE_S_MAX = 60.0

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RawResponse:
    """What a server sent; no status if it closed the connection before the end of a response."""

    status: int | None
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """All that can be read of it."""
        all_headers = "\n".join(f"{name}: {value}" for name, value in self.headers)
        return f"{all_headers}\n\n{self.body.decode('utf-8', 'replace')}"


def send_raw(
    url: str, method: bytes, target: bytes, headers: Iterable[Header], body: bytes
) -> RawResponse:
    """Send a request with its length."""
    length = (b"Content-Length", b"%d" % len(body))
    return exchange(url, head(method, target, (*headers, length)) + body)


def send_in_chunks(
    url: str, method: bytes, target: bytes, headers: Iterable[Header], chunks: Iterable[bytes]
) -> RawResponse:
    """Send a request whose body comes in pieces."""
    all_headers = (*headers, (b"Transfer-Encoding", b"chunked"))
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return exchange(url, head(method, target, all_headers) + body + b"0\r\n\r\n")


def head(method: bytes, target: bytes, headers: Iterable[Header]) -> bytes:
    """The first lines of a request, up to its body."""
    fixed = ((b"Host", b"localhost"), (b"Connection", b"close"))
    lines = (b"%b: %b\r\n" % header for header in (*fixed, *headers))
    return b"%b %b HTTP/1.1\r\n" % (method, target) + b"".join(lines) + b"\r\n"


@contextmanager
def unfinished(url: str, sent: bytes) -> Iterator[socket.socket]:
    """A connection on which these bytes were sent, and no more; gone at the end of the block."""
    with _connected(url) as connection:
        connection.sendall(sent)
        yield connection


def exchange(url: str, sent: bytes) -> RawResponse:
    """Send these bytes and nothing else; what comes back before the connection is closed.

    Without `Connection: close` among them, or with less body than they say, this waits in vain.
    """
    with _connected(url) as connection:
        try:
            connection.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a long request may close the connection before its end.
            return RawResponse(None, (), b"")
        return _receive(connection, sent.partition(b" ")[0].decode("latin-1"))


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), RESPONSE_S_MAX)


def _receive(connection: socket.socket, method: str) -> RawResponse:
    response = HTTPResponse(connection, method=method)
    try:
        response.begin()
        return RawResponse(response.status, response.getheaders(), response.read())
    except (HTTPException, ConnectionResetError):
        return RawResponse(None, (), b"")
    finally:
        response.close()
