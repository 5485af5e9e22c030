"""Trying a write: capture a basis, prepare, commit; and once more when somebody else was first.

Only a write that keeps its meaning on a newer state is prepared again (inserts and merges), each
time from a fresh basis, at most a bounded number of times, and holding the locks it lacked the time
before: many writers of one type all get their turn. An update, delete or overwrite was
decided on rows that have changed since, so its caller hears of it, unless they have not. A request
with a key is done once, by whichever call is first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.requests import find_answer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.ops.catch_up import SCHEMA_ACTOR, prepare_catching_up
from omnigraph.engine.ops.standing import telling_gone
from omnigraph.engine.ops.told import Answer, Told, recall, with_answer
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    GraphError,
    Outcome,
    PreconditionFailedError,
    ReadSetChangedError,
)
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.names import BranchName
from omnigraph.model.observer import Event, Phase
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
    assert authorship.request is None, "who repeats a request has prepared nothing"
    done = _write(branch, prepare, authorship, path)
    assert not isinstance(done, Commit)
    return done


def write_once(
    branch: BranchName,
    *,
    prepare: Callable[[Basis, SnapshotRows], P],
    tell: Callable[[P], Answer],
    authorship: Authorship,
    path: WritePath,
) -> Told:
    """What the caller of a write is told, by what was prepared for it.

    A request that an earlier call with its key has done is not done again, and told the same.
    """
    request = authorship.request

    def prepare_telling(basis: Basis, committed: SnapshotRows) -> _Telling:
        prepared = prepare(basis, committed)
        answer = tell(prepared)
        return _Telling(with_answer(prepared.write, answer, request=request), answer)

    done = _write(branch, prepare_telling, authorship, path)
    if isinstance(done, Commit):
        return recall(done)
    told, commit = done
    return Told(told.answer, commit.id if commit else None, is_repeated=False)


def find_told(branch: BranchName, *, authorship: Authorship, path: WritePath) -> Told | None:
    """What was told of a request that an earlier call has done.

    For writes that look at more than their branch before they are prepared: that may be gone since.
    """
    if authorship.request is None:
        return None
    path.heal()
    return find_told_at(path.authority.state(branch), authorship=authorship, path=path)


def find_told_at(state: ManifestState, *, authorship: Authorship, path: WritePath) -> Told | None:
    """The same, of a state after what died was recovered."""
    known = _find_answer(authorship, state, since=0, path=path)
    return None if known is None else recall(known)


@dataclass(frozen=True, slots=True)
class _Telling:
    write: PreparedWrite
    answer: Answer


def _write(
    branch: BranchName,
    prepare: Callable[[Basis, SnapshotRows], P],
    authorship: Authorship,
    path: WritePath,
) -> tuple[P, Commit | None] | Commit:
    """What was prepared, and the commit it became; or only the commit of whoever was asked the
    same before."""
    wanted: frozenset[LockKey] = frozenset()
    attempts_left, looked_at = PREPARE_ATTEMPTS_MAX, 0
    while True:
        attempts_left -= 1
        path.heal()
        with path.locks.hold(wanted) as held:
            with path.observer.phase(Phase.CAPTURE):
                basis = path.authority.capture(branch)
                # Before the head is looked at: who did it before has moved that.
                known = _find_answer(authorship, basis.state, since=looked_at, path=path)
            if known is not None:
                return known
            looked_at = basis.state.at.version
            path.require_head(authorship.expected_head, basis.state)
            going_on = _bring_up_to_date(basis, authorship, held, path, is_last=attempts_left <= 0)
            if going_on is not None:
                authorship = going_on
                continue
            gone = partial(telling_gone, basis.state, authority=path.authority)
            with path.observer.phase(Phase.PREPARE), gone():
                committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
                prepared = prepare(basis, committed)
            if not prepared.write.is_commit:
                return prepared, None
            try:
                with gone():
                    commit = path.commit(
                        prepared.write, basis=basis, authorship=authorship, held=held
                    )
            except (
                ExpectedVersionMismatchError,
                ReadSetChangedError,
                PreconditionFailedError,
            ) as error:
                # Whoever was first may have been asked the same.
                known = _find_newest_answer(authorship, branch, since=looked_at, path=path)
                if known is not None:
                    return known
                if attempts_left <= 0 or isinstance(error, PreconditionFailedError):
                    raise
                # What stopped a strict write may be a dead writer's, which nobody has seen.
                if prepared.write.is_strict and path.has_moved(prepared.write, basis):
                    raise
                path.observer.count(Event.RETRIED)
                # From now on with the locks from the start, so that nobody can be first again.
                wanted |= path.lock_keys(prepared.write, basis, authorship)
            else:
                return prepared, commit


def _find_newest_answer(
    authorship: Authorship, branch: BranchName, *, since: int, path: WritePath
) -> Commit | None:
    if authorship.request is None:
        return None
    return _find_answer(authorship, path.authority.state(branch), since=since, path=path)


def _find_answer(
    authorship: Authorship, state: ManifestState, *, since: int, path: WritePath
) -> Commit | None:
    if authorship.request is None:
        return None
    found = find_answer(
        authorship.request,
        actor=authorship.actor,
        state=state,
        since=since,
        tables=path.stores.tables,
    )
    if found is not None:
        path.observer.count(Event.REPEATED)
    return found


def _bring_up_to_date(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath, *, is_last: bool
) -> Authorship | None:
    """Whose write begins again, because its branch had to learn of a change of schema first; None
    if it had not."""
    try:
        with telling_gone(basis.state, authority=path.authority):
            caught_up = _catch_up(basis, authorship, held, path)
    except (ExpectedVersionMismatchError, ReadSetChangedError):
        # Another write of the branch has done it meanwhile.
        if is_last:
            raise
        return authorship
    return None if caught_up is None else _move_on(authorship, caught_up)


def _catch_up(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath
) -> Commit | None:
    """The commit by which a branch learnt of a change of schema, if it had to."""
    published = path.authority.newest_known(basis.state)
    write = prepare_catching_up(basis, published=published, tables=path.stores.tables)
    if write is None:
        return None
    own = replace(authorship, actor=SCHEMA_ACTOR, kind=WriterKind.SCHEMA_APPLY, request=None)
    behind = replace(basis, state=published)
    if not held.covers(path.lock_keys(write, behind, own)):
        held = hold_nothing()
    return path.commit(write, basis=behind, authorship=own, held=held)


def _move_on(authorship: Authorship, head: Commit) -> Authorship:
    """The same for a branch that is a commit of our own further."""
    if authorship.expected_head is None:
        return authorship
    return replace(authorship, expected_head=head.id)
