"""Agents for tests: the SDK's own client, called from plain functions.

A client runs on a thread of its own, so that a test reads from top to bottom. What a tool answers
is checked against its output schema by the client; that the text says the same is checked here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents, Tool

from tests.support.commands import command_environment

RESPONSE_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Agent:
    """A client that is connected."""

    portal: BlockingPortal
    client: Client

    def tools(self) -> dict[str, Tool]:
        """The tools, by name."""
        found = self.portal.call(self.client.list_tools)
        return {each.name: each for each in found.tools}

    def call(self, name: str, /, **arguments: object) -> dict[str, object]:
        """The result of a tool."""
        result = self._call(name, arguments)
        assert not result.is_error, _said(result)
        assert result.structured_content == _said(result)
        return _said(result)

    def refused(self, name: str, /, **arguments: object) -> dict[str, object]:
        """What a tool says that does not do what it is called for."""
        result = self._call(name, arguments)
        assert result.is_error, _said(result)
        assert result.structured_content is None
        return _said(result)

    def read(self, uri: str) -> str:
        """The text of a resource."""
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        assert isinstance(content, TextResourceContents)
        return content.text

    def read_refused(self, uri: str) -> MCPError:
        """The error of a resource that cannot be read."""
        try:
            self.read(uri)
        except MCPError as error:
            return error
        raise AssertionError(f"{uri} was read")

    def _call(self, name: str, arguments: dict[str, object]) -> CallToolResult:
        result: CallToolResult = self.portal.call(
            self.client.call_tool, name, arguments, RESPONSE_S_MAX
        )
        return result


@contextmanager
def stdio_agent(*arguments: str | Path, mode: str, env: dict[str, str]) -> Iterator[Agent]:
    """An agent that has started `omnigraph mcp` with these arguments."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "omnigraph", "mcp", *map(str, arguments)],
        env=command_environment(env=env),
    )
    with start_blocking_portal() as portal:
        client = Client(command, mode=mode)
        with portal.wrap_async_context_manager(client):
            yield Agent(portal, client)


@contextmanager
def http_agent(url: str, *, token: str | None, mode: str) -> Iterator[Agent]:
    """An agent that speaks to the tools of a served graph."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with start_blocking_portal() as portal:
        http = portal.call(lambda: _http_client(headers))
        with portal.wrap_async_context_manager(http):
            client = Client(streamable_http_client(url, http_client=http), mode=mode)
            with portal.wrap_async_context_manager(client):
                yield Agent(portal, client)


async def _http_client(headers: dict[str, str]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=headers, timeout=RESPONSE_S_MAX)


def _said(result: CallToolResult) -> dict[str, object]:
    (content,) = result.content
    assert isinstance(content, TextContent)
    said: dict[str, object] = json.loads(content.text)
    return said
