"""What an agent reads without calling a tool: the schema, the branches and their commits.

A uri names a part of the graph that is served, whatever its own address is.
"""

from __future__ import annotations

from urllib.parse import unquote

import orjson
from mcp_types import Resource, ResourceTemplate, TextResourceContents

from omnigraph.mcp.ports import Answer, ToolGraph
from omnigraph.model.errors import NotFoundError
from omnigraph.model.names import MAIN, parse_branch_name

_GRAPH = "omnigraph://graph"
SCHEMA = f"{_GRAPH}/schema"
BRANCHES = f"{_GRAPH}/branches"
COMMITS = f"{_GRAPH}/commits/"

TEXT = "text/plain"
JSON = "application/json"

RESOURCES = (
    Resource(
        uri=SCHEMA,
        name="schema",
        title="Schema",
        description="The node and edge types of the graph, in the schema language (.pg).",
        mime_type=TEXT,
    ),
    Resource(
        uri=BRANCHES,
        name="branches",
        title="Branches",
        description="The names of the branches.",
        mime_type=JSON,
    ),
    Resource(
        uri=f"{COMMITS}{MAIN}",
        name=f"commits of {MAIN}",
        title=f"Commits of {MAIN}",
        description=f"The newest commits of {MAIN}, newest first.",
        mime_type=JSON,
    ),
)
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{COMMITS}{{branch}}",
        name="commits",
        title="Commits of a branch",
        description="The newest commits of a branch, newest first; a `/` in its name is `%2F`.",
        mime_type=JSON,
    ),
)


async def read_resource(uri: str, graph: ToolGraph) -> TextResourceContents:
    """What is there under a uri; `NotFoundError` if nothing is."""
    if uri == SCHEMA:
        return TextResourceContents(uri=uri, mime_type=TEXT, text=await graph.schema_source())
    if uri == BRANCHES:
        return _json(uri, await graph.branches())
    if uri.startswith(COMMITS):
        branch = parse_branch_name(unquote(uri.removeprefix(COMMITS)))
        return _json(uri, await graph.commits(branch))
    raise NotFoundError(
        kind="resource", name=uri, advice=f"there are {SCHEMA}, {BRANCHES} and {COMMITS}<branch>"
    )


def _json(uri: str, answer: Answer) -> TextResourceContents:
    return TextResourceContents(uri=uri, mime_type=JSON, text=orjson.dumps(answer).decode())
