"""Receipts that come back: what they ask for, and whether an answer is the one they tell of.

A receipt may have been kept as JSON by anybody, so nothing in it is believed: the query has to
hash to what the receipt says, and the answer has to be the one it describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.retrieval.answers import (
    RECEIPT_FORMAT,
    QueryRequest,
    QueryVector,
    Receipt,
    Request,
    TokenCount,
)
from omnigraph.engine.retrieval.packing import BYTES_RULE
from omnigraph.engine.retrieval.requests import (
    hash_query,
    parse_query_request,
    parse_request,
    parse_vector,
    tell,
)
from omnigraph.model.arguments import require_text
from omnigraph.model.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Replay:
    """A query to be asked again at a commit, and all that is known of its answer."""

    commit_id: str
    request: Request | QueryRequest
    vectors: tuple[QueryVector, ...]
    told: Mapping[str, object]


def parse_receipt(given: object, *, count_tokens: TokenCount | None) -> Replay:
    """What a receipt asks for; `InvalidValueError` if it is none, or not as it was given out."""
    told = tell_receipt(given)
    if told.get("format") != RECEIPT_FORMAT:
        raise refuse(
            f"its format is {tell(told.get('format'))}; only {RECEIPT_FORMAT} is known here"
        )
    commit_id = told.get("commit_id")
    if not isinstance(commit_id, str):
        raise refuse("its commit is missing")
    request, sought = parse_query(told)
    if hash_query(request, sought) != told.get("query_hash"):
        raise refuse("its query is not the one that it was given out for")
    if isinstance(request, QueryRequest) and request.query is None:
        raise refuse("the text of its query is kept by a server; replay it there")
    if (request.counted_by == BYTES_RULE) != (count_tokens is None):
        raise InvalidValueError(
            subject="count_tokens",
            expected="what counted the tokens of the receipt",
            value=None,
            problem="tokens were counted by the caller's own function; give it again"
            if count_tokens is None
            else "tokens were not counted by a function of the caller; give none",
        )
    return Replay(commit_id, request, sought, told)


def tell_receipt(given: object) -> Mapping[str, object]:
    """A receipt as JSON, if it is not that already; `InvalidValueError` if it is none."""
    told = given.to_json() if isinstance(given, Receipt) else given
    if not isinstance(told, Mapping):
        raise refuse(f"a receipt, or one as JSON, is needed, not a {type(given).__name__}")
    return told


def parse_query(
    told: Mapping[str, object],
) -> tuple[Request | QueryRequest, tuple[QueryVector, ...]]:
    """What a receipt was given out for; whether that was changed is not looked at."""
    asked, vectors = told.get("request"), told.get("vectors")
    if not (isinstance(asked, Mapping) and isinstance(vectors, list)):
        raise refuse("its request or vectors are missing")
    request = parse_request(asked) if "text" in asked else parse_query_request(asked)
    return request, tuple(map(_parse_sought, vectors))


def require_same(receipt: Receipt, replay: Replay) -> None:
    """Raise unless an answer is the one that a receipt tells of."""
    if receipt.to_json() != replay.told:
        raise refuse(
            f"commit {replay.commit_id} answers otherwise now: the receipt was changed, or you "
            "see more or less of the graph than whoever it was given to"
        )


def refuse(problem: str) -> InvalidValueError:
    """The error for a receipt that cannot be replayed."""
    return InvalidValueError(
        subject="receipt", expected="a receipt of this graph", value=None, problem=problem
    )


def _parse_sought(given: object) -> QueryVector:
    if not isinstance(given, Mapping):
        raise refuse("a vector of it is none")
    model, made_of = (_parse_word(given.get(each)) for each in ("model", "text_hash"))
    return QueryVector(model, made_of, parse_vector(given.get("numbers")))


def _parse_word(given: object) -> str | None:
    if given is None:
        return None
    require_text(given, subject="receipt")
    assert isinstance(given, str), "it was just looked at"
    return given
