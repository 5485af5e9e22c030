"""Retrieval results and receipts: encoding as response bodies, and decoding.

Encoding and decoding are exact inverses. A body of the wrong shape raises `KeyError`, `TypeError`
or `ValueError`.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from omnigraph.http.decode import Body, list_of, number_of, text_or_none
from omnigraph.http.responses import PassageOutput, RetrievalOutput


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
    receipt = receipt_of(_object_of(encoded["receipt"]))
    passages = zip(list_of(encoded["passages"]), receipt.places, strict=True)
    return Retrieval(
        passages=tuple(
            Passage(place, _object_of(each["properties"]), str(each["text"]))
            for each, place in passages
        ),
        text=str(encoded["text"]),
        tokens=number_of(encoded["tokens"]),
        left_out=number_of(encoded["left_out"]),
        receipt=receipt,
    )


def receipt_of(encoded: Body) -> Receipt:
    """Decode a receipt; the function does not check whether the receipt was modified."""
    request = _object_of(encoded["request"])
    return Receipt(
        commit_id=str(encoded["commit_id"]),
        query_hash=str(encoded["query_hash"]),
        request=_request_of(request) if "text" in request else _query_request_of(request),
        vectors=tuple(map(_vector_of, list_of(encoded["vectors"]))),
        arms=_texts_of(encoded["arms"]),
        places=tuple(map(_place_of, list_of(encoded["places"]))),
        left_out=number_of(encoded["left_out"]),
        tokens=number_of(encoded["tokens"]),
        text_hash=str(encoded["text_hash"]),
        format=number_of(encoded["format"]),
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


def _request_of(encoded: Body) -> Request:
    return Request(
        text=str(encoded["text"]),
        types=_names_of(encoded["types"]),
        edges=_names_of(encoded["edges"]),
        hops=number_of(encoded["hops"]),
        k=number_of(encoded["k"]),
        budget_tokens=number_of(encoded["budget_tokens"]),
        word_weight=_float_of(encoded["word_weight"]),
        vector_weight=_float_of(encoded["vector_weight"]),
        counted_by=str(encoded["counted_by"]),
    )


def _query_request_of(encoded: Body) -> QueryRequest:
    params = _object_of(encoded["params"])
    return QueryRequest(
        query=text_or_none(encoded["query"]),
        name=str(encoded["name"]),
        params={name: _frozen(value) for name, value in params.items()},
        now=text_or_none(encoded["now"]),
        edges=_names_of(encoded["edges"]),
        hops=number_of(encoded["hops"]),
        budget_tokens=number_of(encoded["budget_tokens"]),
        counted_by=str(encoded["counted_by"]),
    )


def _vector_of(encoded: Body) -> QueryVector:
    numbers = encoded["numbers"]
    if not isinstance(numbers, list):
        raise TypeError("a vector is a list of numbers")
    return QueryVector(
        model=text_or_none(encoded["model"]),
        text_hash=text_or_none(encoded["text_hash"]),
        numbers=tuple(map(_float_of, numbers)),
    )


def _place_of(encoded: Body) -> Place:
    return Place(
        rank=number_of(encoded["rank"]),
        node=_node_of(encoded["node"]),
        score=_float_of(encoded["score"]),
        arms=tuple(map(_arm_of, list_of(encoded["arms"]))),
        seed=_node_of(encoded["seed"]),
        path=tuple(map(_step_of, list_of(encoded["path"]))),
        is_cut=encoded["is_cut"] is True,
    )


def _arm_of(encoded: Body) -> ArmRank:
    score = encoded["score"]
    return ArmRank(
        arm=str(encoded["arm"]),
        rank=number_of(encoded["rank"]),
        score=None if score is None else _float_of(score),
    )


def _step_of(encoded: Body) -> PathStep:
    return PathStep(str(encoded["edge"]), str(encoded["direction"]), _node_of(encoded["node"]))


def _node_of(encoded: object) -> NodeName:
    node = _object_of(encoded)
    return NodeName(str(node["type"]), str(node["id"]))


def _names_of(encoded: object) -> tuple[str, ...] | None:
    return None if encoded is None else _texts_of(encoded)


def _texts_of(encoded: object) -> tuple[str, ...]:
    if not isinstance(encoded, list):
        raise TypeError("a list of names is needed")
    return tuple(map(str, encoded))


def _float_of(encoded: object) -> float:
    if not isinstance(encoded, int | float):
        raise TypeError("a number is needed")
    return float(encoded)


def _object_of(encoded: object) -> Mapping[str, object]:
    if not isinstance(encoded, dict):
        raise TypeError("an object is needed")
    return encoded


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
