"""Every route of the server, the busiest first: they are tried in this order."""

from __future__ import annotations

from omnigraph.server.openapi import openapi_document
from omnigraph.server.routes import (
    branches,
    entities,
    exports,
    history,
    jobs,
    management,
    mcp,
    reads,
    retrievals,
    schemas,
    stored,
    writes,
)
from omnigraph.server.routing import Route

ROUTES: tuple[Route, ...] = (
    *reads.ROUTES,
    *writes.ROUTES,
    *stored.ROUTES,
    *retrievals.ROUTES,
    *entities.ROUTES,
    *history.ROUTES,
    *branches.ROUTES,
    *exports.ROUTES,
    *schemas.ROUTES,
    *jobs.ROUTES,
    *management.ROUTES,
)


def make_routes(
    *, version: str, is_authenticated: bool, agents_write_main: bool
) -> tuple[Route, ...]:
    """All routes of a server, its own description and that of agents included."""
    document = openapi_document(version=version, is_authenticated=is_authenticated)
    agents = mcp.make_route(allows_main=agents_write_main)
    return (*ROUTES, agents, management.make_description(document))
