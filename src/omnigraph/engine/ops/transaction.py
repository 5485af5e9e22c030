"""Transactions: multiple calls on a private branch that become one commit, or have no effect.

A private branch is an ordinary branch that other callers cannot name and that is not listed. An
object in `__transactions/` records it before it is created, and is deleted last. A transaction
holds its lock, so an object whose lock is free belongs to an abandoned transaction; the next
process that opens the graph for writing deletes its branch. This module does not know how branches
are merged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

import orjson

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.ops.refs import create_branch, remove_branch
from omnigraph.engine.results import LoadResult, MergeResult, MutationResult, Result
from omnigraph.engine.state.manifest import MANIFEST_PATH
from omnigraph.model.errors import BusyError, ForbiddenError, GraphError
from omnigraph.model.names import (
    MAIN,
    BranchName,
    PrivateBranchName,
    is_private_branch,
    make_private_branch_name,
)
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import Listing

TRANSACTIONS_PREFIX = "__transactions"

_FORMAT = 1
_ENDING = ".json"
_LOG = logging.getLogger(__name__)


class GraphCalls(Protocol):
    """The calls that a transaction forwards to an embedded or a remote graph."""

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
    ) -> Result:
        """Run a read."""

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
    ) -> str:
        """The plan of a read."""

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        embed: str | None = None,
    ) -> MutationResult:
        """Run a mutation."""

    def load(
        self,
        data: object,
        *,
        mode: str,
        branch: str = "main",
        actor: str | None = None,
        embed: str | None = None,
    ) -> LoadResult:
        """Load rows."""

    def export(
        self, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> Iterator[str]:
        """The rows as NDJSON lines."""

    def entity(self, type: str, id: str, *, branch: str | None = None) -> dict[str, object] | None:
        """One node or edge."""

    def head(self, branch: str = "main") -> str:
        """The id of the head commit of a branch."""

    def merge(self, source: str, *, into: str = "main", actor: str | None = None) -> MergeResult:
        """Merge a branch into another."""


class Transaction:
    """A graph in a transaction: the branch it began on, with the changes made since.

    `commit_id` is None until the transaction has succeeded, and stays None if it changed nothing.
    """

    def __init__(
        self, calls: GraphCalls, private: PrivateBranchName, *, branch: str, actor: str | None
    ) -> None:
        self._calls, self._private, self._actor = calls, private, actor
        self._has_ended = False
        self.branch = branch
        self.commit_id: str | None = None

    def __repr__(self) -> str:
        return f"Transaction(branch={self.branch!r})"

    def query(
        self, source: str, params: Mapping[str, object] | None = None, *, name: str | None = None
    ) -> Result:
        """Run a read query of a `.gq` text; it sees the writes of the transaction."""
        return self._calls.query(source, params, name=name, branch=self._begun())

    def explain(
        self, source: str, params: Mapping[str, object] | None = None, *, name: str | None = None
    ) -> str:
        """The plan of a read query, as text; nothing is run."""
        return self._calls.explain(source, params, name=name, branch=self._begun())

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        embed: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a `.gq` text; its commit is part of the transaction.

        `embed` is as for `Graph.mutate`.
        """
        return self._calls.mutate(
            source, params, name=name, branch=self._begun(), actor=self._actor, embed=embed
        )

    def load(self, data: object, *, mode: str, embed: str | None = None) -> LoadResult:
        """Load rows of any number of types; other callers do not see them until the end.

        `embed` is as for `Graph.load`.
        """
        done = self._calls.load(
            data, mode=mode, branch=self._begun(), actor=self._actor, embed=embed
        )
        return replace(done, branch=self.branch)

    def export(self, *, types: Sequence[str] | None = None) -> Iterator[str]:
        """The rows as NDJSON lines that `load` accepts."""
        return self._calls.export(branch=self._begun(), types=types)

    def entity(self, type: str, id: str) -> dict[str, object] | None:
        """One node or edge; None if it does not exist."""
        return self._calls.entity(type, id, branch=self._begun())

    def head(self) -> str:
        """The head commit: the branch's until the transaction writes, then the transaction's."""
        return self._calls.head(self._begun())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._has_ended = True

    def _begun(self) -> PrivateBranchName:
        if self._has_ended:
            raise ForbiddenError(
                actor=self._actor, action="use this transaction", reason="it has ended"
            )
        return self._private


@contextmanager
def transact(
    calls: GraphCalls, branch: BranchName, *, actor: str | None, path: WritePath
) -> Iterator[Transaction]:
    """A transaction for the block, merged into the branch when the block ends without an error.

    `MergeConflictError` means that other writers changed the same rows meanwhile, and the
    transaction had no effect.
    """
    with (
        private_branch(branch, path=path) as private,
        Transaction(calls, private, branch=branch, actor=actor) as begun,
    ):
        yield begun
        begun.commit_id = calls.merge(private, into=branch, actor=actor).commit_id


@contextmanager
def private_branch(base: BranchName, *, path: WritePath) -> Iterator[PrivateBranchName]:
    """A branch that exists for the duration of the block, and is deleted however the block ends."""
    # Nothing may depend on a branch that does not exist.
    path.branch_states.state(base)
    name = make_private_branch_name(path.runtime.new_id(), base=base)
    with path.locks.hold([life_of(name)]):
        fields: dict[str, object] = {
            "format_version": _FORMAT,
            "private_branch": name,
            "branch": base,
            "started_at": path.runtime.now().isoformat(),
        }
        content = orjson.dumps(fields, option=orjson.OPT_INDENT_2)
        # A crash from here on leaves an object that records what else may exist.
        path.stores.objects.put_if_absent(_path_of(name), content)
        has_ended_well = False
        try:
            create_branch(BranchName(name), base=base, if_head=None, path=path)
            yield name
            has_ended_well = True
        finally:
            _remove_quietly(name, path, is_whole=has_ended_well)


def sweep_transactions(root: Listing, *, path: WritePath) -> None:
    """Delete the remains of abandoned transactions, if a listing of the root shows any."""
    if TRANSACTIONS_PREFIX not in root.prefixes:
        return
    objects = path.stores.objects
    for file in sorted(objects.list(TRANSACTIONS_PREFIX).token_by_name):
        name = file.removesuffix(_ENDING)
        if not is_private_branch(name):
            # A foreign file, which does not refer to any branch.
            continue
        try:
            with path.recoverer.free_locks.hold([life_of(name)]):
                # The transaction may have ended normally before this process acquired the lock.
                if objects.find(_path_of(name)) is not None:
                    _remove(name, path)
        except BusyError:
            # The transaction is active, or another process is deleting it.
            continue


def _remove_quietly(name: str, path: WritePath, *, is_whole: bool) -> None:
    try:
        if not is_whole:
            # An interrupted write of the transaction is discarded with its branch.
            path.recover()
        _remove(name, path)
    except GraphError as error:
        # The outcome of the transaction is decided; the next process that opens the graph cleans
        # up.
        _LOG.warning("the branch of a transaction that has ended was not deleted: %s", error)


def _remove(name: str, path: WritePath) -> None:
    """Delete a private branch and then its object; safe to repeat."""
    branch = BranchName(name)
    # Its types are those of `main`, because a schema belongs to the graph and not to a branch.
    tables = path.branch_states.state(MAIN).path_by_table
    with (
        path.locks.hold([LockKey(table_key, branch) for table_key in tables]) as held,
        path.locks.hold_within(held, [LockKey(MANIFEST_PATH, branch)]) as turn,
    ):
        remove_branch(branch, tables.values(), held=turn, path=path)
    path.stores.objects.delete(_path_of(name))


def life_of(name: str) -> LockKey:
    """The lock that an active transaction holds."""
    # Not the lease of the branch, which the writers of the transaction acquire in turn.
    return LockKey("__transaction__", f"{name}.life")


def _path_of(name: str) -> str:
    return f"{TRANSACTIONS_PREFIX}/{name}{_ENDING}"
