"""What an examination may use, and how a failure to look becomes a finding.

Nothing here writes. Stores and what is known of the graph are opened for one examination, so it
sees what is stored and not what an open graph remembers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from types import TracebackType

from omnigraph.engine.ops.doctor.report import Finding, Trouble, found
from omnigraph.engine.state.authority import Authority
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import GraphError, UnavailableError
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.locks import WriteLocks
from omnigraph.storage.ports import Stores

FROM_A_COPY = "restore it from a copy of the graph"


@dataclass(frozen=True, slots=True)
class Scope:
    """One graph, as one examination sees it; `locks` are only looked at."""

    uri: str
    stores: Stores
    authority: Authority
    locks: WriteLocks
    now: datetime
    is_deep: bool


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type of a branch whose version can be opened; `columns` are those it has."""

    declared: NodeType | EdgeType
    entry: Entry
    subject: str
    columns: frozenset[str]


class Findings:
    """The findings of one part of an examination, in the order in which they were made."""

    def __init__(self) -> None:
        self._made: list[Finding] = []

    def add(self, code: Trouble, subject: str, message: str, *, advice: str) -> None:
        """Take note of a trouble."""
        self._made.append(found(code, subject, message, advice=advice))

    def extend(self, others: tuple[Finding, ...]) -> None:
        """Take note of what another part has found."""
        self._made.extend(others)

    def noting(self, code: Trouble, subject: str, *, advice: str) -> _Noting:
        """Turn whatever keeps the block from looking into a finding."""
        return _Noting(self, code, subject, advice)

    def made(self) -> tuple[Finding, ...]:
        """All of them so far."""
        return tuple(self._made)


class _Noting:
    """A block whose errors become findings; a class, so that who reads on knows it may end."""

    def __init__(self, findings: Findings, code: Trouble, subject: str, advice: str) -> None:
        self._findings = findings
        self._code, self._subject, self._advice = code, subject, advice

    def __enter__(self) -> None:
        """Begin to look."""

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, GraphError):
            return False
        is_silent = isinstance(error, UnavailableError)
        advice = "look again once the storage answers" if is_silent else self._advice
        self._findings.add(self._code, self._subject, str(error), advice=advice)
        return True


def say_branch(branch: BranchName) -> str:
    """A branch as a subject names it."""
    return "main" if branch == MAIN else f"branch '{branch}'"


def branch_argument(branch: BranchName) -> str:
    """A branch as the argument of an advised call."""
    return "" if branch == MAIN else f"branch={str(branch)!r}"
