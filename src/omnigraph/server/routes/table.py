"""The route table, and the routes for health, metrics, graphs, reload, jobs and MCP.

Routes are matched in table order, the most frequent first. A caller sees and cancels only its own
jobs. The MCP route is not part of the OpenAPI document. The MCP SDK is imported by the first
request that needs it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib import import_module

import orjson

from omnigraph.http.responses import GraphList, HealthOutput, JobList, JobOutput, ReloadOutput
from omnigraph.mcp.ports import agent_branch
from omnigraph.model.names import MAIN
from omnigraph.model.ports import Action
from omnigraph.policy.gate import PolicyGate
from omnigraph.server.context import (
    GRAPH,
    Operation,
    Pool,
    RequestContext,
    Route,
    Scope,
    Tag,
    route,
    route_with_body,
)
from omnigraph.server.peers import WorkerGroup
from omnigraph.server.requests import Body
from omnigraph.server.responses import (
    JSON,
    Response,
    bytes_response,
    conflict,
    json_response,
)
from omnigraph.server.routes import entities, history, queries, retrievals, schema
from omnigraph.server.routes.openapi import openapi_document
from omnigraph.server.settings import StartupError
from omnigraph.server.startup import address_of
from omnigraph.server.telemetry import CONTENT_TYPE, Metrics, hide_graphs


@route(
    "GET /graphs",
    Operation("listGraphs", Tag.MANAGEMENT, (GraphList,), statuses=(403,)),
    action=Action.GRAPH_LIST,
)
async def list_graphs(call: RequestContext) -> Response:
    """List the open graphs by id."""
    ids = sorted(call.revision.graphs)
    return json_response(GraphList(graphs=[{"graph_id": id, "uri": address_of(id)} for id in ids]))


@route(
    "POST /admin/reload",
    Operation("reload", Tag.MANAGEMENT, (ReloadOutput,), statuses=(403, 409, 429)),
    action=Action.ADMIN,
    pool=Pool.WRITE,
)
async def reload(call: RequestContext) -> Response:
    """Reload the applied configuration; requests in progress are completed."""
    try:
        return json_response(await call.server.writes.run(call.server.reload))
    except StartupError as error:
        raise conflict(f"the server keeps its current configuration: {error}") from error


def _job_scope(call: RequestContext) -> Scope | None:
    # A caller with jobs was allowed to start them; any other caller must be allowed to read.
    jobs, graph_id = call.server.jobs, call.graph.id
    if "job_id" not in call.path_parameters:
        return None if jobs.list(graph_id=graph_id, actor=call.actor) else (None, None)
    found = jobs.find(call.name("job_id"), graph_id=graph_id, actor=call.actor)
    return (None, None) if found is None else None


@route(
    f"GET {GRAPH}/jobs",
    Operation("listJobs", Tag.MUTATIONS, (JobList,), statuses=()),
    action=Action.READ,
    scope=_job_scope,
)
async def list_jobs(call: RequestContext) -> Response:
    """List the background loads of the caller, oldest first."""
    jobs = call.server.jobs.list(graph_id=call.graph.id, actor=call.actor)
    return json_response(JobList(jobs=jobs))


@route(
    f"GET {GRAPH}/jobs/{{job_id}}",
    Operation("getJob", Tag.MUTATIONS, (JobOutput,), statuses=(404,)),
    action=Action.READ,
    scope=_job_scope,
)
async def show_job(call: RequestContext) -> Response:
    """Get the progress and the result of a background load."""
    job_id = call.name("job_id")
    return json_response(call.server.jobs.get(job_id, graph_id=call.graph.id, actor=call.actor))


@route(
    f"DELETE {GRAPH}/jobs/{{job_id}}",
    Operation("cancelJob", Tag.MUTATIONS, (JobOutput,), statuses=(404,)),
    action=Action.READ,
    scope=_job_scope,
)
async def cancel_job(call: RequestContext) -> Response:
    """Cancel a background load; nothing is written unless it had finished."""
    job_id = call.name("job_id")
    return json_response(call.server.jobs.cancel(job_id, graph_id=call.graph.id, actor=call.actor))


ROUTES: tuple[Route, ...] = (
    *queries.ROUTES,
    *retrievals.ROUTES,
    *entities.ROUTES,
    *history.ROUTES,
    *schema.ROUTES,
    list_jobs,
    show_job,
    cancel_job,
    list_graphs,
    reload,
)


def make_routes(
    *,
    version: str,
    source_version: str | None,
    metrics: Metrics,
    group: WorkerGroup | None,
    is_authenticated: bool,
    agents_write_main: bool,
) -> tuple[Route, ...]:
    """All routes of a server.

    Unless `agents_write_main`, the tools of the MCP route do not write to protected branches.
    `group` are the workers of a server of several processes.
    """
    alive: HealthOutput = {"status": "ok", "version": version}
    if source_version is not None:
        alive["source_version"] = source_version

    @route(
        "GET /healthz", Operation("health", Tag.HEALTH, (HealthOutput,), statuses=()), action=None
    )
    async def health(call: RequestContext) -> Response:
        """Check that the server responds."""
        del call
        return json_response(alive)

    @route("GET /metrics", None, action=None)
    async def show_metrics(call: RequestContext) -> Response:
        # An operator that makes the path public shows all graphs: the caller then has no actor.
        hidden = frozenset() if call.actor is None else call.hidden_graphs()
        if group is None:
            text = metrics.encode(hidden=hidden)
        else:
            # Not on a read thread, because metrics matter most when all of those are taken.
            text = hide_graphs(await asyncio.to_thread(group.read_metrics), hidden)
        return bytes_response(text, content_type=CONTENT_TYPE)

    @route_with_body(f"POST {GRAPH}/mcp", None, Body(None, lambda given: given), action=None)
    async def mcp(call: RequestContext, body: bytes) -> Response:
        del body
        _require_tools(call)
        # Imported by name and on a thread, because the SDK is slow to import and most servers
        # receive no MCP request.
        module = await call.server.reads.run(partial(import_module, "omnigraph.server.mcp"))
        response: Response = await module.respond_to_agent(
            call, protected=frozenset() if agents_write_main else _protected_branches(call)
        )
        return response

    documented = (*ROUTES, health)
    document = orjson.dumps(
        openapi_document(documented, version=version, is_authenticated=is_authenticated)
    )

    @route("GET /openapi.json", None, action=None)
    async def show_document(call: RequestContext) -> Response:
        del call
        return bytes_response(document, content_type=JSON)

    return (*documented, mcp, show_document, show_metrics)


def _require_tools(call: RequestContext) -> None:
    """Raise 403 for a caller that may neither run stored queries nor read: it has no tools."""
    may_invoke = call.may(Action.INVOKE_QUERY, branch=None)
    if not (may_invoke or any(call.may(Action.READ, branch=each) for each in (None, MAIN))):
        call.require(Action.READ, branch=agent_branch(call.actor), target=None)


def _protected_branches(call: RequestContext) -> frozenset[str]:
    gate = call.graph.gate
    return frozenset({MAIN}) | (
        gate.protected_branches if isinstance(gate, PolicyGate) else frozenset()
    )
