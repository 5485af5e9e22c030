"""One request of a remote graph: parameters as JSON, retries, and the response as a result.

A read is retried when its connection fails. A write is retried only if the server did not receive
it, reports that it changed nothing, or can recognise the write by its idempotency key; otherwise
the outcome is reported as uncertain. The number of retries and the total time are bounded. Senders
are safe to share between threads.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from numbers import Integral, Real
from threading import Lock
from typing import TypeVar
from urllib.parse import unquote

import orjson
import pyarrow as pa
from urllib3.response import BaseHTTPResponse

from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.results import Result
from omnigraph.http.arrow import read_note
from omnigraph.http.decode import list_of
from omnigraph.http.problems import RefusedRequest, rebuild_error
from omnigraph.http.transport import (
    JSON,
    ConnectionLostError,
    ConnectionPool,
    InvalidResponseError,
    NotSentError,
    Request,
    Response,
    ResponseTimeoutError,
    RetrySafety,
)
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
from omnigraph.model.limits import BACKOFF_S, CLIENT_ATTEMPTS_MAX, RETRY_AFTER_S_MAX
from omnigraph.model.names import (
    MAIN,
    BranchName,
    parse_branch_name,
    require_branch_or_commit,
    require_text,
)
from omnigraph.model.runtime import SystemRuntime

T = TypeVar("T")

ACTOR_HEADER = "Omnigraph-Actor"

_OF_PROXIES = frozenset({502, 503, 504})

# Of the errors that report a moved graph, only these are resolved once the other writer has
# finished.
_PASSING = (ExpectedVersionMismatchError, ReadSetChangedError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeout until a response begins, and the clock that measures it."""

    timeout_s: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


def parse_patience(timeout_s: float) -> Timeouts:
    """Parse a timeout; raises `InvalidValueError` unless it is a positive number of seconds."""
    if isinstance(timeout_s, int | float) and 0 < timeout_s < float("inf"):
        return Timeouts(float(timeout_s))
    raise InvalidValueError(
        subject="timeout_s",
        expected="a number of seconds",
        value=timeout_s,
        problem="a call waits for a positive number of seconds",
    )


class RequestSender:
    """Sends requests to one server and retries them; safe to share between threads."""

    def __init__(self, exchanges: ConnectionPool, patience: Timeouts) -> None:
        self._exchanges = exchanges
        self._patience = patience
        self._lock = Lock()
        self._is_closed = False
        self._actor: tuple[str | None] | None = None

    def __repr__(self) -> str:
        return f"RequestSender({self.url!r})"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._exchanges.address.url

    @property
    def connection_count(self) -> int:
        """The number of connections opened so far."""
        return self._exchanges.connection_count

    @property
    def patience(self) -> Timeouts:
        """The timeouts of calls."""
        return self._patience

    @property
    def known_actor(self) -> tuple[str | None] | None:
        """The actor that the server reported for the token; None before the first response."""
        return self._actor

    def close(self) -> None:
        """Close the connections; further calls raise `ForbiddenError`."""
        with self._lock:
            self._is_closed = True
        self._exchanges.close()

    def ask(self, request: Request, read: Callable[[Response], T]) -> T:
        """Send a request and return what `read` makes of the response.

        Raises the error that the server reports.
        """
        ends_at = self._patience.clock() + self._patience.timeout_s
        lost: ConnectionLostError | None = None
        for attempt in range(1, CLIENT_ATTEMPTS_MAX + 1):
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
            except ResponseTimeoutError as error:
                raise _tell_lost(request, f"no answer came within {within_s:.3g} s") from error
            except InvalidResponseError as error:
                # The server responded and may have applied the request; a retry would get the same
                # response.
                reason = f"the answer cannot be read: {error}"
                raise _tell_lost(request, reason) from error
            except ConnectionLostError as error:
                lost = error
                failure = _tell_lost(request, str(error))
                failure.__cause__ = error
                if request.safety is RetrySafety.ONCE:
                    raise failure from error
            wait_s = min(wait_s, RETRY_AFTER_S_MAX)
            if attempt == CLIENT_ATTEMPTS_MAX or self._patience.clock() + wait_s >= ends_at:
                raise failure
            self._patience.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def follow(self, request: Request) -> Iterator[Response]:
        """Send a request and yield its response, to be read piece by piece.

        The request is not retried.
        """
        self._require_open()
        try:
            with self._exchanges.sending(request, within_s=self._patience.timeout_s) as reply:
                self._note_actor(reply)
                if reply.status >= 300:
                    raise _read_failure(reply, request)[0]
                yield reply
        except NotSentError as error:
            raise UnavailableError(action=f"reach {self.url}", reason=str(error)) from error
        except ResponseTimeoutError as error:
            raise UnavailableError(
                action=request.deed, reason="the server stopped sending; start again"
            ) from error
        except (ConnectionLostError, InvalidResponseError) as error:
            raise UnavailableError(
                action=request.deed,
                reason=f"the connection was cut before the end: {error}; start again",
            ) from error

    def _require_open(self) -> None:
        if self._is_closed:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def _note_actor(self, reply: Response) -> None:
        if reply.status == 401:
            return
        named = reply.header(ACTOR_HEADER)
        self._actor = (None if named is None else unquote(named),)


def read_json(reply: Response) -> dict[str, object]:
    """Read a response that is a JSON object."""
    body = reply.read()
    try:
        told: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidResponseError(
            "it is no JSON; look whether an OmniGraph server is at this url"
        ) from error
    if not isinstance(told, dict):
        raise InvalidResponseError(
            "it is no JSON object; look whether an OmniGraph server is at this url"
        )
    return told


def read_made(reply: Response, make: Callable[[Mapping[str, object]], T]) -> T:
    """Read a response that is a JSON object and decode it with `make`."""
    body = read_json(reply)
    try:
        return make(body)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponseError(
            f"it lacks {error}; the server may be of another version than this package"
        ) from error


def _read_failure(reply: Response, request: Request) -> tuple[GraphError, bool]:
    """The error that a response reports, and whether an OmniGraph server sent it."""
    asked = RefusedRequest(text=request.text, is_write=request.safety is not RetrySafety.READ)
    if reply.status < 400:
        place = reply.header("Location") or "elsewhere"
        reason = f"the url leads to {place}; connect to the url where the server is"
        return UnavailableError(action=request.deed, reason=reason), False
    try:
        told: object = orjson.loads(reply.read())
    except orjson.JSONDecodeError:
        # The response comes from a proxy or from another kind of server.
        told = None
    body = told if isinstance(told, dict) else {}
    return rebuild_error(body, status=reply.status, asked=asked), "code" in body


def _may_repeat(failure: GraphError, status: int, request: Request, *, is_ours: bool) -> bool:
    """Whether the response says that nothing was done and that a retry may succeed."""
    if request.is_conditional:
        # The branch may have moved from the commit that the caller named, so the caller must check
        # first.
        return False
    if status in _OF_PROXIES and not is_ours:
        # The server behind the proxy may or may not have received the request.
        return request.safety is not RetrySafety.ONCE
    return status == 429 or isinstance(failure, _PASSING)


def _in_doubt(
    failure: GraphError, lost: ConnectionLostError | None, request: Request
) -> GraphError:
    """The error to raise for a failure after an earlier attempt was lost.

    The lost attempt may have been applied. An error that the server raises after it has checked the
    idempotency key proves that it was not.
    """
    has_looked = isinstance(failure, RequestError | MovedError) and not isinstance(
        failure, ForbiddenError | NotFoundError
    )
    if lost is None or request.safety is RetrySafety.READ or has_looked:
        return failure
    return _tell_lost(request, f"{lost}; asked again: {failure}")


def _asked_wait(reply: Response) -> float:
    """The wait in seconds that the server requests by `Retry-After`, 0 if it requests none."""
    return float(reply.number("Retry-After") or 0)


def _tell_lost(request: Request, reason: str) -> GraphError:
    match request.safety:
        case RetrySafety.READ:
            return UnavailableError(action=request.deed, reason=reason)
        case RetrySafety.KEYED:
            key = request.headers["Idempotency-Key"]
            return UncertainError(
                f"what became of the call to {request.deed} is not known: {reason}; ask again with "
                f"idempotency_key={key!r}, which answers it if it was done and does it if not"
            )
        case RetrySafety.ONCE:
            return UncertainError(
                f"what became of the call to {request.deed} is not known: {reason}; look whether "
                "it was done before you ask again"
            )


def plain_params(params: object) -> dict[str, object] | None:
    """The parameters of a call as JSON values."""
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise InvalidValueError(
            subject="params",
            expected="object",
            value=params,
            problem=f"a JSON object is needed, not a {type(params).__name__}",
        )
    return {str(name): _plain(value, f"param '{name}'") for name, value in params.items()}


def plain_row(row: Mapping[str, object], *, subject: str) -> dict[str, object]:
    """A row from the caller as JSON values."""
    return {str(name): _plain(value, f"{subject}, '{name}'") for name, value in row.items()}


def encode_body(body: Mapping[str, object]) -> bytes:
    """Encode a body as JSON; fields that are None are left out."""
    given = {name: value for name, value in body.items() if value is not None}
    try:
        return orjson.dumps(given)
    except TypeError:
        # The body has integers of more than 64 bits; the server reports them as errors.
        return json.dumps(given).encode()


def _plain(value: object, subject: str) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _require_text(value, subject)
        case Integral():
            return int(value)
        case Real():
            return _require_finite(float(value), subject)
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            # All digits are sent; the server reports those that it cannot store.
            return moment.isoformat()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(name): _plain(each, subject) for name, each in value.items()}
        case Iterable() if not isinstance(value, bytes | bytearray | memoryview):
            return [_plain(each, subject) for each in value]
        case _:
            raise _refuse(subject, value, f"a {type(value).__name__} has no place in JSON")


def _require_finite(number: float, subject: str) -> float:
    if math.isfinite(number):
        return number
    raise _refuse(subject, number, f"{number} has no place in JSON, so no server can be sent it")


def _require_text(text: str, subject: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refuse(subject, text, "the text holds half of a surrogate pair") from error
    return text


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject=subject, expected="a value that JSON has", value=value, problem=problem
    )


Make = Callable[[Mapping[str, object]], T]
"""Decodes a response body; raises `KeyError`, `TypeError` or `ValueError` if a field is missing."""

Arguments = Mapping[str, str | None]
"""Query parameters of the URL by name; those that are None are left out."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The conditions of a write, as headers.

    They are the commit that the branch must be at and the idempotency key that makes a retry safe.
    """

    headers: Mapping[str, str]
    is_conditional: bool


class GraphEndpoint:
    """The routes of one graph."""

    def __init__(self, asking: RequestSender, graph_id: str) -> None:
        self.asking = asking
        self.graph_id = graph_id
        self._runtime = SystemRuntime()

    def __repr__(self) -> str:
        return f"Routes({self.uri!r})"

    @property
    def uri(self) -> str:
        """The URL of the graph."""
        return f"{self.asking.url}/graphs/{self.graph_id}"

    def new_id(self) -> str:
        """A new unique id."""
        return self._runtime.new_id()

    def get(self, deed: str, *parts: str, make: Make[T], arguments: Arguments | None = None) -> T:
        """Send a GET request to a path and decode the response."""
        return self.ask(self.request("GET", parts, deed, arguments=arguments), make)

    def post(
        self,
        deed: str,
        *parts: str,
        make: Make[T],
        body: Mapping[str, object],
        safety: RetrySafety,
        terms: WriteOptions | None = None,
        text: str | None = None,
    ) -> T:
        """Send a POST request with a JSON body and decode the response."""
        request = self.posting(deed, *parts, body=body, safety=safety, terms=terms, text=text)
        return self.ask(request, make)

    def delete(self, deed: str, *parts: str, terms: WriteOptions | None = None) -> None:
        """Send a DELETE request to a path."""
        self.ask(self.request("DELETE", parts, deed, safety=RetrySafety.ONCE, terms=terms), _ignore)

    def ask(self, request: Request, make: Make[T]) -> T:
        """Send a request and decode the JSON object of its response."""
        return self.asking.ask(request, lambda reply: read_made(reply, make))

    def posting(
        self,
        deed: str,
        *parts: str,
        body: Mapping[str, object],
        safety: RetrySafety,
        terms: WriteOptions | None = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Request:
        """Build a POST request with a JSON body."""
        return self.request(
            "POST",
            parts,
            deed,
            safety=safety,
            body=encode_body(body),
            headers={"Content-Type": JSON, **(headers or {})},
            terms=terms,
            text=text,
        )

    def request(  # noqa: PLR0913  # every part of a request
        self,
        method: str,
        parts: tuple[str, ...],
        deed: str,
        *,
        safety: RetrySafety = RetrySafety.READ,
        arguments: Arguments | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        terms: WriteOptions | None = None,
        text: str | None = None,
    ) -> Request:
        """Build a request to this graph."""
        given = arguments or {}
        return Request(
            method,
            ("graphs", self.graph_id, *parts),
            deed,
            safety=safety,
            arguments=tuple((name, value) for name, value in given.items() if value is not None),
            body=body,
            headers={**(headers or {}), **(terms.headers if terms is not None else {})},
            text=text,
            is_conditional=terms is not None and terms.is_conditional,
        )

    def keyed(self, if_commit: str | None, idempotency_key: str | None) -> WriteOptions:
        """Write options with an idempotency key.

        If the caller gives no key, a new one is generated, so that a request whose response is lost
        can be retried.
        """
        key = f"client-{self.new_id()}" if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": _require_header(key, "idempotency_key")}
        return WriteOptions({**headers, **_condition(if_commit)}, if_commit is not None)

    def conditional(self, if_commit: str | None) -> WriteOptions:
        """Write options without an idempotency key."""
        return WriteOptions(_condition(if_commit), if_commit is not None)


def text_field(name: str) -> Make[str]:
    """A decoder of one text field."""
    return lambda body: str(body[name])


def list_field(name: str, make: Make[T]) -> Make[list[T]]:
    """A decoder of one field that holds a list of objects."""
    return lambda body: [make(each) for each in list_of(body[name])]


def require_no_actor(actor: str | None, *, action: str) -> None:
    """Raise `ForbiddenError` if an actor is named: the server derives the actor from the token."""
    if actor is not None:
        raise ForbiddenError(
            actor=actor,
            action=action,
            reason="a server knows who asks by the token; connect with the token of that actor",
        )


def require_no_session(spark: object) -> None:
    """Raise `InvalidValueError` if a Spark session is given: the server uses its own."""
    if spark is not None:
        raise InvalidValueError(
            subject="spark",
            expected="None",
            value=type(spark).__name__,
            problem='a session cannot be sent to a server, which has its own; use engine="spark" '
            "without one, or open the graph by its uri",
        )


def _ignore(body: Mapping[str, object]) -> None:
    del body


def _condition(if_commit: str | None) -> dict[str, str]:
    if if_commit is None:
        return {}
    return {"Omnigraph-If-Graph-Commit": _require_header(if_commit, "if_commit")}


def _require_header(given: object, subject: str) -> str:
    """Validate a text for use in a header."""
    if isinstance(given, str) and given.strip() and given.isascii() and given.isprintable():
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a short text",
        value=given,
        problem="what is sent in a header is a text of printable ASCII characters",
    )


def encode_place(branch: str | None, commit: str | None) -> dict[str, str]:
    """The branch or commit of a read as request fields; `main` if neither is named."""
    require_branch_or_commit(branch, commit)
    if commit is None:
        name: BranchName = parse_branch_name(branch or MAIN)
        return {"branch": name}
    require_text(commit, subject="commit")
    return {"snapshot": commit}


def tell_limits(limits: CallLimits | None) -> dict[str, object]:
    """The limits of a read as request fields.

    Raises `InvalidValueError` if `cancelled` is set, because an event cannot be sent.
    """
    if limits is None:
        return {}
    if limits.cancelled is not None:
        raise InvalidValueError(
            subject="limits",
            expected="bounds that can be sent",
            value="cancelled",
            problem="a query of a server is stopped by closing its graph; give `seconds_max`",
        )
    return {"seconds_max": limits.seconds_max, "bytes_max": limits.bytes_max}


def read_result(reply: Response) -> Result:
    """Read a result from a response that is an Arrow stream."""
    with open_streams(reply) as file:
        try:
            reader = pa.ipc.open_stream(file)
            note = read_note(reader.schema)
            table = reader.read_all()
        except pa.ArrowInvalid as error:
            raise ConnectionLostError(f"the rows end in the middle: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidResponseError(f"its rows say of themselves {error}") from error
    if note is None:
        raise InvalidResponseError(
            "its rows do not say what they are; the server may be of another version"
        )
    return Result(
        table,
        columns=note.columns,
        query_name=note.query_name,
        branch=note.branch,
        commit_id=note.commit_id,
    )


def open_streams(reply: Response) -> pa.NativeFile:
    """The body of a response as a file of Arrow streams."""
    if reply.is_short:
        return pa.BufferReader(reply.read())
    return pa.PythonFile(_LeftOpen(reply.stream), mode="r")


class _LeftOpen:
    """A body that the Arrow reader cannot close.

    The bytes after the last row are still to be read, so that the connection can be reused.
    """

    def __init__(self, body: BaseHTTPResponse) -> None:
        self._body = body
        self.closed = False

    def read(self, size: int) -> bytes:
        return self._body.read(size, decode_content=False)

    def close(self) -> None:
        self.closed = True
