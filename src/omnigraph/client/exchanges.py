"""One request to a server and its answer, over connections that are kept and shared by threads.

Tells three failures apart, because they allow different things: the request was never sent, its
answer got lost, or it did not come in time. Repeats nothing and follows no redirect, so that a
token goes where its owner sent it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.response import BaseHTTPResponse

from omnigraph.client.addresses import Address
from omnigraph.client.limits import CONNECT_S_MAX, CONNECTIONS_MAX, WHOLE_BYTES_MAX
from omnigraph.model.errors import InvalidValueError, UnavailableError

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class Safety(StrEnum):
    """What may be done when it is not known whether a request was carried out."""

    READ = "read"
    """It changes nothing, so it may be sent again."""
    KEYED = "keyed"
    """It has a key, by which the server knows it again."""
    ONCE = "once"
    """Sent again, it might be done twice."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a server; `deed` is what messages call it, `text` what is compiled of it."""

    method: str
    parts: tuple[str, ...]
    deed: str
    safety: Safety = Safety.READ
    arguments: tuple[tuple[str, str], ...] = ()
    body: bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = field(default=None, repr=False)
    accepted: int | None = None
    """A status of an error that answers it all the same."""
    is_conditional: bool = False
    """Whether it names the commit that a branch must be at."""


class NotSentError(Exception):
    """No connection came about, so the server has seen nothing of the request."""


class LostError(Exception):
    """The connection ended before all of the answer was there."""


class LateError(Exception):
    """Nothing came for as long as somebody was ready to wait."""


class ForeignAnswerError(Exception):
    """The answer is not what a server of ours says."""


class Reply:
    """An answer whose head has come; its body is read once."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status

    @property
    def stream(self) -> BaseHTTPResponse:
        """The body as a file."""
        return self._response

    @property
    def content_type(self) -> str:
        """What the body is."""
        return (self.header("Content-Type") or "").partition(";")[0].strip().lower()

    def header(self, name: str) -> str | None:
        """A header by its name."""
        found: str | None = self._response.headers.get(name)
        return found

    def number(self, name: str) -> int | None:
        """A header that holds a whole number; None if it holds none."""
        found = self.header(name)
        is_number = found is not None and found.isascii() and found.isdigit()
        return int(found) if found is not None and is_number else None

    @property
    def is_short(self) -> bool:
        """Whether the body has a known length that is small enough to be read at once."""
        length = self.number("Content-Length")
        return length is not None and length <= WHOLE_BYTES_MAX

    def read(self) -> bytes:
        """All of the body."""
        return self._response.read(decode_content=False)


class Exchanges:
    """The connections to one server, with the token that is shown there."""

    def __init__(self, address: Address, *, token: str | None) -> None:
        self.address = address
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "omnigraph-python"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_require_token(token)}"
        self._pool = _make_pool(address)
        self._process_id = os.getpid()

    def __repr__(self) -> str:
        # Not its headers: the token is there.
        return f"Exchanges({self.address.url!r})"

    @property
    def connection_count(self) -> int:
        """How many connections were made so far."""
        return self._pool.num_connections

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()

    @contextmanager
    def sending(self, request: Request, *, within_s: float) -> Iterator[Reply]:
        """A block with the answer to a request; its connection is kept if all of it was read."""
        if self._process_id != os.getpid():
            # A process that was forked would read what its parent is answered.
            self._pool, self._process_id = _make_pool(self.address), os.getpid()
        with _telling_failures():
            response = self._pool.urlopen(
                request.method,
                self.address.target(request.parts, request.arguments),
                body=request.body,
                headers={**self._headers, **request.headers},
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(connect=min(within_s, CONNECT_S_MAX), read=within_s),
                preload_content=False,
                decode_content=False,
            )
            is_whole = False
            try:
                yield Reply(response)
                # What follows the last row is nothing, or the news that the answer was cut.
                response.read(1)
                is_whole = True
            finally:
                if not is_whole:
                    response.close()
                response.release_conn()


def _make_pool(address: Address) -> urllib3.HTTPConnectionPool:
    pools = urllib3.PoolManager(num_pools=1, maxsize=CONNECTIONS_MAX, block=False, retries=False)
    return pools.connection_from_url(address.origin)


@contextmanager
def _telling_failures() -> Iterator[None]:
    try:
        yield
    except (NewConnectionError, ConnectTimeoutError) as error:
        raise NotSentError(_explain(error)) from error
    except ReadTimeoutError as error:
        raise LateError(_explain(error)) from error
    except SSLError as error:
        raise UnavailableError(
            action="reach the server", reason=f"its certificate was refused: {_explain(error)}"
        ) from error
    except (HTTPError, HTTPException, OSError) as error:
        raise LostError(_explain(error)) from error


def _explain(error: BaseException) -> str:
    """The reason at the bottom of what urllib3 wraps, in a few words."""
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _require_token(token: str) -> str:
    """A token as it can be sent; no message shows it."""
    if isinstance(token, str) and token and token.isascii() and token.isprintable():
        return token
    raise InvalidValueError(
        subject="token",
        expected="a token",
        value="(hidden)",
        problem="a token is a text of printable ASCII characters",
    )
