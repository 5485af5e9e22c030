"""The write path: stage, lock, check pins, arm, apply, publish, disarm.

A prepared write becomes visible completely or not at all. An error before the sidecar is armed
means that nothing happened; a later error means that the write must be recovered. Mutations,
loads, merges and schema changes all take this path and differ only in what they prepare. A table
that is ahead of its pin without a sidecar to explain it has drifted: another program changed it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from omnigraph.engine.commit.idempotency import Request, request_lock, require_key_unused
from omnigraph.engine.commit.prepared_write import PreparedWrite
from omnigraph.engine.commit.publish import (
    PublishRequest,
    compact_manifest,
    publish,
    require_expected,
    require_head,
    require_locks_held,
    require_schema,
)
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import (
    Pin,
    Sidecar,
    WriterKind,
    arm,
    arm_again,
    disarm,
    list_sidecars,
)
from omnigraph.engine.commit.staging import StagedTable, fork, needs_fork, stage
from omnigraph.engine.state.branch_state import Basis, BranchStates, promote_accepted
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    Entry,
    ManifestState,
    Update,
    table_branch_of,
    type_name_of,
)
from omnigraph.engine.state.schema_files import archive_schema, stage_schema
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import (
    CorruptError,
    DriftError,
    ExpectedVersionMismatchError,
    GraphError,
    MovedError,
    ReadSetChangedError,
    RecoveryRequiredError,
    UncertainError,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.model.ports import Event, Observer, Phase, timed
from omnigraph.model.runtime import Runtime
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks, LockKey, WriteLocks
from omnigraph.storage.ports import (
    Listing,
    ObjectStore,
    StagedKind,
    StagedWrite,
    Stores,
    TableVersion,
)


def require_same_branch(write: PreparedWrite, *, basis: Basis, branch_states: BranchStates) -> None:
    """Raise unless a branch is still the one that a write was prepared on; main always is.

    A recreated branch may have versions with the same numbers and different rows.
    """
    if basis.branch == MAIN:
        return
    state = branch_states.state(basis.branch)
    if state.head.id == basis.head.id:
        return
    if not branch_states.has_commit(state, basis.head.id):
        raise ReadSetChangedError(
            member=f"branch '{basis.branch}'",
            expected=f"the one with commit {basis.head.id}",
            actual="another one of its name",
        )
    if write.schema is not None and state.head.schema_hash != basis.head.schema_hash:
        raise ReadSetChangedError(
            member=f"the schema of branch '{basis.branch}'",
            expected=str(basis.head.schema_hash),
            actual=str(state.head.schema_hash),
        )


def require_head_is_pin(
    entry: Entry,
    write: PreparedWrite,
    *,
    branch: BranchName,
    branch_states: BranchStates,
    stores: Stores,
) -> None:
    """Raise unless the newest version of a table is the one that a write was prepared on."""
    newest = stores.tables.find_head(entry.at.ref)
    if newest == entry.version:
        return
    if newest is None or newest < entry.version:
        # If the branch was deleted in the meantime, its table branches were deleted too; a
        # recreated branch has others.
        state = branch_states.state(branch)
        if state.snapshot.entries.get(entry.table_key) != entry:
            raise moved(entry, state.version_of(entry.table_key), write)
        raise CorruptError(
            subject=f"the table of {type_name_of(entry.table_key)}",
            problem=f"history names its version {entry.version}, but it ends at {newest}; "
            f"restore {entry.path} from a copy",
        )
    pin = branch_states.state(branch).version_of(entry.table_key)
    if pin != entry.version:
        raise moved(entry, pin, write)
    if is_covered(entry, stores.objects):
        raise ReadSetChangedError(
            member=type_name_of(entry.table_key),
            expected=f"version {entry.version}",
            actual=f"version {newest}, of a write that stopped half-way",
        )
    raise DriftError(
        type=type_name_of(entry.table_key),
        expected=entry.version,
        actual=newest,
        advice="`omnigraph repair` shows what it was and adopts or refuses it",
    )


def is_covered(entry: Entry, objects: ObjectStore) -> bool:
    """Whether a sidecar explains why a table is ahead of its pin."""
    named = (entry.table_key, entry.branch)
    pins = (pin for sidecar in list_sidecars(objects) for pin in sidecar.pins)
    return any((pin.table_key, pin.table_branch) == named for pin in pins)


def moved(entry: Entry, pin: int, write: PreparedWrite) -> MovedError:
    """The error for a write when another write has moved a table first."""
    if entry.table_key in write.changes:
        return ExpectedVersionMismatchError(
            table_key=entry.table_key, expected=entry.version, actual=pin
        )
    return ReadSetChangedError(
        member=type_name_of(entry.table_key),
        expected=f"version {entry.version}",
        actual=f"version {pin}",
    )


def plan_sidecar(
    staged: Iterable[StagedTable],
    write: PreparedWrite,
    basis: Basis,
    *,
    relied_on: Collection[str],
    actor: str | None,
    kind: WriterKind,
    runtime: Runtime,
) -> Sidecar:
    """The sidecar of a write whose files are staged."""
    return Sidecar(
        operation_id=runtime.new_id(),
        started_at=runtime.now(),
        branch=basis.branch,
        actor=actor,
        writer_kind=kind,
        commit_id=runtime.new_id(),
        rollback_commit_id=runtime.new_id(),
        schema_hash=(
            write.schema.schema_hash if write.schema else basis.accepted_schema.schema_hash
        ),
        pins=tuple(_plan_pin(each) for each in staged),
        schema=write.schema.delta if write.schema else None,
        relied_on={key: basis.snapshot.get(key).version for key in sorted(relied_on)},
        merged_parent_id=write.merged_parent_id,
        notes=write.notes,
    )


def _plan_pin(staged: StagedTable) -> Pin:
    entry = staged.entry
    uuids = staged.uuids
    return Pin(
        table_key=entry.table_key,
        table_path=entry.path,
        table_branch=entry.branch,
        expected_version=entry.version,
        post_commit_version=entry.version + len(uuids),
        transaction_uuid=uuids[-1],
        row_count=staged.row_count,
        earlier_uuids=uuids[:-1],
        published_key=staged.change.published_key,
    )


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authorship:
    """The actor and the operation of a write, and the conditions of its caller.

    `expected_head` is the commit at which the caller requires the branch to be, if any. `request`
    is the request that must be answered only once, if it has a key.
    """

    actor: str | None
    kind: WriterKind
    expected_head: str | None
    request: Request | None = None

    def with_request(self, request: Request | None) -> Authorship:
        """The same authorship for a keyed request, or for none."""
        return replace(self, request=request)


@dataclass(frozen=True, slots=True)
class WritePath:
    """The dependencies of a write; one instance for each open graph."""

    branch_states: BranchStates
    stores: Stores
    recoverer: Recoverer
    locks: WriteLocks
    runtime: Runtime
    failpoints: Failpoints
    observer: Observer
    load_concurrency: int

    @timed(Phase.RECOVER)
    def recover(self) -> Listing:
        """Recover interrupted writes, and check that the schema's files are the accepted ones.

        The listing of the root that the recovery was based on is returned for reuse.
        """
        root = self.stores.objects.list("")
        self.recoverer.recover(root)
        self.branch_states.refresh_accepted_schema(root.token_by_name)
        return root

    def require_head(self, expected: str | None, state: ManifestState) -> None:
        """Raise unless a branch is at the commit that the caller named, if it named one."""
        with self._count_conflicts():
            require_head(expected, state)

    def lock_keys(
        self, write: PreparedWrite, basis: Basis, authorship: Authorship
    ) -> frozenset[LockKey]:
        """The locks under which a write is committed."""
        keys = _relied_on(write)
        if authorship.expected_head is not None:
            # No other writer may publish on the branch between the check of its head and this
            # publish.
            keys |= basis.snapshot.entries.keys()
        if write.schema is not None and basis.branch != MAIN:
            # A write that registers a type on a branch does not move the type's table, and another
            # writer may be about to.
            keys |= {each.table_key for each in write.schema.delta.registered}
        own = frozenset(LockKey(key, table_branch_of(basis.branch)) for key in keys)
        if authorship.request is None:
            return own
        return own | {request_lock(authorship.request.key, basis.branch)}

    def commit(
        self, write: PreparedWrite, *, basis: Basis, authorship: Authorship, held: HeldLocks
    ) -> Commit:
        """Publish a prepared write on the branch of its basis.

        `held` are locks that the caller has held since before the basis was captured, or none.
        `MovedError` means that nothing was written and the write may be prepared again,
        `UncertainError` that it must be recovered first. For a keyed request, the caller has
        checked that the basis does not contain the key.
        """
        with self._count_conflicts():
            return self._commit(write, basis, authorship, held)

    def _commit(
        self, write: PreparedWrite, basis: Basis, authorship: Authorship, held: HeldLocks
    ) -> Commit:
        entries = {key: basis.snapshot.get(key) for key in write.changes}
        inherited = [each for each in entries.values() if needs_fork(each, basis.branch)]
        # A crash before *arm* leaves unreferenced files, and perhaps an unreferenced table branch.
        staged = () if inherited else self._stage(write, entries, authorship)
        with self._locked(self.lock_keys(write, basis, authorship), held) as locked:
            if locked is not held and locked.is_fresh:
                # A process that seizes the lease from now on first advances the manifest past the
                # basis.
                locked.trust(basis.state.at.version)
            if not locked.is_revocable:
                # On a local disk this check costs nothing; elsewhere the publisher detects the
                # change.
                require_schema(basis.accepted_schema.schema_hash, self.branch_states.state(MAIN))
            self._require_unmoved(write, basis, authorship)
            for each in inherited:
                entries[each.table_key] = fork(
                    each,
                    branch=basis.branch,
                    state=self.branch_states.newest_known(basis.state),
                    held=locked,
                    tables=self.stores.tables,
                    failpoints=self.failpoints,
                )
            if inherited:
                staged = self._stage(write, entries, authorship)
            if inherited or locked.has_lapsed():
                # A process that seized the lease may have deleted a table branch together with the
                # staged files.
                require_locks_held(locked)
            return self._make_true(
                staged, write=write, basis=basis, authorship=authorship, held=locked
            )

    def has_drifted(self, entry: Entry) -> bool:
        """Whether a table is ahead of the version that its branch names, with no sidecar for it."""
        newest = self.stores.tables.find_head(entry.at.ref)
        is_ahead = newest is not None and newest > entry.version
        return is_ahead and not is_covered(entry, self.stores.objects)

    def has_moved(self, write: PreparedWrite, basis: Basis) -> bool:
        """Whether a table that a write relies on has another version than in its basis."""
        state = self.branch_states.state(basis.branch)
        relied_on = _relied_on(write)
        return any(state.version_of(key) != basis.state.version_of(key) for key in relied_on)

    @contextmanager
    def _count_conflicts(self) -> Iterator[None]:
        try:
            yield
        except MovedError:
            self.observer.count(Event.CONFLICTED)
            raise

    @contextmanager
    def _locked(self, keys: frozenset[LockKey], held: HeldLocks) -> Iterator[HeldLocks]:
        if held.covers(keys):
            yield held
            return
        if not held.is_empty:
            # Acquiring more locks while holding some could deadlock writers that wait for each
            # other.
            missing = min(key.table_key for key in keys if not held.covers([key]))
            raise ReadSetChangedError(
                member="what the write relies on",
                expected="the types of the time before",
                actual=f"also {type_name_of(missing)}",
            )
        with ExitStack() as stack:
            with self.observer.phase(Phase.LOCK):
                locked = stack.enter_context(self.locks.hold(keys))
            yield locked

    @timed(Phase.STAGE)
    def _stage(
        self, write: PreparedWrite, entries: Mapping[str, Entry], authorship: Authorship
    ) -> tuple[StagedTable, ...]:
        return stage(
            write,
            entries=entries,
            tables=self.stores.tables,
            failpoints=self.failpoints,
            threads_max=self.load_concurrency if authorship.kind is WriterKind.LOAD else 1,
        )

    # Checks, under the locks, of everything that the write relied on

    def _require_unmoved(self, write: PreparedWrite, basis: Basis, authorship: Authorship) -> None:
        if authorship.request is not None:
            require_key_unused(
                authorship.request.key,
                actor=authorship.actor,
                state=self.branch_states.state(basis.branch),
                since=basis.state.at.version,
                tables=self.stores.tables,
            )
        require_same_branch(write, basis=basis, branch_states=self.branch_states)
        relied_on = [basis.snapshot.get(key) for key in sorted(_relied_on(write))]
        is_inherited = any(needs_fork(entry, basis.branch) for entry in relied_on)
        if is_inherited or authorship.expected_head is not None:
            # The newest version of another branch's table branch says nothing about this branch.
            state = self.branch_states.state(basis.branch)
            require_head(authorship.expected_head, state)
            require_expected({entry.table_key: entry.version for entry in relied_on}, state)
        for entry in relied_on:
            if not needs_fork(entry, basis.branch):
                require_head_is_pin(
                    entry,
                    write,
                    branch=basis.branch,
                    branch_states=self.branch_states,
                    stores=self.stores,
                )

    # The durable part

    def _make_true(
        self,
        staged: tuple[StagedTable, ...],
        *,
        write: PreparedWrite,
        basis: Basis,
        authorship: Authorship,
        held: HeldLocks,
    ) -> Commit:
        sidecar = plan_sidecar(
            staged,
            write,
            basis,
            relied_on=_relied_on(write),
            actor=authorship.actor,
            kind=authorship.kind,
            runtime=self.runtime,
        )
        self._arm(sidecar)
        try:
            landed = self._apply_all(staged, sidecar, write)
            self._stage_schema(write, sidecar)
            state = self._publish(landed, sidecar, basis, authorship, held)
        except UncertainError:
            arm_again(sidecar, held=held, objects=self.stores.objects)
            raise
        # A crash here leaves a sidecar whose commit is already published; recovery only disarms it.
        self.observer.count(Event.COMMITTED)
        self._conclude(write, sidecar)
        self._tidy(state)
        try:
            if state.head.id == sidecar.commit_id:
                return state.head
            commits = self.branch_states.commits(state.branch)
            return next(each for each in commits if each.id == sidecar.commit_id)
        except GraphError as error:
            # The write is published, and a caller that cannot be informed must not assume that it
            # failed.
            raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error

    @timed(Phase.ARM)
    def _arm(self, sidecar: Sidecar) -> None:
        self.failpoints.maybe_fail(Failpoint.RECOVERY_SIDECAR_WRITE)
        arm(sidecar, objects=self.stores.objects)

    def _stage_schema(self, write: PreparedWrite, sidecar: Sidecar) -> None:
        if write.schema is None or write.schema.source is None:
            return
        objects = self.stores.objects
        try:
            self.failpoints.maybe_fail(Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE)
            archive_schema(write.schema.source, write.schema.schema_hash, objects=objects)
            # From here on a crash ends with the new schema, before it with the old one.
            stage_schema(write.schema.source, objects=objects)
            self.failpoints.maybe_fail(Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE)
        except GraphError as error:
            raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error

    @timed(Phase.PUBLISH)
    def _publish(
        self,
        landed: Mapping[str, tuple[StagedTable, TableVersion]],
        sidecar: Sidecar,
        basis: Basis,
        authorship: Authorship,
        held: HeldLocks,
    ) -> ManifestState:
        try:
            self._pass_before_publish(authorship.kind)
            intent = self._plan_intent(landed, sidecar, basis, authorship)
            # The compare-and-swap decides; the lock only spares writers failed attempts.
            turn = [LockKey(MANIFEST_PATH, table_branch_of(basis.branch))]
            with self.locks.hold_within(held, turn) as locked:
                return publish(
                    intent,
                    onto=self.branch_states.newest_known(basis.state),
                    held=locked,
                    branch_states=self.branch_states,
                    tables=self.stores.tables,
                    failpoints=self.failpoints,
                )
        except GraphError as error:
            raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error

    def _pass_before_publish(self, kind: WriterKind) -> None:
        if kind is WriterKind.ENSURE_INDICES:
            self.failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT)
            return
        if kind is WriterKind.BRANCH_MERGE:
            self.failpoints.maybe_fail(Failpoint.BRANCH_MERGE_POST_PHASE_B_PRE_MANIFEST_COMMIT)
        self.failpoints.maybe_fail(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER)

    @timed(Phase.APPLY)
    def _apply_all(
        self, staged: tuple[StagedTable, ...], sidecar: Sidecar, write: PreparedWrite
    ) -> Mapping[str, tuple[StagedTable, TableVersion]]:
        landed: dict[str, tuple[StagedTable, TableVersion]] = {}
        for each in staged:
            try:
                at = each.entry.at
                if each.write is not None:
                    self._pass_before_apply(each, each.write)
                    at = self.stores.tables.apply(each.write)
                    landed[each.entry.table_key] = (each, at)
                for move in each.later:
                    at = move.apply(at, self.stores.tables)
                    landed[each.entry.table_key] = (each, at)
            except ExpectedVersionMismatchError as error:
                if landed:
                    raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error
                # Rejected before any table moved, so there is nothing to recover.
                disarm(sidecar.operation_id, objects=self.stores.objects)
                raise moved(each.entry, error.actual, write) from error
            except GraphError as error:
                raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error
        return landed

    def _pass_before_apply(self, staged: StagedTable, write: StagedWrite) -> None:
        if write.kind is StagedKind.DELETE and isinstance(staged.change.type, NodeType):
            self.failpoints.maybe_fail(Failpoint.MUTATION_DELETE_NODE_PRE_PRIMARY_DELETE)

    def _plan_intent(
        self,
        landed: Mapping[str, tuple[StagedTable, TableVersion]],
        sidecar: Sidecar,
        basis: Basis,
        authorship: Authorship,
    ) -> PublishRequest:
        return PublishRequest(
            changes=(
                *(
                    Update(_landed_entry(each, at), self.stores.tables.describe(at))
                    for each, at in landed.values()
                ),
                *(sidecar.schema.changes(self.stores.tables.describe) if sidecar.schema else ()),
            ),
            expected=sidecar.relied_on,
            expected_head=authorship.expected_head,
            commit_id=sidecar.commit_id,
            created_at=self.runtime.now(),
            actor=authorship.actor,
            merged_parent_id=sidecar.merged_parent_id,
            schema_hash=sidecar.schema_hash,
            notes=sidecar.notes,
            replaced_hash=sidecar.schema.replaced_hash if sidecar.schema else None,
            looked_at=basis.state.at.version,
        )

    @timed(Phase.DISARM)
    def _conclude(self, write: PreparedWrite, sidecar: Sidecar) -> None:
        try:
            if write.schema is not None and write.schema.source is not None:
                promote_accepted(sidecar.schema_hash, self.branch_states, self.stores.objects)
            self.failpoints.maybe_fail(Failpoint.RECOVERY_SIDECAR_DELETE)
            disarm(sidecar.operation_id, objects=self.stores.objects)
        except GraphError as error:
            # The write is published whether or not its sidecar is deleted; the next write consumes
            # the sidecar.
            _LOG.warning("the record of write %s stays: %s", sidecar.operation_id, error)

    def _tidy(self, state: ManifestState) -> None:
        try:
            compact_manifest(state, branch_states=self.branch_states, tables=self.stores.tables)
        except GraphError as error:
            # The write is published; compacting the manifest is left to the next write.
            _LOG.warning("the manifest stays in many files: %s", error)


def _relied_on(write: PreparedWrite) -> frozenset[str]:
    return write.read_set | write.changes.keys()


def _landed_entry(staged: StagedTable, at: TableVersion) -> Entry:
    return replace(
        staged.entry,
        table_key=staged.change.published_key or staged.entry.table_key,
        version=at.version,
        row_count=staged.row_count,
    )
