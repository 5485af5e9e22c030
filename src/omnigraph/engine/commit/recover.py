"""Recovery: finishes or undoes the writes that sidecars record.

Recovery holds the locks of the tables, so the writer is dead or done, or its lease was seized. A
write that moved every table is published as planned; one that moved some tables is rolled back;
one that moved none is discarded, unless its writer may only be paused. A table version belongs to
the write only if the planned transaction made it: a version number proves nothing. Recovery is
safe to repeat and to interrupt at any point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID, uuid5

from omnigraph.engine.commit.audit import EVENT_BY_KIND, record
from omnigraph.engine.commit.idempotency import request_lock
from omnigraph.engine.commit.publish import PublishRequest, publish, require_locks_held
from omnigraph.engine.commit.sidecar import (
    RECOVERY_PREFIX,
    Pin,
    Sidecar,
    arm_again,
    changes_schema,
    decode_sidecar,
    disarm,
    list_sidecar_paths,
    list_sidecars,
    sidecar_path,
)
from omnigraph.engine.state.branch_state import BranchStates, promote_accepted
from omnigraph.engine.state.history import Recovery, RecoveryKind, TableOutcome
from omnigraph.engine.state.manifest import (
    MANIFEST_PATH,
    Entry,
    ManifestState,
    Update,
    table_branch_of,
    type_name_of,
)
from omnigraph.engine.state.schema_files import SCHEMA_LOCK, discard_staged, find_staged, is_staged
from omnigraph.model.errors import (
    BusyError,
    CorruptError,
    ExpectedVersionMismatchError,
    GraphError,
    ReadSetChangedError,
)
from omnigraph.model.names import MAIN, RECOVERY_ACTOR, BranchName
from omnigraph.model.ports import Observer
from omnigraph.model.runtime import Runtime
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks, LockKey, WriteLocks
from omnigraph.storage.ports import Listing, Stores, TableRef, TableVersion


class PinClass(StrEnum):
    """The state of one table of an unfinished write."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(StrEnum):
    """What recovery does with the whole write: all of it or nothing."""

    ABORT = "Abort"
    DISCARD = "Discard"
    ROLL_BACK = "RollBack"
    ROLL_FORWARD = "RollForward"


@dataclass(frozen=True, slots=True)
class Facts:
    """The observed state of one table.

    `newest` is its newest version and `named` the version that the branch names. `has_landed` says
    whether any transaction of the write is among the table's versions, `is_complete` whether its
    last one is, and `is_undone` whether the transaction that undoes the write made the newest
    version.
    """

    newest: int
    named: int
    has_landed: bool
    is_complete: bool
    is_undone: bool


def classify(pin: Pin, facts: Facts) -> PinClass:
    """The class of one table.

    `INCOMPLETE_PHASE_B` is a table that took some of several planned steps, but not the last one.
    """
    if facts.newest < facts.named:
        return PinClass.INVARIANT_VIOLATION
    if facts.newest == facts.named:
        return PinClass.NO_MOVEMENT
    is_planned = (pin.expected_version, pin.post_commit_version) == (facts.named, facts.newest)
    if is_planned and facts.is_complete:
        return PinClass.ROLLED_PAST_EXPECTED
    is_within = pin.expected_version == facts.named and facts.newest < pin.post_commit_version
    if is_within and facts.has_landed:
        return PinClass.INCOMPLETE_PHASE_B
    if facts.newest > facts.named + 1:
        return PinClass.UNEXPECTED_MULTISTEP
    return PinClass.UNEXPECTED_AT_P1


def decide(classes: Iterable[PinClass], *, is_writer_dead: bool) -> Decision:
    """The decision that follows from the classes of all tables.

    A writer that may only be paused could still move the tables that it has not moved yet. Its
    write is therefore undone, which moves every table out of its reach, and not merely discarded.
    """
    found = set(classes)
    if PinClass.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    if not found or (found == {PinClass.NO_MOVEMENT} and is_writer_dead):
        return Decision.DISCARD
    if found == {PinClass.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK


_UNDOING = UUID("6f4b1f0e-6a57-5c0a-9d7e-8a3c1c9e2b10")
"""The UUID namespace of the transactions that undo a write, one for each operation and table."""


@dataclass(frozen=True, slots=True)
class Recoverer:
    """The dependencies of recovery; one instance for each open graph.

    `free_locks` are the same locks, acquired only if no other holder has them.
    """

    branch_states: BranchStates
    stores: Stores
    locks: WriteLocks
    free_locks: WriteLocks
    runtime: Runtime
    failpoints: Failpoints
    observer: Observer

    def recover(self, root: Listing) -> None:
        """Recover every write that a listing of the root shows to be unfinished.

        An unreadable sidecar raises `CorruptError` and is left in place.
        """
        if RECOVERY_PREFIX in root.prefixes:
            self.failpoints.maybe_fail(Failpoint.RECOVERY_SIDECAR_LIST)
            for path in list_sidecar_paths(self.stores.objects):
                self._recover_file(path)
        if is_staged(root):
            self._recover_schema()

    def _recover_schema(self) -> None:
        """Finish or discard a schema whose text is staged and whose sidecar was deleted."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.free_locks.hold([SCHEMA_LOCK]))
            except BusyError:
                # The holder of the lock is applying it.
                return
            staged = find_staged(self.stores.objects)
            if staged is None or any(map(changes_schema, list_sidecars(self.stores.objects))):
                return
            if not promote_accepted(staged, self.branch_states, self.stores.objects):
                discard_staged(self.stores.objects)

    def _recover_file(self, path: str) -> None:
        sidecar = self._find_sidecar(path)
        if sidecar is None:
            return
        with ExitStack() as stack:
            try:
                held = stack.enter_context(self.free_locks.hold(_lock_keys(sidecar)))
            except BusyError:
                # The locks are held: the writer is alive, or another recovery is running.
                return
            # The writer may have finished before the locks were acquired.
            if self._find_sidecar(path) is not None:
                try:
                    self._recover(sidecar, held)
                except GraphError:
                    arm_again(sidecar, held=held, objects=self.stores.objects)
                    raise

    def _find_sidecar(self, path: str) -> Sidecar | None:
        stored = self.stores.objects.find(path)
        return None if stored is None else decode_sidecar(stored.content, path=path)

    def _recover(self, sidecar: Sidecar, held: HeldLocks) -> None:
        branch = BranchName(sidecar.branch)
        if not self.branch_states.has_branch(branch):
            self._discard_orphan(sidecar, held)
            return
        self.failpoints.maybe_fail(Failpoint.CLASSIFY_FRESH_READ)
        state = self.branch_states.state(branch)
        is_true = self.branch_states.has_commit(state, sidecar.commit_id)
        if is_true and not held.is_revocable:
            self._conclude_forward(sidecar)
            return
        facts = {pin.table_key: self._observe(pin, sidecar, state) for pin in sidecar.pins}
        if is_true or self.branch_states.has_commit(state, sidecar.rollback_commit_id):
            self._undo_late_effects(sidecar, facts, state, held)
            if is_true:
                self._conclude_forward(sidecar)
            else:
                self._conclude_back(sidecar, facts)
            return
        classes = [classify(pin, facts[pin.table_key]) for pin in sidecar.pins]
        match self._decide(sidecar, classes, held):
            case Decision.ABORT:
                raise _behind(sidecar, facts)
            case Decision.DISCARD:
                self._conclude(
                    sidecar,
                    RecoveryKind.EMPTY_INTENT_DISCARDED,
                    commit_id=state.head.id,
                    outcomes=(),
                )
            case Decision.ROLL_FORWARD:
                self._roll_forward(sidecar, facts, state, held)
            case Decision.ROLL_BACK:
                self._roll_back(sidecar, facts, state, held)

    def _decide(self, sidecar: Sidecar, classes: Iterable[PinClass], held: HeldLocks) -> Decision:
        decision = decide(classes, is_writer_dead=not held.is_revocable)
        if not changes_schema(sidecar):
            return decision
        # A schema is accepted once its text is staged: by then, every planned table has moved.
        is_staged = find_staged(self.stores.objects) == sidecar.schema_hash
        match decision:
            case Decision.ROLL_FORWARD if not is_staged:
                return Decision.ROLL_BACK
            case Decision.DISCARD if is_staged:
                return Decision.ROLL_FORWARD
            case _:
                return decision

    def _observe(self, pin: Pin, sidecar: Sidecar, state: ManifestState) -> Facts:
        tables, ref = self.stores.tables, _ref_of(pin)
        newest, named = tables.find_head(ref), state.version_of(_key_in(pin, state))
        is_dropped = pin.table_branch is None and not _is_named(pin, state)
        if newest is None or is_dropped:
            # The table branch was never created or was deleted by an earlier recovery, or the type
            # of the table was dropped.
            return Facts(
                newest=named, named=named, has_landed=False, is_complete=False, is_undone=False
            )
        first, end = pin.expected_version + 1, pin.post_commit_version
        found = [
            tables.find_transaction(TableVersion(ref, version))
            for version in sorted({*range(first, end + 1), newest})
        ]
        uuids = [made.uuid if made else None for made in found]
        return Facts(
            newest=newest,
            named=named,
            has_landed=any(each in uuids for each in (*pin.earlier_uuids, pin.transaction_uuid)),
            is_complete=pin.transaction_uuid in uuids,
            is_undone=uuids[-1] == _undoing_uuid(sidecar, pin),
        )

    def _roll_forward(
        self, sidecar: Sidecar, facts: Mapping[str, Facts], state: ManifestState, held: HeldLocks
    ) -> None:
        """Publish the write as planned, with its own commit id and actor."""
        self.failpoints.maybe_fail(Failpoint.RECOVERY_BEFORE_ROLL_FORWARD_PUBLISH)
        intent = replace(
            self._plan(sidecar, [_landed_entry(pin) for pin in sidecar.pins], state),
            expected=sidecar.relied_on,
            commit_id=sidecar.commit_id,
            created_at=sidecar.started_at,
            actor=sidecar.actor,
            merged_parent_id=sidecar.merged_parent_id,
            notes=sidecar.notes,
        )
        if sidecar.schema is not None:
            changes = sidecar.schema.changes(self.stores.tables.describe)
            intent = replace(
                intent,
                changes=(*intent.changes, *changes),
                schema_hash=sidecar.schema_hash,
                replaced_hash=sidecar.schema.replaced_hash,
            )
        try:
            self._publish(intent, state, held)
        except (ExpectedVersionMismatchError, ReadSetChangedError):
            # The state that its checks relied on has changed, so the write must no longer be
            # published.
            self._roll_back(sidecar, facts, self.branch_states.state(state.branch), held)
            return
        self._conclude_forward(sidecar)

    def _roll_back(
        self, sidecar: Sidecar, facts: Mapping[str, Facts], state: ManifestState, held: HeldLocks
    ) -> None:
        """Restore the content that the branch names as the newest version of every moved table."""
        # A table that was moved by something other than the write is not undone, unless the writer
        # could still add to it.
        moved = [
            pin for pin in sidecar.pins if held.is_revocable or _is_ahead(facts[pin.table_key])
        ]
        named = [pin for pin in moved if _is_named(pin, state)]
        require_locks_held(held)
        restored = [self._restored_entry(pin, sidecar, facts, state) for pin in named]
        # A crash here leaves tables that are restored but not published; the next recovery
        # recognises them.
        intent = replace(self._plan(sidecar, restored, state), commit_id=sidecar.rollback_commit_id)
        self._publish(intent, state, held)
        for pin in moved:
            if pin not in named and pin.table_branch is not None:
                # The branch never published this table branch, so no process reads it.
                require_locks_held(held)
                self.stores.tables.delete_branch(_ref_of(pin))
        self._conclude_back(sidecar, facts)

    def _undo_late_effects(
        self, sidecar: Sidecar, facts: Mapping[str, Facts], state: ManifestState, held: HeldLocks
    ) -> None:
        """Undo changes that were made to a table after the write was recovered.

        The writer, or an earlier recovery of the write, was paused at that time and has written the
        sidecar again since.
        """
        late = [
            pin
            for pin in sidecar.pins
            if _is_named(pin, state) and _is_late(facts[pin.table_key]) and held.is_revocable
        ]
        if late:
            require_locks_held(held)
            restored = [
                replace(
                    state.snapshot.get(_key_in(pin, state)),
                    version=self._restore(pin, sidecar, facts[pin.table_key]),
                )
                for pin in late
            ]
            self._publish(self._plan(sidecar, restored, state), state, held)

    def _restored_entry(
        self, pin: Pin, sidecar: Sidecar, facts: Mapping[str, Facts], state: ManifestState
    ) -> Entry:
        seen = facts[pin.table_key]
        undone = seen.newest if seen.is_undone else self._restore(pin, sidecar, seen)
        return replace(state.snapshot.get(_key_in(pin, state)), version=undone)

    def _restore(self, pin: Pin, sidecar: Sidecar, seen: Facts) -> int:
        at = TableVersion(_ref_of(pin), seen.named)
        return self.stores.tables.restore(at, uuid=_undoing_uuid(sidecar, pin)).version

    def _discard_orphan(self, sidecar: Sidecar, held: HeldLocks) -> None:
        """Discard a write on a branch that was deleted."""
        state = self.branch_states.state(MAIN)
        if not self.branch_states.has_commit(state, sidecar.rollback_commit_id):
            intent = replace(self._plan(sidecar, [], state), commit_id=sidecar.rollback_commit_id)
            self._publish(intent, state, held)
        self.failpoints.maybe_fail(Failpoint.RECOVERY_ORPHAN_DISCARD_AUDIT_APPEND)
        self._conclude(
            sidecar,
            RecoveryKind.ORPHANED_BRANCH_DISCARDED,
            commit_id=sidecar.rollback_commit_id,
            outcomes=(),
        )

    def _plan(self, sidecar: Sidecar, entries: list[Entry], state: ManifestState) -> PublishRequest:
        """A commit by the recovery actor that publishes these versions."""
        return PublishRequest(
            changes=tuple(Update(each, self.stores.tables.describe(each.at)) for each in entries),
            expected={entry.table_key: state.version_of(entry.table_key) for entry in entries},
            expected_head=None,
            commit_id=self.runtime.new_id(),
            created_at=self.runtime.now(),
            actor=RECOVERY_ACTOR,
            merged_parent_id=None,
            # Undoing a write does not change the schema.
            schema_hash=state.head.schema_hash or sidecar.schema_hash,
        )

    def _publish(self, intent: PublishRequest, state: ManifestState, held: HeldLocks) -> None:
        turn = [LockKey(MANIFEST_PATH, table_branch_of(state.branch))]
        with self.locks.hold_within(held, turn) as locked:
            publish(
                intent,
                onto=self.branch_states.newest_known(state),
                held=locked,
                branch_states=self.branch_states,
                tables=self.stores.tables,
                failpoints=self.failpoints,
            )

    def _conclude_forward(self, sidecar: Sidecar) -> None:
        if changes_schema(sidecar):
            promote_accepted(sidecar.schema_hash, self.branch_states, self.stores.objects)
        outcomes = [
            TableOutcome(pin.table_key, pin.expected_version, pin.post_commit_version)
            for pin in sidecar.pins
        ]
        self._conclude(
            sidecar, RecoveryKind.ROLLED_FORWARD, commit_id=sidecar.commit_id, outcomes=outcomes
        )

    def _conclude_back(self, sidecar: Sidecar, facts: Mapping[str, Facts]) -> None:
        if changes_schema(sidecar):
            discard_staged(self.stores.objects)
        outcomes = [
            TableOutcome(pin.table_key, pin.post_commit_version, pin.expected_version)
            for pin in sidecar.pins
            if facts[pin.table_key].has_landed
        ]
        self._conclude(
            sidecar,
            RecoveryKind.ROLLED_BACK,
            commit_id=sidecar.rollback_commit_id,
            outcomes=outcomes,
        )

    def _conclude(
        self,
        sidecar: Sidecar,
        kind: RecoveryKind,
        *,
        commit_id: str,
        outcomes: Iterable[TableOutcome],
    ) -> None:
        """Record the recovery, then delete the sidecar."""
        self.failpoints.maybe_fail(Failpoint.RECOVERY_RECORD_AUDIT)
        recovery = Recovery(
            commit_id=commit_id,
            kind=kind,
            actor=sidecar.actor,
            operation_id=sidecar.operation_id,
            writer_kind=sidecar.writer_kind,
            outcomes=tuple(outcomes),
            created_at=self.runtime.now(),
        )
        record(recovery, tables=self.stores.tables)
        self.observer.count(EVENT_BY_KIND[kind])
        # A crash here leaves a sidecar whose recovery is recorded; the next recovery only deletes
        # it.
        disarm(sidecar.operation_id, objects=self.stores.objects)


def _lock_keys(sidecar: Sidecar) -> list[LockKey]:
    own = table_branch_of(sidecar.branch)
    tables = {pin.table_key for pin in sidecar.pins} | set(sidecar.relied_on)
    if sidecar.schema is not None and not changes_schema(sidecar):
        # The types that a branch is catching up with.
        tables |= {each.table_key for each in sidecar.schema.registered}
    keys = [LockKey(table_key, own) for table_key in tables]
    if sidecar.notes.request is not None:
        keys.append(request_lock(sidecar.notes.request.key, sidecar.branch))
    return [*keys, SCHEMA_LOCK] if changes_schema(sidecar) else keys


def _ref_of(pin: Pin) -> TableRef:
    return TableRef(pin.table_path, pin.table_branch)


def _undoing_uuid(sidecar: Sidecar, pin: Pin) -> str:
    return str(uuid5(_UNDOING, f"{sidecar.operation_id}/{pin.table_key}"))


def _is_ahead(seen: Facts) -> bool:
    return seen.has_landed and seen.newest != seen.named


def _is_late(seen: Facts) -> bool:
    return seen.newest > seen.named and (seen.has_landed or seen.is_undone)


def _is_named(pin: Pin, state: ManifestState) -> bool:
    entry = state.snapshot.entries.get(_key_in(pin, state))
    return entry is not None and entry.branch == pin.table_branch


def _key_in(pin: Pin, state: ManifestState) -> str:
    """The key of a table in a state, which differs from the pin's once the type was renamed."""
    found = (entry.table_key for entry in state.snapshot if entry.path == pin.table_path)
    return next(found, pin.table_key)


def _landed_entry(pin: Pin) -> Entry:
    version = pin.post_commit_version
    key = pin.published_key or pin.table_key
    return Entry(key, pin.table_path, version, pin.table_branch, pin.row_count)


def _behind(sidecar: Sidecar, facts: Mapping[str, Facts]) -> CorruptError:
    behind = next(key for key, seen in facts.items() if seen.newest < seen.named)
    return CorruptError(
        subject=f"the table of {type_name_of(behind)}",
        problem=f"history names its version {facts[behind].named}, but it ends at "
        f"{facts[behind].newest}; {sidecar_path(sidecar.operation_id)} is kept; restore the "
        "table from a copy",
    )
