"""Reaching a served graph: `omnigraph.connect`."""

from __future__ import annotations

from omnigraph.client.addresses import parse_graph_address
from omnigraph.client.asking import Asking, parse_patience
from omnigraph.client.exchanges import Exchanges
from omnigraph.client.limits import TIMEOUT_S
from omnigraph.client.remote import RemoteGraph
from omnigraph.client.routes import Routes


def connect(
    url: str, graph: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> RemoteGraph:
    """Reach a graph that a server holds; nothing is asked of the server yet.

    `graph` is what the server calls it, `default` if it was started for one graph. `token` says who
    is asking. `timeout_s` is how long each call waits for its answer to begin.
    """
    address, graph_id = parse_graph_address(url, graph)
    asking = Asking(Exchanges(address, token=token), parse_patience(timeout_s))
    return RemoteGraph(Routes(asking, graph_id))
