"""Trying a write: capture a basis, prepare, commit; and once more when somebody else was first.

Only a write that keeps its meaning on a newer state is prepared again (inserts and merges), each
time from a fresh basis, at most a bounded number of times, and holding the locks it lacked the time
before: many writers of one type all get their turn. An update, delete or overwrite was
decided on rows that have changed since, so its caller hears of it, unless they have not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.publish import require_head
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.ops.catch_up import SCHEMA_ACTOR, prepare_catching_up
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import Commit
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    GraphError,
    Outcome,
    ReadSetChangedError,
)
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.names import BranchName
from omnigraph.storage.locks import HeldLocks, LockKey, hold_nothing


class Prepared(Protocol):
    """Anything that carries a prepared write."""

    @property
    def write(self) -> PreparedWrite:
        """What is to be committed."""


P = TypeVar("P", bound=Prepared)


def is_refused(error: GraphError) -> bool:
    """Whether an error of a write means that no table was moved by it."""
    return error.outcome in (Outcome.UNCHANGED, Outcome.MOVED)


def write_on(
    branch: BranchName,
    *,
    prepare: Callable[[Basis, SnapshotRows], P],
    authorship: Authorship,
    path: WritePath,
) -> tuple[P, Commit | None]:
    """What was prepared, and the commit it became: none if it changes nothing."""
    wanted: frozenset[LockKey] = frozenset()
    attempts_left = PREPARE_ATTEMPTS_MAX
    while True:
        attempts_left -= 1
        path.heal()
        with path.locks.hold(wanted) as held:
            basis = path.authority.capture(branch)
            require_head(authorship.expected_head, basis.state)
            caught_up = _catch_up(basis, authorship, held, path)
            if caught_up is not None:
                attempts_left += 1
                if authorship.expected_head is not None:
                    authorship = replace(authorship, expected_head=caught_up.id)
                continue
            committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
            prepared = prepare(basis, committed)
            if not prepared.write.is_commit:
                return prepared, None
            try:
                commit = path.commit(prepared.write, basis=basis, authorship=authorship, held=held)
            except (ExpectedVersionMismatchError, ReadSetChangedError):
                if not attempts_left:
                    raise
                # What stopped a strict write may be a dead writer's, which nobody has seen.
                if prepared.write.is_strict and path.has_moved(prepared.write, basis):
                    raise
                # From now on with the locks from the start, so that nobody can be first again.
                wanted |= path.lock_keys(prepared.write, basis, authorship)
            else:
                return prepared, commit


def _catch_up(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath
) -> Commit | None:
    """The commit by which a branch learnt of a change of schema, if it had to."""
    published = path.authority.newest_known(basis.state)
    write = prepare_catching_up(basis, published=published, tables=path.stores.tables)
    if write is None:
        return None
    own = replace(authorship, actor=SCHEMA_ACTOR, kind=WriterKind.SCHEMA_APPLY)
    behind = replace(basis, state=published)
    if not held.covers(path.lock_keys(write, behind, own)):
        held = hold_nothing()
    return path.commit(write, basis=behind, authorship=own, held=held)
