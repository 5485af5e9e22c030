"""One request of a remote graph: parameters as JSON, retries, and the response as a result.

A read is retried when its connection fails. A write is retried only if the server did not receive
it, reports that it changed nothing, or can recognise the write by its idempotency key; otherwise
the outcome is reported as uncertain. The number of retries and the total time are bounded. Senders
are safe to share between threads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from omnigraph.http.arrow import decode_result
from omnigraph.http.decode import list_of
from omnigraph.http.problems import RefusedRequest, rebuild_error
from omnigraph.http.retries import Attempts, Exhausted, RetryPolicy
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
    UntrustedServerError,
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
from omnigraph.model.runtime import Clock, SystemRuntime

T = TypeVar("T")

Decode = Callable[[Mapping[str, object]], T]
"""Decodes a response body; raises `KeyError`, `TypeError` or `ValueError` if a field is missing."""

ACTOR_HEADER = "Omnigraph-Actor"

_PROXY_ERRORS = frozenset({502, 503, 504})

# Of the errors that report a moved graph, only these are resolved once the other writer has
# finished.
_TRANSIENT = (ExpectedVersionMismatchError, ReadSetChangedError)


def parse_policy(timeout_s: float) -> RetryPolicy:
    """Parse a timeout; raises `InvalidValueError` unless it is a positive number of seconds."""
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
        raise InvalidValueError(
            subject="timeout_s",
            expected="a number of seconds",
            value=timeout_s,
            problem="a timeout is a positive number of seconds",
        )
    return RetryPolicy(
        timeout_s=float(timeout_s),
        attempts_max=CLIENT_ATTEMPTS_MAX,
        deadline_s=float(timeout_s),
        backoff_s=BACKOFF_S,
        backoff_factor=4,
        wait_s_max=RETRY_AFTER_S_MAX,
        jitter=0.5,
    )


class RequestSender:
    """Sends requests to one server and retries them; safe to share between threads."""

    def __init__(self, pool: ConnectionPool, policy: RetryPolicy, clock: Clock) -> None:
        self._pool = pool
        self._policy = policy
        self.clock = clock
        self._lock = Lock()
        self._is_closed = False
        self.known_actor: tuple[str | None] | None = None
        """The actor that the server reported for the token; None before the first response."""

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._pool.address.url

    def close(self) -> None:
        """Close the connections; further calls raise `ForbiddenError`."""
        with self._lock:
            self._is_closed = True
        self._pool.close()

    def send(self, request: Request, read: Callable[[Response], T]) -> T:
        """Send a request and return what `read` makes of the response.

        Raises the error that the server reports.
        """
        attempts = Attempts(self._policy, self.clock)
        lost: ConnectionLostError | None = None
        while True:
            retry_after_s, timeout_s = 0.0, attempts.timeout_s()
            try:
                with self._attempt(request, timeout_s) as response:
                    if response.status < 300 or response.status == request.accepted:
                        return read(response)
                    failure, is_ours = _read_failure(response, request)
                    may_repeat = _may_repeat(failure, response.status, request, is_ours=is_ours)
                    failure = _in_doubt(failure, lost, request)
                    if not may_repeat:
                        raise failure
                    retry_after_s = response.retry_after_s(self.clock.now())
            except NotSentError as error:
                failure = _in_doubt(self._unreachable(error), lost, request)
                failure.__cause__ = error
            except ResponseTimeoutError as error:
                raise _unknown_outcome(request, f"no response within {timeout_s:.3g} s") from error
            except InvalidResponseError as error:
                # The server responded and may have applied the request; a retry would get the same
                # response.
                raise _unknown_outcome(request, f"invalid response: {error}") from error
            except ConnectionLostError as error:
                lost = error
                failure = _unknown_outcome(request, str(error))
                failure.__cause__ = error
                if request.safety is RetrySafety.ONCE:
                    raise failure from error
            wait_s = attempts.next_wait(retry_after_s=retry_after_s)
            if isinstance(wait_s, Exhausted):
                raise failure
            self.clock.sleep(wait_s)

    @contextmanager
    def stream(self, request: Request) -> Iterator[Response]:
        """Send a request and yield its response, to be read in chunks.

        The request is not retried.
        """
        try:
            with self._attempt(request, self._policy.timeout_s) as response:
                if response.status >= 300:
                    raise _read_failure(response, request)[0]
                yield response
        except NotSentError as error:
            raise self._unreachable(error) from error
        except ResponseTimeoutError as error:
            raise UnavailableError(
                action=request.action, reason="the server stopped sending; start again"
            ) from error
        except (ConnectionLostError, InvalidResponseError) as error:
            raise UnavailableError(
                action=request.action,
                reason=f"the connection was closed before the end: {error}; start again",
            ) from error

    @contextmanager
    def _attempt(self, request: Request, timeout_s: float) -> Iterator[Response]:
        if self._is_closed:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")
        target = self._pool.address.target(request.parts, request.arguments)
        try:
            with self._pool.send(
                request.method,
                target,
                body=request.body,
                headers=request.headers,
                timeout_s=timeout_s,
            ) as response:
                if response.status != 401:
                    actor = response.header(ACTOR_HEADER)
                    self.known_actor = (None if actor is None else unquote(actor),)
                yield response
        except UntrustedServerError as error:
            raise UnavailableError(
                action="reach the server", reason=f"its certificate was rejected: {error}"
            ) from error

    def _unreachable(self, error: NotSentError) -> GraphError:
        return UnavailableError(
            action=f"reach {self.url}",
            reason=f"{error}; nothing was sent; check that a server is running there",
        )


def read_json(response: Response, decode: Decode[T]) -> T:
    """Read a response that is a JSON object and decode it."""
    try:
        body: object = orjson.loads(response.read())
    except orjson.JSONDecodeError as error:
        raise InvalidResponseError(
            "it is not valid JSON; check that this is the url of an OmniGraph server"
        ) from error
    if not isinstance(body, dict):
        raise InvalidResponseError(
            "it is not a JSON object; check that this is the url of an OmniGraph server"
        )
    try:
        return decode(body)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponseError(
            f"missing or invalid field: {error}; the server may have another version than this "
            "package"
        ) from error


def _read_failure(response: Response, request: Request) -> tuple[GraphError, bool]:
    """The error that a response reports, and whether an OmniGraph server sent it."""
    refused = RefusedRequest(text=request.text, is_write=request.safety is not RetrySafety.READ)
    if response.status < 400:
        location = response.header("Location") or "another address"
        reason = f"the server redirects to {location}; connect to that url instead"
        return UnavailableError(action=request.action, reason=reason), False
    try:
        body: object = orjson.loads(response.read())
    except orjson.JSONDecodeError:
        # The response comes from a proxy or from another kind of server.
        body = None
    fields = body if isinstance(body, dict) else {}
    return rebuild_error(fields, status=response.status, request=refused), "code" in fields


def _may_repeat(failure: GraphError, status: int, request: Request, *, is_ours: bool) -> bool:
    """Whether the response says that nothing was done and that a retry may succeed."""
    if request.is_conditional:
        # The branch may have moved from the commit that the caller named, so the caller must check
        # first.
        return False
    if status in _PROXY_ERRORS and not is_ours:
        # The server behind the proxy may or may not have received the request.
        return request.safety is not RetrySafety.ONCE
    return status == 429 or isinstance(failure, _TRANSIENT)


def _in_doubt(
    failure: GraphError, lost: ConnectionLostError | None, request: Request
) -> GraphError:
    """The error to raise for a failure after an earlier attempt was lost.

    The lost attempt may have been applied. An error that the server raises after it has checked the
    idempotency key proves that it was not.
    """
    has_checked_key = isinstance(failure, RequestError | MovedError) and not isinstance(
        failure, ForbiddenError | NotFoundError
    )
    if lost is None or request.safety is RetrySafety.READ or has_checked_key:
        return failure
    return _unknown_outcome(request, f"{lost}; the retry failed: {failure}")


def _unknown_outcome(request: Request, reason: str) -> GraphError:
    match request.safety:
        case RetrySafety.READ:
            return UnavailableError(action=request.action, reason=reason)
        case RetrySafety.KEYED:
            key = request.headers["Idempotency-Key"]
            return UncertainError(
                f"the outcome of '{request.action}' is unknown: {reason}; retry with "
                f"idempotency_key={key!r}, which applies the request at most once"
            )
        case RetrySafety.ONCE:
            return UncertainError(
                f"the outcome of '{request.action}' is unknown: {reason}; check whether it was "
                "applied before you retry"
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
            problem=f"expected a mapping, got {type(params).__name__}",
        )
    return {str(name): _plain(value, f"param '{name}'") for name, value in params.items()}


def encode_query(
    source: str, params: Mapping[str, object] | None, name: str | None
) -> dict[str, object]:
    """The text, the name and the parameters of a query as request fields."""
    require_text(source, subject="source")
    if name is not None:
        require_text(name, subject="name")
    return {"query": source, "name": name, "params": plain_params(params)}


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
            return _require_encodable(value, subject)
        case Integral():
            return int(value)
        case Real():
            number = float(value)
            if not math.isfinite(number):
                raise _refuse(subject, number, f"JSON cannot represent {number}")
            return number
        case datetime():
            in_utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            # All digits are sent; the server reports those that it cannot store.
            return in_utc.isoformat()
        case date():
            return value.isoformat()
        case Mapping():
            return {str(name): _plain(each, subject) for name, each in value.items()}
        case Iterable() if not isinstance(value, bytes | bytearray | memoryview):
            return [_plain(each, subject) for each in value]
        case _:
            raise _refuse(subject, value, f"JSON cannot represent a {type(value).__name__}")


def _require_encodable(text: str, subject: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refuse(subject, text, "the text contains an unpaired surrogate") from error
    return text


def _refuse(subject: str, value: object, problem: str) -> InvalidValueError:
    return InvalidValueError(subject=subject, expected="a JSON value", value=value, problem=problem)


Arguments = Mapping[str, str | None]
"""Query parameters of the URL by name; those that are None are left out."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The conditions of a request, as headers, and whether it may be repeated.

    They are the commit that the branch must be at and the idempotency key that makes a retry safe.
    """

    headers: Mapping[str, str]
    is_conditional: bool
    safety: RetrySafety


READ = RequestOptions({}, is_conditional=False, safety=RetrySafety.READ)
"""The options of a request that changes nothing."""


class GraphEndpoint:
    """The routes of one graph."""

    def __init__(self, sender: RequestSender, graph_id: str) -> None:
        self.sender = sender
        self.graph_id = graph_id
        self._runtime = SystemRuntime()

    @property
    def uri(self) -> str:
        """The URL of the graph."""
        return f"{self.sender.url}/graphs/{self.graph_id}"

    def new_id(self) -> str:
        """A new unique id."""
        return self._runtime.new_id()

    def get(
        self, action: str, *parts: str, decode: Decode[T], arguments: Arguments | None = None
    ) -> T:
        """Send a GET request to a path and decode the response."""
        return self.send(self.request("GET", parts, action, arguments=arguments), decode)

    def post(
        self,
        action: str,
        *parts: str,
        decode: Decode[T],
        body: Mapping[str, object],
        options: RequestOptions,
        text: str | None = None,
    ) -> T:
        """Send a POST request with a JSON body and decode the response."""
        request = self.request("POST", parts, action, body=body, options=options, text=text)
        return self.send(request, decode)

    def delete(self, action: str, *parts: str, if_commit: str | None = None) -> None:
        """Send a DELETE request to a path."""
        options = self.conditional(if_commit)
        self.send(self.request("DELETE", parts, action, options=options), dict)

    def send(self, request: Request, decode: Decode[T]) -> T:
        """Send a request and decode the JSON object of its response."""
        return self.sender.send(request, lambda response: read_json(response, decode))

    def request(  # noqa: PLR0913  # every part of a request
        self,
        method: str,
        parts: tuple[str, ...],
        action: str,
        *,
        arguments: Arguments | None = None,
        body: Mapping[str, object] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        options: RequestOptions = READ,
        text: str | None = None,
    ) -> Request:
        """Build a request to this graph; a body of fields is sent as JSON."""
        given = arguments or {}
        content_type = {"Content-Type": JSON} if isinstance(body, Mapping) else {}
        return Request(
            method,
            ("graphs", self.graph_id, *parts),
            action,
            safety=options.safety,
            arguments=tuple((name, value) for name, value in given.items() if value is not None),
            body=encode_body(body) if isinstance(body, Mapping) else body,
            headers={**content_type, **(headers or {}), **options.headers},
            text=text,
            is_conditional=options.is_conditional,
        )

    def keyed(self, if_commit: str | None, idempotency_key: str | None) -> RequestOptions:
        """Write options with an idempotency key.

        If the caller gives no key, a new one is generated, so that a request whose response is lost
        can be retried.
        """
        key = f"client-{self.new_id()}" if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": _require_header(key, "idempotency_key")}
        condition = self.conditional(if_commit, RetrySafety.KEYED)
        return replace(condition, headers={**headers, **condition.headers})

    def conditional(
        self, if_commit: str | None, safety: RetrySafety = RetrySafety.ONCE
    ) -> RequestOptions:
        """Write options without an idempotency key."""
        if if_commit is None:
            return RequestOptions({}, is_conditional=False, safety=safety)
        headers = {"Omnigraph-If-Graph-Commit": _require_header(if_commit, "if_commit")}
        return RequestOptions(headers, is_conditional=True, safety=safety)


def text_field(name: str) -> Decode[str]:
    """A decoder of one text field."""
    return lambda body: str(body[name])


def list_field(name: str, decode: Decode[T]) -> Decode[list[T]]:
    """A decoder of one field that holds a list of objects."""
    return lambda body: [decode(each) for each in list_of(body[name])]


def require_no_actor(actor: str | None, *, action: str) -> None:
    """Raise `ForbiddenError` if an actor is named: the server derives the actor from the token."""
    if actor is not None:
        raise ForbiddenError(
            actor=actor,
            action=action,
            reason="the server derives it from the token; connect with the token of that actor",
        )


def require_no_session(spark: object) -> None:
    """Raise `InvalidValueError` if a Spark session is given: the server uses its own."""
    if spark is not None:
        raise InvalidValueError(
            subject="spark",
            expected="None",
            value=type(spark).__name__,
            problem='a Spark session cannot be sent to a server; pass only engine="spark", or open '
            "the graph by its uri",
        )


def _require_header(given: object, subject: str) -> str:
    if isinstance(given, str) and given.strip() and given.isascii() and given.isprintable():
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a short text",
        value=given,
        problem="it is sent in a header and must consist of printable ASCII characters",
    )


def encode_place(branch: str | None, commit: str | None) -> dict[str, str]:
    """The branch or commit of a read as request fields; `main` if neither is named."""
    require_branch_or_commit(branch, commit)
    if commit is None:
        name: BranchName = parse_branch_name(branch or MAIN)
        return {"branch": name}
    require_text(commit, subject="commit")
    return {"snapshot": commit}


def encode_limits(limits: CallLimits | None) -> dict[str, object]:
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
            problem="an event cannot be sent to a server; set `seconds_max`, or close the graph",
        )
    return {"seconds_max": limits.seconds_max, "bytes_max": limits.bytes_max}


def read_result(response: Response) -> Result:
    """Read a result from a response that is an Arrow stream."""
    with open_streams(response) as file:
        try:
            result = decode_result(pa.ipc.open_stream(file))
        except pa.ArrowInvalid as error:
            raise ConnectionLostError(f"the rows are incomplete: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidResponseError(f"the metadata of its rows is invalid: {error}") from error
    if result is None:
        raise InvalidResponseError("its rows have no metadata; the server may have another version")
    return result


def open_streams(response: Response) -> pa.NativeFile:
    """The body of a response as a file of Arrow streams."""
    if response.is_short:
        return pa.BufferReader(response.read())
    return pa.PythonFile(_LeftOpen(response.stream), mode="r")


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
