"""The routes about stored queries: their catalog, and running one by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.model.errors import CompileError, ForbiddenError
from omnigraph.model.names import MAIN
from omnigraph.model.policy import Action
from omnigraph.server.answers import Answer, Stream, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX
from omnigraph.server.problems import HttpError, bad_request, not_found
from omnigraph.server.requests import INVOKE, InvokeRequest
from omnigraph.server.routes.reads import LOCAL, ReadCall, answer_read
from omnigraph.server.routes.terms import find_terms, parse_branch, parse_params, parse_place
from omnigraph.server.routes.writes import MutateCall, answer_mutation
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.shapes import QueryList
from omnigraph.wire.stored_queries import StoredQuery, stored_query_output


async def list_queries(call: Call) -> Answer:
    """GET /graphs/{graph_id}/queries"""
    call.require(Action.READ, branch=MAIN, target=None)
    queries = call.queries
    output: QueryList = {
        "queries": [stored_query_output(queries[name]) for name in sorted(queries)]
    }
    return answer_json(output)


async def invoke(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/queries/{name}"""
    stored = get_query(call, call.name("name"))
    asked = INVOKE.read_optional(call.body, subject="stored-query invocation body")
    _require_kind(stored, asked)
    call.means.log.event(
        "stored query invoked", graph=call.graph_id, query=stored.name, actor=call.actor
    )
    source, params = stored.source.text, parse_params(asked.params)
    if not stored.is_mutation:
        place = parse_place(asked.branch, asked.snapshot)
        with keeping_text_of(stored):
            return await answer_read(call, ReadCall(source, stored.name, params, place, LOCAL))
    if asked.snapshot is not None:
        raise bad_request(f"'{stored.name}' is a mutation; it runs on a branch, not at a snapshot")
    branch = parse_branch(asked.branch)
    with keeping_text_of(stored):
        return await answer_mutation(
            call, MutateCall(source, stored.name, params, branch, find_terms(call))
        )


def get_query(call: Call, name: str) -> StoredQuery:
    """The query of that name; whoever may not run any hears the same as if there were none."""
    try:
        call.require(Action.INVOKE_QUERY, branch=None, target=None)
    except ForbiddenError as error:
        raise _unknown() from error
    stored = call.queries.get(name)
    if stored is None:
        raise _unknown()
    return stored


@contextmanager
def keeping_text_of(stored: StoredQuery) -> Iterator[None]:
    """A block that shows no line of a query to whoever may run it, and not what it is about."""
    try:
        yield
    except CompileError as error:
        raise bad_request(
            f"stored query '{stored.name}' does not fit the schema as you see it"
        ) from error


def _unknown() -> HttpError:
    return not_found("stored query not found")


def _require_kind(stored: StoredQuery, asked: InvokeRequest) -> None:
    if asked.expect_mutation is None or asked.expect_mutation is stored.is_mutation:
        return
    kind, verb = ("mutation", "mutate") if stored.is_mutation else ("read", "query")
    raise bad_request(f"'{stored.name}' is a {kind} — use omnigraph {verb} {stored.name}")


ROUTES = (
    Route("POST", f"{GRAPH}/queries/{{name}}", Body.RAW, BODY_BYTES_MAX, invoke),
    Route("GET", f"{GRAPH}/queries", Body.NONE, 0, list_queries),
)
