"""A graph that this process has opened, in its storage or by a server, as tools use it.

Calls block, so each runs on a thread; one that has begun is let finish. Who may do what is the
graph's own business: it was opened for somebody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anyio.to_thread import run_sync

from omnigraph.client.calls import GraphCalls
from omnigraph.client.remote import RemoteGraph
from omnigraph.engine.results import MutationResult, Result
from omnigraph.mcp.answers import (
    answer_branches,
    answer_change,
    answer_commits,
    answer_retrieval,
    answer_rows,
)
from omnigraph.mcp.ports import Answer, Params, Place, Question, TextTool
from omnigraph.model.names import MAIN, BranchName
from omnigraph.wire.shapes import StoredQueryOutput
from omnigraph.wire.stored_queries import StoredQuery, stored_query_output


class StoredCalls(Protocol):
    """Stored queries by their names."""

    def catalog(self) -> Sequence[StoredQueryOutput]:
        """All of them."""

    def read(self, name: str, params: Params, place: Place) -> Result:
        """The rows that one finds."""

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        """What one touched."""


@dataclass(frozen=True, slots=True)
class QueriesOfFiles:
    """Stored queries that were read from files, run on a graph."""

    graph: GraphCalls
    by_name: Mapping[str, StoredQuery]

    def catalog(self) -> Sequence[StoredQueryOutput]:
        """All of them, by name."""
        return [stored_query_output(each) for each in self.by_name.values()]

    def read(self, name: str, params: Params, place: Place) -> Result:
        """Run the text of one as a read."""
        text = self.by_name[name].source.text
        return self.graph.query(text, params, name=name, branch=place.branch, commit=place.commit)

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        """Run the text of one as a mutation."""
        return self.graph.mutate(self.by_name[name].source.text, params, name=name, branch=branch)


@dataclass(frozen=True, slots=True)
class QueriesOfServer:
    """Stored queries that a server has."""

    remote: RemoteGraph

    def catalog(self) -> Sequence[StoredQueryOutput]:
        """The catalog of the server as it is now."""
        return self.remote.stored_queries()

    def read(self, name: str, params: Params, place: Place) -> Result:
        """Let the server run one that reads."""
        found = self.remote.invoke(
            name, params, branch=place.branch, commit=place.commit, expect_mutation=False
        )
        assert isinstance(found, Result), "the server answers a read with rows"
        return found

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        """Let the server run one that changes the graph."""
        done = self.remote.invoke(name, params, branch=branch, expect_mutation=True)
        assert isinstance(done, MutationResult), "the server answers a mutation with counts"
        return done


@dataclass(frozen=True, slots=True)
class OpenedGraph:
    """An opened graph with its stored queries; with `is_ad_hoc` it takes what none of them asks."""

    graph: GraphCalls
    stored: StoredCalls
    is_ad_hoc: bool

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """All stored queries: whoever opened the graph chose them."""
        return await run_sync(self.stored.catalog)

    async def text_tools(self) -> frozenset[TextTool]:
        """What was chosen when the graph was opened."""
        return frozenset(TextTool) if self.is_ad_hoc else frozenset()

    async def run_stored(self, name: str, params: Params, place: Place) -> Answer:
        """The rows that a stored read finds."""
        return await run_sync(lambda: answer_rows(self.stored.read(name, params, place)))

    async def change(self, name: str, params: Params, branch: BranchName) -> Answer:
        """What a stored mutation touched."""

        def work() -> Answer:
            return answer_change(self.stored.change(name, params, branch), branch=branch)

        return await run_sync(work)

    async def run_text(self, source: str, params: Params, place: Place) -> Answer:
        """The rows that a read of a text finds."""

        def work() -> Answer:
            found = self.graph.query(source, params, branch=place.branch, commit=place.commit)
            return answer_rows(found)

        return await run_sync(work)

    async def retrieve(self, question: Question, place: Place) -> Answer:
        """What the graph holds about a text."""

        def work() -> Answer:
            found = self.graph.retrieve(
                question.text,
                types=question.types,
                hops=question.hops,
                k=question.k,
                budget_tokens=question.budget_tokens,
                branch=place.branch,
                commit=place.commit,
            )
            return answer_retrieval(found)

        return await run_sync(work)

    async def create_branch(self, name: BranchName) -> None:
        """Start a branch at the head of `main`."""
        await run_sync(lambda: self.graph.create_branch(name, base=MAIN))

    async def schema_source(self) -> str:
        """The text of the schema."""
        return await run_sync(lambda: self.graph.schema_source)

    async def branches(self) -> Answer:
        """The names of the branches."""
        return await run_sync(lambda: answer_branches(self.graph.branches()))

    async def commits(self, branch: BranchName) -> Answer:
        """The newest commits of a branch."""
        return await run_sync(lambda: answer_commits(self.graph.commits(branch), branch=branch))
