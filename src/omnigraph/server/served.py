"""The graphs that a server serves, by their ids.

Decides what an id of a graph is; knows no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from omnigraph.engine.graph import Graph
from omnigraph.policy.gate import DefaultDenyGate, PolicyGate
from omnigraph.wire.stored_queries import StoredQuery

Judge = PolicyGate | DefaultDenyGate
"""Who decides what an actor may do, and can say by which rule."""

RESERVED_IDS = frozenset({"policies", "healthz", "openapi", "graphs"})
_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")

DEFAULT_ID = "default"
"""The id of the graph of a server that was started for one graph alone."""


@dataclass(frozen=True, slots=True)
class Served:
    """One graph that is served: who may do what with it is asked of its gate, if it has one."""

    id: str
    graph: Graph
    gate: Judge | None
    queries: Mapping[str, StoredQuery]
    is_managed: bool
    """Whether its schema belongs to a cluster, which alone changes it."""
    origin: Hashable
    """What it was opened by: a source with the same need not open it again."""

    def for_actor(self, actor: str | None) -> Graph:
        """The graph as one actor may use it."""
        return self.graph if actor is None else self.graph.for_actor(actor)


def is_graph_id(text: str) -> bool:
    """Whether a graph may be served under a name."""
    return _ID.fullmatch(text) is not None and text not in RESERVED_IDS
