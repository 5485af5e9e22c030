"""The write path: how a prepared write becomes true, all of it or none.

Stage files; take the locks; look whether anything the write relied on has moved; arm a sidecar;
apply one version a table; publish once; disarm. Up to *arm* an error means that nothing happened,
after it that something must be recovered. Mutations, loads, merges and schema changes all come
through here and differ only in the write they prepare.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.fencing import require_kept
from omnigraph.engine.commit.forks import fork, needs_fork
from omnigraph.engine.commit.pins import (
    is_covered,
    moved,
    require_head_is_pin,
    require_same_branch,
)
from omnigraph.engine.commit.plans import plan_sidecar
from omnigraph.engine.commit.publish import (
    Intent,
    compact_manifest,
    publish,
    require_expected,
    require_head,
    require_schema,
)
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.requests import Request, request_lock, require_unanswered
from omnigraph.engine.commit.sidecar import (
    Sidecar,
    WriterKind,
    arm,
    disarm,
)
from omnigraph.engine.commit.staging import StagedTable, stage
from omnigraph.engine.state.authority import Authority, Basis, promote_accepted
from omnigraph.engine.state.contract import archive_schema, stage_schema
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.manifest import MANIFEST_PATH, ManifestState, Update
from omnigraph.engine.state.snapshot import Entry, line_of, type_name_of
from omnigraph.model.catalog import NodeType
from omnigraph.model.errors import (
    ExpectedVersionMismatchError,
    GraphError,
    MovedError,
    ReadSetChangedError,
    RecoveryRequiredError,
    UnavailableError,
    UncertainError,
)
from omnigraph.model.names import MAIN
from omnigraph.model.observer import Event, Observer, Phase, during
from omnigraph.model.runtime import Runtime
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks, LockKey, WriteLocks
from omnigraph.storage.ports import Listing, StagedKind, StagedWrite, Stores, TableVersion

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Authorship:
    """Who writes, by which operation, at which commit the caller wants the branch to be, and the
    request that must be answered once, if it has a key."""

    actor: str | None
    kind: WriterKind
    expected_head: str | None
    request: Request | None = None

    def answering(self, request: Request | None) -> Authorship:
        """The same for a request that has a key, if it has one."""
        return replace(self, request=request)


@dataclass(frozen=True, slots=True)
class WritePath:
    """Everything a write needs; one for each open graph."""

    authority: Authority
    stores: Stores
    recoverer: Recoverer
    locks: WriteLocks
    runtime: Runtime
    failpoints: Failpoints
    observer: Observer

    @during(Phase.HEAL)
    def heal(self) -> Listing:
        """Recover what died before, and see that the schema's files are the accepted ones.

        The look at the root that said what there is to do may serve others.
        """
        root = self.stores.objects.list("")
        self.recoverer.heal(root)
        self.authority.require_contract(root.token_by_name)
        return root

    def require_head(self, expected: str | None, state: ManifestState) -> None:
        """Raise unless a branch is at the commit that a caller named, if one was."""
        with self._telling_conflicts():
            require_head(expected, state)

    def lock_keys(
        self, write: PreparedWrite, basis: Basis, authorship: Authorship
    ) -> frozenset[LockKey]:
        """The locks under which a write is committed."""
        keys = _relied_on(write)
        if authorship.expected_head is not None:
            # Nobody else may publish on the branch between the look at its head and our publish.
            keys |= basis.snapshot.entries.keys()
        if write.schema is not None and basis.branch != MAIN:
            # Who makes a type known to a branch moves no table, and others may be about to.
            keys |= {each.table_key for each in write.schema.delta.registered}
        own = frozenset(LockKey(key, line_of(basis.branch)) for key in keys)
        if authorship.request is None:
            return own
        return own | {request_lock(authorship.request.key, basis.branch)}

    def commit(
        self, write: PreparedWrite, *, basis: Basis, authorship: Authorship, held: HeldLocks
    ) -> Commit:
        """Make a prepared write true on the basis's branch.

        `held` are locks that the caller has had since before the basis, or none. `MovedError`
        means that nothing was written and the write may be prepared again, `UncertainError` that
        it must be recovered first. Who writes for a request with a key has not found it in the
        basis.
        """
        with self._telling_conflicts():
            return self._commit(write, basis, authorship, held)

    def _commit(
        self, write: PreparedWrite, basis: Basis, authorship: Authorship, held: HeldLocks
    ) -> Commit:
        entries = {key: basis.snapshot.get(key) for key in write.changes}
        inherited = [each for each in entries.values() if needs_fork(each, basis.branch)]
        # A crash up to *arm* leaves files, and perhaps a line of a table, that nobody refers to.
        staged = () if inherited else self._stage(write, entries)
        with self._locked(self.lock_keys(write, basis, authorship), held) as locked:
            if locked is not held and locked.is_fresh:
                # Whoever takes our turn from now on moves the manifest past the basis.
                locked.trust(basis.state.at.version)
            if not locked.is_revocable:
                # On a disk this costs nothing; elsewhere it is the publisher who finds out.
                require_schema(basis.contract.schema_hash, self.authority.state(MAIN))
            self._require_unmoved(write, basis, authorship)
            if inherited:
                entries |= {each.table_key: self._fork(each, basis, locked) for each in inherited}
                staged = self._stage(write, entries)
            if inherited or locked.has_lapsed():
                # Whoever took our turn may have removed a line that it found, with what is staged.
                require_kept(locked)
            return self._make_true(
                staged, write=write, basis=basis, authorship=authorship, held=locked
            )

    def has_drifted(self, entry: Entry) -> bool:
        """Whether a table is ahead of what its branch names, and no write explains that."""
        newest = self.stores.tables.find_head(entry.at.ref)
        is_ahead = newest is not None and newest > entry.version
        return is_ahead and not is_covered(entry, self.stores.objects)

    def has_moved(self, write: PreparedWrite, basis: Basis) -> bool:
        """Whether anything that a write relies on is visibly another than in its basis."""
        state = self.authority.state(basis.branch)
        relied_on = _relied_on(write)
        return any(state.version_of(key) != basis.state.version_of(key) for key in relied_on)

    @contextmanager
    def _telling_conflicts(self) -> Iterator[None]:
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
            # Taking more on top could end in a circle of writers who wait for each other.
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

    @during(Phase.STAGE)
    def _stage(self, write: PreparedWrite, entries: Mapping[str, Entry]) -> tuple[StagedTable, ...]:
        return stage(write, entries=entries, tables=self.stores.tables, failpoints=self.failpoints)

    def _fork(self, entry: Entry, basis: Basis, held: HeldLocks) -> Entry:
        return fork(
            entry,
            branch=basis.branch,
            state=self.authority.newest_known(basis.state),
            held=held,
            tables=self.stores.tables,
            failpoints=self.failpoints,
        )

    # The look, under the locks, at everything the write relied on

    def _require_unmoved(self, write: PreparedWrite, basis: Basis, authorship: Authorship) -> None:
        if authorship.request is not None:
            require_unanswered(
                authorship.request.key,
                actor=authorship.actor,
                state=self.authority.state(basis.branch),
                since=basis.state.at.version,
                tables=self.stores.tables,
            )
        require_same_branch(write, basis=basis, authority=self.authority)
        relied_on = [basis.snapshot.get(key) for key in sorted(_relied_on(write))]
        is_inherited = any(needs_fork(entry, basis.branch) for entry in relied_on)
        if is_inherited or authorship.expected_head is not None:
            # The newest version of another branch's line says nothing about this branch.
            state = self.authority.state(basis.branch)
            require_head(authorship.expected_head, state)
            require_expected({entry.table_key: entry.version for entry in relied_on}, state)
        for entry in relied_on:
            if not needs_fork(entry, basis.branch):
                require_head_is_pin(
                    entry, write, branch=basis.branch, authority=self.authority, stores=self.stores
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
            self._arm_again(sidecar, held)
            raise
        # A crash here leaves a sidecar whose commit is already true; recovery only disarms it.
        self.observer.count(Event.COMMITTED)
        self._conclude(write, sidecar)
        self._tidy(state)
        try:
            return self._commit_of(sidecar, state)
        except GraphError as error:
            # It is true, and who cannot be told so must not take it for undone.
            raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error

    @during(Phase.ARM)
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

    @during(Phase.PUBLISH)
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
            # The compare-and-swap decides; taking turns only spares writers lost attempts.
            turn = [LockKey(MANIFEST_PATH, line_of(basis.branch))]
            with self.locks.hold_within(held, turn) as locked:
                return publish(
                    intent,
                    onto=self.authority.newest_known(basis.state),
                    held=locked,
                    authority=self.authority,
                    tables=self.stores.tables,
                    failpoints=self.failpoints,
                )
        except GraphError as error:
            raise RecoveryRequiredError(operation_id=sidecar.operation_id) from error

    def _pass_before_publish(self, kind: WriterKind) -> None:
        if kind is WriterKind.ENSURE_INDICES:
            self.failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT)
        else:
            self.failpoints.maybe_fail(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER)

    def _arm_again(self, sidecar: Sidecar, held: HeldLocks) -> None:
        """Put back the record of a write that stopped, if somebody may have taken it for dead.

        It was recovered then, and has perhaps moved a table since.
        """
        if held.is_revocable:
            with suppress(UnavailableError):
                arm(sidecar, objects=self.stores.objects)

    def _commit_of(self, sidecar: Sidecar, state: ManifestState) -> Commit:
        if state.head.id == sidecar.commit_id:
            return state.head
        commits = self.authority.commits(state.branch)
        return next(each for each in commits if each.id == sidecar.commit_id)

    @during(Phase.APPLY)
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
                # Refused before anything moved, so there is nothing to recover.
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
    ) -> Intent:
        return Intent(
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

    @during(Phase.DISARM)
    def _conclude(self, write: PreparedWrite, sidecar: Sidecar) -> None:
        try:
            if write.schema is not None and write.schema.source is not None:
                promote_accepted(sidecar.schema_hash, self.authority, self.stores.objects)
            self.failpoints.maybe_fail(Failpoint.RECOVERY_SIDECAR_DELETE)
            disarm(sidecar.operation_id, objects=self.stores.objects)
        except GraphError as error:
            # The write is true whatever becomes of its record; the next write consumes it.
            _LOG.warning("the record of write %s stays: %s", sidecar.operation_id, error)

    def _tidy(self, state: ManifestState) -> None:
        try:
            compact_manifest(state, authority=self.authority, tables=self.stores.tables)
        except GraphError as error:
            # The write is true; how its record is laid out is for the next one to mend.
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
