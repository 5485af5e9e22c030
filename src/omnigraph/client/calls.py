"""The calls that every graph offers, opened by its uri or reached through a server.

Whoever holds a `GraphCalls` need not know which of the two it is: the same arguments give the same
results and the same errors. What keeps a graph whole and fast is not among them, because that is
done where the graph is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from omnigraph.engine.retrieval.limits import BUDGET_TOKENS, FOUND, HOPS

if TYPE_CHECKING:
    import os

    from omnigraph.engine.changes import ChangeSet, CommitChanges
    from omnigraph.engine.commit.audit import Recovery
    from omnigraph.engine.loads import Progress
    from omnigraph.engine.ops.transaction import Transaction
    from omnigraph.engine.read.budget import CallLimits
    from omnigraph.engine.results import (
        Blob,
        LoadResult,
        MergeResult,
        MigrationPlan,
        MutationResult,
        Result,
        SchemaApplyResult,
        SnapshotState,
        TableState,
    )
    from omnigraph.engine.retrieval.answers import Receipt, Retrieval
    from omnigraph.engine.state.history import Commit


class CommitFeed(Protocol):
    """The commits of a branch in order; iterating again gives what came since."""

    @property
    def cursor(self) -> str:
        """Where the feed is, for going on another time."""

    def __iter__(self) -> Iterator[CommitChanges]: ...


class GraphCalls(Protocol):
    """A graph, wherever it is."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def close(self) -> None:
        """Let go of the graph; closing again is fine."""

    @property
    def uri(self) -> str:
        """Where the graph is."""

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema."""

    @property
    def actor(self) -> str | None:
        """In whose name calls are made; None for nobody's."""

    # Data

    def query(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        engine: str = "local",
        spark: object = None,
        limits: CallLimits | None = None,
    ) -> Result:
        """Run a read."""

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
        spark: object = None,
    ) -> str:
        """How a read would be run."""

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation as one commit, or change nothing."""

    def load(  # noqa: PLR0913  # the published signature
        self,
        data: object,
        *,
        mode: str,
        branch: str = "main",
        base: str | None = None,
        engine: str = "auto",
        actor: str | None = None,
        progress: Progress | None = None,
        spark: object = None,
        on_error: str = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadResult:
        """Load rows as one commit, or change nothing."""

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """One node or edge; None if it is not there."""

    def read_blob(
        self,
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        start: int = 0,
        length: int | None = None,
    ) -> Blob:
        """A blob of a node or edge, or a part of it."""

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows as NDJSON lines that `load` reads back."""

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit at its end, or leave no trace."""

    # Retrieval

    def retrieve(  # noqa: PLR0913  # the published signature
        self,
        text: str,
        *,
        types: str | Sequence[str] | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        k: int = FOUND,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        vector: Sequence[float] | None = None,
        word_weight: float = 1.0,
        vector_weight: float = 1.0,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """What the graph holds about a text, for a prompt."""

    def retrieve_by(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """The same for the nodes that a read finds."""

    def replay(
        self,
        receipt: Receipt | Mapping[str, object],
        *,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """The answer that a receipt was given out with, again."""

    # History

    def branches(self) -> list[str]:
        """The branches, `main` first, then by name."""

    def create_branch(
        self,
        name: str,
        *,
        base: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> None:
        """Start a branch at the head of another."""

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        """Delete a branch and the commits that only it had."""

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit, for good."""

    def tags(self) -> dict[str, str]:
        """The tags by name, each with the id of its commit."""

    def delete_tag(self, name: str) -> None:
        """Take a tag away; its commit stays."""

    def merge(  # noqa: PLR0913  # the published signature
        self,
        source: str,
        *,
        into: str = "main",
        actor: str | None = None,
        dry_run: bool = False,
        granularity: str = "row",
        resolve: Mapping[tuple[str, str], object] | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit, or change nothing."""

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Undo one commit by a new one."""

    def cherry_pick(
        self,
        commit: str,
        *,
        onto: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Do on a branch what one commit did elsewhere."""

    def commits(self, branch: str = "main") -> list[Commit]:
        """The commits of a branch, oldest first."""

    def commit(self, id: str) -> Commit:
        """The commit of an id, or the one that a tag names."""

    def head(self, branch: str = "main") -> str:
        """The id of the commit that a branch is at."""

    def diff(
        self,
        old: str,
        new: str,
        *,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> ChangeSet:
        """What changed from one branch, commit or tag to another, net."""

    def changes(self, start: str, branch: str = "main") -> CommitFeed:
        """What each commit of a branch changed, in order."""

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The snapshot of a branch."""

    def snapshot(self, branch: str = "main") -> SnapshotState:
        """The commit that a branch is at, and its types as they are there."""

    def recoveries(self) -> list[Recovery]:
        """Writes that had stopped half-way, and how they were ended, oldest first."""

    # Schema

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the accepted schema to another one; nothing is changed."""

    def apply_schema(
        self,
        source: str,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Make a schema the graph's as one commit, or change nothing."""
