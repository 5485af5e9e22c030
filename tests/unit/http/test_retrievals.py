"""A retrieval that went over HTTP is the one that was sent; a body of another shape is none."""

from __future__ import annotations

import json

import pytest

from omnigraph.engine.retrieval.results import (
    ArmRank,
    NodeName,
    Passage,
    PathStep,
    Place,
    QueryRequest,
    QueryVector,
    Receipt,
    Request,
    Retrieval,
)
from omnigraph.http.retrievals import retrieval_of, retrieval_output

BY_TEXT = Request("fox", ("Memo",), None, 1, 10, 2_000, 1.0, 0.5, "utf8/4")
BY_QUERY = QueryRequest(
    query=None,
    name="q",
    params={"a": 1, "b": ("x", None), "v": (0.5, 1.0)},
    now="2026-01-01T00:00:00.000Z",
    edges=(),
    hops=2,
    budget_tokens=5,
    counted_by="utf8/4",
)


def make_retrieval(request: Request | QueryRequest) -> Retrieval:
    """Two passages, one of which was reached over an edge."""
    first, second = NodeName("Memo", "m"), NodeName("Tag", 't"ü')
    arms = (ArmRank("bm25(Memo.note)", 1, 0.25), ArmRank("q", 2, None))
    places = (
        Place(1, first, 1 / 61, arms, first, (), is_cut=False),
        Place(3, second, 0.0, (), first, (PathStep("Marks", "in", second),), is_cut=True),
    )
    receipt = Receipt(
        commit_id="c",
        query_hash="h",
        request=request,
        vectors=(QueryVector(None, None, (1.0, 0.1)), QueryVector("A", "t", (0.5,))),
        arms=("bm25(Memo.note)", "q"),
        places=places,
        left_out=1,
        tokens=2,
        text_hash="x",
    )
    passages = tuple(Passage(each, {"n": 1, "s": None}, each.node.id) for each in places)
    return Retrieval(passages, "text", 2, 1, receipt)


@pytest.mark.parametrize("request_", [BY_TEXT, BY_QUERY], ids=["by text", "by query"])
def test_a_retrieval_is_decoded_as_it_was_encoded(request_: Request | QueryRequest) -> None:
    found = make_retrieval(request_)

    body = json.loads(json.dumps(retrieval_output(found)))

    assert retrieval_of(body) == found


@pytest.mark.parametrize("request_", [BY_TEXT, BY_QUERY], ids=["by text", "by query"])
@pytest.mark.parametrize("wrong", [None, 5, "x", [], [1], {}, {"type": 1}])
def test_a_body_of_another_shape_is_refused(
    request_: Request | QueryRequest, wrong: object
) -> None:
    body = json.loads(json.dumps(retrieval_output(make_retrieval(request_))))
    changed = [
        {**body, "receipt": wrong},
        {**body, "passages": wrong},
        {**body, "receipt": {**body["receipt"], "places": [wrong]}},
        {**body, "receipt": {**body["receipt"], "vectors": [wrong]}},
        {**body, "receipt": {**body["receipt"], "request": wrong}},
    ]

    for each in changed:
        with pytest.raises((KeyError, TypeError, ValueError)):
            retrieval_of(each)
