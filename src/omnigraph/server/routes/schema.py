"""The routes that show, plan and apply the schema."""

from __future__ import annotations

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import Graph
from omnigraph.http.encode import schema_apply_output, schema_plan_output
from omnigraph.http.responses import SchemaApplyOutput, SchemaOutput
from omnigraph.http.stored_queries import find_broken
from omnigraph.model.errors import CompileError, ForbiddenError
from omnigraph.model.limits import BODY_BYTES_MAX
from omnigraph.model.names import MAIN
from omnigraph.model.ports import Action
from omnigraph.model.source import Source
from omnigraph.server.context import GRAPH, Body, RequestContext, Route
from omnigraph.server.requests import SCHEMA
from omnigraph.server.responses import Response, answer_json, bad_request, conflict
from omnigraph.server.routes.parameters import parse_write_options, with_commit


async def show(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/schema"""
    call.require(Action.READ, branch=None, target=None)
    output: SchemaOutput = {"schema_source": await call.read(lambda graph: graph.schema_source)}
    return answer_json(output)


async def plan(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/schema/plan"""
    asked = SCHEMA.read(call.body)
    call.require(Action.READ, branch=None, target=None)
    planned = await call.read(
        lambda graph: graph.plan_schema(
            asked.schema_source, allow_data_loss=asked.allow_data_loss is True
        )
    )
    return answer_json(schema_plan_output(planned, uri=call.uri))


async def apply(call: RequestContext) -> Response:
    """POST /graphs/{graph_id}/schema/apply"""
    asked = SCHEMA.read(call.body)
    call.require(Action.SCHEMA_APPLY, branch=None, target=MAIN)
    if call.is_managed:
        raise conflict(
            "the schema of this graph belongs to a cluster; change it there and run `cluster apply`"
        )
    terms = parse_write_options(call)

    def work(graph: Graph) -> SchemaApplyOutput:
        _require_queries_fit(call, asked.schema_source)
        done = graph.apply_schema(
            asked.schema_source,
            allow_data_loss=asked.allow_data_loss is True,
            engine=asked.engine or "auto",
            if_commit=terms.if_commit,
            idempotency_key=terms.idempotency_key,
        )
        return schema_apply_output(done, uri=call.uri, manifest_version=_find_version(graph))

    with call.admit(len(call.body)):
        output = await call.write(work)
    return with_commit(answer_json(output), output["commit_id"])


def _require_queries_fit(call: RequestContext, schema: str) -> None:
    queries = call.queries
    if not queries:
        return
    broken = find_broken(queries.values(), catalog=compile_schema(Source("<schema>", schema)))
    if broken:
        name, error = next(iter(broken.items()))
        if _may_see_texts(call):
            # The error does not name the file, which is a path on this machine.
            error = CompileError(
                diagnostics=error.diagnostics,
                source=Source(f"<stored query {name}>", error.source.text),
            )
            raise bad_request(
                f"stored query '{name}' fails the schema check, so the schema is unchanged: {error}"
            )
        raise bad_request(
            "a stored query of this graph fails the schema check, so the schema is unchanged; "
            "a caller who may read all of 'main' is shown which one"
        )


def _may_see_texts(call: RequestContext) -> bool:
    # The error quotes lines of the query, which name properties that a view may hide.
    try:
        call.require(Action.READ, branch=MAIN, target=None)
    except ForbiddenError:
        return False
    return call.sees_all(MAIN)


def _find_version(graph: Graph) -> int | None:
    """The version of `main`'s manifest; None if the caller may apply a schema but not read."""
    try:
        return graph.snapshot(MAIN).commit.manifest_version
    except ForbiddenError:
        return None


SCHEMA_ROUTES = (
    Route("GET", f"{GRAPH}/schema", Body.NONE, 0, show),
    Route("POST", f"{GRAPH}/schema/plan", Body.JSON, BODY_BYTES_MAX, plan),
    Route("POST", f"{GRAPH}/schema/apply", Body.JSON, BODY_BYTES_MAX, apply),
)
