"""The routes about the server as a whole: which graphs it serves, and its own description."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from omnigraph.model.policy import Action
from omnigraph.server.answers import JSON, Answer, answer_bytes, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.routing import Body, Route
from omnigraph.wire.shapes import GraphList


async def list_graphs(call: Call) -> Answer:
    """GET /graphs"""
    call.require_of_server(Action.GRAPH_LIST)
    by_id = call.means.graphs.by_id
    output: GraphList = {
        "graphs": [{"graph_id": id, "uri": by_id[id].graph.uri} for id in sorted(by_id)]
    }
    return answer_json(output)


def make_description(document: Mapping[str, object]) -> Route:
    """`GET /openapi.json`."""
    body = orjson.dumps(document)

    async def describe(call: Call) -> Answer:
        del call
        return answer_bytes(body, content_type=JSON)

    return Route("GET", "/openapi.json", Body.NONE, 0, describe)


ROUTES = (Route("GET", "/graphs", Body.NONE, 0, list_graphs),)
