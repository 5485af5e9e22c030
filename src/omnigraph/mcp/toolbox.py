"""The tools of one caller: which there are, and calling one.

Decides where a call runs and makes the agent's branch when it is first needed. Raises what the
graph raises, or a `ToolError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from mcp_types import Tool

from omnigraph.mcp.placing import WriteRule
from omnigraph.mcp.ports import Answer, ToolGraph
from omnigraph.mcp.refusals import unknown_tool
from omnigraph.mcp.texts import TEXT_TOOLS, call_text_tool
from omnigraph.mcp.tools import ToolCall, describe_tool, parse_call, parse_place
from omnigraph.model.errors import AlreadyExistsError, NotFoundError


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A graph, and the rule about where the caller writes."""

    graph: ToolGraph
    rule: WriteRule

    async def list_tools(self) -> list[Tool]:
        """Every tool that the caller may try."""
        stored = [describe_tool(each, self.rule) for each in await self.graph.queries()]
        taken = {each.name for each in stored}
        usable = await self.graph.text_tools() - taken
        return [*stored, *(tool for name, tool in TEXT_TOOLS.items() if name in usable)]

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """What a tool answers."""
        by_name = {each["tool_name"]: each for each in await self.graph.queries()}
        query = by_name.get(name)
        if query is None:
            usable = await self.graph.text_tools()
            tool = next((each for each in usable if each == name), None)
            if tool is None:
                raise unknown_tool()
            return await call_text_tool(tool, arguments, self.graph)
        asked = parse_call(query, arguments)
        if query["mutation"]:
            return await self._change(query["name"], asked)
        place = parse_place(asked.branch, asked.commit)
        return await self.graph.run_stored(query["name"], asked.params, place)

    async def _change(self, name: str, asked: ToolCall) -> Answer:
        branch = self.rule.place(asked.branch)
        try:
            return await self.graph.change(name, asked.params, branch)
        except NotFoundError as error:
            if error.kind != "branch" or branch != self.rule.own:
                raise
        # Another call of the same agent may have made it in between.
        with suppress(AlreadyExistsError):
            await self.graph.create_branch(branch)
        return await self.graph.change(name, asked.params, branch)
