"""Asking a server until it answers, for as long and as often as that is safe.

A read is sent again when its connection fails. A write is sent again if the server never saw it,
if the server says that nothing was written because others were first, or if it has a key that the
server knows it by; never otherwise. Whoever cannot be told what became of a write is told so.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar
from urllib.parse import unquote

import orjson

from omnigraph.client.exchanges import (
    Exchanges,
    ForeignAnswerError,
    LateError,
    LostError,
    NotSentError,
    Reply,
    Request,
    Safety,
)
from omnigraph.client.limits import ATTEMPTS_MAX, BACKOFF_S, RETRY_AFTER_S_MAX
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    ForbiddenError,
    GraphError,
    InvalidValueError,
    MovedError,
    NotFoundError,
    ReadSetChangedError,
    RequestError,
    UnavailableError,
    UncertainError,
)
from omnigraph.wire.problems import Asked, rebuild_error

T = TypeVar("T")

ACTOR_HEADER = "Omnigraph-Actor"

_OF_PROXIES = frozenset({502, 503, 504})

# Of what moved, only this is over when somebody else is done.
_PASSING = (ExpectedVersionMismatchError, ReadSetChangedError)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for an answer to begin, and the clock to tell it by."""

    timeout_s: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


def parse_patience(timeout_s: float) -> Patience:
    """How long a caller is ready to wait."""
    if isinstance(timeout_s, int | float) and 0 < timeout_s < float("inf"):
        return Patience(float(timeout_s))
    raise InvalidValueError(
        subject="timeout_s",
        expected="a number of seconds",
        value=timeout_s,
        problem="a call waits for a positive number of seconds",
    )


class Asking:
    """A server that is asked; safe to share between threads."""

    def __init__(self, exchanges: Exchanges, patience: Patience) -> None:
        self._exchanges = exchanges
        self._patience = patience
        self._lock = Lock()
        self._is_closed = False
        self._actor: tuple[str | None] | None = None

    def __repr__(self) -> str:
        return f"Asking({self.url!r})"

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._exchanges.address.url

    @property
    def connection_count(self) -> int:
        """How many connections were made so far."""
        return self._exchanges.connection_count

    @property
    def patience(self) -> Patience:
        """How long calls wait."""
        return self._patience

    @property
    def known_actor(self) -> tuple[str | None] | None:
        """Whom the server has said that we are; None if it has not been asked yet."""
        return self._actor

    def close(self) -> None:
        """Let go of the connections; further calls are refused."""
        with self._lock:
            self._is_closed = True
        self._exchanges.close()

    def ask(self, request: Request, read: Callable[[Reply], T]) -> T:
        """What `read` makes of the answer, or the error that the server tells."""
        ends_at = self._patience.clock() + self._patience.timeout_s
        lost: LostError | None = None
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._require_open()
            within_s = max(ends_at - self._patience.clock(), 0.001)
            wait_s = BACKOFF_S * 4 ** (attempt - 1) * (0.5 + self._patience.jitter())
            try:
                with self._exchanges.sending(request, within_s=within_s) as reply:
                    self._note_actor(reply)
                    if reply.status < 300 or reply.status == request.accepted:
                        return read(reply)
                    failure, is_ours = _read_failure(reply, request)
                    may_repeat = _may_repeat(failure, reply.status, request, is_ours=is_ours)
                    failure = _in_doubt(failure, lost, request)
                    if not may_repeat:
                        raise failure
                    wait_s = max(wait_s, _asked_wait(reply))
            except NotSentError as error:
                failure = UnavailableError(
                    action=f"reach {self.url}",
                    reason=f"{error}; nothing was sent; check that a server listens there",
                )
                failure = _in_doubt(failure, lost, request)
                failure.__cause__ = error
            except LateError as error:
                raise _tell_lost(request, f"no answer came within {within_s:.3g} s") from error
            except ForeignAnswerError as error:
                # It was answered, and perhaps done; asking again would be answered alike.
                reason = f"the answer cannot be read: {error}"
                raise _tell_lost(request, reason) from error
            except LostError as error:
                lost = error
                failure = _tell_lost(request, str(error))
                failure.__cause__ = error
                if request.safety is Safety.ONCE:
                    raise failure from error
            wait_s = min(wait_s, RETRY_AFTER_S_MAX)
            if attempt == ATTEMPTS_MAX or self._patience.clock() + wait_s >= ends_at:
                raise failure
            self._patience.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def follow(self, request: Request) -> Iterator[Reply]:
        """A block that reads a long answer piece by piece; it cannot be started again in it."""
        self._require_open()
        try:
            with self._exchanges.sending(request, within_s=self._patience.timeout_s) as reply:
                self._note_actor(reply)
                if reply.status >= 300:
                    raise _read_failure(reply, request)[0]
                yield reply
        except NotSentError as error:
            raise UnavailableError(action=f"reach {self.url}", reason=str(error)) from error
        except LateError as error:
            raise UnavailableError(
                action=request.deed, reason="the server stopped sending; start again"
            ) from error
        except (LostError, ForeignAnswerError) as error:
            raise UnavailableError(
                action=request.deed,
                reason=f"the connection was cut before the end: {error}; start again",
            ) from error

    def _require_open(self) -> None:
        if self._is_closed:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def _note_actor(self, reply: Reply) -> None:
        if reply.status == 401:
            return
        named = reply.header(ACTOR_HEADER)
        self._actor = (None if named is None else unquote(named),)


def read_json(reply: Reply) -> dict[str, object]:
    """An answer that is a JSON object."""
    body = reply.read()
    try:
        told: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ForeignAnswerError(
            "it is no JSON; look whether an OmniGraph server is at this url"
        ) from error
    if not isinstance(told, dict):
        raise ForeignAnswerError(
            "it is no JSON object; look whether an OmniGraph server is at this url"
        )
    return told


def read_made(reply: Reply, make: Callable[[Mapping[str, object]], T]) -> T:
    """What is made of an answer that is a JSON object."""
    body = read_json(reply)
    try:
        return make(body)
    except (KeyError, TypeError, ValueError) as error:
        raise ForeignAnswerError(
            f"it lacks {error}; the server may be of another version than this package"
        ) from error


def _read_failure(reply: Reply, request: Request) -> tuple[GraphError, bool]:
    """The error that an answer tells, and whether a server of ours told it."""
    asked = Asked(text=request.text, is_write=request.safety is not Safety.READ)
    if reply.status < 400:
        place = reply.header("Location") or "elsewhere"
        reason = f"the url leads to {place}; connect to the url where the server is"
        return UnavailableError(action=request.deed, reason=reason), False
    try:
        told: object = orjson.loads(reply.read())
    except orjson.JSONDecodeError:
        # Of a proxy, or of a server that is none of ours.
        told = None
    body = told if isinstance(told, dict) else {}
    return rebuild_error(body, status=reply.status, asked=asked), "code" in body


def _may_repeat(failure: GraphError, status: int, request: Request, *, is_ours: bool) -> bool:
    """Whether the server says that nothing was done, and that another time it may be."""
    if request.is_conditional:
        # What the caller knows of the branch may have changed: let them look first.
        return False
    if status in _OF_PROXIES and not is_ours:
        # What is behind a proxy has seen the request, or not.
        return request.safety is not Safety.ONCE
    return status == 429 or isinstance(failure, _PASSING)


def _in_doubt(failure: GraphError, lost: LostError | None, request: Request) -> GraphError:
    """What a failure means once an earlier attempt got lost, which may have been carried out.

    Whatever a server refuses after it has looked for the key, it has not done before.
    """
    has_looked = isinstance(failure, RequestError | MovedError) and not isinstance(
        failure, ForbiddenError | NotFoundError
    )
    if lost is None or request.safety is Safety.READ or has_looked:
        return failure
    return _tell_lost(request, f"{lost}; asked again: {failure}")


def _asked_wait(reply: Reply) -> float:
    """How long the server wants us to wait."""
    return float(reply.number("Retry-After") or 0)


def _tell_lost(request: Request, reason: str) -> GraphError:
    match request.safety:
        case Safety.READ:
            return UnavailableError(action=request.deed, reason=reason)
        case Safety.KEYED:
            key = request.headers["Idempotency-Key"]
            return UncertainError(
                f"what became of the call to {request.deed} is not known: {reason}; ask again with "
                f"idempotency_key={key!r}, which answers it if it was done and does it if not"
            )
        case Safety.ONCE:
            return UncertainError(
                f"what became of the call to {request.deed} is not known: {reason}; look whether "
                "it was done before you ask again"
            )
