"""Opening what a server serves: every graph that can be, or a reason not to start.

A graph that cannot be served is left out and logged; the others do not wait for it. Reads no
environment and no flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.model.errors import GraphError
from omnigraph.model.source import Source as Text
from omnigraph.server.limits import GRAPHS_OPENED_AT_ONCE
from omnigraph.server.logs import Log
from omnigraph.server.served import Judge, Served, is_graph_id
from omnigraph.server.settings import BootError
from omnigraph.wire.stored_queries import StoredQuery, read_stored_queries


@dataclass(frozen=True, slots=True)
class Source:
    """A graph to serve: under which id, how it is opened, and who decides about it."""

    id: str
    settings: Callable[[], Settings]
    gate: Judge | None
    queries: Path | None
    is_managed: bool


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A graph that is not served, and why."""

    id: str
    reason: str


def open_sources(
    sources: Sequence[Source], *, is_every_one_needed: bool, log: Log
) -> dict[str, Served]:
    """Open what can be opened; `BootError` if that is nothing, or less than all is not enough."""
    with ThreadPoolExecutor(max_workers=GRAPHS_OPENED_AT_ONCE) as pool:
        opened = list(pool.map(_open, sources))
    served = [each for each in opened if isinstance(each, Served)]
    left_out = [each for each in opened if isinstance(each, Quarantined)]
    for each in left_out:
        log.warning("graph quarantined", graph=each.id, reason=each.reason)
    reasons = "; ".join(f"'{each.id}': {each.reason}" for each in left_out)
    if left_out and (is_every_one_needed or not served):
        for healthy in served:
            healthy.graph.close()
        raise BootError(f"{'not every' if served else 'no'} graph can be served: {reasons}")
    return {each.id: each for each in sorted(served, key=lambda each: each.id)}


def _open(source: Source) -> Served | Quarantined:
    if not is_graph_id(source.id):
        return Quarantined(source.id, "its id has to be 1 to 64 letters, digits and hyphens")
    try:
        settings = replace(source.settings(), gate=source.gate)
        graph = open_graph(settings, actor=None, is_read_only=False)
        queries = _read_queries(source, settings)
    except GraphError as error:
        return Quarantined(source.id, str(error))
    return Served(source.id, graph, source.gate, queries, source.is_managed)


def _read_queries(source: Source, settings: Settings) -> Mapping[str, StoredQuery]:
    if source.queries is None:
        return {}
    # The schema is asked for before anybody has a name, so past the gate.
    with open_graph(replace(settings, gate=None), actor=None, is_read_only=True) as graph:
        catalog = compile_schema(Text("<schema>", graph.schema_source))
    return read_stored_queries(source.queries, catalog=catalog)
