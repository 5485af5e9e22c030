"""Retrieval results and receipts: encoding as response bodies, and decoding.

Encoding and decoding are exact inverses. A body of the wrong shape raises `ValueError`. Decoding
does not check whether a receipt was modified.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from omnigraph.engine.retrieval.results import Passage, QueryRequest, Receipt, Retrieval
from omnigraph.http.decode import Body
from omnigraph.http.responses import PassageOutput, RetrievalOutput

_BODY = TypeAdapter(RetrievalOutput)
_RECEIPT = TypeAdapter(Receipt)


def retrieval_output(found: Retrieval) -> RetrievalOutput:
    """Encode a retrieval with its receipt."""
    return {
        "text": found.text,
        "tokens": found.tokens,
        "left_out": found.left_out,
        "passages": [_passage_output(each) for each in found.passages],
        "receipt": found.receipt.to_json(),
    }


def retrieval_of(encoded: Body) -> Retrieval:
    """Decode a retrieval from a response body."""
    try:
        body = _BODY.validate_python(encoded)
        receipt = _RECEIPT.validate_python(body["receipt"])
    except ValidationError as error:
        # The text of this error spans several lines and quotes the body.
        raise ValueError(".".join(map(str, error.errors()[0]["loc"]))) from error
    if isinstance(receipt.request, QueryRequest):
        params = {name: _frozen(value) for name, value in receipt.request.params.items()}
        receipt = replace(receipt, request=replace(receipt.request, params=params))
    passages = zip(receipt.places, body["passages"], strict=True)
    return Retrieval(
        passages=tuple(
            Passage(place, each["properties"], each["text"]) for place, each in passages
        ),
        text=body["text"],
        tokens=body["tokens"],
        left_out=body["left_out"],
        receipt=receipt,
    )


def _passage_output(passage: Passage) -> PassageOutput:
    return {
        "rank": passage.rank,
        "type": passage.type,
        "id": passage.id,
        "score": passage.place.score,
        "text": passage.text,
        "properties": dict(passage.properties),
    }


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
