"""The routes that show, plan and apply the schema."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import Graph
from omnigraph.engine.results import MigrationPlan
from omnigraph.http.encode import schema_apply_output, schema_plan_output
from omnigraph.http.responses import SchemaApplyOutput, SchemaOutput, SchemaPlanOutput
from omnigraph.http.stored_queries import find_broken
from omnigraph.model.errors import CompileError, ForbiddenError
from omnigraph.model.names import MAIN
from omnigraph.model.ports import Action
from omnigraph.model.source import Source
from omnigraph.server.context import (
    GRAPH,
    Operation,
    Pool,
    RequestContext,
    Route,
    Tag,
    route,
    route_with_body,
)
from omnigraph.server.requests import (
    WRITE_OPTIONS,
    SchemaPlanRequest,
    SchemaRequest,
    json_body,
)
from omnigraph.server.responses import Response, bad_request, conflict, json_response


@route(
    f"GET {GRAPH}/schema",
    Operation("getSchema", Tag.SCHEMA, (SchemaOutput,), statuses=(403, 409, 500)),
    action=Action.READ,
)
async def show(call: RequestContext) -> Response:
    """Get the source of the accepted schema."""
    source = await call.run(lambda graph: graph.schema_source)
    return json_response(SchemaOutput(schema_source=source))


@route_with_body(
    f"POST {GRAPH}/schema/plan",
    Operation("planSchema", Tag.SCHEMA, (SchemaPlanOutput,)),
    json_body(SchemaPlanRequest),
    action=Action.READ,
)
async def plan(call: RequestContext, body: SchemaPlanRequest) -> Response:
    """Plan the migration to another schema without applying it."""

    def work(graph: Graph) -> MigrationPlan:
        planned = graph.plan_schema(
            body.schema_source, allow_data_loss=body.allow_data_loss is True
        )
        own = (_MANAGED if call.graph.is_managed else None, _find_misfit(call, body.schema_source))
        blockers = (*planned.blockers, *(each for each in own if each is not None))
        return replace(planned, supported=planned.supported and not blockers, blockers=blockers)

    return json_response(schema_plan_output(await call.run(work), uri=call.uri))


_MANAGED = "a cluster manages the schema of this graph; change it there and run `cluster apply`"


@route_with_body(
    f"POST {GRAPH}/schema/apply",
    Operation("applySchema", Tag.SCHEMA, (SchemaApplyOutput,)),
    json_body(SchemaRequest),
    action=Action.SCHEMA_APPLY,
    scope=lambda *_: (None, MAIN),
    pool=Pool.WRITE,
    parameters=WRITE_OPTIONS,
)
async def apply(call: RequestContext, body: SchemaRequest) -> Response:
    """Apply a schema; 409 if a cluster manages the schema of the graph."""
    if call.graph.is_managed:
        raise conflict(_MANAGED)

    def work(graph: Graph) -> SchemaApplyOutput:
        misfit = _find_misfit(call, body.schema_source)
        if misfit is not None:
            raise bad_request(misfit)
        done = graph.apply_schema(
            body.schema_source,
            allow_data_loss=body.allow_data_loss is True,
            engine=body.engine or "auto",
            **call.write_options,
        )
        return schema_apply_output(done, uri=call.uri, manifest_version=_find_version(graph))

    output = await call.run(work)
    return json_response(output, commit_id=output["commit_id"])


def _find_misfit(call: RequestContext, schema: str) -> str | None:
    """What prevents a schema because of a stored query that it would break."""
    queries = call.graph.queries
    if not queries:
        return None
    broken = find_broken(queries.values(), catalog=compile_schema(Source("<schema>", schema)))
    if not broken:
        return None
    name, error = next(iter(broken.items()))
    # The error quotes lines of the query, which name properties that a view may hide.
    if not (call.may(Action.READ, branch=MAIN) and call.sees_all(MAIN)):
        return (
            "a stored query of this graph fails the schema check, so the schema is unchanged; "
            "only callers that may read all of 'main' see its name"
        )
    # The error does not name the file, which is a path on this machine.
    error = CompileError(
        diagnostics=error.diagnostics,
        source=Source(f"<stored query {name}>", error.source.text),
    )
    return f"stored query '{name}' fails the schema check, so the schema is unchanged: {error}"


def _find_version(graph: Graph) -> int | None:
    """The version of `main`'s manifest; None if the caller may apply a schema but not read."""
    try:
        return graph.snapshot(MAIN).commit.manifest_version
    except ForbiddenError:
        return None


ROUTES: tuple[Route, ...] = (show, plan, apply)
