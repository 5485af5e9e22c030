"""MCP over HTTP: a served graph as the tools of one request use it.

A tool may do what its caller may do through the other routes and no more: the same permissions,
admission and threads apply. The module is imported by the first MCP request, because the SDK is
slow to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from omnigraph.engine.graph import Graph
from omnigraph.http.responses import StoredQueryOutput
from omnigraph.http.stored_queries import stored_query_output
from omnigraph.mcp.graph import (
    encode_branches,
    encode_change,
    encode_commits,
    encode_rows,
    retrieve,
)
from omnigraph.mcp.ports import (
    Params,
    Place,
    Question,
    TextTool,
    ToolFailure,
    ToolResult,
    WritePlacement,
    agent_branch,
    make_failure,
)
from omnigraph.mcp.server import handle_http, make_server
from omnigraph.mcp.tools import Toolbox
from omnigraph.model.errors import GraphError, Outcome
from omnigraph.model.limits import BODY_BYTES_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.model.ports import Action
from omnigraph.server import responses
from omnigraph.server.context import RequestContext
from omnigraph.server.routes.queries import get_query, hide_stored_text


async def respond_to_agent(
    call: RequestContext, *, protected: frozenset[str]
) -> responses.Response:
    """The response to one message of an agent; its tools do not write to protected branches."""
    rule = WritePlacement(agent_branch(call.actor), protected)
    toolbox = Toolbox(RequestGraph(call, rule.own), rule)
    reply = await handle_http(
        make_server(toolbox, partial(_format_error, call)),
        path=f"/graphs/{call.graph.id}/mcp",
        headers=call.headers.items(),
        body=call.body,
        bytes_max=BODY_BYTES_MAX,
    )
    return responses.Response(reply.status, reply.content_type or responses.JSON, reply.body, ())


@dataclass(frozen=True, slots=True)
class RequestGraph:
    """The graph of a request, with the permissions of its caller."""

    call: RequestContext
    own: BranchName

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """All stored queries; none if the caller may not run them."""
        if not self.call.may(Action.INVOKE_QUERY, branch=None):
            return []
        return [stored_query_output(each) for _, each in sorted(self.call.graph.queries.items())]

    async def text_tools(self) -> frozenset[TextTool]:
        """All text tools if the caller may read `main` or its agent branch, otherwise none."""
        may_read = any(self.call.may(Action.READ, branch=each) for each in (MAIN, self.own))
        return frozenset(TextTool) if may_read else frozenset()

    async def run_stored(self, name: str, params: Params, place: Place) -> ToolResult:
        stored = get_query(self.call, name)
        self.call.log_invocation(stored)
        self._require_read(place)
        with hide_stored_text(stored):
            return await self._run(stored.source.text, params, place, name=name)

    async def change(self, name: str, params: Params, branch: BranchName) -> ToolResult:
        stored = get_query(self.call, name)
        self.call.log_invocation(stored)
        self.call.require(Action.CHANGE, branch=branch, target=None)

        def work(graph: Graph) -> ToolResult:
            done = graph.mutate(stored.source.text, params, name=name, branch=branch)
            return encode_change(done, branch=branch)

        with hide_stored_text(stored):
            return await self.call.write(work)

    async def run_text(self, source: str, params: Params, place: Place) -> ToolResult:
        self._require_read(place)
        with responses.translate_compile_errors(
            advice="this tool only reads; what changes the graph is a stored query"
        ):
            return await self._run(source, params, place, name=None)

    async def retrieve(self, question: Question, place: Place) -> ToolResult:
        self._require_read(place)
        limits = self.call.limits()
        return await self.call.read(lambda graph: retrieve(graph, question, place, limits=limits))

    async def create_branch(self, name: BranchName) -> None:
        self.call.require(Action.BRANCH_CREATE, branch=MAIN, target=name)
        await self.call.write(lambda graph: graph.create_branch(name, base=MAIN))

    async def schema_source(self) -> str:
        """The schema source that the caller may see."""
        self.call.require(Action.READ, branch=None, target=None)
        return await self.call.read(lambda graph: graph.schema_source)

    async def branches(self) -> ToolResult:
        self.call.require(Action.READ, branch=None, target=None)
        return await self.call.read(lambda graph: encode_branches(graph.branches()))

    async def commits(self, branch: BranchName) -> ToolResult:
        self.call.require(Action.READ, branch=branch, target=None)
        return await self.call.read(
            lambda graph: encode_commits(graph.commits(branch), branch=branch)
        )

    async def _run(
        self, source: str, params: Params, place: Place, *, name: str | None
    ) -> ToolResult:
        def work(graph: Graph) -> ToolResult:
            found = graph.query(
                source,
                params,
                name=name,
                branch=place.branch,
                commit=place.commit,
                limits=self.call.limits(),
            )
            return encode_rows(found)

        return await self.call.read(work)

    def _require_read(self, place: Place) -> None:
        # The engine checks access to a commit, on the branch that the commit belongs to.
        if place.branch is not None:
            self.call.require(Action.READ, branch=place.branch, target=None)


def _format_error(call: RequestContext, error: Exception) -> ToolFailure:
    """Report an error to an agent as other routes do, and log one of the server."""
    match error:
        case responses.HttpError(cause=cause):
            result = responses.http_error_response(error)
            outcome = Outcome.UNCHANGED if cause is None else cause.outcome
        case GraphError():
            result, outcome = responses.graph_error_response(error), error.outcome
            if result.status >= 500:
                call.server.log.error("request failed", error=error)
        case _:
            result, outcome = responses.internal_error_response(call.request_id), Outcome.UNCERTAIN
            call.server.log.error("unexpected failure", error=error)
    body = orjson.loads(result.body)
    return make_failure(body["code"], body["error"], outcome)
