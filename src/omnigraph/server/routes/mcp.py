"""The route of agents: tools and resources by the Model Context Protocol, a message a request.

No REST operation, so that the OpenAPI document leaves it out: its messages are the protocol's.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from urllib.parse import urlsplit

from omnigraph.model.names import MAIN
from omnigraph.policy.gate import PolicyGate
from omnigraph.server.answers import Answer
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX
from omnigraph.server.problems import forbidden
from omnigraph.server.routing import GRAPH, Body, Route

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def make_route(*, allows_main: bool) -> Route:
    """The route; without permission its tools write to no branch that anybody protects."""

    async def answer(call: Call) -> Answer:
        """POST /graphs/{graph_id}/mcp"""
        _require_origin(call)
        # By its name and on a thread, because the SDK takes a while to import, and most servers
        # never hear of an agent.
        part = await call.means.reads.run(partial(import_module, "omnigraph.server.agents"))
        answered: Answer = await part.answer_agent(
            call, protected=frozenset() if allows_main else _protected_branches(call)
        )
        return answered

    return Route("POST", f"{GRAPH}/mcp", Body.JSON, BODY_BYTES_MAX, answer)


def _protected_branches(call: Call) -> frozenset[str]:
    gate = None if call.served is None else call.served.gate
    return frozenset({MAIN}) | (
        gate.protected_branches if isinstance(gate, PolicyGate) else frozenset()
    )


def _require_origin(call: Call) -> None:
    """Refuse what a page from elsewhere makes a browser send to a server that knows nobody.

    A token is proof enough, as no browser adds one by itself. Without tokens a page whose name was
    made to lead to this machine could call every tool.
    """
    origin = call.header("origin")
    if origin is None or call.actor is not None:
        return
    try:
        host = urlsplit(origin).hostname
    except ValueError:
        host = None
    if host not in _HERE:
        raise forbidden("without tokens, agents in browsers are answered on this machine only")
