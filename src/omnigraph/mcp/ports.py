"""The `ToolGraph` port, placement of agent writes, and tool errors.

An implementation of the port enforces permissions and runs blocking calls on its own threads. Agent
writes go to a branch of the agent and never to a protected branch. Every tool error states whether
the graph changed and whether a retry can succeed. The module knows neither HTTP nor the MCP SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from omnigraph.http.responses import StoredQueryOutput
from omnigraph.model.errors import GraphError, Outcome
from omnigraph.model.limits import ACTOR_CHARACTERS_MAX
from omnigraph.model.names import BranchName, fnv1a_32, parse_branch_name

ToolResult = dict[str, object]
Params = Mapping[str, object]


class TextTool(StrEnum):
    """The tools that do not need a stored query."""

    QUERY = "query"
    RETRIEVE = "retrieve"


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a read: a commit or a branch."""

    branch: BranchName | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """The arguments of a retrieval; None for `types` means all of them."""

    text: str
    types: Sequence[str] | None
    k: int
    hops: int
    budget_tokens: int


class ToolGraph(Protocol):
    """A graph as the tools of one caller use it."""

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """The stored queries that the caller may run."""

    async def text_tools(self) -> frozenset[TextTool]:
        """The tools that the caller may use in addition to stored queries."""

    async def run_stored(self, name: str, params: Params, place: Place) -> ToolResult:
        """Run a stored read and return its rows."""

    async def change(self, name: str, params: Params, branch: BranchName) -> ToolResult:
        """Run a stored mutation and return the counts of affected rows."""

    async def run_text(self, source: str, params: Params, place: Place) -> ToolResult:
        """Run a read from its query text and return its rows."""

    async def retrieve(self, question: Question, place: Place) -> ToolResult:
        """Retrieve passages about a text."""

    async def create_branch(self, name: BranchName) -> None:
        """Create a branch at the head of `main`."""

    async def schema_source(self) -> str:
        """The source text of the schema."""

    async def branches(self) -> ToolResult:
        """The names of the branches."""

    async def commits(self, branch: BranchName) -> ToolResult:
        """The newest commits of a branch."""


_CALL_OTHERWISE = "Nothing was changed. Change the arguments and call again."
_NOT_ALLOWED = "Nothing was changed. Calling again will not help; ask the operator of this graph."
_WAIT = "Nothing was changed. Wait and call again; if the error persists, ask the operator."

_ADVICE_BY_CODE = {
    "unauthorized": _NOT_ALLOWED,
    "forbidden": _NOT_ALLOWED,
    "too_many_requests": _WAIT,
    "unavailable": _WAIT,
}
_ADVICE_BY_OUTCOME = {
    Outcome.UNCHANGED: _CALL_OTHERWISE,
    Outcome.MOVED: "A concurrent write came first; nothing was changed. Read and call again.",
    Outcome.UNCERTAIN: "The write may have succeeded. Check the commits of the branch before "
    "you call again.",
    Outcome.BROKEN: "Stop. The operator of this graph must inspect it.",
}


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """The error that an agent receives instead of a result."""

    code: str
    message: str
    outcome: Outcome
    advice: str


class ToolError(Exception):
    """A call that is rejected before it reaches a graph."""

    def __init__(self, failure: ToolFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def format_error(error: Exception) -> ToolFailure:
    """The failure to report for an exception; an unexpected one discloses no details."""
    if isinstance(error, GraphError):
        return make_failure(error.code, str(error), error.outcome)
    return make_failure(
        "internal", "internal error; the log of omnigraph has details", Outcome.UNCERTAIN
    )


def make_failure(code: str, message: str, outcome: Outcome) -> ToolFailure:
    """A failure with the advice for its code or its outcome."""
    advice = _ADVICE_BY_OUTCOME[outcome]
    if outcome is Outcome.UNCHANGED:
        advice = _ADVICE_BY_CODE.get(code, advice)
    return ToolFailure(code, message, outcome, advice)


def unknown_tool() -> ToolError:
    """The error for a tool that does not exist or that the caller may not run.

    The two cases are indistinguishable to the caller.
    """
    return ToolError(
        ToolFailure(
            "not_found",
            "stored query not found",
            Outcome.UNCHANGED,
            "Nothing was changed. List the tools to see the available ones.",
        )
    )


PREFIX = "agent/"
"""The prefix of the names of agent branches."""

ANONYMOUS_AGENT = "local"
"""The agent name for writes without an actor."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class WritePlacement:
    """The branch of the agent, and the branches that its tools do not write to."""

    own: BranchName
    protected: frozenset[str]

    def place(self, named: object) -> BranchName:
        """The branch that a write goes to; `ToolError` if that branch is protected."""
        branch = self.own if named is None else parse_branch_name(named)
        if branch in self.protected:
            raise ToolError(
                ToolFailure(
                    "forbidden",
                    f"tools do not write to the branch '{branch}'",
                    Outcome.UNCHANGED,
                    f"Nothing was changed. Leave out the branch to write to '{self.own}'; "
                    f"a person reviews it and merges it into '{branch}'.",
                )
            )
        return branch


def agent_branch(actor: str | None) -> BranchName:
    """The agent branch of an actor; equal for equal actors."""
    name = ANONYMOUS_AGENT if actor is None else actor
    if _PLAIN.fullmatch(name) and not name.endswith(".lock") and len(name) <= ACTOR_CHARACTERS_MAX:
        return parse_branch_name(f"{PREFIX}{name}")
    # Not every actor name is a valid branch name; the hash distinguishes names that look alike.
    readable = _REFUSED.sub("-", name[:ACTOR_CHARACTERS_MAX]).strip("-") or ANONYMOUS_AGENT
    return parse_branch_name(f"{PREFIX}{readable}-{fnv1a_32(name):08x}")
