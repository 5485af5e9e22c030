"""What an error says over HTTP: its status, its code, its body.

Total over the error tree, by test. A body never holds a path of this machine, a stack trace or a
token. Knows no routes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from omnigraph.model.errors import (
    AlreadyExistsError,
    BusyError,
    CompileError,
    Conflict,
    CorruptError,
    DriftError,
    EmbeddingError,
    ExpectedVersionMismatchError,
    FeedGapError,
    ForbiddenError,
    GraphError,
    IntegrityError,
    InvalidNameError,
    InvalidValueError,
    KeyConflictError,
    LimitExceededError,
    MergeConflictError,
    MovedError,
    NotFoundError,
    PolicyDeniedError,
    PreconditionFailedError,
    ReadSetChangedError,
    RecoveryRequiredError,
    RequestError,
    SchemaChangedError,
    StillNeededError,
    UnavailableError,
    UncertainError,
    UnexpectedBaseError,
    UnreadableError,
    UnsupportedChangeError,
)
from omnigraph.server.answers import JSON, Answer, encode_headers
from omnigraph.wire.conflicts import table_key_of
from omnigraph.wire.problems import WITHHELD, describe_error

RETRY_AFTER_S = 60
"""What a caller who was turned away is told to wait: writes are over long before."""

CONFLICTS_SHOWN_MAX = 3
"""How many conflicts of a merge the message tells; the body lists all of them."""

# Every class of the tree by itself, so that a new one has to be thought about.
STATUS: Mapping[type[GraphError], int] = {
    RequestError: 400,
    CompileError: 400,
    InvalidNameError: 400,
    InvalidValueError: 400,
    LimitExceededError: 413,
    ForbiddenError: 403,
    PolicyDeniedError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    StillNeededError: 409,
    FeedGapError: 410,
    UnreadableError: 400,
    IntegrityError: 400,
    KeyConflictError: 409,
    MergeConflictError: 409,
    UnsupportedChangeError: 400,
    MovedError: 409,
    ExpectedVersionMismatchError: 409,
    ReadSetChangedError: 409,
    SchemaChangedError: 409,
    DriftError: 409,
    PreconditionFailedError: 412,
    UncertainError: 503,
    RecoveryRequiredError: 503,
    UnexpectedBaseError: 503,
    UnavailableError: 500,
    BusyError: 429,
    EmbeddingError: 500,
    CorruptError: 500,
}


class HttpError(Exception):
    """A request that is refused before any graph is asked."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str],
        told: GraphError | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers
        self.told = told
        """The error that the engine has for it, which clients are told as well."""


def bad_request(message: str, *, told: GraphError | None = None) -> HttpError:
    """The request cannot be understood (400)."""
    return HttpError(status=400, code="bad_request", message=message, headers={}, told=told)


def unauthorized(message: str) -> HttpError:
    """Nobody knows who is asking (401)."""
    return HttpError(
        status=401, code="unauthorized", message=message, headers={"WWW-Authenticate": "Bearer"}
    )


def forbidden(message: str) -> HttpError:
    """Whoever asks may not do this (403)."""
    return HttpError(status=403, code="forbidden", message=message, headers={})


def not_found(message: str, *, told: GraphError | None = None) -> HttpError:
    """There is no such thing (404)."""
    return HttpError(status=404, code="not_found", message=message, headers={}, told=told)


def conflict(message: str) -> HttpError:
    """What is there forbids it (409)."""
    return HttpError(status=409, code="conflict", message=message, headers={})


def too_large(message: str) -> HttpError:
    """The request is larger than it may be (413)."""
    return HttpError(status=413, code="resource_limit", message=message, headers={})


def unsupported_type(message: str) -> HttpError:
    """The body is of another kind than the route reads (415)."""
    return HttpError(status=415, code="bad_request", message=message, headers={})


def unprocessable(message: str) -> HttpError:
    """The body lacks a field, or has one of another type (422)."""
    return HttpError(status=422, code="bad_request", message=message, headers={})


def too_many(message: str) -> HttpError:
    """The caller, or everybody together, asks for too much at once (429)."""
    return HttpError(
        status=429,
        code="too_many_requests",
        message=message,
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def answer_http_error(error: HttpError) -> Answer:
    """The answer to a request that was refused before any graph was asked."""
    body: dict[str, object] = {"error": str(error), "code": error.code}
    if error.told is not None:
        body |= _describe(error.told, message=str(error))
    return _answer(error.status, body, error.headers)


def answer_graph_error(error: GraphError) -> Answer:
    """The answer to a request whose work raised."""
    status, headers = STATUS[type(error)], {}
    code, message = error.code, str(error)
    body: dict[str, object] = {}
    match error:
        case MergeConflictError(conflicts=conflicts):
            message = _tell_conflicts(conflicts)
            body["merge_conflicts"] = [_encode_conflict(each) for each in conflicts]
        case ExpectedVersionMismatchError(table_key=key, expected=expected, actual=actual):
            body["manifest_conflict"] = {"table_key": key, "expected": expected, "actual": actual}
        case BusyError():
            code, headers = "too_many_requests", {"Retry-After": str(RETRY_AFTER_S)}
            message = "others are writing here for too long; nothing was written; try again later"
        case EmbeddingError():
            # Its text names variables to set and the provider's own words, never a key.
            pass
        case UnavailableError():
            message = "the storage did not answer; nothing was written; try again later"
        case CorruptError():
            message = "what is stored of this graph breaks a rule; its operator has to look"
        case UncertainError():
            headers = {"Retry-After": "1"}
            message = "a write stopped on its way; the next write finishes or undoes it; look first"
        case _:
            pass
    told = _describe(error, message=message)
    return _answer(status, {"error": message, "code": code, **told, **body}, headers)


def answer_surprise(request_id: str) -> Answer:
    """The answer to what nobody expected: its trace is in the log, under the same id."""
    message = f"something went wrong in the server; its log tells what, by request id {request_id}"
    return _answer(500, {"error": message, "code": "internal"}, {})


def _answer(status: int, body: Mapping[str, object], headers: Mapping[str, str]) -> Answer:
    return Answer(status, JSON, orjson.dumps(body), encode_headers(headers))


def _tell_conflicts(conflicts: Sequence[Conflict]) -> str:
    shown = [
        f"{table_key_of(each)}:{each.id} ({each.kind})" for each in conflicts[:CONFLICTS_SHOWN_MAX]
    ]
    if len(conflicts) > len(shown):
        shown.append(f"and {len(conflicts) - len(shown)} more")
    return "merge conflicts: " + "; ".join(shown)


def _encode_conflict(each: Conflict) -> dict[str, object]:
    return {
        "table_key": table_key_of(each),
        "row_id": each.id,
        "kind": each.kind,
        "message": each.message,
    }


def _describe(error: GraphError, *, message: str) -> dict[str, object]:
    """What a client needs to raise the same error; nothing that is withheld from the message."""
    described = describe_error(error)
    if type(error) in WITHHELD or str(error) == message or isinstance(error, MergeConflictError):
        return described
    details = described.get("details")
    return {
        **described,
        "details": {**(details if isinstance(details, dict) else {}), "message": str(error)},
    }
