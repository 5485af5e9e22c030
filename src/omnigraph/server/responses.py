"""Responses of routes, and errors as HTTP status, code and problem body.

Every error code of the model has a status, which a test checks. A body never contains a local
path, a stack trace or a token. Header values are bytes. The module knows no routes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import orjson

from omnigraph.engine.read.budget import CacheMemory, LruCache
from omnigraph.http.encode import table_key_of
from omnigraph.http.problems import WITHHELD, code_of, describe_error, error_body
from omnigraph.model.errors import (
    BusyError,
    CompileError,
    Conflict,
    CorruptError,
    EmbeddingError,
    GraphError,
    MergeConflictError,
    NotFoundError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.limits import CACHED_RESPONSE_BYTES_MAX, RESPONSE_CACHE_BYTES_MAX

Header = tuple[bytes, bytes]

JSON = b"application/json"
NDJSON = b"application/x-ndjson; charset=utf-8"

COMMIT_HEADER = "Omnigraph-Graph-Commit"
QUERY_NAME_HEADER = "Omnigraph-Query-Name"


@dataclass(frozen=True, slots=True)
class Response:
    """A response that is sent whole."""

    status: int
    content_type: bytes
    body: bytes
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class StreamingResponse:
    """A response that is sent in pieces; the first piece is read before the status is sent."""

    status: int
    content_type: bytes
    pieces: AsyncGenerator[bytes, None]
    headers: tuple[Header, ...]


AnyResponse = Response | StreamingResponse
T = TypeVar("T", Response, StreamingResponse)


def json_response(body: object, *, commit_id: str | None = None, status: int = 200) -> Response:
    """A JSON response of plain values, with the commit that it describes in a header."""
    headers = {} if commit_id is None else {COMMIT_HEADER: commit_id}
    return Response(status, JSON, orjson.dumps(body), encode_headers(headers))


def bytes_response(body: bytes, *, content_type: bytes) -> Response:
    """A 200 response with an encoded body."""
    return Response(200, content_type, body, ())


def with_headers(response: T, headers: Mapping[str, str]) -> T:
    """The same response with more headers."""
    return replace(response, headers=response.headers + encode_headers(headers))


def encode_headers(headers: Mapping[str, str]) -> tuple[Header, ...]:
    """Headers in wire format."""
    return tuple(
        (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()
    )


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything that determines a response: query, parameters, commit and format.

    `origin` identifies how the graph was opened: another embedding provider gives other results.
    """

    graph_id: str
    origin: Hashable
    commit_id: str
    branch: str
    source: str
    name: str | None
    params: str
    is_arrow: bool


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A response body and the values of its headers."""

    commit_id: str
    query_name: str
    body: bytes


_CACHE_ENTRY_BYTES = 512
"""Approximate size of a cache entry besides its texts."""


class ResponseCache:
    """The most recently used responses, bounded in bytes; safe to share between threads.

    A key names a commit, so a cached response never becomes stale. Only responses that are equal
    for all callers are cached.
    """

    def __init__(self) -> None:
        memory = CacheMemory(RESPONSE_CACHE_BYTES_MAX, None)
        self._cache: LruCache[CacheKey, tuple[CachedResponse, int]] = LruCache(
            memory, name="responses", size_of=lambda each: each[1]
        )

    def find(self, key: CacheKey) -> CachedResponse | None:
        """The cached response, if any."""
        found = self._cache.find(key)
        return None if found is None else found[0]

    def put(self, key: CacheKey, response: CachedResponse) -> None:
        """Cache a response, unless it is long or of another commit than the key."""
        texts = len(response.body) + len(key.source) + len(key.params)
        if response.commit_id == key.commit_id and texts <= CACHED_RESPONSE_BYTES_MAX:
            self._cache.put(key, (response, texts + _CACHE_ENTRY_BYTES))


RETRY_AFTER_S = 60
"""The `Retry-After` of a rejected caller, in seconds; writes are finished long before."""

CONFLICTS_SHOWN_MAX = 3
"""The number of merge conflicts that the message describes; the body lists all of them."""

STATUS_BY_CODE: Mapping[str, int] = {
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "key_conflict": 409,
    "change_feed_gap": 410,
    "precondition_failed": 412,
    "resource_limit": 413,
    "too_many_requests": 429,
    "internal": 500,
    "unavailable": 500,
    "recovery_required": 503,
}


class HttpError(Exception):
    """A request that is rejected before it reaches a graph."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        cause: GraphError | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers or {}
        self.cause = cause
        """The engine's equivalent error, which is also reported to clients."""


def bad_request(message: str, *, cause: GraphError | None = None) -> HttpError:
    """The request is invalid (400)."""
    return HttpError(400, "bad_request", message, cause=cause)


def unauthorized(message: str) -> HttpError:
    """Missing or invalid token (401)."""
    return HttpError(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})


def forbidden(message: str) -> HttpError:
    """The caller is not permitted to do this (403)."""
    return HttpError(403, "forbidden", message)


def not_found(message: str, *, cause: GraphError | None = None) -> HttpError:
    """The resource does not exist (404)."""
    return HttpError(404, "not_found", message, cause=cause)


def conflict(message: str) -> HttpError:
    """The current state does not permit this (409)."""
    return HttpError(409, "conflict", message)


def too_large(message: str) -> HttpError:
    """The request exceeds a size limit (413)."""
    return HttpError(413, "resource_limit", message)


def timed_out(message: str) -> HttpError:
    """The request did not arrive in time (408); the connection is closed."""
    return HttpError(408, "bad_request", message, headers={"Connection": "close"})


def unsupported_type(message: str) -> HttpError:
    """The route does not accept this content type (415)."""
    return HttpError(415, "bad_request", message)


def unprocessable(message: str) -> HttpError:
    """The body lacks a field, or a field has the wrong type (422)."""
    return HttpError(422, "bad_request", message)


def too_many(message: str) -> HttpError:
    """The caller, or all callers together, have too many requests in progress (429)."""
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return HttpError(429, "too_many_requests", message, headers=headers)


def http_error_response(error: HttpError) -> Response:
    """The response for a request that was rejected before it reached a graph."""
    body: dict[str, object] = {"error": str(error), "code": error.code}
    if error.cause is not None:
        body |= _describe(error.cause, message=str(error))
    return _error_response(error.status, body, error.headers)


def graph_error_response(error: GraphError) -> Response:
    """The response for an engine error."""
    if isinstance(error, NotFoundError) and error.kind == "graph":
        # The graph is served, and the error names the location of its storage.
        error = CorruptError(subject="the graph", problem="its files are missing")
    status, headers = STATUS_BY_CODE[code_of(error)], {}
    message = str(error)
    match error:
        case MergeConflictError(conflicts=conflicts):
            message = _summarize_conflicts(conflicts)
        case BusyError():
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            message = "the branch is busy with other writes; nothing was written; try again later"
        case EmbeddingError():
            # Its text names the variables to set and quotes the provider, but never contains a key.
            pass
        case UnavailableError(is_disk_full=True):
            message = (
                "the disk of this graph is full; nothing was written; free space or raise the "
                "quota, then try again"
            )
        case UnavailableError():
            message = "the storage did not respond; nothing was written; try again later"
        case CorruptError():
            message = "the stored state of this graph is damaged; its operator must inspect it"
        case UncertainError():
            headers = {"Retry-After": "1"}
            message = "a write was interrupted; the next write completes or undoes it; check first"
        case _:
            pass
    body = {**error_body(error, message=message), **_describe(error, message=message)}
    return _error_response(status, body, headers)


def internal_error_response(request_id: str) -> Response:
    """The response for an unexpected exception; the log has its trace under the same id."""
    message = f"internal server error; the server's log has details under request id {request_id}"
    return _error_response(500, {"error": message, "code": "internal"}, {})


@contextmanager
def translate_compile_errors(*, advice: str) -> Iterator[None]:
    """A block that translates errors about a query or schema text to HTTP errors.

    A name in a text or a body is part of the request, so an unknown one gives 400 and not 404. The
    error for a text of the wrong kind includes the advice, such as the route to use.
    """
    try:
        yield
    except CompileError as error:
        if is_of_wrong_kind(error):
            raise bad_request(f"{error}\n{advice}", cause=error) from error
        raise
    except NotFoundError as error:
        if error.kind in _NAMED_IN_BODIES:
            raise bad_request(str(error), cause=error) from error
        raise


_NAMED_IN_BODIES = frozenset({"query", "type", "node type", "edge type"})

# The diagnostic code of a query of the wrong kind.
_WRONG_KIND = "T38"


def is_of_wrong_kind(error: CompileError) -> bool:
    """Whether a text was rejected because it is not a read, not a mutation, or finds no nodes."""
    return any(each.code == _WRONG_KIND for each in error.diagnostics)


def _error_response(
    status: int, body: Mapping[str, object], headers: Mapping[str, str]
) -> Response:
    return Response(status, JSON, orjson.dumps(body), encode_headers(headers))


def _summarize_conflicts(conflicts: Sequence[Conflict]) -> str:
    shown = [
        f"{table_key_of(each)}:{each.id} ({each.kind})" for each in conflicts[:CONFLICTS_SHOWN_MAX]
    ]
    if len(conflicts) > len(shown):
        shown.append(f"and {len(conflicts) - len(shown)} more")
    return "merge conflicts: " + "; ".join(shown)


def _describe(error: GraphError, *, message: str) -> dict[str, object]:
    """What a client needs to raise the same error, without anything withheld from the message."""
    described = describe_error(error)
    if type(error) in WITHHELD or str(error) == message or isinstance(error, MergeConflictError):
        return described
    details = described.get("details")
    return {
        **described,
        "details": {**(details if isinstance(details, dict) else {}), "message": str(error)},
    }
