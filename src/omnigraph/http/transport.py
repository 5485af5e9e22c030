"""Server addresses, pooled connections, and one request with its response, over urllib3.

OmniGraph servers and embedding providers are called through the same pool. Failures distinguish a
request that was not sent, a lost response, a timeout and a rejected certificate, because each
allows a different reaction. Nothing is retried and no redirect is followed, so a credential goes
only to the configured server. Each name becomes one percent-encoded path segment. A pool is safe to
share between threads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http.client import HTTPException
from urllib.parse import quote, unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from omnigraph.model.errors import InvalidNameError, InvalidValueError
from omnigraph.model.limits import CLIENT_CONNECT_S_MAX, CLIENT_CONNECTIONS_MAX, WHOLE_BYTES_MAX

DEFAULT_GRAPH_ID = "default"
"""The id of the graph of a server that was started for a single graph."""

_GRAPH_ID = re.compile(r"[a-zA-Z0-9-]{1,64}", re.ASCII)
# Host names, and IPv4 and IPv6 addresses; name resolution decides whether a name is valid.
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?|[0-9a-f.]*:[0-9a-f:.]*", re.ASCII)
_SEGMENT = re.compile(r"(?!\.{1,2}$)([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_IN_URL = re.compile(r"(?P<prefix>.*)/graphs/(?P<id>[^/]+)")


@dataclass(frozen=True, slots=True)
class Address:
    """A server: scheme, host and port as one URL, and the path prefix of its routes."""

    origin: str
    prefix: str

    @property
    def url(self) -> str:
        """The origin and the prefix, without a trailing slash."""
        return f"{self.origin}{self.prefix}"

    def target(self, parts: Iterable[str], arguments: Iterable[tuple[str, str]]) -> str:
        """The request target: the path of these segments, and the query string."""
        path = self.prefix + "".join(f"/{quote(part, safe='')}" for part in parts)
        following = urlencode(list(arguments), quote_via=quote, safe="")
        return f"{path}?{following}" if following else path


def parse_address(url: str) -> Address:
    """Parse the URL of a server; raises `InvalidValueError` if it is not one."""
    if not isinstance(url, str):
        raise _refuse(url, f"expected a string, got {type(url).__name__}")
    try:
        split = urlsplit(url.strip())
        port = split.port
    except ValueError as error:
        raise _refuse(url, "it is not a valid url") from error
    if split.scheme not in ("http", "https") or not split.hostname:
        raise _refuse(url, "it must have the form http://host:port or https://host:port")
    if split.username is not None or split.password is not None:
        # The URL is not shown because it contains a password.
        raise _refuse(
            "(hidden)", "it must not contain a user name or password; pass a token instead"
        )
    if split.query or split.fragment:
        raise _refuse(url, "it must not have a query or a fragment")
    if _HOST.fullmatch(split.hostname) is None:
        raise _refuse(url, f"{split.hostname!r} is not a valid host name")
    if any(not _SEGMENT.fullmatch(part) for part in split.path.split("/")):
        raise _refuse(url, "its path contains characters that must be percent-encoded")
    host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
    origin = f"{split.scheme}://{host}" + ("" if port is None else f":{port}")
    parts = [part for part in split.path.split("/") if part]
    return Address(origin, "".join(f"/{part}" for part in parts))


def parse_graph_address(url: str, graph_id: str | None) -> tuple[Address, str]:
    """Parse a URL and an optional graph id into the server and the id of the graph.

    The URL may contain the graph id itself. Without an id, the graph is `default`, the graph of a
    server that was started for a single graph.
    """
    address = parse_address(url)
    named = _IN_URL.fullmatch(address.prefix)
    if named is not None:
        address, in_url = Address(address.origin, named["prefix"]), unquote(named["id"])
        if graph_id is not None and graph_id != in_url:
            raise _refuse(url, f"it names the graph '{in_url}', not '{graph_id}'")
        graph_id = in_url
    if graph_id is None:
        graph_id = DEFAULT_GRAPH_ID
    if not isinstance(graph_id, str) or _GRAPH_ID.fullmatch(graph_id) is None:
        rule = "it has 1 to 64 letters, digits and hyphens"
        raise InvalidNameError(kind="graph", name=str(graph_id), rule=rule)
    return address, graph_id


def _refuse(url: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="url", expected="the url of a server", value=url, problem=problem
    )


JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class RetrySafety(StrEnum):
    """Whether a request may be repeated when its outcome is unknown."""

    READ = "read"
    """The request changes nothing, so it may be repeated."""
    KEYED = "keyed"
    """The request has an idempotency key, by which the server recognises a repetition."""
    ONCE = "once"
    """A repetition might be applied twice."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a server.

    `action` names the operation in messages. `text` is the source text that the server compiles, if
    any.
    """

    method: str
    parts: tuple[str, ...]
    action: str
    safety: RetrySafety = RetrySafety.READ
    arguments: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = field(default=None, repr=False)
    accepted: int | None = None
    """The status of an error response that is nevertheless a valid result."""
    is_conditional: bool = False
    """Whether the request names the commit that a branch must be at."""


class NotSentError(Exception):
    """The connection could not be opened, so the server received nothing."""


class ConnectionLostError(Exception):
    """The connection ended before the whole response was received."""


class ResponseTimeoutError(Exception):
    """No response was received within the timeout."""


class UntrustedServerError(Exception):
    """The certificate of the server was rejected."""


class InvalidResponseError(Exception):
    """The response is not one that an OmniGraph server sends."""


class Response:
    """A response whose headers have been received; its body can be read once."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self.status = response.status
        self.stream = response
        """The body as a file object."""

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters and in lower case."""
        return (self.header("Content-Type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        """The value of a header, or None if the response does not have it."""
        found: str | None = self.stream.headers.get(name)
        return found

    def number(self, name: str) -> int | None:
        """The value of a header as an integer; None if it is not an integer."""
        found = self.header(name)
        is_number = found is not None and found.isascii() and found.isdigit()
        return int(found) if found is not None and is_number else None

    def retry_after_s(self, now: datetime) -> float:
        """The wait that `Retry-After` requests, as a number or a date; 0 if it requests none."""
        text = (self.header("Retry-After") or "").strip()
        if not text.isascii():
            return 0.0
        with suppress(ValueError):
            return max(0.0, float(text))
        with suppress(ValueError):
            when = parsedate_to_datetime(text)
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return max(0.0, (when - now).total_seconds())
        return 0.0

    @property
    def is_short(self) -> bool:
        """Whether the body has a known length that is small enough to read at once."""
        length = self.number("Content-Length")
        return length is not None and length <= WHOLE_BYTES_MAX

    def read(self) -> bytes:
        """Read the whole body."""
        return self.stream.read(decode_content=False)


class ConnectionPool:
    """The connections to one server, and the headers of every request to it."""

    def __init__(self, address: Address, *, headers: Mapping[str, str]) -> None:
        self.address = address
        self._headers = {
            "Accept-Encoding": "identity",
            "User-Agent": "omnigraph-python",
            **headers,
        }
        self._pool = _make_pool(address)
        self._process_id = os.getpid()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @contextmanager
    def send(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Iterator[Response]:
        """Send a request and yield the response.

        The connection is reused if the whole response was read.
        """
        if self._process_id != os.getpid():
            # A forked process that shared the parent's connections would read the parent's
            # responses.
            self._pool, self._process_id = _make_pool(self.address), os.getpid()
        try:
            response = self._pool.urlopen(
                method,
                target,
                body=body,
                headers={**self._headers, **headers},
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(
                    connect=min(timeout_s, CLIENT_CONNECT_S_MAX), read=timeout_s
                ),
                preload_content=False,
                decode_content=False,
            )
            is_whole = False
            try:
                yield Response(response)
                # After the last row the body either ends or reveals that the response was cut off.
                response.read(1)
                is_whole = True
            finally:
                if not is_whole:
                    response.close()
                response.release_conn()
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise NotSentError(_explain(error)) from error
        except ReadTimeoutError as error:
            raise ResponseTimeoutError(_explain(error)) from error
        except SSLError as error:
            raise UntrustedServerError(_explain(error)) from error
        except (HTTPError, HTTPException, OSError) as error:
            raise ConnectionLostError(_explain(error)) from error


def token_header(token: str | None) -> dict[str, str]:
    """The header that carries a token, empty without one; no message contains the token."""
    if token is None:
        return {}
    if isinstance(token, str) and token and token.isascii() and token.isprintable():
        return {"Authorization": f"Bearer {token}"}
    raise InvalidValueError(
        subject="token",
        expected="a token",
        value="(hidden)",
        problem="a token consists of printable ASCII characters",
    )


def _make_pool(address: Address) -> urllib3.HTTPConnectionPool:
    pools = urllib3.PoolManager(
        num_pools=1, maxsize=CLIENT_CONNECTIONS_MAX, block=False, retries=False
    )
    return pools.connection_from_url(address.origin)


def _explain(error: BaseException) -> str:
    """The innermost reason of an error that urllib3 wraps, as a short text."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
