"""An opened graph offered to an agent: its stored queries found, and who writes where decided.

Imported when `omnigraph mcp` runs, because the engine and the SDK are.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.client.remote import RemoteGraph
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.graph import Graph
from omnigraph.mcp.opened import OpenedGraph, QueriesOfFiles, QueriesOfServer
from omnigraph.mcp.placing import WriteRule, own_branch
from omnigraph.mcp.ports import ToolGraph
from omnigraph.mcp.stdio import serve_stdio
from omnigraph.mcp.toolbox import Toolbox
from omnigraph.model.names import MAIN
from omnigraph.model.source import Source
from omnigraph.wire.stored_queries import read_stored_queries


def serve_graph(graph: Graph, queries: str | None, *, is_ad_hoc: bool, allows_main: bool) -> None:
    """Offer a graph that is opened in its storage, with queries of files."""
    stored = QueriesOfFiles(graph, {})
    if queries is not None:
        catalog = compile_schema(Source("<schema>", graph.schema_source))
        stored = QueriesOfFiles(graph, read_stored_queries(Path(queries), catalog=catalog))
    opened = OpenedGraph(graph, stored, is_ad_hoc=is_ad_hoc)
    _serve(opened, actor=graph.actor, allows_main=allows_main)


def serve_remote(remote: RemoteGraph, *, is_ad_hoc: bool, allows_main: bool) -> None:
    """Offer a graph of a server, with the queries that it has."""
    opened = OpenedGraph(remote, QueriesOfServer(remote), is_ad_hoc=is_ad_hoc)
    _serve(opened, actor=remote.actor, allows_main=allows_main)


def _serve(graph: ToolGraph, *, actor: str | None, allows_main: bool) -> None:
    protected = frozenset[str]() if allows_main else frozenset({MAIN})
    serve_stdio(Toolbox(graph, WriteRule(own_branch(actor), protected)))
