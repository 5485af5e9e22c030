"""Errors as response bodies: encoding of their fields, and decoding into the same class.

A decoded error has the class, the message and the fields of the original. Paths, storage details
and the identity of other writers are withheld. A body with fewer fields, from an older server or
from a proxy, still becomes an error whose class says what happened to the graph.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import TypeVar

import orjson

from omnigraph.http.encode import table_key_of
from omnigraph.model import errors
from omnigraph.model.errors import (
    AUTHENTICATE,
    BusyError,
    CompileError,
    Conflict,
    CorruptError,
    ExpectedVersionMismatchError,
    FeedGapError,
    ForbiddenError,
    GraphError,
    IntegrityError,
    KeyConflictError,
    LimitExceededError,
    LoadReport,
    LocatedMessage,
    MergeConflictError,
    MovedError,
    NotFoundError,
    PreconditionFailedError,
    RequestError,
    RuleReport,
    UnavailableError,
    UncertainError,
    UnexpectedBaseError,
    Violation,
)
from omnigraph.model.limits import ERROR_VALUE_BYTES_MAX
from omnigraph.model.source import Diagnostic, Severity, Source, Span

T = TypeVar("T", Diagnostic, Violation, LocatedMessage, RuleReport)

WITHHELD: frozenset[type[GraphError]] = frozenset(
    {UncertainError, UnexpectedBaseError, UnavailableError, BusyError, CorruptError}
)
"""Errors about internals of the server; a response reports only their class."""

# The fields that are sent for each class. Classes that are missing here have a special encoding or
# no fields.
FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "InvalidNameError": ("kind", "name"),
        "InvalidValueError": ("subject", "type", "value"),
        "LimitExceededError": ("resource", "limit", "found"),
        "ForbiddenError": ("actor", "action"),
        "PolicyDeniedError": ("actor", "action", "branch", "target"),
        "NotFoundError": ("kind", "name"),
        "AlreadyExistsError": ("kind", "name"),
        "StillNeededError": ("kind", "name", "needed_by"),
        "FeedGapError": ("commit_id", "resume"),
        "UnreadableError": ("path", "reason"),
        "KeyConflictError": ("type", "id"),
        "UnsupportedChangeError": ("steps",),
        "ExpectedVersionMismatchError": ("table_key", "expected", "actual"),
        "ReadSetChangedError": ("member", "expected", "actual"),
        "SchemaChangedError": ("reason",),
        "DriftError": ("type", "expected", "actual"),
        "PreconditionFailedError": ("expected", "actual"),
        "RecoveryRequiredError": ("operation_id",),
        "EmbeddingError": ("action", "reason"),
        # These fields are withheld from responses, but a decoded error still has them, empty.
        "UnexpectedBaseError": ("table", "expected", "found"),
        "UnavailableError": ("action", "reason"),
        "BusyError": ("action", "reason", "holder"),
        "CorruptError": ("subject", "problem"),
    }
)
_BYTES = "base64"
_NUMBERS = frozenset({"limit", "found"})
_NULLABLE = frozenset({"actor", "branch", "target", "value"})

_BY_CODE: Mapping[str, type[GraphError]] = MappingProxyType(
    {
        "bad_request": RequestError,
        "method_not_allowed": RequestError,
        "unauthorized": ForbiddenError,
        "forbidden": ForbiddenError,
        "not_found": NotFoundError,
        "conflict": MovedError,
        "key_conflict": KeyConflictError,
        "change_feed_gap": FeedGapError,
        "precondition_failed": PreconditionFailedError,
        "resource_limit": LimitExceededError,
        "too_many_requests": BusyError,
        "recovery_required": UncertainError,
        "unavailable": UnavailableError,
    }
)
_CODE_BY_STATUS: Mapping[int, str] = MappingProxyType(
    {
        401: "unauthorized",
        403: "forbidden",
        404: "not_found",
        405: "method_not_allowed",
        409: "conflict",
        412: "precondition_failed",
        413: "resource_limit",
        429: "too_many_requests",
    }
)


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """What the client knows about a rejected request.

    `text` is the source text that it sent, if the server compiles it. `is_write` is whether the
    request could have changed the graph.
    """

    text: str | None
    is_write: bool


def code_of(error: GraphError) -> str:
    """The code of an error in response bodies and in command output."""
    match error:
        case BusyError():
            return "too_many_requests"
        case ForbiddenError(action=action) if action == AUTHENTICATE:
            return "unauthorized"
        case _:
            return error.code


def error_body(error: GraphError, *, message: str) -> dict[str, object]:
    """The response body for an error: its message, its code and its fields."""
    body: dict[str, object] = {"error": message, "code": code_of(error), **describe_error(error)}
    match error:
        case MergeConflictError(conflicts=conflicts):
            body["merge_conflicts"] = [
                {
                    "table_key": table_key_of(each),
                    "row_id": each.id,
                    "kind": each.kind,
                    "message": each.message,
                }
                for each in conflicts
            ]
        case ExpectedVersionMismatchError(table_key=key, expected=expected, actual=actual):
            body["manifest_conflict"] = {"table_key": key, "expected": expected, "actual": actual}
        case _:
            pass
    return body


def describe_error(error: GraphError) -> dict[str, object]:
    """The fields of an error body beside the message and the code."""
    name = type(error).__name__
    if type(error) in WITHHELD:
        return {"error_type": name}
    details: dict[str, object]
    match error:
        case CompileError(diagnostics=diagnostics, source=source):
            details = {
                "source_name": source.name,
                "diagnostics": [_describe_diagnostic(each) for each in diagnostics],
            }
        case IntegrityError(violations=violations, count=count, report=report):
            details = {
                "count": count,
                "violations": [
                    {**asdict(each), "value": _plain(each.value)} for each in violations
                ],
                # The path of the quarantined rows is left out because it is a path on the server.
                "report": None
                if report is None
                else {"rules": [asdict(each) for each in report.rules]},
            }
        case MergeConflictError(conflicts=conflicts):
            # The other fields of the conflicts are in `merge_conflicts` of the body.
            details = {
                "images": [
                    {"base": each.base, "source": each.source, "target": each.target}
                    for each in conflicts
                ]
            }
        case _:
            details = _encode_fields(error, FIELDS.get(name, ()))
    return {"error_type": name, "details": details} if details else {"error_type": name}


def rebuild_error(
    body: Mapping[str, object], *, status: int, request: RefusedRequest
) -> GraphError:
    """Decode an error from a response body."""
    message = str(body.get("error") or f"the server answered {status}")
    kind = getattr(errors, str(body.get("error_type")), None)
    if isinstance(kind, type) and issubclass(kind, GraphError):
        details = body.get("details")
        fields = details if isinstance(details, Mapping) else {}
        message = str(fields.get("message", message))
        # If this version cannot decode the details, the code still identifies the kind of error.
        with suppress(KeyError, TypeError, ValueError):
            return _rebuild(kind, message, fields, body, request)
    return _fall_back(message, status=status, body=body, request=request)


def conflict_of(encoded: Mapping[str, object]) -> Conflict:
    """Decode one merge conflict from a body."""
    return Conflict(
        type=str(encoded["table_key"]).partition(":")[2],
        id=str(encoded["row_id"]),
        kind=str(encoded["kind"]),
        message=str(encoded["message"]),
        base=_row_or_none(encoded.get("base")),
        source=_row_or_none(encoded.get("source")),
        target=_row_or_none(encoded.get("target")),
    )


def _rebuild(
    kind: type[GraphError],
    message: str,
    fields: Mapping[str, object],
    body: Mapping[str, object],
    request: RefusedRequest,
) -> GraphError:
    if kind is CompileError:
        source = Source(str(fields["source_name"]), request.text or "")
        diagnostics = tuple(_diagnostic_of(each) for each in _list(fields["diagnostics"]))
        return _make(kind, message, {"diagnostics": diagnostics, "source": source})
    if kind is IntegrityError:
        report = fields.get("report")
        made = {
            "violations": tuple(_value_of(Violation, each) for each in _list(fields["violations"])),
            "count": fields["count"],
            "report": _report_of(report) if isinstance(report, Mapping) else None,
        }
        return _make(kind, message, made)
    if kind is MergeConflictError:
        conflicts = zip(_list(body["merge_conflicts"]), _list(fields["images"]), strict=True)
        return MergeConflictError(conflicts=[conflict_of(each | seen) for each, seen in conflicts])
    return _make(kind, message, fields)


def _make(kind: type[GraphError], message: str, fields: Mapping[str, object]) -> GraphError:
    # The constructor is bypassed: it builds the message from its arguments, and a message cannot be
    # split back into them.
    made = kind.__new__(kind, message)
    for name in FIELDS.get(kind.__name__, tuple(fields)):
        missing: object = None if name in _NULLABLE else 0 if name in _NUMBERS else ""
        value = fields.get(name, missing)
        match name, value:
            case "steps", list():
                value = tuple(value)
            case "value", {**only} if only.keys() == {_BYTES}:
                value = b64decode(str(only[_BYTES]))
            case _:
                pass
        setattr(made, name, value)
    return made


def _fall_back(
    message: str, *, status: int, body: Mapping[str, object], request: RefusedRequest
) -> GraphError:
    conflicts, versions = body.get("merge_conflicts"), body.get("manifest_conflict")
    with suppress(KeyError, TypeError):
        return MergeConflictError(conflicts=[conflict_of(each) for each in _list(conflicts)])
    if isinstance(versions, Mapping):
        return _make(ExpectedVersionMismatchError, message, versions)
    code = str(body.get("code") or _CODE_BY_STATUS.get(status, ""))
    kind = _BY_CODE.get(code, RequestError if 400 <= status < 500 else None)
    if kind is None and request.is_write:
        return UncertainError(
            f"{message}; the request may have been applied; check before you retry"
        )
    if kind is None:
        return _make(UnavailableError, message, {"reason": message})
    return _make(kind, message, {"action": AUTHENTICATE} if code == "unauthorized" else {})


def _describe_diagnostic(each: Diagnostic) -> dict[str, object]:
    span = None if each.span is None else [each.span.start, each.span.end]
    return {**asdict(each), "span": span}


def _diagnostic_of(encoded: Mapping[str, object]) -> Diagnostic:
    severity, span = Severity(str(encoded["severity"])), _span_of(encoded["span"])
    return _value_of(Diagnostic, {**encoded, "severity": severity, "span": span})


def _span_of(encoded: object) -> Span | None:
    match encoded:
        case None:
            return None
        case [int(start), int(end)]:
            return Span(start, end)
        case _:
            raise ValueError("a span has a start and an end")


def _report_of(encoded: Mapping[str, object]) -> LoadReport:
    rules = []
    for each in _list(encoded["rules"]):
        shown = tuple(_value_of(LocatedMessage, one) for one in _list(each["shown"]))
        rules.append(_value_of(RuleReport, {**each, "shown": shown}))
    return LoadReport(tuple(rules), None)


def _value_of(kind: type[T], encoded: Mapping[str, object]) -> T:
    """A value whose fields are encoded under their names; other fields are ignored."""
    make: Callable[..., T] = kind
    return make(**{each.name: encoded[each.name] for each in fields(kind)})


def _row_or_none(encoded: object) -> Mapping[str, object] | None:
    return encoded if isinstance(encoded, Mapping) else None


def _list(encoded: object) -> list[dict[str, object]]:
    if not isinstance(encoded, list) or not all(isinstance(each, dict) for each in encoded):
        raise TypeError("expected a list of objects")
    return encoded


def _encode_fields(described: GraphError, names: Iterable[str]) -> dict[str, object]:
    fields = {name: getattr(described, name) for name in names}
    if "value" in fields:
        fields["value"] = _plain(fields["value"])
    if "steps" in fields:
        fields["steps"] = [dict(step) for step in fields["steps"]]
    return fields


def _plain(value: object) -> object:
    """A value as JSON: values without a JSON type become text, and long ones null."""
    if isinstance(value, bytes):
        value = {_BYTES: b64encode(value).decode()}
    try:
        written = orjson.dumps(value)
    except TypeError:
        try:
            value = repr(value)
        except (RecursionError, ValueError):
            # The value is nested too deeply, or the number is too long, to be converted to text.
            return None
        written = value.encode(errors="replace")
    return value if len(written) <= ERROR_VALUE_BYTES_MAX else None
