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
    reads,
    schemas,
    stored,
    writes,
)
from omnigraph.server.routing import Route

ROUTES: tuple[Route, ...] = (
    *reads.ROUTES,
    *writes.ROUTES,
    *stored.ROUTES,
    *entities.ROUTES,
    *history.ROUTES,
    *branches.ROUTES,
    *exports.ROUTES,
    *schemas.ROUTES,
    *jobs.ROUTES,
    *management.ROUTES,
)


def make_routes(*, version: str, is_authenticated: bool) -> tuple[Route, ...]:
    """All routes of a server, its own description included."""
    document = openapi_document(version=version, is_authenticated=is_authenticated)
    return (*ROUTES, management.make_description(document))
