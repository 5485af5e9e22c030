"""Transactions of a served graph: a branch of its own, merged as one commit at the end.

The branch is called `transaction/<id>` and is there for everybody to see while the block runs; it
is deleted however the block ends. If the process dies in the block, the branch stays until somebody
deletes it, and nothing of it is on the branch that the transaction began on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from omnigraph.engine.ops.transaction import GraphCalls, Transaction
from omnigraph.model.errors import GraphError
from omnigraph.model.names import BranchName, PrivateBranchName

TRANSACTION_PREFIX = "transaction/"

_LOG = logging.getLogger(__name__)


class BranchingCalls(GraphCalls, Protocol):
    """The calls that a transaction is made of."""

    def create_branch(self, name: str, *, base: str = "main") -> None:
        """Start a branch."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""


@contextmanager
def transact(calls: BranchingCalls, branch: BranchName, *, id: str) -> Iterator[Transaction]:
    """A transaction for the block, merged into the branch when the block ends well.

    `MergeConflictError` means that others changed the same rows meanwhile; then it left no trace.
    """
    own = PrivateBranchName(f"{TRANSACTION_PREFIX}{id}")
    own.base = branch
    calls.create_branch(own, base=branch)
    try:
        with Transaction(calls, own, branch=branch, actor=None) as begun:
            yield begun
            begun.commit_id = calls.merge(own, into=branch).commit_id
    finally:
        _delete_quietly(calls, own)


def _delete_quietly(calls: BranchingCalls, own: str) -> None:
    try:
        calls.delete_branch(own)
    except GraphError as error:
        # What became of the transaction is decided; the branch is only in the way.
        _LOG.warning("the branch '%s' of a transaction that has ended stays: %s", own, error)
