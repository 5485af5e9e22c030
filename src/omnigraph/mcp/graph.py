"""An opened graph behind the `ToolGraph` port, and the server for it over stdio.

Results are bounded, and the number of omitted rows is reported. Blocking calls run on worker
threads; a call that has started runs to its end. Permissions are those of the graph as it was
opened. The module imports the engine and the MCP SDK, so the command line imports it when `mcp`
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import orjson
from anyio.to_thread import run_sync

from omnigraph.client.remote import AnyGraph, RemoteGraph, run_mutation, run_read
from omnigraph.compiler.compile import compile_schema
from omnigraph.engine.results import MutationResult, Result
from omnigraph.engine.rows.text_rows import encode_objects
from omnigraph.http.encode import commit_output
from omnigraph.http.responses import StoredQueryOutput
from omnigraph.http.stored_queries import StoredQuery, read_stored_queries, stored_query_output
from omnigraph.mcp.ports import (
    Params,
    Place,
    Question,
    TextTool,
    ToolGraph,
    ToolResult,
    WritePlacement,
    agent_branch,
)
from omnigraph.mcp.server import serve_stdio
from omnigraph.mcp.tools import Toolbox
from omnigraph.model.limits import COMMITS_MAX, ROWS_BYTES_MAX, ROWS_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.model.source import Source
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.prepared import PreparedQuery
    from omnigraph.engine.read.budget import CallLimits
    from omnigraph.engine.state.history import Commit


def encode_rows(result: Result) -> ToolResult:
    """The first rows of a result with the total row count, and a note if rows were omitted."""
    rows = _cut(orjson.loads(b"[" + encode_objects(result.to_arrow().slice(0, ROWS_MAX)) + b"]"))
    encoded: ToolResult = {
        "columns": result.columns,
        "rows": rows,
        "row_count": len(result),
        "commit_id": result.commit_id,
    }
    if len(rows) < len(result):
        encoded["note"] = (
            f"Only the first {len(rows):,} of {len(result):,} rows are shown; request fewer rows "
            "or fewer columns."
        )
    return encoded


def encode_change(done: MutationResult, *, branch: str) -> ToolResult:
    """The counts of rows that a mutation affected, with its branch and commit."""
    return {
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "branch": branch,
        "commit_id": done.commit_id,
    }


def retrieve(
    graph: AnyGraph, question: Question, place: Place, *, limits: CallLimits | None
) -> ToolResult:
    """The text for a prompt, and the nodes that it contains, best first."""
    found = graph.retrieve(
        question.text,
        types=question.types,
        hops=question.hops,
        k=question.k,
        budget_tokens=question.budget_tokens,
        branch=place.branch,
        commit=place.commit,
        limits=limits,
    )
    return {
        "text": found.text,
        "tokens": found.tokens,
        "passages": [
            {"rank": each.rank, "type": each.type, "id": each.id} for each in found.passages
        ],
        "left_out": found.left_out,
        "commit_id": found.receipt.commit_id,
    }


def encode_branches(names: Sequence[str]) -> ToolResult:
    """The branches, ordered by name."""
    return {"branches": sorted(names)}


def encode_commits(commits: Sequence[Commit], *, branch: str) -> ToolResult:
    """The newest commits of a branch, newest first, and the total number of commits."""
    newest = commits[: -COMMITS_MAX - 1 : -1]
    return {
        "branch": branch,
        "commit_count": len(commits),
        "commits": [commit_output(each) for each in newest],
    }


def _cut(rows: list[object]) -> list[object]:
    size = 0
    for number, row in enumerate(rows):
        size += len(orjson.dumps(row))
        if size > ROWS_BYTES_MAX:
            return rows[:number]
    return rows


class StoredCalls(Protocol):
    """Stored queries that run by name."""

    def catalog(self) -> Sequence[StoredQueryOutput]:
        """All stored queries."""

    def read(self, name: str, params: Params, place: Place) -> Result:
        """Run a stored read and return its rows."""

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        """Run a stored mutation and return the counts of affected rows."""


@dataclass(frozen=True, slots=True)
class FileQueries:
    """Stored queries that were read from files, run on a graph; `reads` are the reads."""

    graph: AnyGraph
    by_name: Mapping[str, StoredQuery]
    reads: Mapping[str, PreparedQuery]

    def catalog(self) -> Sequence[StoredQueryOutput]:
        return [stored_query_output(each) for each in self.by_name.values()]

    def read(self, name: str, params: Params, place: Place) -> Result:
        return self.reads[name](params, branch=place.branch, commit=place.commit)

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        return self.graph.mutate(self.by_name[name].source.text, params, name=name, branch=branch)


@dataclass(frozen=True, slots=True)
class ServerQueries:
    """The stored queries of a server."""

    remote: RemoteGraph

    def catalog(self) -> Sequence[StoredQueryOutput]:
        return self.remote.stored_queries()

    def read(self, name: str, params: Params, place: Place) -> Result:
        return run_read(self.remote, name, params, branch=place.branch, commit=place.commit)

    def change(self, name: str, params: Params, branch: BranchName) -> MutationResult:
        return run_mutation(self.remote, name, params, branch=branch)


@dataclass(frozen=True, slots=True)
class LocalToolGraph:
    """An opened graph with its stored queries; `is_ad_hoc` also enables the text tools."""

    graph: AnyGraph
    stored: StoredCalls
    is_ad_hoc: bool

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """All stored queries: the process that opened the graph chose them."""
        return await run_sync(self.stored.catalog)

    async def text_tools(self) -> frozenset[TextTool]:
        """All text tools or none, as chosen when the graph was opened."""
        return frozenset(TextTool) if self.is_ad_hoc else frozenset()

    async def run_stored(self, name: str, params: Params, place: Place) -> ToolResult:
        return await run_sync(lambda: encode_rows(self.stored.read(name, params, place)))

    async def change(self, name: str, params: Params, branch: BranchName) -> ToolResult:
        return await run_sync(
            lambda: encode_change(self.stored.change(name, params, branch), branch=branch)
        )

    async def run_text(self, source: str, params: Params, place: Place) -> ToolResult:
        run = partial(self.graph.query, branch=place.branch, commit=place.commit)
        return await run_sync(lambda: encode_rows(run(source, params)))

    async def retrieve(self, question: Question, place: Place) -> ToolResult:
        return await run_sync(lambda: retrieve(self.graph, question, place, limits=None))

    async def create_branch(self, name: BranchName) -> None:
        await run_sync(lambda: self.graph.create_branch(name, base=MAIN))

    async def schema_source(self) -> str:
        return await run_sync(lambda: self.graph.schema_source)

    async def branches(self) -> ToolResult:
        return await run_sync(lambda: encode_branches(self.graph.branches()))

    async def commits(self, branch: BranchName) -> ToolResult:
        return await run_sync(lambda: encode_commits(self.graph.commits(branch), branch=branch))


def serve_graph(graph: Graph, queries: str | None, *, is_ad_hoc: bool, allows_main: bool) -> None:
    """Serve a graph that is opened in its storage, with stored queries from files."""
    by_name: Mapping[str, StoredQuery] = {}
    if queries is not None:
        catalog = compile_schema(Source("<schema>", graph.schema_source))
        by_name = read_stored_queries(expand_home(queries), catalog=catalog)
    reads = {
        name: graph.prepare(each.source.text, name=name)
        for name, each in by_name.items()
        if not each.is_mutation
    }
    opened = LocalToolGraph(graph, FileQueries(graph, by_name, reads), is_ad_hoc=is_ad_hoc)
    _serve(opened, actor=graph.actor, allows_main=allows_main)


def serve_remote(remote: RemoteGraph, *, is_ad_hoc: bool, allows_main: bool) -> None:
    """Serve a graph of a server, with the stored queries of that server."""
    opened = LocalToolGraph(remote, ServerQueries(remote), is_ad_hoc=is_ad_hoc)
    _serve(opened, actor=remote.actor, allows_main=allows_main)


def _serve(graph: ToolGraph, *, actor: str | None, allows_main: bool) -> None:
    protected = frozenset[str]() if allows_main else frozenset({MAIN})
    anyio.run(serve_stdio, Toolbox(graph, WritePlacement(agent_branch(actor), protected)))
