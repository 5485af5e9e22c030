"""Opening a graph: creating one, or finding one and seeing that it is whole."""

from __future__ import annotations

from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import Graph
from omnigraph.engine.ops.create import create_graph, delete_graph, has_history, is_graph
from omnigraph.engine.settings import Settings, open_stores, require_text
from omnigraph.engine.state.contract import SOURCE_FILE
from omnigraph.model.errors import CorruptError
from omnigraph.model.names import MAIN
from omnigraph.model.source import Source


def init_graph(settings: Settings, *, schema: str, is_forced: bool) -> Graph:
    """Create a graph and open it for writing."""
    require_text(schema, subject="schema")
    catalog = compile_schema(Source("<schema>", schema))
    stores = open_stores(settings)
    if is_forced and is_graph(stores):
        delete_graph(stores)
        stores = open_stores(settings)
    create_graph(
        uri=settings.location.uri,
        source=schema,
        catalog=catalog,
        stores=stores,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
    )
    return Graph(settings, stores, actor=None, is_read_only=False)


def open_graph(settings: Settings, *, actor: str | None, is_read_only: bool) -> Graph:
    """Open a graph; `NotFoundError` if there is none, `CorruptError` if it is damaged."""
    stores = open_stores(settings)
    if stores.objects.find(SOURCE_FILE) is None and has_history(stores):
        raise CorruptError(
            subject=f"the graph at {settings.location.uri}",
            problem=f"its {SOURCE_FILE} is missing; restore it from a copy",
        )
    graph = Graph(settings, stores, actor=actor, is_read_only=is_read_only)
    if is_read_only:
        # Nobody asks for anything yet, so no gate is asked either.
        graph._open.pin(MAIN)  # noqa: SLF001
    else:
        graph.refresh()
    return graph
