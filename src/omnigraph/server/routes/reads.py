"""The routes that run reads: `query`, its deprecated form `read`, and `explain`.

Rows become JSON or Arrow on the thread that found them. Few are sent whole, many as a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from omnigraph.engine.graph import Graph
from omnigraph.engine.results import Result
from omnigraph.model.policy import Action
from omnigraph.server.answers import (
    JSON,
    Answer,
    Stream,
    answer_bytes,
    answer_json,
    with_headers,
)
from omnigraph.server.calls import Call
from omnigraph.server.kept_answers import KeptAnswer, Question, depends_on_time
from omnigraph.server.limits import BODY_BYTES_MAX, WHOLE_ANSWER_BYTES_MAX
from omnigraph.server.requests import EXPLAIN, QUERY, READ
from omnigraph.server.routes.terms import (
    COMMIT_HEADER,
    QUERY_NAME_HEADER,
    Place,
    deprecated,
    parse_branch,
    parse_params,
    parse_place,
    refusing,
)
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.arrow import ARROW, accepts_arrow, encode_batches, encode_table
from omnigraph.wire.columns import noted_table
from omnigraph.wire.result_pieces import encode_pieces, encode_result
from omnigraph.wire.shapes import ExplainOutput

LOCAL = "local"
"""The engine of a read that names none: the server's own process."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A read that was asked for."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    place: Place
    engine: str
    seconds_max: float | None = None
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class _Long:
    """A result that is too long to be sent whole."""

    result: Result


async def query(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/query"""
    asked = QUERY.read(call.body)
    place = parse_place(asked.branch, asked.snapshot)
    params = parse_params(asked.params)
    return await answer_read(
        call,
        ReadCall(
            asked.query,
            asked.name,
            params,
            place,
            asked.engine or LOCAL,
            asked.seconds_max,
            asked.bytes_max,
        ),
    )


async def read(call: Call) -> Answer | Stream:
    """POST /graphs/{graph_id}/read"""
    asked = READ.read(call.body)
    place = parse_place(asked.branch, asked.snapshot)
    params = parse_params(asked.params)
    answer = await answer_read(
        call, ReadCall(asked.query_source, asked.query_name, params, place, LOCAL)
    )
    return deprecated(answer, successor="query")


async def explain(call: Call) -> Answer:
    """POST /graphs/{graph_id}/explain"""
    asked = EXPLAIN.read(call.body)
    branch, params = parse_branch(asked.branch), parse_params(asked.params)
    call.require(Action.READ, branch=branch, target=None)

    def work(graph: Graph) -> str:
        with refusing(advice="a mutation has no plan; POST /mutate runs it"):
            return graph.explain(
                asked.query, params, name=asked.name, branch=branch, engine=asked.engine or LOCAL
            )

    output: ExplainOutput = {"plan": await call.read(work)}
    return answer_json(output)


async def answer_read(call: Call, asked: ReadCall) -> Answer | Stream:
    """Run a read and answer its rows, in the format that the caller accepts."""
    place = asked.place
    if place.branch is not None:
        call.require(Action.READ, branch=place.branch, target=None)
    is_arrow = accepts_arrow(call.header("accept"))
    content_type = ARROW if is_arrow else JSON
    found = await call.read(partial(_find_answer, call, asked, is_arrow=is_arrow))
    if isinstance(found, KeptAnswer):
        headers = _headers(found, is_arrow=is_arrow)
        return with_headers(answer_bytes(found.body, content_type=content_type), headers)
    result = found.result

    def pieces(graph: Graph) -> Iterator[bytes]:
        del graph
        if is_arrow:
            return encode_batches(noted_table(result))
        return encode_pieces(result, place.target)

    stream = await call.stream(pieces, content_type=content_type)
    return with_headers(stream, _headers(result, is_arrow=is_arrow))


def _find_answer(
    call: Call, asked: ReadCall, graph: Graph, *, is_arrow: bool
) -> KeptAnswer | _Long:
    """The answer, which is read only if nobody has asked the same of this commit lately."""
    question = _find_question(call, asked, graph, is_arrow=is_arrow)
    kept = None if question is None else call.means.answers.find(question)
    if kept is not None:
        return kept
    place = asked.place
    with refusing(advice="a text that changes the graph belongs to POST /mutate"):
        result = graph.query(
            asked.source,
            asked.params,
            name=asked.name,
            branch=place.branch,
            commit=place.commit,
            engine=asked.engine,
            limits=replace(call.limits, seconds_max=asked.seconds_max, bytes_max=asked.bytes_max),
        )
    table = result.to_arrow()
    if table.nbytes > WHOLE_ANSWER_BYTES_MAX:
        return _Long(result)
    body = encode_table(noted_table(result)) if is_arrow else encode_result(result, place.target)
    answer = KeptAnswer(result.commit_id, result.query_name, body)
    if question is not None:
        call.means.answers.keep(question, answer)
    return answer


def _find_question(call: Call, asked: ReadCall, graph: Graph, *, is_arrow: bool) -> Question | None:
    """What the answer is kept under; None if the next who asks may get another one."""
    branch = asked.place.branch
    is_bounded = asked.seconds_max is not None or asked.bytes_max is not None
    if branch is None or asked.engine != LOCAL or is_bounded or depends_on_time(asked.source):
        return None
    if not call.sees_all(branch):
        return None
    return Question(
        graph_id=call.graph_id,
        origin=call.origin,
        commit_id=graph.head(branch),
        branch=branch,
        source=asked.source,
        name=asked.name,
        # Tells 1 from 1.0 and from true, and takes numbers of any length.
        params=repr(asked.params),
        is_arrow=is_arrow,
    )


def _headers(answered: KeptAnswer | Result, *, is_arrow: bool) -> dict[str, str]:
    headers = {COMMIT_HEADER: answered.commit_id}
    if is_arrow:
        headers[QUERY_NAME_HEADER] = answered.query_name
    return headers


ROUTES = (
    Route("POST", f"{GRAPH}/query", Body.JSON, BODY_BYTES_MAX, query),
    Route("POST", f"{GRAPH}/read", Body.JSON, BODY_BYTES_MAX, read),
    Route("POST", f"{GRAPH}/explain", Body.JSON, BODY_BYTES_MAX, explain),
)
