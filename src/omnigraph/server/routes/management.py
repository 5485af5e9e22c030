"""The routes about the server as a whole: which graphs it serves, and its own description."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from omnigraph.model.policy import Action
from omnigraph.server.answers import JSON, Answer, answer_bytes, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.problems import conflict
from omnigraph.server.routing import Body, Route
from omnigraph.server.settings import BootError
from omnigraph.wire.shapes import GraphList, ReloadOutput


async def list_graphs(call: Call) -> Answer:
    """GET /graphs"""
    call.require_of_server(Action.GRAPH_LIST)
    served = call.revision.graphs
    output: GraphList = {
        "graphs": [{"graph_id": id, "uri": served[id].graph.uri} for id in sorted(served)]
    }
    return answer_json(output)


async def reload(call: Call) -> Answer:
    """POST /admin/reload"""
    call.require_of_server(Action.ADMIN)
    try:
        prepared = await call.means.writes.run(call.means.reload)
    except BootError as error:
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

    async def describe(call: Call) -> Answer:
        del call
        return answer_bytes(body, content_type=JSON)

    return Route("GET", "/openapi.json", Body.NONE, 0, describe)


ROUTES = (
    Route("GET", "/graphs", Body.NONE, 0, list_graphs),
    Route("POST", "/admin/reload", Body.NONE, 0, reload),
)
