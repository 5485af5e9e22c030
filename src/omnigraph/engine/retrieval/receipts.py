"""Receipts that come back: what they ask for, and whether an answer is the one they tell of.

A receipt may have been kept as JSON by anybody, so nothing in it is believed: the query has to
hash to what the receipt says, and the answer has to be the one it describes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.retrieval.answers import (
    RECEIPT_FORMAT,
    QueryVector,
    Receipt,
    Request,
    TokenCount,
)
from omnigraph.engine.retrieval.packing import BYTES_RULE
from omnigraph.engine.retrieval.requests import hash_query, parse_request, parse_vector
from omnigraph.model.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Replay:
    """A query to be asked again at a commit, and all that is known of its answer."""

    commit_id: str
    request: Request
    vectors: tuple[QueryVector, ...]
    told: Mapping[str, object]


def parse_receipt(given: object, *, count_tokens: TokenCount | None) -> Replay:
    """What a receipt asks for; `InvalidValueError` if it is none, or not as it was given out."""
    told = given.to_json() if isinstance(given, Receipt) else given
    if not isinstance(told, Mapping):
        raise _refuse(f"a receipt, or one as JSON, is needed, not a {type(given).__name__}")
    if told.get("format") != RECEIPT_FORMAT:
        raise _refuse(f"its format is {told.get('format')!r}; only {RECEIPT_FORMAT} is known here")
    commit_id, asked, vectors = (told.get(each) for each in ("commit_id", "request", "vectors"))
    if not (
        isinstance(commit_id, str) and isinstance(asked, Mapping) and isinstance(vectors, list)
    ):
        raise _refuse("its commit, request or vectors are missing")
    request = parse_request(asked)
    sought = tuple(map(_parse_sought, vectors))
    if hash_query(request, sought) != told.get("query_hash"):
        raise _refuse("its query is not the one that it was given out for")
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


def require_same(receipt: Receipt, replay: Replay) -> None:
    """Raise unless an answer is the one that a receipt tells of."""
    if receipt.to_json() != replay.told:
        raise _refuse(
            f"commit {replay.commit_id} answers otherwise now: the receipt was changed, or you "
            "see more or less of the graph than whoever it was given to"
        )


def _parse_sought(given: object) -> QueryVector:
    model = given.get("model") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not (model is None or isinstance(model, str)):
        raise _refuse("a vector of it is none")
    return QueryVector(model, parse_vector(given.get("numbers")))


def _refuse(problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="receipt", expected="a receipt of this graph", value=None, problem=problem
    )
