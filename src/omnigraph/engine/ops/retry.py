"""The retry loop of writes, the branch guard, and the schema catch-up of a branch.

Retries are bounded, and each starts from a fresh basis. A write that depends on the rows that it
read is not retried if those rows have changed. A keyed request is performed once. A branch that
lacks a schema change receives it in a separate commit before the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from omnigraph.engine.commit.idempotency import Request, find_recorded_commit
from omnigraph.engine.commit.prepared_write import (
    PreparedWrite,
    SchemaChange,
    SchemaDelta,
    StagingMode,
    TableChange,
)
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.ops.recorded_responses import ResultCodec, decode_result, record_result
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
from omnigraph.storage.ports import TableReader
from omnigraph.storage.row_files import table_schema

READ_AGAIN = "read the current state again"


@contextmanager
def branch_guard(
    *states: ManifestState, branch_states: BranchStates, advice: str, checks_result: bool
) -> Iterator[list[ManifestState]]:
    """A block that reads states of branches, and adds states that it reads later to the list.

    Raises `NotFoundError` of kind `branch` in place of the error of the block if a branch was
    deleted or recreated meanwhile: its files are deleted one after the other, so it appears corrupt
    to a reader. With `checks_result`, the branches must also exist when the block succeeds.
    """
    guarded = list(states)
    try:
        yield guarded
    except GraphError as error:
        if checks_result or isinstance(error, CorruptError):
            _require_unchanged(guarded, branch_states, advice, cause=error)
        raise
    if checks_result:
        _require_unchanged(guarded, branch_states, advice, cause=None)


def _require_unchanged(
    states: Iterable[ManifestState],
    branch_states: BranchStates,
    advice: str,
    *,
    cause: GraphError | None,
) -> None:
    for state in states:
        if state.branch == MAIN:
            continue
        try:
            # Only reading the newest version distinguishes a branch from a later one of the same
            # name.
            newest = branch_states.state(state.branch)
            if newest.head.id != state.head.id:
                branch_states.state_of(state.head.id, branch=state.branch, version=state.at.version)
        except NotFoundError:
            raise NotFoundError(
                kind="branch",
                name=state.branch,
                advice=f"it was deleted or recreated meanwhile; {advice}",
            ) from cause


SCHEMA_ACTOR = "omnigraph:schema"


def prepare_catch_up(
    basis: Basis, *, published: ManifestState, tables: TableReader
) -> PreparedWrite | None:
    """The part of the accepted schema that a branch lacks; None if it lacks nothing.

    `published` is the state in the branch's manifest, without types that were added since.
    """
    if published.head.schema_hash == basis.accepted_schema.schema_hash:
        return None
    known = published.snapshot.entries
    changes = {}
    for declared in basis.catalog.stored_types():
        key, schema = table_key_of(declared), table_schema(declared)
        if key in known and set(tables.schema(known[key].at).names) != set(schema.names):
            nothing = pa.array([], pa.string())
            changes[key] = TableChange(declared, schema.empty_table(), nothing, is_overwrite=False)
    unregistered = [entry for key, entry in basis.snapshot.entries.items() if key not in known]
    if not changes and not unregistered:
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
                registered=tuple(Register(each.table_key, each.path) for each in unregistered),
                adopted=tuple(unregistered),
                dropped=(),
            ),
        ),
    )


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """A write to commit, and the result of its operation, which does not name the commit yet."""

    write: PreparedWrite
    result: T


@dataclass(frozen=True, slots=True)
class Executed(Generic[T]):
    """The result of an operation and its commit, which is None if nothing changed.

    With `is_repeated`, an earlier request with the same key made the commit.
    """

    result: T
    commit: Commit | None
    is_repeated: bool

    @property
    def commit_id(self) -> str | None:
        """The id of the commit."""
        return None if self.commit is None else self.commit.id


class ExternalInputs(Protocol):
    """External inputs that a write needs before its commit, such as the vectors of its texts."""

    @property
    def is_due(self) -> bool:
        """Whether the most recently prepared write lacks something."""

    def request(self) -> None:
        """Obtain what is missing, which may take minutes; if it raises, nothing was written."""


def is_refused(error: GraphError) -> bool:
    """Whether an error of a write means that the write advanced no table."""
    return error.outcome in (Outcome.UNCHANGED, Outcome.MOVED)


def run_write(
    branch: BranchName,
    *,
    prepare: Callable[[Basis, SnapshotRows], Prepared[T]],
    codec: ResultCodec[T] | None,
    inputs: ExternalInputs | None,
    authorship: Authorship,
    path: WritePath,
) -> Executed[T]:
    """Prepare and commit a write; retry it on the current state if another writer was first.

    A request that an earlier call with its key performed is not performed again and gets the
    recorded result; `codec` is None for operations that do not accept keys. External inputs that
    are missing after a write was prepared are obtained without holding a lock; the write is then
    prepared again.
    """
    lock_keys: frozenset[LockKey] = frozenset()
    attempts_left, checked_version = PREPARE_ATTEMPTS_MAX, 0
    while True:
        attempts_left -= 1
        if inputs is not None and inputs.is_due:
            # No lock is held here, so that other writers do not wait for a provider.
            inputs.request()
        path.recover()
        with path.locks.hold(lock_keys) as held:
            with path.observer.phase(Phase.CAPTURE):
                basis = path.branch_states.capture(branch)
                # Checked before the head, because an earlier call with the same key has advanced
                # the head.
                recorded = _find_commit(authorship, basis.state, since=checked_version, path=path)
            if recorded is not None:
                return _repeat(recorded, codec)
            checked_version = basis.state.at.version
            path.require_head(authorship.expected_head, basis.state)
            updated = _bring_up_to_date(basis, authorship, held, path, is_last=attempts_left <= 0)
            if updated is not None:
                authorship = updated
                continue
            with path.observer.phase(Phase.PREPARE), _guard(basis, path):
                committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
                prepared = prepare(basis, committed)
            if _is_due(inputs, is_last=attempts_left <= 0):
                continue
            if not prepared.write.is_commit:
                return Executed(prepared.result, None, is_repeated=False)
            write = _record(prepared, codec, authorship.request)
            try:
                with _guard(basis, path):
                    commit = path.commit(write, basis=basis, authorship=authorship, held=held)
                return Executed(prepared.result, commit, is_repeated=False)
            except (
                ExpectedVersionMismatchError,
                ReadSetChangedError,
                PreconditionFailedError,
            ) as error:
                # The writer that was first may have executed the same request.
                recorded = _find_newest_commit(authorship, basis, path)
                if recorded is not None:
                    return _repeat(recorded, codec)
                if attempts_left <= 0 or _is_final(error, write, basis, path):
                    raise
                path.observer.count(Event.RETRIED)
                # The next attempts hold the locks from the start, so that no other writer can be
                # first again.
                lock_keys |= path.lock_keys(write, basis, authorship)


def find_recorded(
    branch: BranchName, *, codec: ResultCodec[T], authorship: Authorship, path: WritePath
) -> T | None:
    """The recorded result of a request that an earlier call performed.

    For writes that read more than their branch before they are prepared, because that may have been
    deleted since.
    """
    if authorship.request is None:
        return None
    path.recover()
    return find_recorded_in(
        path.branch_states.state(branch), codec=codec, authorship=authorship, path=path
    )


def find_recorded_in(
    state: ManifestState, *, codec: ResultCodec[T], authorship: Authorship, path: WritePath
) -> T | None:
    """The recorded result of a request in a state that was read after recovery."""
    commit = _find_commit(authorship, state, since=0, path=path)
    return None if commit is None else decode_result(commit, codec=codec)


def _record(
    prepared: Prepared[T], codec: ResultCodec[T] | None, request: Request | None
) -> PreparedWrite:
    if request is None:
        return prepared.write
    assert codec is not None, "only operations with a codec accept keys"
    return record_result(prepared.write, prepared.result, codec=codec, request=request)


def _repeat(commit: Commit, codec: ResultCodec[T] | None) -> Executed[T]:
    assert codec is not None, "only operations with a codec accept keys"
    return Executed(decode_result(commit, codec=codec), commit, is_repeated=True)


def _guard(basis: Basis, path: WritePath) -> AbstractContextManager[list[ManifestState]]:
    return branch_guard(
        basis.state, branch_states=path.branch_states, advice=READ_AGAIN, checks_result=False
    )


def _is_final(error: GraphError, write: PreparedWrite, basis: Basis, path: WritePath) -> bool:
    """Whether preparing a write again could change its meaning."""
    if isinstance(error, PreconditionFailedError):
        return True
    # An interrupted write, which no reader has seen, may have stopped a strict write.
    return write.is_strict and path.has_moved(write, basis)


def _is_due(inputs: ExternalInputs | None, *, is_last: bool) -> bool:
    """Whether inputs have to be obtained before a write can be committed.

    Raises after the last attempt, because rows that other writers change continuously need other
    vectors each time.
    """
    if inputs is None or not inputs.is_due:
        return False
    if is_last:
        raise ReadSetChangedError(
            member="the source text of a vector",
            expected="the text that was embedded",
            actual="another text",
        )
    return True


def _find_commit(
    authorship: Authorship, state: ManifestState, *, since: int, path: WritePath
) -> Commit | None:
    """The commit of an earlier request with the same key, if any."""
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


def _find_newest_commit(authorship: Authorship, basis: Basis, path: WritePath) -> Commit | None:
    if authorship.request is None:
        return None
    state = path.branch_states.state(basis.branch)
    return _find_commit(authorship, state, since=basis.state.at.version, path=path)


def _bring_up_to_date(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath, *, is_last: bool
) -> Authorship | None:
    """Apply a missing schema change to the branch of a write.

    Returns the authorship with which the write starts again, or None if nothing was missing.
    """
    if basis.branch == MAIN:
        return None
    try:
        with _guard(basis, path):
            caught_up = _catch_up(basis, authorship, held, path)
    except (ExpectedVersionMismatchError, ReadSetChangedError):
        # Another write on the branch has applied it meanwhile.
        if is_last:
            raise
        return authorship
    if caught_up is None:
        return None
    head = None if authorship.expected_head is None else caught_up.id
    return replace(authorship, expected_head=head)


def _catch_up(
    basis: Basis, authorship: Authorship, held: HeldLocks, path: WritePath
) -> Commit | None:
    """Commit the schema change that a branch lacks; None if it lacks nothing."""
    published = path.branch_states.newest_known(basis.state)
    write = prepare_catch_up(basis, published=published, tables=path.stores.tables)
    if write is None:
        return None
    own = replace(authorship, actor=SCHEMA_ACTOR, kind=WriterKind.SCHEMA_APPLY, request=None)
    behind = replace(basis, state=published)
    if not held.covers(path.lock_keys(write, behind, own)):
        held = hold_nothing()
    return path.commit(write, basis=behind, authorship=own, held=held)
