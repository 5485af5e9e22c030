"""The route table, and the routes for health, metrics, graphs, reload, jobs and MCP.

Routes are matched in table order, the most frequent first. A caller sees and cancels only its own
jobs. The MCP route is not part of the OpenAPI document. The MCP SDK is imported by the first
request that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module

import orjson

from omnigraph.http.responses import GraphList, JobList, ReloadOutput
from omnigraph.mcp.ports import agent_branch
from omnigraph.model.errors import ForbiddenError
from omnigraph.model.limits import BODY_BYTES_MAX
from omnigraph.model.names import MAIN
from omnigraph.model.ports import Action
from omnigraph.policy.gate import PolicyGate
from omnigraph.server.context import GRAPH, Body, RequestContext, Route
from omnigraph.server.responses import JSON, Response, answer_bytes, answer_json, conflict
from omnigraph.server.routes import entities, history, queries, retrievals, schema
from omnigraph.server.routes.openapi import openapi_document
from omnigraph.server.settings import StartupError
from omnigraph.server.startup import address_of
from omnigraph.server.telemetry import CONTENT_TYPE, Metrics


async def list_graphs(call: RequestContext) -> Response:
    """GET /graphs"""
    call.require_of_server(Action.GRAPH_LIST)
    served = call.revision.graphs
    output: GraphList = {
        "graphs": [{"graph_id": id, "uri": address_of(id)} for id in sorted(served)]
    }
    return answer_json(output)


async def reload(call: RequestContext) -> Response:
    """POST /admin/reload"""
    call.require_of_server(Action.ADMIN)
    try:
        prepared = await call.means.writes.run(call.means.reload)
    except StartupError as error:
        raise conflict(f"nothing was changed, and all is served as before: {error}") from error
    output: ReloadOutput = {
        "revision": prepared.revision.number,
        "graphs": sorted(prepared.revision.graphs),
        "quarantined": [
            {"graph_id": each.id, "reason": each.reason} for each in prepared.quarantined
        ],
    }
    return answer_json(output)


def make_description(document: Mapping[str, object]) -> Route:
    """`GET /openapi.json`."""
    body = orjson.dumps(document)

    async def describe(call: RequestContext) -> Response:
        del call
        return answer_bytes(body, content_type=JSON)

    return Route("GET", "/openapi.json", Body.NONE, 0, describe)


MANAGEMENT_ROUTES = (
    Route("GET", "/graphs", Body.NONE, 0, list_graphs),
    Route("POST", "/admin/reload", Body.NONE, 0, reload),
)


async def list_jobs(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/jobs"""
    found = call.means.jobs.list(graph_id=call.graph_id, actor=call.actor)
    if not found:
        # A caller with jobs was allowed to start them; any other caller must be allowed to read.
        call.require(Action.READ, branch=None, target=None)
    output: JobList = {"jobs": found}
    return answer_json(output)


async def show_job(call: RequestContext) -> Response:
    """GET /graphs/{graph_id}/jobs/{job_id}"""
    job_id = call.name("job_id")
    _require_own(call, job_id)
    return answer_json(call.means.jobs.get(job_id, graph_id=call.graph_id, actor=call.actor))


async def cancel_job(call: RequestContext) -> Response:
    """DELETE /graphs/{graph_id}/jobs/{job_id}"""
    job_id = call.name("job_id")
    _require_own(call, job_id)
    return answer_json(call.means.jobs.cancel(job_id, graph_id=call.graph_id, actor=call.actor))


def _require_own(call: RequestContext, job_id: str) -> None:
    own = call.means.jobs.list(graph_id=call.graph_id, actor=call.actor)
    if all(each["job_id"] != job_id for each in own):
        call.require(Action.READ, branch=None, target=None)


JOB_ROUTES = (
    Route("GET", f"{GRAPH}/jobs", Body.NONE, 0, list_jobs),
    Route("GET", f"{GRAPH}/jobs/{{job_id}}", Body.NONE, 0, show_job),
    Route("DELETE", f"{GRAPH}/jobs/{{job_id}}", Body.NONE, 0, cancel_job),
)


def make_route(*, allows_main: bool) -> Route:
    """The MCP route; unless `allows_main`, its tools do not write to protected branches."""

    async def answer(call: RequestContext) -> Response:
        """POST /graphs/{graph_id}/mcp"""
        _require_any(call)
        # Imported by name and on a thread, because the SDK is slow to import and most servers
        # receive no MCP request.
        part = await call.means.reads.run(partial(import_module, "omnigraph.server.mcp"))
        answered: Response = await part.answer_agent(
            call, protected=frozenset() if allows_main else _protected_branches(call)
        )
        return answered

    return Route("POST", f"{GRAPH}/mcp", Body.JSON, BODY_BYTES_MAX, answer)


def _require_any(call: RequestContext) -> None:
    """Raise 403 for a caller that may neither run stored queries nor read: it has no tools."""
    allowed: list[tuple[Action, str | None]] = [
        (Action.INVOKE_QUERY, None),
        (Action.READ, None),
        (Action.READ, MAIN),
    ]
    for action, branch in allowed:
        with suppress(ForbiddenError):
            call.require(action, branch=branch, target=None)
            return
    call.require(Action.READ, branch=agent_branch(call.actor), target=None)


def _protected_branches(call: RequestContext) -> frozenset[str]:
    gate = None if call.served is None else call.served.gate
    return frozenset({MAIN}) | (
        gate.protected_branches if isinstance(gate, PolicyGate) else frozenset()
    )


ROUTES: tuple[Route, ...] = (
    *queries.READ_ROUTES,
    *queries.WRITE_ROUTES,
    *queries.STORED_QUERY_ROUTES,
    *retrievals.RETRIEVAL_ROUTES,
    *entities.ENTITY_ROUTES,
    *history.HISTORY_ROUTES,
    *history.BRANCH_ROUTES,
    *entities.EXPORT_ROUTES,
    *schema.SCHEMA_ROUTES,
    *JOB_ROUTES,
    *MANAGEMENT_ROUTES,
)


def make_routes(
    *, version: str, is_authenticated: bool, agents_write_main: bool
) -> tuple[Route, ...]:
    """All routes of a server, including the OpenAPI document and MCP."""
    document = openapi_document(version=version, is_authenticated=is_authenticated)
    agents = make_route(allows_main=agents_write_main)
    return (*ROUTES, agents, make_description(document))


def make_health_routes(
    *, version: str, source_version: str | None, metrics: Metrics
) -> tuple[Route, ...]:
    """`GET /healthz` and `GET /metrics`."""
    alive: dict[str, str] = {"status": "ok", "version": version}
    if source_version is not None:
        alive["source_version"] = source_version

    async def health(call: RequestContext) -> Response:
        del call
        return answer_json(alive)

    async def count(call: RequestContext) -> Response:
        # An operator that makes the path public shows all graphs: the caller then has no actor.
        hidden = frozenset() if call.actor is None else call.hidden_graphs()
        return answer_bytes(metrics.encode(hidden=hidden), content_type=CONTENT_TYPE)

    return (
        Route("GET", "/healthz", Body.NONE, 0, health),
        Route("GET", "/metrics", Body.NONE, 0, count),
    )
