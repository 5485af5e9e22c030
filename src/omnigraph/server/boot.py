"""Opening what a server serves: every graph that can be, or a reason not to start.

A graph that cannot be served is left out and logged; the others do not wait for it. What is open
already and came from the same source stays open, so that a reload keeps what reads remember. Reads
no environment and no flags.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import GraphError, NotFoundError
from omnigraph.model.source import Source as Text
from omnigraph.model.types import Vector
from omnigraph.server.limits import GRAPHS_OPENED_AT_ONCE
from omnigraph.server.logs import Log
from omnigraph.server.served import Judge, Served, is_graph_id
from omnigraph.server.settings import BootError
from omnigraph.wire.stored_queries import StoredQuery

ReadQueries = Callable[[Catalog], Mapping[str, StoredQuery]]
"""Reads the stored queries of a graph, which have to fit its schema."""


@dataclass(frozen=True, slots=True)
class Source:
    """A graph to serve: under which id, how it is opened, and who decides about it.

    Two sources of one `origin` open the same graph in the same way. No queries means that there
    are none, and nobody has to look at the schema.
    """

    id: str
    origin: Hashable
    settings: Callable[[], Settings]
    gate: Callable[[], Judge | None]
    queries: ReadQueries | None
    is_managed: bool


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A graph that is not served, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Opened:
    """What is served, by id, and what is not."""

    by_id: Mapping[str, Served]
    quarantined: tuple[Quarantined, ...]


def open_sources(
    sources: Sequence[Source],
    *,
    left_out: Sequence[Quarantined],
    open_by_id: Mapping[str, Served],
    is_every_one_needed: bool,
    log: Log,
) -> Opened:
    """Open what can be opened; `BootError` if that is nothing, or less than all is not enough.

    `left_out` are graphs that nobody has to try, `open_by_id` what is open already.
    """
    with ThreadPoolExecutor(max_workers=GRAPHS_OPENED_AT_ONCE) as pool:
        opened = list(pool.map(partial(_open, open_by_id), sources))
    served = [each for each in opened if isinstance(each, Served)]
    missing = [*left_out, *(each for each in opened if isinstance(each, Quarantined))]
    for left in missing:
        log.warning("graph quarantined", graph=left.id, reason=left.reason)
    if missing and (is_every_one_needed or not served):
        kept = {each.graph for each in open_by_id.values()}
        for healthy in served:
            if healthy.graph not in kept:
                healthy.graph.close()
        reasons = "; ".join(f"'{each.id}': {each.reason}" for each in missing)
        raise BootError(f"{'not every' if served else 'no'} graph can be served: {reasons}")
    for each in served:
        _advise(each, log)
    by_id = {each.id: each for each in sorted(served, key=lambda each: each.id)}
    return Opened(by_id, tuple(missing))


def _open(open_by_id: Mapping[str, Served], source: Source) -> Served | Quarantined:
    if not is_graph_id(source.id):
        return Quarantined(source.id, "its id has to be 1 to 64 letters, digits and hyphens")
    before = open_by_id.get(source.id)
    try:
        settings = source.settings()
        if before is not None and before.origin == source.origin:
            return replace(before, queries=_read_queries(source, settings))
        gate = source.gate()
        graph = open_graph(replace(settings, gate=gate), actor=None, is_read_only=False)
    except GraphError as error:
        return Quarantined(source.id, _tell(error, source))
    try:
        # Once it is open and so recovered: queries have to fit the schema that holds then.
        queries = _read_queries(source, settings)
    except GraphError as error:
        graph.close()
        return Quarantined(source.id, str(error))
    return Served(source.id, graph, gate, queries, source.is_managed, source.origin)


def _tell(error: GraphError, source: Source) -> str:
    """Why a graph cannot be opened; what is a cluster's is not made by hand."""
    if source.is_managed and isinstance(error, NotFoundError) and error.kind == "graph":
        return (
            "it is not where it was applied; `omnigraph cluster refresh` and then `omnigraph "
            "cluster apply` make it anew"
        )
    return str(error)


def _advise(served: Served, log: Log) -> None:
    for query in served.queries.values():
        if any(isinstance(each.type.element, Vector) for each in query.parameters):
            log.event(
                "stored query takes a vector",
                graph=served.id,
                query=query.name,
                advice="agents rarely have one; take a text, and `nearest` embeds it",
            )


def _read_queries(source: Source, settings: Settings) -> Mapping[str, StoredQuery]:
    if source.queries is None:
        return {}
    # The schema is asked for before anybody has a name, so past the gate.
    with open_graph(replace(settings, gate=None), actor=None, is_read_only=True) as graph:
        catalog = compile_schema(Text("<schema>", graph.schema_source))
    return source.queries(catalog)
