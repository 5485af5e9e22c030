"""Tools over the standard streams: one client, until it closes its end.

Nothing but the protocol goes to the standard output; what is logged or printed while it is served
goes to the standard error.
"""

from __future__ import annotations

import logging

import anyio
from mcp.server.stdio import stdio_server

from omnigraph.mcp.protocol import make_server
from omnigraph.mcp.refusals import Told, tell_error
from omnigraph.mcp.toolbox import Toolbox
from omnigraph.model.errors import GraphError

_LOG = logging.getLogger(__name__)


def serve_stdio(toolbox: Toolbox) -> None:
    """Answer the client at the other end of the standard streams; return when it has gone."""
    anyio.run(_serve, toolbox)


async def _serve(toolbox: Toolbox) -> None:
    server = make_server(toolbox, _tell)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _tell(error: Exception) -> Told:
    if not isinstance(error, GraphError):
        _LOG.error("a tool failed", exc_info=error)
    return tell_error(error)
