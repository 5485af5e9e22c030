"""Receipts of stored queries, whose text stays where the query is stored.

A sealed receipt names its query and lacks the text; whoever has the text opens it again. All else
is in it, and a hash of that: what was changed is refused, as for any other receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.engine.retrieval.answers import QueryRequest, Retrieval
from omnigraph.engine.retrieval.receipts import parse_query, refuse
from omnigraph.engine.retrieval.requests import hash_query


def seal(found: Retrieval) -> Retrieval:
    """The same answer, without the text of its query in the receipt."""
    receipt = found.receipt
    assert isinstance(receipt.request, QueryRequest), "only queries have a text to keep"
    request = replace(receipt.request, query=None)
    sealed = hash_query(request, receipt.vectors)
    return replace(found, receipt=replace(receipt, request=request, query_hash=sealed))


def find_sealed(told: Mapping[str, object]) -> str | None:
    """The name of the query of a sealed receipt; None if the receipt is not sealed."""
    asked = told.get("request")
    if not isinstance(asked, Mapping) or "text" in asked or asked.get("query") is not None:
        return None
    name = asked.get("name")
    return name if isinstance(name, str) else None


def unseal(told: Mapping[str, object], text: str) -> dict[str, object]:
    """The receipt with the text of its query; `InvalidValueError` if it was changed."""
    request, vectors = parse_query(told)
    if hash_query(request, vectors) != told.get("query_hash"):
        raise refuse("its query is not the one that it was given out for")
    assert isinstance(request, QueryRequest), "only such receipts are sealed"
    asked = told["request"]
    assert isinstance(asked, Mapping), "it was just parsed"
    opened = hash_query(replace(request, query=text), vectors)
    return {**told, "request": {**asked, "query": text}, "query_hash": opened}
