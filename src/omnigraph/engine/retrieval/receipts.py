"""Retrieval receipts: parsing, comparison with a result, and redaction.

A receipt comes from the caller and is not trusted: its request must match its hash, and the
replayed result must match its description. A redacted receipt names a stored query and omits its
text. It becomes replayable when the text is restored, and any other modification is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.engine.retrieval.requests import (
    hash_query,
    parse_query_request,
    parse_request,
    parse_vector,
    tell,
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
)
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import require_text


@dataclass(frozen=True, slots=True)
class Replay:
    """A request to repeat at a commit; `told` is the receipt that describes its result."""

    commit_id: str
    request: Request | QueryRequest
    vectors: tuple[QueryVector, ...]
    told: Mapping[str, object]


def parse_receipt(given: object, *, count_tokens: TokenCount | None) -> Replay:
    """Parse a receipt for a replay; `InvalidValueError` if it is malformed or was modified."""
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
    """A receipt as JSON, converted if necessary; `InvalidValueError` if it is not a receipt."""
    told = given.to_json() if isinstance(given, Receipt) else given
    if not isinstance(told, Mapping):
        raise refuse(f"a receipt, or one as JSON, is needed, not a {type(given).__name__}")
    return told


def parse_query(
    told: Mapping[str, object],
) -> tuple[Request | QueryRequest, tuple[QueryVector, ...]]:
    """The request and vectors of a receipt; the hash of the receipt is not checked."""
    asked, vectors = told.get("request"), told.get("vectors")
    if not (isinstance(asked, Mapping) and isinstance(vectors, list)):
        raise refuse("its request or vectors are missing")
    request = parse_request(asked) if "text" in asked else parse_query_request(asked)
    return request, tuple(map(_parse_sought, vectors))


def require_same(receipt: Receipt, replay: Replay) -> None:
    """Raise `InvalidValueError` unless a result is the one that the receipt describes."""
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


def redact(found: Retrieval) -> Retrieval:
    """The same result, with a receipt that omits the text of the query."""
    receipt = found.receipt
    assert isinstance(receipt.request, QueryRequest), "only queries have a text to keep"
    request = replace(receipt.request, query=None)
    sealed = hash_query(request, receipt.vectors)
    return replace(found, receipt=replace(receipt, request=request, query_hash=sealed))


def find_sealed(told: Mapping[str, object]) -> str | None:
    """The name of the query of a redacted receipt; None if the receipt is not redacted."""
    asked = told.get("request")
    if not isinstance(asked, Mapping) or "text" in asked or asked.get("query") is not None:
        return None
    name = asked.get("name")
    return name if isinstance(name, str) else None


def restore(told: Mapping[str, object], text: str) -> dict[str, object]:
    """The receipt with the text of its query; `InvalidValueError` if the receipt was modified."""
    request, vectors = parse_query(told)
    if hash_query(request, vectors) != told.get("query_hash"):
        raise refuse("its query is not the one that it was given out for")
    assert isinstance(request, QueryRequest), "only such receipts are sealed"
    asked = told["request"]
    assert isinstance(asked, Mapping), "it was just parsed"
    opened = hash_query(replace(request, query=text), vectors)
    return {**told, "request": {**asked, "query": text}, "query_hash": opened}
