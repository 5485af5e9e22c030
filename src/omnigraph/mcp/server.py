"""MCP requests over stdio and HTTP, and the resources that an agent can read.

HTTP requests are stateless: each carries its own token, and any server process can serve it. A
failed tool call is a result with an error, which the model can read; a failed resource read is a
protocol error. Unexpected exceptions never reach the client as text. The module needs the MCP SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from urllib.parse import unquote

import orjson
from anyio import sleep_forever
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from starlette.types import Message

import omnigraph
from omnigraph.mcp.ports import ToolError, ToolFailure, ToolGraph, ToolResult, format_error
from omnigraph.mcp.tools import Toolbox
from omnigraph.model.errors import GraphError, NotFoundError, Outcome
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
    """The contents of a resource; `NotFoundError` if there is no resource at the URI."""
    if uri == SCHEMA:
        return TextResourceContents(uri=uri, mime_type=TEXT, text=await graph.schema_source())
    if uri == BRANCHES:
        return _json(uri, await graph.branches())
    if uri.startswith(COMMITS):
        branch = parse_branch_name(unquote(uri.removeprefix(COMMITS)))
        return _json(uri, await graph.commits(branch))
    raise NotFoundError(
        kind="resource",
        name=uri,
        advice=f"the resources are {SCHEMA}, {BRANCHES} and {COMMITS}<branch>",
    )


def _json(uri: str, result: ToolResult) -> TextResourceContents:
    return TextResourceContents(uri=uri, mime_type=JSON, text=orjson.dumps(result).decode())


State = dict[str, object]
Context = ServerRequestContext[State]
FormatError = Callable[[Exception], ToolFailure]
"""Converts an exception to the failure that the caller may see; the transport supplies it."""


def make_server(toolbox: Toolbox, format_error: FormatError) -> Server[State]:
    """An MCP server with the tools and resources of one caller, ready to be connected."""
    handlers = _Handlers(toolbox, format_error)
    return Server(
        "omnigraph",
        version=omnigraph.__version__,
        title="OmniGraph",
        instructions=_instructions(toolbox),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )


@dataclass(frozen=True, slots=True)
class _Handlers:
    """One handler per MCP request; none lets an unexpected exception escape.

    The SDK would send the text of such an exception to the client.
    """

    toolbox: Toolbox
    format_error: FormatError

    async def list_tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        del context, params
        try:
            return ListToolsResult(tools=await self.toolbox.list_tools())
        except Exception as error:
            raise self._fail(error) from error

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        del context
        try:
            result = await self.toolbox.call_tool(params.name, params.arguments or {})
        except Exception as error:  # noqa: BLE001  # the error is returned to the model
            return CallToolResult(content=[_text(asdict(self._failure_of(error)))], is_error=True)
        return CallToolResult(content=[_text(result)], structured_content=result)

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        del context, params
        return ListResourcesResult(resources=list(RESOURCES))

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        del context, params
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        del context
        try:
            found = await read_resource(params.uri, self.toolbox.graph)
        except Exception as error:
            raise self._fail(error) from error
        return ReadResourceResult(contents=[found])

    def _fail(self, error: Exception) -> MCPError:
        failure = self._failure_of(error)
        code = INVALID_PARAMS if failure.outcome is Outcome.UNCHANGED else INTERNAL_ERROR
        return MCPError(code, failure.message, asdict(failure))

    def _failure_of(self, error: Exception) -> ToolFailure:
        return error.failure if isinstance(error, ToolError) else self.format_error(error)


def _text(result: ToolResult) -> TextContent:
    return TextContent(type="text", text=orjson.dumps(result).decode())


def _instructions(toolbox: Toolbox) -> str:
    own = toolbox.rule.own
    return (
        "A typed property graph with branches and a history. The resource "
        "omnigraph://graph/schema has its types. Tools that read use `main` unless a branch or a "
        f"commit is given. Tools that write use the branch `{own}` unless another is given; every "
        "write is one commit. To see what you wrote, name that branch when you read. A person "
        "reviews the branch and merges it."
    )


Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """The HTTP response of the SDK; the response to a notification has only a status."""

    status: int
    content_type: bytes | None
    body: bytes


async def handle_http(
    server: Server[State], *, path: str, headers: Iterable[Header], body: bytes, bytes_max: int
) -> Reply:
    """Serve one POST request and return the response."""
    # One manager per request: it cannot run twice, and without sessions there is no shared state.
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=bytes_max
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        # The token was already checked, and the SDK does not need it.
        "headers": [(name, text) for name, text in headers if name != b"authorization"],
    }
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if not messages:
            # A disconnect of the client is detected elsewhere.
            await sleep_forever()
        return messages.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    async with manager.run():
        await manager.handle_request(scope, receive, send)
    status, content_type, pieces = 500, None, []
    for message in sent:
        if message["type"] == "http.response.start":
            status = message["status"]
            content_type = dict(message["headers"]).get(b"content-type")
        else:
            pieces.append(message.get("body", b""))
    return Reply(status, content_type, b"".join(pieces))


_LOG = logging.getLogger(__name__)


async def serve_stdio(toolbox: Toolbox) -> None:
    """Serve the client on the standard streams; returns when the client disconnects."""
    server = make_server(toolbox, _format_logged)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def _format_logged(error: Exception) -> ToolFailure:
    if not isinstance(error, GraphError):
        _LOG.error("a tool failed", exc_info=error)
    return format_error(error)
