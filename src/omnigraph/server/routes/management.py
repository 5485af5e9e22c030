"""The routes about the server as a whole: which graphs it serves, and its own description."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from omnigraph.model.policy import Access, Action
from omnigraph.server.answers import JSON, Answer, answer_bytes, answer_json
from omnigraph.server.calls import Call
from omnigraph.server.problems import forbidden
from omnigraph.server.routing import Body, Route
from omnigraph.server.shapes import GraphList


async def list_graphs(call: Call) -> Answer:
    """GET /graphs"""
    graphs = call.means.graphs
    if graphs.gate is None:
        raise forbidden("listing graphs needs a policy of the server that allows 'graph_list'")
    graphs.gate.require(Access(call.actor, Action.GRAPH_LIST, None, None))
    output: GraphList = {
        "graphs": [
            {"graph_id": id, "uri": graphs.by_id[id].graph.uri} for id in sorted(graphs.by_id)
        ]
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
