"""The retry loop of writes, the branch guard, and the schema catch-up of a branch.

Retries are bounded, and each starts from a fresh basis. A write that depends on the rows that it
read is not retried if those rows have changed. A keyed request is performed once. A branch that
lacks a schema change receives it in a separate commit before the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from omnigraph.engine.commit.idempotency import find_recorded_commit
from omnigraph.engine.commit.prepared_write import (
    PreparedWrite,
    SchemaChange,
    SchemaDelta,
    StagingMode,
    TableChange,
)
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.ops.recorded_responses import (
    Answer,
    WriteResponse,
    decode_response,
    record_response,
)
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import ManifestState, Register, table_key_of
from omnigraph.model.errors import (
    CorruptError,
    ExpectedVersionMismatchError,
    GraphError,
    NotFoundError,
    Outcome,
    PreconditionFailedError,
    ReadSetChangedError,
)
from omnigraph.model.limits import PREPARE_ATTEMPTS_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.model.ports import Event, Phase
from omnigraph.storage.locks import HeldLocks, LockKey, hold_nothing
from omnigraph.storage.ports import TableStore
from omnigraph.storage.row_files import table_schema


@contextmanager
def branch_guard(*, branch_states: BranchStates, otherwise: str) -> Iterator[list[ManifestState]]:
    """A block that notes the states it reads; at its end, their branches must still exist.

    Raises `NotFoundError` of kind `branch` if a branch was deleted or recreated meanwhile; it
    replaces any error that the missing files caused. `otherwise` describes the consequence for the
    call.
    """
    noted: list[ManifestState] = []
    try:
        yield noted
    except GraphError as error:
        _require_standing(noted, branch_states, otherwise, cause=error)
        raise
    _require_standing(noted, branch_states, otherwise, cause=None)


@contextmanager
def report_deleted_branch(state: ManifestState, *, branch_states: BranchStates) -> Iterator[None]:
    """A block that reads a state; if its branch is deleted meanwhile, the error says so.

    The files of a deleted branch are deleted one after the other, so the branch appears corrupt to
    a reader.
    """
    try:
        yield
    except CorruptError as error:
        _require_standing([state], branch_states, "look what is there now", cause=error)
        raise


def _require_standing(
    states: Iterable[ManifestState],
    branch_states: BranchStates,
    otherwise: str,
    *,
    cause: GraphError | None,
) -> None:
    for state in states:
        if state.branch != MAIN and not _stands(state, branch_states):
            raise NotFoundError(
                kind="branch",
                name=state.branch,
                advice=f"it was deleted or made anew meanwhile; {otherwise}",
            ) from cause


def _stands(state: ManifestState, branch_states: BranchStates) -> bool:
    try:
        # Only reading the newest version distinguishes a branch from a later one of the same name.
        newest = branch_states.state(state.branch)
        if newest.head.id != state.head.id:
            branch_states.state_of(state.head.id, branch=state.branch, version=state.at.version)
    except NotFoundError:
        return False
    return True


SCHEMA_ACTOR = "omnigraph:schema"


def prepare_catching_up(
    basis: Basis, *, published: ManifestState, tables: TableStore
) -> PreparedWrite | None:
    """The part of the accepted schema that a branch lacks; None if it lacks nothing.

    `published` is the state in the branch's manifest, without types that were added since.
    """
    if basis.branch == MAIN or published.head.schema_hash == basis.accepted_schema.schema_hash:
        return None
    known = published.snapshot.entries
    changes = {}
    for declared in basis.catalog.stored_types():
        key, schema = table_key_of(declared), table_schema(declared)
        if key in known and set(tables.schema(known[key].at).names) != set(schema.names):
            nothing = pa.array([], pa.string())
            changes[key] = TableChange(declared, schema.empty_table(), nothing, is_overwrite=False)
    unheard = [entry for key, entry in basis.snapshot.entries.items() if key not in known]
    if not changes and not unheard:
        return None
    return PreparedWrite(
        changes=dict(sorted(changes.items())),
        placement=dict.fromkeys(changes, StagingMode.COLUMNS),
        read_set=frozenset(),
        is_strict=False,
        schema=SchemaChange(
            source=None,
            schema_hash=basis.accepted_schema.schema_hash,
            delta=SchemaDelta(
                replaced_hash=published.head.schema_hash or "",
                registered=tuple(Register(each.table_key, each.path) for each in unheard),
                adopted=tuple(unheard),
                dropped=(),
            ),
        ),
    )


class Prepared(Protocol):
    """A value that contains a prepared write."""

    @property
    def write(self) -> PreparedWrite:
        """The write to commit."""


P = TypeVar("P", bound=Prepared)


class Outstanding(Protocol):
    """External inputs that a write needs before its commit, such as the vectors of its texts."""

    @property
    def is_due(self) -> bool:
        """Whether the most recently prepared write lacks something."""

    def ask(self) -> None:
        """Obtain what is missing, which may take minutes; if it raises, nothing was written."""


def is_refused(error: GraphError) -> bool:
    """Whether an error of a write means that the write advanced no table."""
    return error.outcome in (Outcome.UNCHANGED, Outcome.MOVED)


def run_write(
    branch: BranchName,
    *,
    prepare: Callable[[Basis, SnapshotRows], P],
    authorship: Authorship,
    path: WritePath,
) -> tuple[P, Commit | None]:
    """What was prepared for a write, and its commit; None if it changes nothing."""
    assert authorship.request is None, "who repeats a request has prepared nothing"
    done = _write(branch, prepare, authorship, path, outstanding=None)
    assert not isinstance(done, Commit)
    return done


def run_recorded_write(
    branch: BranchName,
    *,
    prepare: Callable[[Basis, SnapshotRows], P],
    tell: Callable[[P], Answer],
    outstanding: Outstanding | None,
    authorship: Authorship,
    path: WritePath,
) -> WriteResponse:
    """Prepare and commit a write, and return the response to its caller.

    A request that an earlier call with its key performed is not performed again, and gets the same
    response. Inputs that are `outstanding` after a write was prepared are obtained without holding
    a lock; the write is then prepared again on the current state.
    """
    request = authorship.request

    def prepare_telling(basis: Basis, committed: SnapshotRows) -> _Telling:
        prepared = prepare(basis, committed)
        answer = tell(prepared)
        return _Telling(record_response(prepared.write, answer, request=request), answer)

    done = _write(branch, prepare_telling, authorship, path, outstanding=outstanding)
    if isinstance(done, Commit):
        return decode_response(done)
    told, commit = done
    return WriteResponse(told.answer, commit.id if commit else None, is_repeated=False)


def find_told(
    branch: BranchName, *, authorship: Authorship, path: WritePath
) -> WriteResponse | None:
    """The recorded response of a request that an earlier call performed.

    For writes that read more than their branch before they are prepared, because that may have been
    deleted since.
    """
    if authorship.request is None:
        return None
    path.recover()
    return find_told_at(path.branch_states.state(branch), authorship=authorship, path=path)


def find_told_at(
    state: ManifestState, *, authorship: Authorship, path: WritePath
) -> WriteResponse | None:
    """The recorded response in a state that was read after recovery."""
    known = _find_answer(authorship, state, since=0, path=path)
    return None if known is None else decode_response(known)


@dataclass(frozen=True, slots=True)
class _Telling:
    write: PreparedWrite
    answer: Answer


def _write(
    branch: BranchName,
    prepare: Callable[[Basis, SnapshotRows], P],
    authorship: Authorship,
    path: WritePath,
    *,
    outstanding: Outstanding | None,
) -> tuple[P, Commit | None] | Commit:
    """What was prepared, and its commit; or only the commit of an earlier identical request."""
    wanted: frozenset[LockKey] = frozenset()
    attempts_left, looked_at = PREPARE_ATTEMPTS_MAX, 0
    while True:
        attempts_left -= 1
        # No lock is held here, so that other writers do not wait for a provider.
        _ask_for(outstanding)
        path.recover()
        with path.locks.hold(wanted) as held:
            with path.observer.phase(Phase.CAPTURE):
                basis = path.branch_states.capture(branch)
                # Checked before the head, because an earlier call with the same key has advanced
                # the head.
                known = _find_answer(authorship, basis.state, since=looked_at, path=path)
            if known is not None:
                return known
            looked_at = basis.state.at.version
            path.require_head(authorship.expected_head, basis.state)
            going_on = _bring_up_to_date(basis, authorship, held, path, is_last=attempts_left <= 0)
            if going_on is not None:
                authorship = going_on
                continue
            gone = partial(report_deleted_branch, basis.state, branch_states=path.branch_states)
            with path.observer.phase(Phase.PREPARE), gone():
                committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
                prepared = prepare(basis, committed)
            if _is_due(outstanding, is_last=attempts_left <= 0):
                continue
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
                # The writer that was first may have executed the same request.
                known = _find_newest_answer(authorship, branch, since=looked_at, path=path)
                if known is not None:
                    return known
                if attempts_left <= 0 or _is_final(error, prepared.write, basis, path):
                    raise
                path.observer.count(Event.RETRIED)
                # The next attempts hold the locks from the start, so that no other writer can be
                # first again.
                wanted |= path.lock_keys(prepared.write, basis, authorship)
            else:
                return prepared, commit


def _is_final(error: GraphError, write: PreparedWrite, basis: Basis, path: WritePath) -> bool:
    """Whether preparing a write again could change its meaning."""
    if isinstance(error, PreconditionFailedError):
        return True
    # An interrupted write, which no reader has seen, may have stopped a strict write.
    return write.is_strict and path.has_moved(write, basis)


def _ask_for(outstanding: Outstanding | None) -> None:
    if outstanding is not None and outstanding.is_due:
        outstanding.ask()


def _is_due(outstanding: Outstanding | None, *, is_last: bool) -> bool:
    """Whether something has to be obtained before a write can be committed.

    Raises after the last attempt, because rows that other writers change continuously need other
    vectors each time.
    """
    if outstanding is None or not outstanding.is_due:
        return False
    if is_last:
        raise ReadSetChangedError(
            member="the text that a vector is made of",
            expected="what was embedded",
            actual="another text",
        )
    return True


def _find_newest_answer(
    authorship: Authorship, branch: BranchName, *, since: int, path: WritePath
) -> Commit | None:
    if authorship.request is None:
        return None
    return _find_answer(authorship, path.branch_states.state(branch), since=since, path=path)


def _find_answer(
    authorship: Authorship, state: ManifestState, *, since: int, path: WritePath
) -> Commit | None:
    if authorship.request is None:
        return None
    found = find_recorded_commit(
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
    """Apply a missing schema change to the branch of a write.

    Returns the authorship with which the write starts again, or None if nothing was missing.
    """
    try:
        with report_deleted_branch(basis.state, branch_states=path.branch_states):
            caught_up = _catch_up(basis, authorship, held, path)
    except (ExpectedVersionMismatchError, ReadSetChangedError):
        # Another write on the branch has applied it meanwhile.
        if is_last:
            raise
        return authorship
    return None if caught_up is None else _move_on(authorship, caught_up)


def _catch_up(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath
) -> Commit | None:
    """Commit the schema change that a branch lacks; None if it lacks nothing."""
    published = path.branch_states.newest_known(basis.state)
    write = prepare_catching_up(basis, published=published, tables=path.stores.tables)
    if write is None:
        return None
    own = replace(authorship, actor=SCHEMA_ACTOR, kind=WriterKind.SCHEMA_APPLY, request=None)
    behind = replace(basis, state=published)
    if not held.covers(path.lock_keys(write, behind, own)):
        held = hold_nothing()
    return path.commit(write, basis=behind, authorship=own, held=held)


def _move_on(authorship: Authorship, head: Commit) -> Authorship:
    """The authorship with its expected head advanced to a commit of this write."""
    if authorship.expected_head is None:
        return authorship
    return replace(authorship, expected_head=head.id)
