"""The routes for `query`, `mutate`, `load`, `explain` and stored queries, with deprecated forms.

Rows are encoded as JSON or Arrow on the thread that read them; short results are sent whole, long
ones as a stream. A mutation and a load are one commit or change nothing. Errors of a stored query
do not reveal its text, and to a caller without permission no stored query exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO

from omnigraph.compiler.query.parser import get_single_query_name
from omnigraph.engine.graph import Graph
from omnigraph.engine.ops.load import Progress
from omnigraph.engine.results import MutationResult, Result
from omnigraph.http import arrow
from omnigraph.http.encode import encode_mutation, ingest_output
from omnigraph.http.responses import (
    ChangeOutput,
    ExplainOutput,
    IngestOutput,
    JobOutput,
    QueryList,
    ReadOutput,
)
from omnigraph.http.stored_queries import StoredQuery, stored_query_output
from omnigraph.model.errors import CompileError
from omnigraph.model.limits import LOAD_BODY_BYTES_MAX, UNSTREAMED_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.model.ports import Action
from omnigraph.server.context import (
    GRAPH,
    WRITE_STATUSES,
    Operation,
    Pool,
    RequestContext,
    Route,
    Tag,
    read_scope,
    route,
    route_with_body,
)
from omnigraph.server.requests import (
    BRANCH,
    IF_COMMIT,
    WRITE_OPTIONS,
    ExplainRequest,
    InvokeRequest,
    LoadRequest,
    MutateRequest,
    QueryRequest,
    ReadRequest,
    flag,
    is_json,
    json_body,
    media_type,
    optional_json_body,
    parse_branch,
    parse_params,
    parse_target,
    raw_body,
    require_json,
    text,
)
from omnigraph.server.responses import (
    COMMIT_HEADER,
    JSON,
    QUERY_NAME_HEADER,
    AnyResponse,
    CachedResponse,
    CacheKey,
    Response,
    bad_request,
    bytes_response,
    json_response,
    not_found,
    translate_compile_errors,
    unsupported_type,
    with_headers,
)

ARROW_MEDIA = arrow.ARROW.decode()
LOCAL = "local"
"""The engine of a read that names none: the process of the server."""

NDJSON_TYPES = frozenset({"application/x-ndjson", "application/ndjson"})

_FROM = text("from", "The branch to create the target branch from, if that does not exist.")
_MODE = text("mode", "`merge`, `append` or `overwrite`.")
_ENGINE = text("engine", "`auto`, `inline` or `spark`.")
_EMBED = text("embed", "When empty `@embed` properties are filled: `now` or `later`.")
_ASYNC = flag("async", "With `true`, the load runs in the background as a job.")
_NAME = text("name", "The name of the rows in messages.")


@route_with_body(
    f"POST {GRAPH}/query",
    Operation("query", Tag.QUERIES, (ReadOutput,), media=(ARROW_MEDIA,)),
    json_body(QueryRequest),
    action=Action.READ,
    scope=lambda _, body: read_scope(parse_target(body.branch, body.snapshot)),
)
async def query(call: RequestContext, body: QueryRequest) -> AnyResponse:
    """Run a query and return its rows as JSON or as an Arrow stream."""
    return await _respond_rows(call, body)


@route_with_body(
    f"POST {GRAPH}/read",
    Operation("read", Tag.QUERIES, (ReadOutput,), media=(ARROW_MEDIA,)),
    json_body(ReadRequest),
    action=Action.READ,
    scope=lambda _, body: read_scope(parse_target(body.branch, body.snapshot)),
)
async def read(call: RequestContext, body: ReadRequest) -> AnyResponse:
    """Run a query given by the earlier field names; use `query`."""
    request = QueryRequest(
        query=body.query_source,
        name=body.query_name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
    )
    return await _respond_rows(call, request)


@route_with_body(
    f"POST {GRAPH}/explain",
    Operation("explain", Tag.QUERIES, (ExplainOutput,)),
    json_body(ExplainRequest),
    action=Action.READ,
    scope=lambda _, body: (parse_branch(body.branch), None),
)
async def explain(call: RequestContext, body: ExplainRequest) -> Response:
    """Return the execution plan of a query; with `analyze`, run it and measure each step."""
    branch, params = parse_branch(body.branch), parse_params(body.params)

    def work(graph: Graph) -> str:
        with translate_compile_errors(advice="mutations have no plan; run them with POST /mutate"):
            return graph.explain(
                body.query,
                params,
                name=body.name,
                branch=branch,
                engine=body.engine or LOCAL,
                analyze=bool(body.analyze),
                limits=call.limits(body.seconds_max, body.bytes_max),
            )

    return json_response(ExplainOutput(plan=await call.run(work)))


async def _respond_rows(call: RequestContext, body: QueryRequest) -> AnyResponse:
    """Run a read and return its rows in the format that the caller accepts."""
    is_arrow = arrow.accepts_arrow(call.header("accept"))
    content_type = arrow.ARROW if is_arrow else JSON
    found = await call.read(partial(_find_response, call, body, is_arrow=is_arrow))
    headers = {COMMIT_HEADER: found.commit_id}
    if is_arrow:
        headers[QUERY_NAME_HEADER] = found.query_name
    if isinstance(found, CachedResponse):
        return with_headers(bytes_response(found.body, content_type=content_type), headers)

    def pieces(graph: Graph) -> Iterator[bytes]:
        del graph
        if is_arrow:
            return arrow.encode_batches(arrow.noted_table(found))
        return arrow.encode_pieces(found, parse_target(body.branch, body.snapshot).output)

    return with_headers(await call.stream(pieces, content_type=content_type), headers)


def _find_response(
    call: RequestContext, body: QueryRequest, graph: Graph, *, is_arrow: bool
) -> CachedResponse | Result:
    """The response, from the cache if it has it; a result that is too long to be sent whole."""
    target, params = parse_target(body.branch, body.snapshot), parse_params(body.params)
    key = _find_cache_key(call, body, graph, is_arrow=is_arrow)
    cached = None if key is None else call.server.cache.find(key)
    if cached is not None:
        return cached
    with translate_compile_errors(advice="send mutations to POST /mutate"):
        result = graph.query(
            body.query,
            params,
            name=body.name,
            branch=target.branch,
            commit=target.commit,
            engine=body.engine or LOCAL,
            limits=call.limits(body.seconds_max, body.bytes_max),
        )
    if result.to_arrow().nbytes > UNSTREAMED_BYTES_MAX:
        return result
    encoded = (
        arrow.encode_table(arrow.noted_table(result))
        if is_arrow
        else arrow.encode_result(result, target.output)
    )
    response = CachedResponse(result.commit_id, result.query_name, encoded)
    if key is not None:
        call.server.cache.put(key, response)
    return response


def _find_cache_key(
    call: RequestContext, body: QueryRequest, graph: Graph, *, is_arrow: bool
) -> CacheKey | None:
    """The cache key of a read; None if its result must not be shared or may change."""
    branch = parse_target(body.branch, body.snapshot).branch
    has_limits = body.seconds_max is not None or body.bytes_max is not None
    if branch is None or body.engine not in (None, LOCAL) or has_limits:
        return None
    # The result of a query with the word `now` may depend on the current time.
    if "now" in body.query.lower() or not call.sees_all(branch):
        return None
    return CacheKey(
        graph_id=call.graph.id,
        origin=call.graph.origin,
        commit_id=graph.head(branch),
        branch=branch,
        source=body.query,
        name=body.name,
        # `repr` distinguishes 1 from 1.0 and from true, and accepts integers of any size.
        params=repr(body.params),
        is_arrow=is_arrow,
    )


@route_with_body(
    f"POST {GRAPH}/mutate",
    Operation("mutate", Tag.MUTATIONS, (ChangeOutput,)),
    json_body(MutateRequest),
    action=Action.CHANGE,
    scope=lambda _, body: (parse_branch(body.branch), None),
    pool=Pool.WRITE,
    parameters=WRITE_OPTIONS,
)
async def mutate(call: RequestContext, body: MutateRequest) -> Response:
    """Run a mutation as one commit."""
    return await _respond_mutation(call, body)


async def _respond_mutation(call: RequestContext, body: MutateRequest) -> Response:
    params, branch = parse_params(body.params), parse_branch(body.branch)

    def work(graph: Graph) -> tuple[MutationResult, str]:
        with translate_compile_errors(advice="send reads to POST /query"):
            done = graph.mutate(
                body.query,
                params,
                name=body.name,
                branch=branch,
                embed=body.embed,
                **call.write_options,
            )
        return done, body.name or get_single_query_name(body.query)

    done, name = await call.write(work)
    output = encode_mutation(done, branch=branch, query_name=name, actor=call.actor)
    return json_response(output, commit_id=done.commit_id)


@dataclass(frozen=True, slots=True)
class _Load:
    """A requested load; `name` is the name of the rows in messages, or empty."""

    rows: bytes
    branch: BranchName
    base: BranchName | None
    mode: str
    engine: str
    embed: str | None
    name: str


class _NamedRows(BytesIO):
    """Rows in memory with a name for messages."""

    def __init__(self, rows: bytes, name: str) -> None:
        super().__init__(rows)
        self.name = name


_LOAD_BODY = json_body(LoadRequest)


@route_with_body(
    f"POST {GRAPH}/load",
    Operation("load", Tag.MUTATIONS, (IngestOutput,), also=((202, (JobOutput,)),)),
    raw_body(LoadRequest, bytes_max=LOAD_BODY_BYTES_MAX),
    action=Action.CHANGE,
    # The branch is known once the body is decoded, on a thread.
    scope=lambda *_: None,
    pool=Pool.WRITE,
    parameters=(BRANCH, _FROM, _MODE, _ENGINE, _EMBED, _ASYNC, _NAME, *WRITE_OPTIONS),
)
async def load(call: RequestContext, body: bytes) -> Response:
    """Load rows of any number of types as one commit."""
    is_job = call.get(_ASYNC)
    # Parsing a large body takes a while, which would block the event loop.
    request = await call.server.writes.run(partial(_parse_load, call, body))
    call.require(Action.CHANGE, branch=request.branch, target=None)
    if is_job:
        return _start_job(call, request)
    output = await call.run(lambda graph: _load(graph, request, call, progress=None))
    return json_response(output, commit_id=output["commit_id"])


def _parse_load(call: RequestContext, body: bytes) -> _Load:
    content_type = call.header("content-type") or ""
    if is_json(content_type):
        for parameter in (BRANCH, _FROM, _MODE, _ENGINE, _EMBED):
            if parameter.name in call.arguments:
                raise bad_request(f"with a JSON body, give '{parameter.name}' in the body")
        request = _LOAD_BODY.decode(body)
        rows, name, branch = request.rows.encode(), call.get(_NAME), parse_branch(request.branch)
        base, mode, engine, embed = request.base, request.mode, request.engine, request.embed
    elif media_type(content_type) in NDJSON_TYPES:
        rows, name, branch = body, call.get(_NAME), call.get(BRANCH)
        base, mode, engine, embed = map(call.get, (_FROM, _MODE, _ENGINE, _EMBED))
        mode, engine = mode or None, engine or None
    else:
        raise unsupported_type(
            "the body must be JSON (application/json), or rows as lines of JSON "
            "(application/x-ndjson)"
        )
    return _Load(
        rows=rows,
        branch=branch,
        base=None if base is None else parse_branch_name(base),
        mode="merge" if mode is None else mode,
        engine="auto" if engine is None else engine,
        embed=embed,
        name=name or "",
    )


def _load(
    graph: Graph, request: _Load, call: RequestContext, *, progress: Progress | None
) -> IngestOutput:
    done = graph.load(
        _NamedRows(request.rows, request.name),
        mode=request.mode,
        branch=request.branch,
        base=request.base,
        engine=request.engine,
        progress=progress,
        embed=request.embed,
        **call.write_options,
    )
    return ingest_output(done, uri=call.uri, mode=request.mode, actor=call.actor)


def _start_job(call: RequestContext, request: _Load) -> Response:
    server = call.server
    # The job counts as a write of its actor while it runs.
    held = ExitStack()
    held.enter_context(server.admission.admit(call.actor, request_bytes=len(call.body)))
    # The graph that it writes to stays open while it runs.
    server.revisions.enter_again(call.revision)
    held.callback(server.revisions.leave, call.revision)
    with ExitStack() as on_failure:
        on_failure.push(held)
        output = server.jobs.start(
            lambda progress: call.run_here(
                partial(_load, request=request, call=call, progress=progress)
            ),
            graph_id=call.graph.id,
            actor=call.actor,
            release=held.close,
        )
        on_failure.pop_all()
    location = f"/graphs/{call.graph.id}/jobs/{output['job_id']}"
    return with_headers(json_response(output, status=202), {"Location": location})


@route(
    f"GET {GRAPH}/queries",
    Operation("list_queries", Tag.QUERIES, (QueryList,), statuses=(403,)),
    action=Action.READ,
    scope=lambda _: (MAIN, None),
)
async def list_queries(call: RequestContext) -> Response:
    """List the stored queries."""
    queries = call.graph.queries
    found = [stored_query_output(queries[name]) for name in sorted(queries)]
    return json_response(QueryList(queries=found))


@route_with_body(
    f"POST {GRAPH}/queries/{{name}}",
    Operation(
        "invoke_query",
        Tag.QUERIES,
        (ReadOutput, ChangeOutput),
        media=(ARROW_MEDIA,),
        statuses=WRITE_STATUSES,
    ),
    optional_json_body(InvokeRequest, subject="stored-query invocation body"),
    action=Action.INVOKE_QUERY,
    # Without permission, the response is that for an unknown query.
    scope=lambda *_: None,
    parameters=WRITE_OPTIONS,
)
async def invoke(call: RequestContext, body: InvokeRequest) -> AnyResponse:
    """Run a stored query, which is a read or a mutation."""
    stored = get_query(call, call.name("name"))
    kind, verb = ("mutation", "mutate") if stored.is_mutation else ("read", "query")
    if body.expect_mutation not in (None, stored.is_mutation):
        raise bad_request(f"'{stored.name}' is a {kind} — use omnigraph {verb} {stored.name}")
    call.log_invocation(stored)
    source = stored.source.text
    if not stored.is_mutation:
        if body.embed is not None:
            raise bad_request(f"'{stored.name}' is a read; `embed` applies to mutations only")
        if call.get(IF_COMMIT) is not None:
            raise bad_request(f"'{stored.name}' is a read; {IF_COMMIT.name} applies to mutations")
        request = QueryRequest(
            query=source,
            name=stored.name,
            params=parse_params(body.params),
            branch=body.branch,
            snapshot=body.snapshot,
        )
        target = parse_target(request.branch, request.snapshot)
        if target.branch is not None:
            call.require(Action.READ, branch=target.branch, target=None)
        with hide_stored_text(stored):
            return await _respond_rows(call, request)
    if body.snapshot is not None:
        raise bad_request(f"'{stored.name}' is a mutation; it runs on a branch, not at a snapshot")
    # A page of another site cannot send this type without the server's consent, so a write requires
    # it even if its body is empty.
    require_json(call.header("content-type") or "")
    call.require(Action.CHANGE, branch=parse_branch(body.branch), target=None)
    with hide_stored_text(stored):
        return await _respond_mutation(
            call,
            MutateRequest(
                query=source,
                name=stored.name,
                params=body.params,
                branch=body.branch,
                embed=body.embed,
            ),
        )


def get_query(call: RequestContext, name: str) -> StoredQuery:
    """The stored query of a name; without permission, the same 404 as for an unknown name."""
    stored = call.graph.queries.get(name)
    if not call.may(Action.INVOKE_QUERY, branch=None) or stored is None:
        raise not_found("stored query not found")
    return stored


@contextmanager
def hide_stored_text(stored: StoredQuery) -> Iterator[None]:
    """A block whose errors reveal neither the text of a stored query nor what it refers to."""
    try:
        yield
    except CompileError as error:
        raise bad_request(
            f"stored query '{stored.name}' is not valid for the schema that the caller may see"
        ) from error


def _alias(successor: Route, id: str, summary: str) -> Route:
    """A deprecated path of a route; its OpenAPI id is the last segment of the path."""
    assert successor.operation is not None
    return replace(
        successor,
        path=f"{GRAPH}/{id}",
        operation=replace(successor.operation, id=id),
        summary=summary,
        successor=successor.name,
    )


ROUTES: tuple[Route, ...] = (
    query,
    replace(read, successor="query"),
    explain,
    mutate,
    load,
    _alias(mutate, "change", "Run a mutation; use `mutate`"),
    _alias(load, "ingest", "Load rows; use `load`"),
    invoke,
    list_queries,
)
