"""An error that goes over HTTP comes out as it went in, class, message and fields."""

from __future__ import annotations

import orjson
import pytest

from omnigraph.http.problems import WITHHELD, RefusedRequest, rebuild_error
from omnigraph.model import errors
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
    LoadReport,
    LocatedMessage,
    MergeConflictError,
    MovedError,
    NotFoundError,
    PolicyDeniedError,
    PreconditionFailedError,
    ReadSetChangedError,
    RecoveryRequiredError,
    RequestError,
    RuleReport,
    SchemaChangedError,
    StillNeededError,
    UnavailableError,
    UncertainError,
    UnexpectedBaseError,
    UnreadableError,
    UnsupportedChangeError,
    Violation,
)
from omnigraph.model.source import Diagnostic, Severity, Source, Span
from omnigraph.server.responses import graph_error_response

TEXT = "query q() { match { $p: Persn } return { $p } }"
SECRET = "/var/lib/graphs/secret"

SAMPLES: tuple[GraphError, ...] = (
    RequestError("not like this"),
    CompileError(
        diagnostics=[
            Diagnostic("T1", "there is no type", Severity.ERROR, Span(24, 29), "did you mean?"),
            Diagnostic("P1", "nothing", Severity.WARNING, None, None),
        ],
        source=Source("<query>", TEXT),
    ),
    InvalidNameError(kind="branch", name="a..b", rule="no dots"),
    InvalidValueError(subject="param 'n'", expected="I32", value=2**40, problem="too much"),
    InvalidValueError(subject="param 'n'", expected="[I32]", value=[1, None], problem="null"),
    InvalidValueError(subject="line 1", expected="JSON", value=b"\xff{", problem="no JSON"),
    LimitExceededError(resource="rows", limit=5, found=7, advice="ask for less"),
    ForbiddenError(actor=None, action="write", reason="read only"),
    PolicyDeniedError(actor="ann", action="read", branch="main", target=None, reason=""),
    NotFoundError(kind="branch", name="x", advice="there are: main"),
    AlreadyExistsError(kind="branch", name="x", advice=""),
    StillNeededError(kind="branch", name="x", needed_by="branch 'y'", advice="delete that"),
    FeedGapError(commit_id="01A", resume="after:01B"),
    UnreadableError(path="people.jsonl", reason="no permission"),
    IntegrityError(
        violations=[Violation("P", "a", "unique", "email", "x@y", "twice")], count=3, report=None
    ),
    IntegrityError(
        violations=[Violation("P", "a", "unique", None, ["x", 1], "twice")],
        count=1,
        report=LoadReport(
            (RuleReport("P", "unique", "email", 2, (LocatedMessage("f: row 1", "no"),)),), None
        ),
    ),
    KeyConflictError(type="Person", id="Ann"),
    MergeConflictError(
        conflicts=[
            Conflict("P", "a", "divergent_update", "both", {"id": "a"}, {"id": "a", "n": 1}, None)
        ]
    ),
    UnsupportedChangeError(steps=[{"kind": "unsupported", "type": "P"}], reasons=["no"]),
    MovedError("moved"),
    ExpectedVersionMismatchError(table_key="node:P", expected=1, actual=2),
    ReadSetChangedError(member="main", expected="01A", actual="01B"),
    SchemaChangedError(reason="another schema"),
    DriftError(type="P", expected=1, actual=2, advice="repair"),
    PreconditionFailedError(expected="01A", actual="01B"),
    UncertainError("who knows"),
    RecoveryRequiredError(operation_id="01C"),
    UnexpectedBaseError(table=SECRET, expected=1, found=2),
    UnavailableError(action=f"read {SECRET}", reason="no disk"),
    EmbeddingError(action="embed a text", reason="no key"),
    BusyError(action=f"write {SECRET}", holder="pid 7", waited_s=1.0),
    CorruptError(subject=SECRET, problem="broken"),
)


def over_http(error: GraphError) -> GraphError:
    response = graph_error_response(error)
    return rebuild_error(
        orjson.loads(response.body),
        status=response.status,
        request=RefusedRequest(TEXT, is_write=True),
    )


def test_the_samples_are_the_whole_tree() -> None:
    tree = {
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, GraphError) and each is not GraphError
    }

    assert {type(each) for each in SAMPLES} == tree


@pytest.mark.parametrize("error", SAMPLES, ids=lambda each: type(each).__name__)
def test_an_error_is_the_same_on_the_other_side(error: GraphError) -> None:
    rebuilt = over_http(error)

    assert type(rebuilt) is type(error)
    assert (rebuilt.code, rebuilt.outcome) == (error.code, error.outcome)
    if type(error) not in WITHHELD and not isinstance(error, RecoveryRequiredError):
        assert str(rebuilt) == str(error)
        assert vars(rebuilt) == vars(error)


def test_an_error_of_recovery_names_its_operation() -> None:
    rebuilt = over_http(RecoveryRequiredError(operation_id="01C"))

    assert isinstance(rebuilt, RecoveryRequiredError)
    assert rebuilt.operation_id == "01C"


@pytest.mark.parametrize("error", SAMPLES, ids=lambda each: type(each).__name__)
def test_what_is_withheld_is_in_no_body(error: GraphError) -> None:
    response = graph_error_response(error)

    assert SECRET.encode() not in response.body
    assert b"pid 7" not in response.body


@pytest.mark.parametrize("kind", sorted(WITHHELD, key=str))
def test_an_error_with_withheld_fields_has_them_empty(kind: type[GraphError]) -> None:
    (error,) = [each for each in SAMPLES if type(each) is kind]

    fields = vars(over_http(error))

    assert fields.keys() == vars(error).keys()
    assert not any(fields.values())


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": "no", "code": "bad_request"}, RequestError),
        (401, {"error": "who?", "code": "unauthorized"}, ForbiddenError),
        (404, {"error": "gone", "code": "not_found"}, NotFoundError),
        (409, {"error": "no", "code": "conflict"}, MovedError),
        (409, {"error": "no", "code": "key_conflict"}, KeyConflictError),
        (
            409,
            {
                "error": "stale",
                "code": "conflict",
                "manifest_conflict": {"table_key": "node:P", "expected": 1, "actual": 2},
            },
            ExpectedVersionMismatchError,
        ),
        (
            409,
            {
                "error": "m",
                "code": "conflict",
                "merge_conflicts": [
                    {"table_key": "node:P", "row_id": "a", "kind": "k", "message": "m"}
                ],
            },
            MergeConflictError,
        ),
        (410, {"error": "gap", "code": "change_feed_gap"}, FeedGapError),
        (412, {"error": "no", "code": "precondition_failed"}, PreconditionFailedError),
        (413, {"error": "long", "code": "resource_limit"}, LimitExceededError),
        (429, {"error": "later", "code": "too_many_requests"}, BusyError),
        (500, {"error": "disk", "code": "unavailable"}, UnavailableError),
        (503, {"error": "look", "code": "recovery_required"}, UncertainError),
        (403, {}, ForbiddenError),
        (418, {}, RequestError),
        (502, {}, UncertainError),
    ],
)
def test_a_body_without_details_still_says_what_happened(
    status: int, body: dict[str, object], kind: type[GraphError]
) -> None:
    rebuilt = rebuild_error(body, status=status, request=RefusedRequest(None, is_write=True))

    assert type(rebuilt) is kind
    assert str(body.get("error", "")) in str(rebuilt)
    assert isinstance(rebuilt.code, str)


def test_a_read_that_failed_for_no_known_reason_changed_nothing() -> None:
    rebuilt = rebuild_error({}, status=502, request=RefusedRequest(None, is_write=False))

    assert isinstance(rebuilt, UnavailableError)


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"source_name": "q", "diagnostics": [1]},
        {
            "source_name": "q",
            "diagnostics": [
                {
                    "code": "T1",
                    "message": "m",
                    "severity": "error",
                    "span": [1],
                    "suggestion": None,
                }
            ],
        },
    ],
)
@pytest.mark.parametrize("conflicts", [None, [1], [{}], "many"])
def test_unknown_details_are_ignored(details: dict[str, object], conflicts: object) -> None:
    body = {
        "error": "no",
        "code": "bad_request",
        "error_type": "CompileError",
        "details": details,
        "merge_conflicts": conflicts,
    }

    rebuilt = rebuild_error(body, status=400, request=RefusedRequest(None, is_write=False))

    assert type(rebuilt) is RequestError
    assert str(rebuilt) == "no"
