"""The routes for `query`, `mutate`, `load`, `explain` and stored queries, with deprecated forms.

Rows are encoded as JSON or Arrow on the thread that read them; short results are sent whole, long
ones as a stream. A mutation and a load are one commit or change nothing. Errors of a stored query
do not reveal its text, and to a caller without permission no stored query exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO

from omnigraph.compiler.query.parser import get_single_query_name
from omnigraph.engine.graph import Graph
from omnigraph.engine.ops.load import Progress
from omnigraph.engine.results import MutationResult, Result
from omnigraph.http.arrow import (
    ARROW,
    accepts_arrow,
    encode_batches,
    encode_pieces,
    encode_result,
    encode_table,
    noted_table,
)
from omnigraph.http.encode import encode_mutation, ingest_output
from omnigraph.http.responses import ExplainOutput, IngestOutput, QueryList
from omnigraph.http.stored_queries import StoredQuery, stored_query_output
from omnigraph.model.errors import CompileError, ForbiddenError
from omnigraph.model.limits import BODY_BYTES_MAX, LOAD_BODY_BYTES_MAX, UNSTREAMED_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.model.ports import Action
from omnigraph.server.context import (
    GRAPH,
    Body,
    CacheKey,
    KeptAnswer,
    RequestContext,
    Route,
    depends_on_time,
)
from omnigraph.server.requests import (
    EXPLAIN,
    INVOKE,
    LOAD,
    MUTATE,
    QUERY,
    READ,
    InvokeRequest,
    is_json,
    media_type,
)
from omnigraph.server.responses import (
    JSON,
    HttpError,
    Response,
    StreamingResponse,
    answer_bytes,
    answer_json,
    bad_request,
    not_found,
    unsupported_type,
    with_headers,
)
from omnigraph.server.routes.parameters import (
    COMMIT_HEADER,
    QUERY_NAME_HEADER,
    ReadTarget,
    WriteOptions,
    deprecated,
    parse_branch,
    parse_flag,
    parse_params,
    parse_place,
    parse_write_options,
    translate_compile_errors,
    with_commit,
)

LOCAL = "local"
"""The engine of a read that names none: the process of the server."""


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A requested read."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    place: ReadTarget
    engine: str
    seconds_max: float | None = None
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class _Long:
    """A result that is too long to be sent whole."""

    result: Result


async def query(call: RequestContext) -> Response | StreamingResponse:
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


async def read(call: RequestContext) -> Response | StreamingResponse:
    """POST /graphs/{graph_id}/read"""
    asked = READ.read(call.body)
    place = parse_place(asked.branch, asked.snapshot)
    params = parse_params(asked.params)
    answer = await answer_read(
        call, ReadCall(asked.query_source, asked.query_name, params, place, LOCAL)
    )
    return deprecated(answer, successor="query")


async def explain(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/explain"""
    asked = EXPLAIN.read(call.body)
    branch, params = parse_branch(asked.branch), parse_params(asked.params)
    call.require(Action.READ, branch=branch, target=None)

    def work(graph: Graph) -> str:
        with translate_compile_errors(advice="a mutation has no plan; POST /mutate runs it"):
            return graph.explain(
                asked.query, params, name=asked.name, branch=branch, engine=asked.engine or LOCAL
            )

    output: ExplainOutput = {"plan": await call.read(work)}
    return answer_json(output)


async def answer_read(call: RequestContext, asked: ReadCall) -> Response | StreamingResponse:
    """Run a read and return its rows in the format that the caller accepts."""
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
    call: RequestContext, asked: ReadCall, graph: Graph, *, is_arrow: bool
) -> KeptAnswer | _Long:
    """The response, from the cache if it holds the same query at this commit."""
    question = _find_question(call, asked, graph, is_arrow=is_arrow)
    kept = None if question is None else call.means.answers.find(question)
    if kept is not None:
        return kept
    place = asked.place
    with translate_compile_errors(advice="a text that changes the graph belongs to POST /mutate"):
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
    if table.nbytes > UNSTREAMED_BYTES_MAX:
        return _Long(result)
    body = encode_table(noted_table(result)) if is_arrow else encode_result(result, place.target)
    answer = KeptAnswer(result.commit_id, result.query_name, body)
    if question is not None:
        call.means.answers.keep(question, answer)
    return answer


def _find_question(
    call: RequestContext, asked: ReadCall, graph: Graph, *, is_arrow: bool
) -> CacheKey | None:
    """The cache key of a read; None if its result must not be shared or may change."""
    branch = asked.place.branch
    is_bounded = asked.seconds_max is not None or asked.bytes_max is not None
    if branch is None or asked.engine != LOCAL or is_bounded or depends_on_time(asked.source):
        return None
    if not call.sees_all(branch):
        return None
    return CacheKey(
        graph_id=call.graph_id,
        origin=call.origin,
        commit_id=graph.head(branch),
        branch=branch,
        source=asked.source,
        name=asked.name,
        # `repr` distinguishes 1 from 1.0 and from true, and accepts integers of any size.
        params=repr(asked.params),
        is_arrow=is_arrow,
    )


def _headers(answered: KeptAnswer | Result, *, is_arrow: bool) -> dict[str, str]:
    headers = {COMMIT_HEADER: answered.commit_id}
    if is_arrow:
        headers[QUERY_NAME_HEADER] = answered.query_name
    return headers


READ_ROUTES = (
    Route("POST", f"{GRAPH}/query", Body.JSON, BODY_BYTES_MAX, query),
    Route("POST", f"{GRAPH}/read", Body.JSON, BODY_BYTES_MAX, read),
    Route("POST", f"{GRAPH}/explain", Body.JSON, BODY_BYTES_MAX, explain),
)


NDJSON_TYPES = frozenset({"application/x-ndjson", "application/ndjson"})


@dataclass(frozen=True, slots=True)
class MutateCall:
    """A requested mutation; without a name, the name is found in the text."""

    source: str
    name: str | None
    params: Mapping[str, object] | None
    branch: BranchName
    embed: str | None
    terms: WriteOptions


@dataclass(frozen=True, slots=True)
class LoadCall:
    """A requested load."""

    rows: bytes
    branch: BranchName
    base: BranchName | None
    mode: str
    engine: str
    embed: str | None
    terms: WriteOptions
    name: str
    """The name of the rows in messages; empty if they have none."""


async def mutate(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/mutate"""
    asked = MUTATE.read(call.body)
    params, branch = parse_params(asked.params), parse_branch(asked.branch)
    return await answer_mutation(
        call,
        MutateCall(asked.query, asked.name, params, branch, asked.embed, parse_write_options(call)),
    )


async def change(call: RequestContext) -> Response | StreamingResponse:
    """POST /graphs/{graph_id}/change"""
    return deprecated(await mutate(call), successor="mutate")


async def load(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/load"""
    is_job = parse_flag(call, "async")
    # Parsing a large body takes a while, which would block the event loop.
    asked = await call.means.writes.run(partial(_parse_load, call))
    call.require(Action.CHANGE, branch=asked.branch, target=None)
    if is_job:
        return _start_job(call, asked)
    with call.admit(len(call.body)):
        output = await call.write(lambda graph: _load(graph, asked, call, progress=None))
    return with_commit(answer_json(output), output["commit_id"])


async def ingest(call: RequestContext) -> Response | StreamingResponse:
    """POST /graphs/{graph_id}/ingest"""
    return deprecated(await load(call), successor="load")


async def answer_mutation(call: RequestContext, asked: MutateCall) -> Response:
    """Run a mutation and return what it changed."""
    call.require(Action.CHANGE, branch=asked.branch, target=None)

    def work(graph: Graph) -> tuple[MutationResult, str]:
        with translate_compile_errors(advice="a text that only reads belongs to POST /query"):
            done = graph.mutate(
                asked.source,
                asked.params,
                name=asked.name,
                branch=asked.branch,
                if_commit=asked.terms.if_commit,
                idempotency_key=asked.terms.idempotency_key,
                embed=asked.embed,
            )
        return done, asked.name or get_single_query_name(asked.source)

    with call.admit(len(call.body)):
        done, name = await call.write(work)
    output = encode_mutation(done, branch=asked.branch, query_name=name, actor=call.actor)
    return with_commit(answer_json(output), done.commit_id)


def _parse_load(call: RequestContext) -> LoadCall:
    content_type = call.header("content-type") or ""
    terms = parse_write_options(call)
    if is_json(content_type):
        asked = LOAD.read(call.body)
        return LoadCall(
            rows=asked.rows.encode(),
            branch=parse_branch(asked.branch),
            base=None if asked.base is None else parse_branch_name(asked.base),
            mode="merge" if asked.mode is None else asked.mode,
            engine="auto" if asked.engine is None else asked.engine,
            embed=asked.embed,
            terms=terms,
            name="",
        )
    if media_type(content_type) not in NDJSON_TYPES:
        raise unsupported_type(
            "the body has to be JSON (application/json), or the rows themselves as lines of JSON "
            "(application/x-ndjson)"
        )
    base = call.argument("from")
    return LoadCall(
        rows=call.body,
        branch=parse_branch(call.argument("branch")),
        base=None if base is None else parse_branch_name(base),
        mode=call.argument("mode") or "merge",
        engine=call.argument("engine") or "auto",
        embed=call.argument("embed"),
        terms=terms,
        name=call.argument("name") or "",
    )


class _NamedRows(BytesIO):
    """Rows in memory with a name for messages."""

    def __init__(self, rows: bytes, name: str) -> None:
        super().__init__(rows)
        self.name = name


def _load(
    graph: Graph, asked: LoadCall, call: RequestContext, *, progress: Progress | None
) -> IngestOutput:
    done = graph.load(
        _NamedRows(asked.rows, asked.name),
        mode=asked.mode,
        branch=asked.branch,
        base=asked.base,
        engine=asked.engine,
        progress=progress,
        if_commit=asked.terms.if_commit,
        idempotency_key=asked.terms.idempotency_key,
        embed=asked.embed,
    )
    return ingest_output(done, uri=call.uri, mode=asked.mode, actor=call.actor)


def _start_job(call: RequestContext, asked: LoadCall) -> Response:
    # The job counts as a write of its actor while it runs.
    admitted = ExitStack()
    admitted.enter_context(call.admit(len(call.body)))
    # The graph that it writes to stays open while it runs.
    call.means.serving.enter_again(call.revision)
    admitted.callback(call.means.serving.leave, call.revision)
    with ExitStack() as undone:
        undone.push(admitted)
        output = call.means.jobs.start(
            lambda progress: call.run(partial(_load, asked=asked, call=call, progress=progress)),
            graph_id=call.graph_id,
            actor=call.actor,
            release=admitted.close,
        )
        undone.pop_all()
    location = f"/graphs/{call.graph_id}/jobs/{output['job_id']}"
    return with_headers(answer_json(output, status=202), {"Location": location})


WRITE_ROUTES = (
    Route("POST", f"{GRAPH}/mutate", Body.JSON, BODY_BYTES_MAX, mutate),
    Route("POST", f"{GRAPH}/load", Body.RAW, LOAD_BODY_BYTES_MAX, load),
    Route("POST", f"{GRAPH}/change", Body.JSON, BODY_BYTES_MAX, change),
    Route("POST", f"{GRAPH}/ingest", Body.RAW, LOAD_BODY_BYTES_MAX, ingest),
)


async def list_queries(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/queries"""
    call.require(Action.READ, branch=MAIN, target=None)
    queries = call.queries
    output: QueryList = {
        "queries": [stored_query_output(queries[name]) for name in sorted(queries)]
    }
    return answer_json(output)


async def invoke(call: RequestContext) -> Response | StreamingResponse:
    """POST /graphs/{graph_id}/queries/{name}"""
    stored = get_query(call, call.name("name"))
    asked = INVOKE.read_optional(call.body, subject="stored-query invocation body")
    _require_kind(stored, asked)
    call.means.log.event(
        "stored query invoked", graph=call.graph_id, query=stored.name, actor=call.actor
    )
    source, params = stored.source.text, parse_params(asked.params)
    if not stored.is_mutation:
        if asked.embed is not None:
            raise bad_request(f"'{stored.name}' is a read; `embed` is for mutations")
        place = parse_place(asked.branch, asked.snapshot)
        with hide_stored_text(stored):
            return await answer_read(call, ReadCall(source, stored.name, params, place, LOCAL))
    if asked.snapshot is not None:
        raise bad_request(f"'{stored.name}' is a mutation; it runs on a branch, not at a snapshot")
    call.require_typed()
    branch = parse_branch(asked.branch)
    with hide_stored_text(stored):
        return await answer_mutation(
            call,
            MutateCall(source, stored.name, params, branch, asked.embed, parse_write_options(call)),
        )


def get_query(call: RequestContext, name: str) -> StoredQuery:
    """The stored query of a name; without permission, the same 404 as for an unknown name."""
    try:
        call.require(Action.INVOKE_QUERY, branch=None, target=None)
    except ForbiddenError as error:
        raise _unknown() from error
    stored = call.queries.get(name)
    if stored is None:
        raise _unknown()
    return stored


@contextmanager
def hide_stored_text(stored: StoredQuery) -> Iterator[None]:
    """A block whose errors reveal neither the text of a stored query nor what it refers to."""
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


STORED_QUERY_ROUTES = (
    Route("POST", f"{GRAPH}/queries/{{name}}", Body.OPTIONAL_JSON, BODY_BYTES_MAX, invoke),
    Route("GET", f"{GRAPH}/queries", Body.NONE, 0, list_queries),
)
