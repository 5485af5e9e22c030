"""Errors over HTTP: each has a status and a code, and none discloses internals."""

import errno
import re
from collections.abc import Mapping
from typing import get_args

import orjson
import pytest

from omnigraph.http.responses import ErrorCode
from omnigraph.model import errors
from omnigraph.model.errors import (
    BusyError,
    Conflict,
    CorruptError,
    ExpectedVersionMismatchError,
    GraphError,
    KeyConflictError,
    MergeConflictError,
    NotFoundError,
    PreconditionFailedError,
    RecoveryRequiredError,
    UnavailableError,
    UnexpectedBaseError,
)
from omnigraph.server.responses import (
    STATUS_BY_CODE,
    Response,
    graph_error_response,
    http_error_response,
    internal_error_response,
    not_found,
    too_many,
)
from omnigraph.storage.errors import storage_errors
from tests.support.source_tree import ROOT

PATH = "/srv/secret/place"


ERRORS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, GraphError) and each is not GraphError
]


def test_every_error_has_a_status() -> None:
    without = {each.__name__ for each in ERRORS if each.code not in STATUS_BY_CODE}

    assert not without


def test_every_error_has_a_code_that_is_documented() -> None:
    undocumented = {each.code for each in ERRORS} - set(get_args(ErrorCode))

    assert not undocumented


def test_only_a_write_that_has_to_be_recovered_is_a_503() -> None:
    unavailable = {code for code, status in STATUS_BY_CODE.items() if status == 503}

    assert unavailable == {"recovery_required"}


def test_a_stale_view_says_of_what() -> None:
    error = ExpectedVersionMismatchError(table_key="node:Person", expected=4, actual=5)

    response = graph_error_response(error)

    assert response.status == 409
    assert _body(response)["code"] == "conflict"
    assert _body(response)["manifest_conflict"] == {
        "table_key": "node:Person",
        "expected": 4,
        "actual": 5,
    }
    assert "merge_conflicts" not in _body(response)


def test_conflicts_of_a_merge_are_listed_and_the_message_names_three() -> None:
    error = MergeConflictError(conflicts=[_conflict(id) for id in "abcde"])

    response = graph_error_response(error)

    body = _body(response)
    assert response.status == 409
    assert body["error"] == (
        "merge conflicts: node:Person:a (divergent_update); node:Person:b (divergent_update); "
        "node:Person:c (divergent_update); and 2 more"
    )
    listed = body["merge_conflicts"]
    assert isinstance(listed, list)
    assert len(listed) == 5
    assert listed[0] == {
        "table_key": "node:Person",
        "row_id": "a",
        "kind": "divergent_update",
        "message": "both changed a",
    }


def test_a_message_about_three_conflicts_names_all() -> None:
    error = MergeConflictError(conflicts=[_conflict(id) for id in "abc"])

    assert "more" not in str(_body(graph_error_response(error))["error"])


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFoundError(kind="branch", name="x", advice=""), 404, "not_found"),
        (KeyConflictError(type="Person", id="x"), 409, "key_conflict"),
        (PreconditionFailedError(expected="a", actual="b"), 412, "precondition_failed"),
        (RecoveryRequiredError(operation_id="01X"), 503, "recovery_required"),
        (UnexpectedBaseError(table=PATH, expected=1, found=2), 503, "recovery_required"),
        (UnavailableError(action=f"read {PATH}", reason=PATH), 500, "unavailable"),
        (BusyError(action=PATH, holder=PATH, waited_s=1), 429, "too_many_requests"),
        (CorruptError(subject=PATH, problem=PATH), 500, "internal"),
        (NotFoundError(kind="graph", name=PATH, advice=""), 500, "internal"),
    ],
)
def test_a_response_has_a_status_and_a_code_and_no_path(
    error: GraphError, status: int, code: str
) -> None:
    response = graph_error_response(error)

    assert response.status == status
    assert _body(response)["code"] == code
    assert PATH.encode() not in response.body


def test_a_refused_request_states_when_to_retry() -> None:
    response = http_error_response(too_many("enough"))

    assert response.status == 429
    assert (b"retry-after", b"60") in response.headers


def test_a_refusal_has_an_error_and_a_code() -> None:
    response = http_error_response(not_found("graph 'x' not found"))

    assert (response.status, response.content_type) == (404, b"application/json")
    assert _body(response) == {"error": "graph 'x' not found", "code": "not_found"}


def test_an_unexpected_error_shows_only_its_request_id() -> None:
    response = internal_error_response("r1")

    assert response.status == 500
    assert _body(response)["code"] == "internal"
    assert "r1" in str(_body(response)["error"])


def _conflict(id: str) -> Conflict:
    row: Mapping[str, object] = {"name": id}
    return Conflict("Person", id, "divergent_update", f"both changed {id}", row, row, row)


def _body(response: Response) -> dict[str, object]:
    body = orjson.loads(response.body)
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_reported_as_such_and_without_its_path(number: int) -> None:
    with pytest.raises(UnavailableError) as raised, storage_errors("write /secret/graph"):
        raise OSError(number, "no space")

    response = graph_error_response(raised.value)

    body = _body(response)
    assert "disk of this graph is full; nothing was written" in str(body["error"])
    assert "/secret" not in str(body)


STATUS_ROW = re.compile(r"^\| (\d{3}) \| `(\w+)` \|", re.MULTILINE)


@pytest.mark.parametrize("page", ["http.md", "server.md"])
def test_a_reference_page_lists_every_status_with_its_code(page: str) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    listed = {(int(status), code) for status, code in STATUS_ROW.findall(text)}
    of_errors = {(status, code) for code, status in STATUS_BY_CODE.items()}
    of_requests = {
        (405, "method_not_allowed"),
        (408, "bad_request"),
        (415, "bad_request"),
        (422, "bad_request"),
        (431, "bad_request"),
    }

    assert listed == of_errors | of_requests
