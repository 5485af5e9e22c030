"""Tools and resources as the SDK serves them: requests in, results of the protocol out.

What a tool refuses is a result that says so, which the model reads; what is wrong with a resource
is an error of the protocol. The last who can make an answer of a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
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
    TextContent,
)

import omnigraph
from omnigraph.mcp.ports import Answer
from omnigraph.mcp.refusals import Told, ToolError
from omnigraph.mcp.resources import RESOURCES, TEMPLATES, read_resource
from omnigraph.mcp.toolbox import Toolbox
from omnigraph.model.errors import Outcome

State = dict[str, object]
Context = ServerRequestContext[State]
Telling = Callable[[Exception], Told]
"""What a caller is told of an error; whoever serves knows what he may hear."""


def make_server(toolbox: Toolbox, tell: Telling) -> Server[State]:
    """The tools and resources of one caller, ready to be connected."""
    handlers = _Handlers(toolbox, tell)
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
    """One function a request of the protocol; none lets an error out, whose text would be sent."""

    toolbox: Toolbox
    tell: Telling

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
            answer = await self.toolbox.call_tool(params.name, params.arguments or {})
        except Exception as error:  # noqa: BLE001  # the model is told of it
            return CallToolResult(content=[_text(self._told(error).fields)], is_error=True)
        return CallToolResult(content=[_text(answer)], structured_content=answer)

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
        told = self._told(error)
        code = INVALID_PARAMS if told.outcome is Outcome.UNCHANGED else INTERNAL_ERROR
        return MCPError(code, told.message, told.fields)

    def _told(self, error: Exception) -> Told:
        return error.told if isinstance(error, ToolError) else self.tell(error)


def _text(answer: Answer) -> TextContent:
    return TextContent(type="text", text=orjson.dumps(answer).decode())


def _instructions(toolbox: Toolbox) -> str:
    own = toolbox.rule.own
    return (
        "A typed property graph with branches and a history. The resource "
        "omnigraph://graph/schema tells its types. Tools that read answer from `main` unless they "
        f"are given a branch or a commit. Tools that write write to the branch `{own}` unless "
        "they are given another; every write is one commit. What you wrote you see by naming that "
        "branch when you read. A person looks at it and merges it."
    )
