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


def retrieval_of(told: Body) -> Retrieval:
    """Decode a retrieval from a response body."""
    receipt = receipt_of(_object_of(told["receipt"]))
    passages = zip(list_of(told["passages"]), receipt.places, strict=True)
    return Retrieval(
        passages=tuple(
            Passage(place, _object_of(each["properties"]), str(each["text"]))
            for each, place in passages
        ),
        text=str(told["text"]),
        tokens=number_of(told["tokens"]),
        left_out=number_of(told["left_out"]),
        receipt=receipt,
    )


def receipt_of(told: Body) -> Receipt:
    """Decode a receipt; the function does not check whether the receipt was modified."""
    asked = _object_of(told["request"])
    return Receipt(
        commit_id=str(told["commit_id"]),
        query_hash=str(told["query_hash"]),
        request=_request_of(asked) if "text" in asked else _query_request_of(asked),
        vectors=tuple(map(_vector_of, list_of(told["vectors"]))),
        arms=_texts_of(told["arms"]),
        places=tuple(map(_place_of, list_of(told["places"]))),
        left_out=number_of(told["left_out"]),
        tokens=number_of(told["tokens"]),
        text_hash=str(told["text_hash"]),
        format=number_of(told["format"]),
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


def _request_of(told: Body) -> Request:
    return Request(
        text=str(told["text"]),
        types=_names_of(told["types"]),
        edges=_names_of(told["edges"]),
        hops=number_of(told["hops"]),
        k=number_of(told["k"]),
        budget_tokens=number_of(told["budget_tokens"]),
        word_weight=_float_of(told["word_weight"]),
        vector_weight=_float_of(told["vector_weight"]),
        counted_by=str(told["counted_by"]),
    )


def _query_request_of(told: Body) -> QueryRequest:
    params = _object_of(told["params"])
    return QueryRequest(
        query=text_or_none(told["query"]),
        name=str(told["name"]),
        params={name: _frozen(value) for name, value in params.items()},
        now=text_or_none(told["now"]),
        edges=_names_of(told["edges"]),
        hops=number_of(told["hops"]),
        budget_tokens=number_of(told["budget_tokens"]),
        counted_by=str(told["counted_by"]),
    )


def _vector_of(told: Body) -> QueryVector:
    numbers = told["numbers"]
    if not isinstance(numbers, list):
        raise TypeError("a vector is a list of numbers")
    return QueryVector(
        model=text_or_none(told["model"]),
        text_hash=text_or_none(told["text_hash"]),
        numbers=tuple(map(_float_of, numbers)),
    )


def _place_of(told: Body) -> Place:
    return Place(
        rank=number_of(told["rank"]),
        node=_node_of(told["node"]),
        score=_float_of(told["score"]),
        arms=tuple(map(_arm_of, list_of(told["arms"]))),
        seed=_node_of(told["seed"]),
        path=tuple(map(_step_of, list_of(told["path"]))),
        is_cut=told["is_cut"] is True,
    )


def _arm_of(told: Body) -> ArmRank:
    score = told["score"]
    return ArmRank(
        arm=str(told["arm"]),
        rank=number_of(told["rank"]),
        score=None if score is None else _float_of(score),
    )


def _step_of(told: Body) -> PathStep:
    return PathStep(str(told["edge"]), str(told["direction"]), _node_of(told["node"]))


def _node_of(told: object) -> NodeName:
    node = _object_of(told)
    return NodeName(str(node["type"]), str(node["id"]))


def _names_of(told: object) -> tuple[str, ...] | None:
    return None if told is None else _texts_of(told)


def _texts_of(told: object) -> tuple[str, ...]:
    if not isinstance(told, list):
        raise TypeError("a list of names is needed")
    return tuple(map(str, told))


def _float_of(told: object) -> float:
    if not isinstance(told, int | float):
        raise TypeError("a number is needed")
    return float(told)


def _object_of(told: object) -> Mapping[str, object]:
    if not isinstance(told, dict):
        raise TypeError("an object is needed")
    return told


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
