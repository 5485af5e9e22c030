"""The routes that retrieve context for an agent, by a text or by a query, and that replay it.

Callers of a stored query do not see its text, so its receipts are redacted and restored here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from omnigraph.engine.graph import Graph
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.retrieval.receipts import find_sealed, redact, restore
from omnigraph.engine.retrieval.results import Retrieval
from omnigraph.http.retrievals import retrieval_output
from omnigraph.http.stored_queries import StoredQuery
from omnigraph.model.errors import CompileError
from omnigraph.model.limits import (
    BODY_BYTES_MAX,
    BUDGET_TOKENS,
    FOUND,
    HOPS,
    RECEIPT_BODY_BYTES_MAX,
)
from omnigraph.model.ports import Action
from omnigraph.server.context import GRAPH, Body, RequestContext, Route
from omnigraph.server.requests import (
    REPLAY,
    RETRIEVE,
    RETRIEVE_BY,
    RETRIEVE_STORED,
    ReplayRequest,
    RetrieveByRequest,
    RetrieveRequest,
    RetrieveStoredRequest,
)
from omnigraph.server.responses import Response, answer_json, bad_request
from omnigraph.server.routes.parameters import (
    ReadTarget,
    is_of_wrong_kind,
    parse_params,
    parse_place,
    translate_compile_errors,
    with_commit,
)
from omnigraph.server.routes.queries import get_query, hide_stored_text

T = TypeVar("T")

_ADVICE = "a retrieval starts from nodes that a read returns; POST /mutate changes the graph"


async def retrieve(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/retrieve"""
    asked = RETRIEVE.read(call.body)
    place = _find_place(call, asked)

    def work(graph: Graph) -> Retrieval:
        with translate_compile_errors(advice=_ADVICE):
            return graph.retrieve(
                asked.text,
                types=asked.types,
                hops=_or(asked.hops, HOPS),
                edges=asked.edges,
                k=_or(asked.k, FOUND),
                budget_tokens=_or(asked.budget_tokens, BUDGET_TOKENS),
                branch=place.branch,
                commit=place.commit,
                vector=asked.vector,
                word_weight=_or(asked.word_weight, 1.0),
                vector_weight=_or(asked.vector_weight, 1.0),
                limits=_limits(call, asked),
            )

    return await call.read(partial(_answer, work))


async def retrieve_by(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/retrieve-by"""
    asked = RETRIEVE_BY.read(call.body)
    place, params = _find_place(call, asked), parse_params(asked.params)

    def work(graph: Graph) -> Retrieval:
        with translate_compile_errors(advice=_ADVICE):
            return graph.retrieve_by(
                asked.query,
                params,
                name=asked.name,
                hops=_or(asked.hops, HOPS),
                edges=asked.edges,
                budget_tokens=_or(asked.budget_tokens, BUDGET_TOKENS),
                branch=place.branch,
                commit=place.commit,
                limits=_limits(call, asked),
            )

    return await call.read(partial(_answer, work))


async def retrieve_stored(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/queries/{name}/retrieve"""
    stored = _get_read(call, call.name("name"))
    asked = RETRIEVE_STORED.read_optional(call.body, subject="retrieval body")
    place, params = _find_place(call, asked), parse_params(asked.params)

    def work(graph: Graph) -> Retrieval:
        with translate_compile_errors(advice=_ADVICE), _keeping_text_of(stored):
            found = graph.retrieve_by(
                stored.source.text,
                params,
                name=stored.name,
                hops=_or(asked.hops, HOPS),
                edges=asked.edges,
                budget_tokens=_or(asked.budget_tokens, BUDGET_TOKENS),
                branch=place.branch,
                commit=place.commit,
                limits=_limits(call, asked),
            )
        return redact(found)

    return await call.read(partial(_answer, work))


async def replay(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/replay"""
    asked = REPLAY.read(call.body)
    limits, name = _limits(call, asked), find_sealed(asked.receipt)
    stored = None if name is None else _get_read(call, name)

    def work(graph: Graph) -> Retrieval:
        with translate_compile_errors(advice=_ADVICE):
            if stored is None:
                return graph.replay(asked.receipt, limits=limits)
            receipt = restore(asked.receipt, stored.source.text)
            with _keeping_text_of(stored):
                return redact(graph.replay(receipt, limits=limits))

    return await call.read(partial(_answer, work))


def _answer(work: Callable[[Graph], Retrieval], graph: Graph) -> Response:
    """The result, encoded on the thread that found it."""
    found = work(graph)
    return with_commit(answer_json(retrieval_output(found)), found.receipt.commit_id)


def _find_place(
    call: RequestContext, asked: RetrieveRequest | RetrieveByRequest | RetrieveStoredRequest
) -> ReadTarget:
    """The target of a read; access to a commit is checked by its branch, once that is known."""
    place = parse_place(asked.branch, asked.snapshot)
    if place.branch is not None:
        call.require(Action.READ, branch=place.branch, target=None)
    return place


def _limits(
    call: RequestContext,
    asked: RetrieveRequest | RetrieveByRequest | RetrieveStoredRequest | ReplayRequest,
) -> CallLimits:
    return replace(call.limits, seconds_max=asked.seconds_max, bytes_max=asked.bytes_max)


def _get_read(call: RequestContext, name: str) -> StoredQuery:
    stored = get_query(call, name)
    if stored.is_mutation:
        raise bad_request(
            f"'{stored.name}' is a mutation; a retrieval starts from what a read finds"
        )
    call.means.log.event(
        "stored query invoked", graph=call.graph_id, query=stored.name, actor=call.actor
    )
    return stored


@contextmanager
def _keeping_text_of(stored: StoredQuery) -> Iterator[None]:
    """A block whose errors hide the text of a stored query, and report if it finds no nodes."""
    with hide_stored_text(stored):
        try:
            yield
        except CompileError as error:
            if not is_of_wrong_kind(error):
                raise
            raise bad_request(
                f"stored query '{stored.name}' finds no nodes to start from; it would have to "
                "return a property of one first"
            ) from error


def _or(given: T | None, otherwise: T) -> T:
    """A given value, or the default."""
    return otherwise if given is None else given


RETRIEVAL_ROUTES = (
    Route("POST", f"{GRAPH}/retrieve", Body.JSON, BODY_BYTES_MAX, retrieve),
    Route("POST", f"{GRAPH}/retrieve-by", Body.JSON, BODY_BYTES_MAX, retrieve_by),
    Route(
        "POST",
        f"{GRAPH}/queries/{{name}}/retrieve",
        Body.OPTIONAL_JSON,
        BODY_BYTES_MAX,
        retrieve_stored,
    ),
    Route("POST", f"{GRAPH}/replay", Body.JSON, RECEIPT_BODY_BYTES_MAX, replay),
)
