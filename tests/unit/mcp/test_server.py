"""What a client hears of errors: refusals in words it can act on, and nothing of our mistakes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from omnigraph.http.responses import StoredQueryOutput
from omnigraph.mcp.ports import (
    Params,
    Place,
    Question,
    TextTool,
    ToolResult,
    WritePlacement,
    agent_branch,
    format_error,
)
from omnigraph.mcp.server import make_server
from omnigraph.mcp.tools import Toolbox
from omnigraph.model.errors import (
    BusyError,
    CorruptError,
    GraphError,
    PreconditionFailedError,
    UncertainError,
)
from omnigraph.model.names import BranchName

LOOK: StoredQueryOutput = {"name": "look", "tool_name": "look", "mutation": False, "params": []}


@dataclass(frozen=True, slots=True)
class FailingGraph:
    """A graph of which every call fails alike, once its tools were listed."""

    error: Exception

    async def queries(self) -> Sequence[StoredQueryOutput]:
        return [LOOK]

    async def text_tools(self) -> frozenset[TextTool]:
        return frozenset()

    async def run_stored(self, name: str, params: Params, place: Place) -> ToolResult:
        self._fail(name, params, place)

    async def change(self, name: str, params: Params, branch: BranchName) -> ToolResult:
        self._fail(name, params, branch)

    async def run_text(self, source: str, params: Params, place: Place) -> ToolResult:
        self._fail(source, params, place)

    async def retrieve(self, question: Question, place: Place) -> ToolResult:
        self._fail(question, place)

    async def create_branch(self, name: BranchName) -> None:
        self._fail(name)

    async def schema_source(self) -> str:
        self._fail()

    async def branches(self) -> ToolResult:
        self._fail()

    async def commits(self, branch: BranchName) -> ToolResult:
        self._fail(branch)

    def _fail(self, *given: object) -> NoReturn:
        del given
        raise self.error


def reported_by_tool(error: Exception, *, mode: str) -> dict[str, object]:
    """What a tool says whose graph fails."""

    async def call() -> str:
        rule = WritePlacement(agent_branch(None), frozenset())
        server = make_server(Toolbox(FailingGraph(error), rule), format_error)
        async with Client(server, mode=mode) as client:
            result = await client.call_tool("look", {})
        assert result.is_error
        (content,) = result.content
        assert isinstance(content, TextContent)
        return content.text

    reported: dict[str, object] = json.loads(anyio.run(call))
    return reported


@pytest.mark.parametrize(
    ("error", "outcome", "advice"),
    [
        (BusyError(action="write", holder="x", waited_s=9), "unchanged", "Wait and call again"),
        (PreconditionFailedError(expected="a", actual="b"), "moved", "Read and call again"),
        (UncertainError("it stopped"), "uncertain", "Check the commits"),
        (CorruptError(subject="a row", problem="is broken"), "broken", "Stop"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, GraphError) else str(value),
)
def test_an_error_states_what_happened_and_what_to_do(
    error: GraphError, outcome: str, advice: str
) -> None:
    reported = reported_by_tool(error, mode="auto")

    assert (reported["outcome"], reported["message"]) == (outcome, str(error))
    assert advice in str(reported["advice"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_nothing_is_shown_of_a_mistake_of_ours(mode: str) -> None:
    reported = reported_by_tool(ZeroDivisionError("/secret/place"), mode=mode)

    assert (reported["code"], reported["outcome"]) == ("internal", "uncertain")
    assert "secret" not in json.dumps(reported)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_resource_that_fails_shows_as_little(mode: str) -> None:
    async def read() -> MCPError:
        rule = WritePlacement(agent_branch(None), frozenset())
        graph = FailingGraph(ZeroDivisionError("/secret/place"))
        async with Client(make_server(Toolbox(graph, rule), format_error), mode=mode) as client:
            try:
                await client.read_resource("omnigraph://graph/schema")
            except MCPError as error:
                return error
        raise AssertionError("it was read")

    error = anyio.run(read)

    assert "internal error" in str(error)
    assert "secret" not in f"{error} {error.data}"
