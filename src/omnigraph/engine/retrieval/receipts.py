"""Retrieval receipts: parsing, comparison with a result, and redaction.

A receipt comes from the caller and is not trusted: its request must match its hash, and the
replayed result must match its description. A redacted receipt names a stored query and omits its
text. It becomes replayable when the text is restored, and any other modification is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.engine.retrieval.requests import (
    describe_value,
    hash_query,
    parse_query_request,
    parse_request,
    parse_vector,
)
from omnigraph.engine.retrieval.results import (
    BYTES_RULE,
    RECEIPT_FORMAT,
    QueryRequest,
    QueryVector,
    Receipt,
    Request,
    Retrieval,
    TokenCount,
    refuse_receipt,
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import require_text


@dataclass(frozen=True, slots=True)
class Replay:
    """A request to repeat at a commit; `receipt` is the receipt that describes its result."""

    commit_id: str
    request: Request | QueryRequest
    vectors: tuple[QueryVector, ...]
    receipt: Mapping[str, object]


def parse_receipt(given: object, *, count_tokens: TokenCount | None) -> Replay:
    """Parse a receipt for a replay; `InvalidValueError` if it is malformed or was modified."""
    receipt = receipt_json(given)
    if receipt.get("format") != RECEIPT_FORMAT:
        found = describe_value(receipt.get("format"))
        raise refuse_receipt(f"its format is {found}; only {RECEIPT_FORMAT} is supported")
    commit_id = receipt.get("commit_id")
    if not isinstance(commit_id, str):
        raise refuse_receipt("its commit is missing")
    request, vectors = _parse_unchanged(receipt)
    if isinstance(request, QueryRequest) and request.query is None:
        raise refuse_receipt("a server holds the text of its query; replay it there")
    if (request.counted_by == BYTES_RULE) != (count_tokens is None):
        raise InvalidValueError(
            subject="count_tokens",
            expected="what counted the tokens of the receipt",
            value=None,
            problem="tokens were counted by the caller's own function; give it again"
            if count_tokens is None
            else "tokens were not counted by a function of the caller; give none",
        )
    return Replay(commit_id, request, vectors, receipt)


def receipt_json(given: object) -> Mapping[str, object]:
    """A receipt as JSON, converted if necessary; `InvalidValueError` if it is not a receipt."""
    receipt = given.to_json() if isinstance(given, Receipt) else given
    if not isinstance(receipt, Mapping):
        raise refuse_receipt(f"a receipt, or one as JSON, is needed, not a {type(given).__name__}")
    return receipt


def parse_query(
    receipt: Mapping[str, object],
) -> tuple[Request | QueryRequest, tuple[QueryVector, ...]]:
    """The request and vectors of a receipt; the hash of the receipt is not checked."""
    arguments, vectors = receipt.get("request"), receipt.get("vectors")
    if not (isinstance(arguments, Mapping) and isinstance(vectors, list)):
        raise refuse_receipt("its request or vectors are missing")
    request = parse_request(arguments) if "text" in arguments else parse_query_request(arguments)
    return request, tuple(map(_parse_vector, vectors))


def _parse_unchanged(
    receipt: Mapping[str, object],
) -> tuple[Request | QueryRequest, tuple[QueryVector, ...]]:
    request, vectors = parse_query(receipt)
    if hash_query(request, vectors) != receipt.get("query_hash"):
        raise refuse_receipt("its query does not match its hash")
    return request, vectors


def require_same(receipt: Receipt, replay: Replay) -> None:
    """Raise `InvalidValueError` unless a result is the one that the receipt describes."""
    if receipt.to_json() != replay.receipt:
        raise refuse_receipt(
            f"commit {replay.commit_id} gives another result now: the receipt was changed, or you "
            "see another part of the graph than the caller who received it"
        )


def _parse_vector(given: object) -> QueryVector:
    if not isinstance(given, Mapping):
        raise refuse_receipt("one of its vectors is not valid")
    model, made_of = (_parse_word(given.get(each)) for each in ("model", "text_hash"))
    return QueryVector(model, made_of, parse_vector(given.get("numbers")))


def _parse_word(given: object) -> str | None:
    if given is None:
        return None
    require_text(given, subject="receipt")
    assert isinstance(given, str), "it was just checked"
    return given


def redact(found: Retrieval) -> Retrieval:
    """The same result, with a receipt that omits the text of the query."""
    receipt = found.receipt
    assert isinstance(receipt.request, QueryRequest), "only queries have a text to keep"
    request = replace(receipt.request, query=None)
    redacted = hash_query(request, receipt.vectors)
    return replace(found, receipt=replace(receipt, request=request, query_hash=redacted))


def find_redacted_query(receipt: Mapping[str, object]) -> str | None:
    """The name of the query of a redacted receipt; None if the receipt is not redacted."""
    arguments = receipt.get("request")
    if (
        not isinstance(arguments, Mapping)
        or "text" in arguments
        or arguments.get("query") is not None
    ):
        return None
    name = arguments.get("name")
    return name if isinstance(name, str) else None


def restore(receipt: Mapping[str, object], text: str) -> dict[str, object]:
    """The receipt with the text of its query; `InvalidValueError` if the receipt was modified."""
    request, vectors = _parse_unchanged(receipt)
    assert isinstance(request, QueryRequest), "only such receipts are sealed"
    arguments = receipt["request"]
    assert isinstance(arguments, Mapping), "it was just parsed"
    opened = hash_query(replace(request, query=text), vectors)
    return {**receipt, "request": {**arguments, "query": text}, "query_hash": opened}
