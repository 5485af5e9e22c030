"""What tools need of a graph: a port, behind which it is opened here, or served.

Whoever implements it decides who may do what, and runs what blocks on threads of its own. Answers
are plain JSON values, made where the rows were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from omnigraph.model.names import BranchName
from omnigraph.wire.shapes import StoredQueryOutput

Answer = dict[str, object]
Params = Mapping[str, object]


class TextTool(StrEnum):
    """The tools that need no stored query."""

    QUERY = "query"
    RETRIEVE = "retrieve"


@dataclass(frozen=True, slots=True)
class Place:
    """What a read is about: a commit, or a branch."""

    branch: BranchName | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """What a graph is asked to retrieve; None for types means every one."""

    text: str
    types: Sequence[str] | None
    k: int
    hops: int
    budget_tokens: int


class ToolGraph(Protocol):
    """A graph as the tools of one caller use it."""

    async def queries(self) -> Sequence[StoredQueryOutput]:
        """The stored queries that the caller may run; none if he may run none."""

    async def text_tools(self) -> frozenset[TextTool]:
        """The tools beside the stored queries that the caller may use."""

    async def run_stored(self, name: str, params: Params, place: Place) -> Answer:
        """The rows that a stored read finds."""

    async def change(self, name: str, params: Params, branch: BranchName) -> Answer:
        """What a stored mutation touched."""

    async def run_text(self, source: str, params: Params, place: Place) -> Answer:
        """The rows that a read of a text finds."""

    async def retrieve(self, question: Question, place: Place) -> Answer:
        """What the graph holds about a text."""

    async def create_branch(self, name: BranchName) -> None:
        """Start a branch at the head of `main`."""

    async def schema_source(self) -> str:
        """The text of the schema."""

    async def branches(self) -> Answer:
        """The names of the branches."""

    async def commits(self, branch: BranchName) -> Answer:
        """The newest commits of a branch."""
