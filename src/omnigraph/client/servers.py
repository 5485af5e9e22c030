"""Which graphs a server serves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from omnigraph.client.addresses import parse_address
from omnigraph.client.asking import Asking, parse_patience, read_made
from omnigraph.client.exchanges import Exchanges, Request
from omnigraph.client.routes import list_field

LISTING_S = 30.0
"""How long to wait for the list: nothing is worked out for it."""


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """A graph that a server holds: what it is called there, and where it is stored."""

    graph_id: str
    uri: str


def list_graphs(
    url: str, token: str | None = None, *, timeout_s: float = LISTING_S
) -> list[ServedGraph]:
    """The graphs of a server by id; `ForbiddenError` unless its policy lets the caller see them."""
    exchanges = Exchanges(parse_address(url), token=token)
    with closing(Asking(exchanges, parse_patience(timeout_s))) as asking:
        request = Request("GET", ("graphs",), "list the graphs")
        make = list_field("graphs", _graph_of)
        return asking.ask(request, lambda reply: read_made(reply, make))


def _graph_of(body: Mapping[str, object]) -> ServedGraph:
    return ServedGraph(str(body["graph_id"]), str(body["uri"]))
