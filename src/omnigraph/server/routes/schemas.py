"""The routes about the schema: showing it, planning for another, and applying one."""

from __future__ import annotations

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import Graph
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.names import MAIN
from omnigraph.model.policy import Action
from omnigraph.model.source import Source
from omnigraph.server.answers import Answer, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX
from omnigraph.server.problems import bad_request, conflict
from omnigraph.server.requests import SCHEMA
from omnigraph.server.routes.terms import find_terms, with_commit
from omnigraph.server.routing import GRAPH, Body, Route
from omnigraph.wire.bodies import schema_apply_output, schema_plan_output
from omnigraph.wire.shapes import SchemaApplyOutput, SchemaOutput
from omnigraph.wire.stored_queries import find_broken


async def show(call: Call) -> Answer:
    """GET /graphs/{graph_id}/schema"""
    call.require(Action.READ, branch=None, target=None)
    output: SchemaOutput = {"schema_source": await call.read(lambda graph: graph.schema_source)}
    return answer_json(output)


async def plan(call: Call) -> Answer:
    """POST /graphs/{graph_id}/schema/plan"""
    asked = SCHEMA.read(call.body)
    call.require(Action.READ, branch=None, target=None)
    planned = await call.read(
        lambda graph: graph.plan_schema(
            asked.schema_source, allow_data_loss=asked.allow_data_loss is True
        )
    )
    return answer_json(schema_plan_output(planned, uri=call.uri))


async def apply(call: Call) -> Answer:
    """POST /graphs/{graph_id}/schema/apply"""
    asked = SCHEMA.read(call.body)
    call.require(Action.SCHEMA_APPLY, branch=None, target=MAIN)
    if call.is_managed:
        raise conflict(
            "the schema of this graph belongs to a cluster; change it there and run `cluster apply`"
        )
    terms = find_terms(call)

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


def _require_queries_fit(call: Call, schema: str) -> None:
    queries = call.queries
    if not queries:
        return
    broken = find_broken(queries.values(), catalog=compile_schema(Source("<schema>", schema)))
    if broken:
        name, error = next(iter(broken.items()))
        raise bad_request(
            f"stored query '{name}' fails the schema check, so the schema is unchanged: {error}"
        )


def _find_version(graph: Graph) -> int | None:
    """The version of `main`'s manifest; None for those who may apply a schema and read nothing."""
    try:
        return graph.snapshot(MAIN).commit.manifest_version
    except ForbiddenError:
        return None


ROUTES = (
    Route("GET", f"{GRAPH}/schema", Body.NONE, 0, show),
    Route("POST", f"{GRAPH}/schema/plan", Body.JSON, BODY_BYTES_MAX, plan),
    Route("POST", f"{GRAPH}/schema/apply", Body.JSON, BODY_BYTES_MAX, apply),
)
