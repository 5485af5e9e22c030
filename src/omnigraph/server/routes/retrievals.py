"""The routes that retrieve context for an agent, by a text or by a query, and that replay it.

Callers of a stored query do not see its text, so its receipts are redacted and restored here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from omnigraph.engine.graph import Graph
from omnigraph.engine.retrieval.receipts import find_redacted_query, redact, restore
from omnigraph.engine.retrieval.results import Retrieval
from omnigraph.http.responses import RetrievalOutput
from omnigraph.http.retrievals import retrieval_output
from omnigraph.http.stored_queries import StoredQuery
from omnigraph.model.errors import CompileError
from omnigraph.model.limits import BUDGET_TOKENS, FOUND, HOPS, RECEIPT_BODY_BYTES_MAX
from omnigraph.model.ports import Action
from omnigraph.server.context import (
    GRAPH,
    Operation,
    RequestContext,
    Route,
    Tag,
    read_scope,
    route_with_body,
)
from omnigraph.server.requests import (
    ReplayRequest,
    RetrieveByRequest,
    RetrieveRequest,
    RetrieveStoredRequest,
    json_body,
    optional_json_body,
    parse_params,
    parse_target,
)
from omnigraph.server.responses import (
    Response,
    bad_request,
    is_of_wrong_kind,
    json_response,
    translate_compile_errors,
)
from omnigraph.server.routes.queries import get_query, hide_stored_text

T = TypeVar("T")

_ADVICE = "a retrieval starts from the nodes that a read returns; send mutations to POST /mutate"


@route_with_body(
    f"POST {GRAPH}/retrieve",
    Operation("retrieve", Tag.QUERIES, (RetrievalOutput,)),
    json_body(RetrieveRequest),
    action=Action.READ,
    scope=lambda _, body: read_scope(parse_target(body.branch, body.snapshot)),
)
async def retrieve(call: RequestContext, body: RetrieveRequest) -> Response:
    """Retrieve the content that relates to a text, for a prompt."""
    target = parse_target(body.branch, body.snapshot)
    return await _respond(
        call,
        lambda graph: graph.retrieve(
            body.text,
            types=body.types,
            hops=_or(body.hops, HOPS),
            edges=body.edges,
            k=_or(body.k, FOUND),
            budget_tokens=_or(body.budget_tokens, BUDGET_TOKENS),
            branch=target.branch,
            commit=target.commit,
            vector=body.vector,
            word_weight=_or(body.word_weight, 1.0),
            vector_weight=_or(body.vector_weight, 1.0),
            limits=call.limits(body.seconds_max, body.bytes_max),
        ),
    )


@route_with_body(
    f"POST {GRAPH}/retrieve-by",
    Operation("retrieveBy", Tag.QUERIES, (RetrievalOutput,)),
    json_body(RetrieveByRequest),
    action=Action.READ,
    scope=lambda _, body: read_scope(parse_target(body.branch, body.snapshot)),
)
async def retrieve_by(call: RequestContext, body: RetrieveByRequest) -> Response:
    """Retrieve the content that relates to the nodes of a query."""
    return await _respond(
        call, lambda graph: _retrieve_by(call, graph, body.query, body.name, body)
    )


@route_with_body(
    f"POST {GRAPH}/queries/{{name}}/retrieve",
    Operation("retrieveByStoredQuery", Tag.QUERIES, (RetrievalOutput,)),
    optional_json_body(RetrieveStoredRequest, subject="retrieval body"),
    action=Action.INVOKE_QUERY,
    # Without permission, the response is that for an unknown query.
    scope=lambda *_: None,
)
async def retrieve_stored(call: RequestContext, body: RetrieveStoredRequest) -> Response:
    """Retrieve the content that relates to the nodes of a stored query."""
    stored = _get_read(call, call.name("name"))
    branch = parse_target(body.branch, body.snapshot).branch
    if branch is not None:
        call.require(Action.READ, branch=branch, target=None)

    def work(graph: Graph) -> Retrieval:
        with _hide_text(stored):
            return redact(_retrieve_by(call, graph, stored.source.text, stored.name, body))

    return await _respond(call, work)


@route_with_body(
    f"POST {GRAPH}/replay",
    Operation("replay", Tag.QUERIES, (RetrievalOutput,)),
    json_body(ReplayRequest, bytes_max=RECEIPT_BODY_BYTES_MAX),
    # The engine checks access to the commit of the receipt.
    action=None,
)
async def replay(call: RequestContext, body: ReplayRequest) -> Response:
    """Repeat the retrieval that a receipt records."""
    limits, name = call.limits(body.seconds_max, body.bytes_max), find_redacted_query(body.receipt)
    stored = None if name is None else _get_read(call, name)

    def work(graph: Graph) -> Retrieval:
        if stored is None:
            return graph.replay(body.receipt, limits=limits)
        receipt = restore(body.receipt, stored.source.text)
        with _hide_text(stored):
            return redact(graph.replay(receipt, limits=limits))

    return await _respond(call, work)


def _retrieve_by(
    call: RequestContext,
    graph: Graph,
    source: str,
    name: str | None,
    body: RetrieveByRequest | RetrieveStoredRequest,
) -> Retrieval:
    target = parse_target(body.branch, body.snapshot)
    return graph.retrieve_by(
        source,
        parse_params(body.params),
        name=name,
        hops=_or(body.hops, HOPS),
        edges=body.edges,
        budget_tokens=_or(body.budget_tokens, BUDGET_TOKENS),
        branch=target.branch,
        commit=target.commit,
        limits=call.limits(body.seconds_max, body.bytes_max),
    )


async def _respond(call: RequestContext, work: Callable[[Graph], Retrieval]) -> Response:
    """The result, encoded on the thread that found it."""

    def encode(graph: Graph) -> Response:
        with translate_compile_errors(advice=_ADVICE):
            found = work(graph)
        return json_response(retrieval_output(found), commit_id=found.receipt.commit_id)

    return await call.run(encode)


def _get_read(call: RequestContext, name: str) -> StoredQuery:
    stored = get_query(call, name)
    if stored.is_mutation:
        raise bad_request(
            f"'{stored.name}' is a mutation; a retrieval starts from the nodes of a read"
        )
    call.log_invocation(stored)
    return stored


@contextmanager
def _hide_text(stored: StoredQuery) -> Iterator[None]:
    """A block whose errors hide the text of a stored query, and report if it finds no nodes."""
    with hide_stored_text(stored):
        try:
            yield
        except CompileError as error:
            if not is_of_wrong_kind(error):
                raise
            raise bad_request(
                f"stored query '{stored.name}' finds no nodes to start from; its first column "
                "must be a property of a node"
            ) from error


def _or(given: T | None, default: T) -> T:
    return default if given is None else given


ROUTES: tuple[Route, ...] = (retrieve, retrieve_by, retrieve_stored, replay)
