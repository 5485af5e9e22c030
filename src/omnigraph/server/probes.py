"""The routes about the server itself: whether it lives, and what it has counted."""

from __future__ import annotations

from omnigraph.server.answers import Answer, answer_bytes, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.metrics import CONTENT_TYPE, Metrics
from omnigraph.server.routing import Body, Route


def make_probes(*, version: str, source_version: str | None, metrics: Metrics) -> tuple[Route, ...]:
    """`GET /healthz` and `GET /metrics`."""
    alive: dict[str, str] = {"status": "ok", "version": version}
    if source_version is not None:
        alive["source_version"] = source_version

    async def health(call: Call) -> Answer:
        del call
        return answer_json(alive)

    async def count(call: Call) -> Answer:
        del call
        return answer_bytes(metrics.encode(), content_type=CONTENT_TYPE)

    return (
        Route("GET", "/healthz", Body.NONE, 0, health),
        Route("GET", "/metrics", Body.NONE, 0, count),
    )
