"""Agents that call tools over HTTP: a served graph as the tools of one request use it.

Promises that a tool may do what its caller may do by the other routes, and no more: the same
permissions, admission and threads. Imported with the first request of an agent, because the SDK is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from omnigraph.engine.graph import Graph
from omnigraph.mcp.answers import (
    answer_branches,
    answer_change,
    answer_commits,
    answer_retrieval,
    answer_rows,
)
from omnigraph.mcp.exchange import exchange
from omnigraph.mcp.placing import WriteRule, own_branch
from omnigraph.mcp.ports import Answer as ToolAnswer
from omnigraph.mcp.ports import Params, Place, Question, TextTool
from omnigraph.mcp.protocol import make_server
from omnigraph.mcp.refusals import Told, tell
from omnigraph.mcp.toolbox import Toolbox
from omnigraph.model.errors import ForbiddenError, GraphError, Outcome
from omnigraph.model.names import MAIN, BranchName
from omnigraph.model.policy import Action
from omnigraph.server.answers import JSON, Answer
from omnigraph.server.calls import Call
from omnigraph.server.limits import BODY_BYTES_MAX
from omnigraph.server.problems import (
    HttpError,
    answer_graph_error,
    answer_http_error,
    answer_surprise,
)
from omnigraph.server.routes.stored import get_query, keeping_text_of
from omnigraph.server.routes.terms import refusing
from omnigraph.wire.shapes import StoredQueryOutput
from omnigraph.wire.stored_queries import stored_query_output


async def answer_agent(call: Call, *, protected: frozenset[str]) -> Answer:
    """One message of an agent, answered; its tools do not write to protected branches."""
    rule = WriteRule(own_branch(call.actor), protected)
    toolbox = Toolbox(CalledGraph(call, rule.own), rule)
    reply = await exchange(
        make_server(toolbox, _Telling(call)),
        path=f"/graphs/{call.graph_id}/mcp",
        headers=call.headers.items(),
        body=call.body,
        bytes_max=BODY_BYTES_MAX,
    )
    return Answer(reply.status, reply.content_type or JSON, reply.body, ())


@dataclass(frozen=True, slots=True)
class CalledGraph:
    """The graph that a request names, for whoever sends it."""

    call: Call
    own: BranchName

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """All stored queries, for who may run any."""
        if not self._may(Action.INVOKE_QUERY, None):
            return []
        return [stored_query_output(each) for _, each in sorted(self.call.queries.items())]

    async def text_tools(self) -> frozenset[TextTool]:
        """All of them, for who may read `main` or what their agent wrote."""
        may_read = self._may(Action.READ, MAIN) or self._may(Action.READ, self.own)
        return frozenset(TextTool) if may_read else frozenset()

    async def run_stored(self, name: str, params: Params, place: Place) -> ToolAnswer:
        """The rows that a stored read finds."""
        stored = get_query(self.call, name)
        self._log_invoked(name)
        self._require_read(place)

        def work(graph: Graph) -> ToolAnswer:
            found = graph.query(
                stored.source.text,
                params,
                name=name,
                branch=place.branch,
                commit=place.commit,
                limits=self.call.limits,
            )
            return answer_rows(found)

        with keeping_text_of(stored):
            return await self.call.read(work)

    async def change(self, name: str, params: Params, branch: BranchName) -> ToolAnswer:
        """What a stored mutation touched."""
        stored = get_query(self.call, name)
        self._log_invoked(name)
        self.call.require(Action.CHANGE, branch=branch, target=None)

        def work(graph: Graph) -> ToolAnswer:
            done = graph.mutate(stored.source.text, params, name=name, branch=branch)
            return answer_change(done, branch=branch)

        with keeping_text_of(stored), self.call.admit(len(self.call.body)):
            return await self.call.write(work)

    async def run_text(self, source: str, params: Params, place: Place) -> ToolAnswer:
        """The rows that a read of a text finds."""
        self._require_read(place)

        def work(graph: Graph) -> ToolAnswer:
            with refusing(advice="this tool only reads; what changes the graph is a stored query"):
                found = graph.query(
                    source,
                    params,
                    branch=place.branch,
                    commit=place.commit,
                    limits=self.call.limits,
                )
            return answer_rows(found)

        return await self.call.read(work)

    async def retrieve(self, question: Question, place: Place) -> ToolAnswer:
        """What the graph holds about a text."""
        self._require_read(place)

        def work(graph: Graph) -> ToolAnswer:
            found = graph.retrieve(
                question.text,
                types=question.types,
                hops=question.hops,
                k=question.k,
                budget_tokens=question.budget_tokens,
                branch=place.branch,
                commit=place.commit,
                limits=self.call.limits,
            )
            return answer_retrieval(found)

        return await self.call.read(work)

    async def create_branch(self, name: BranchName) -> None:
        """Start a branch at the head of `main`."""
        self.call.require(Action.BRANCH_CREATE, branch=MAIN, target=name)
        with self.call.admit(len(self.call.body)):
            await self.call.write(lambda graph: graph.create_branch(name, base=MAIN))

    async def schema_source(self) -> str:
        """The text of the schema as the caller may see it."""
        self.call.require(Action.READ, branch=None, target=None)
        return await self.call.read(lambda graph: graph.schema_source)

    async def branches(self) -> ToolAnswer:
        """The names of the branches."""
        self.call.require(Action.READ, branch=None, target=None)
        return await self.call.read(lambda graph: answer_branches(graph.branches()))

    async def commits(self, branch: BranchName) -> ToolAnswer:
        """The newest commits of a branch."""
        self.call.require(Action.READ, branch=branch, target=None)
        return await self.call.read(
            lambda graph: answer_commits(graph.commits(branch), branch=branch)
        )

    def _require_read(self, place: Place) -> None:
        # A commit is judged by the engine, on the branch that it belongs to.
        if place.branch is not None:
            self.call.require(Action.READ, branch=place.branch, target=None)

    def _may(self, action: Action, branch: str | None) -> bool:
        try:
            self.call.require(action, branch=branch, target=None)
        except ForbiddenError:
            return False
        return True

    def _log_invoked(self, name: str) -> None:
        self.call.means.log.event(
            "stored query invoked", graph=self.call.graph_id, query=name, actor=self.call.actor
        )


@dataclass(frozen=True, slots=True)
class _Telling:
    """Tells an agent of errors as other routes tell them, and the log of those that are ours."""

    call: Call

    def __call__(self, error: Exception) -> Told:
        log = self.call.means.log
        match error:
            case HttpError(told=told):
                answer = answer_http_error(error)
                outcome = Outcome.UNCHANGED if told is None else told.outcome
            case GraphError():
                answer, outcome = answer_graph_error(error), error.outcome
                if answer.status >= 500:
                    log.error("request failed", error=error)
            case _:
                answer, outcome = answer_surprise(self.call.request_id), Outcome.UNCERTAIN
                log.error("unexpected failure", error=error)
        body = orjson.loads(answer.body)
        return tell(body["code"], body["error"], outcome)
