"""The publisher: the compare-and-swap on the manifest that makes a write visible.

One manifest version names the new version of every changed table together with the commit. It
replaces the head row of the branch, so exactly one of two concurrent publishers succeeds; the
other checks its requirements again on the new head. Fencing stops a paused writer that lost its
lease, and does not depend on clocks. Compaction changes only the layout of the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from omnigraph.engine.commit.idempotency import require_key_unused
from omnigraph.engine.state.branch_state import BranchStates
from omnigraph.engine.state.history import NO_NOTES, Commit, CommitNotes
from omnigraph.engine.state.manifest import (
    MANIFEST_SCHEMA,
    Change,
    ManifestState,
    Register,
    Tombstone,
    Update,
    encode_head_row,
    encode_manifest,
    head_id,
    manifest_ref,
    object_id_of,
    reduce_manifest,
)
from omnigraph.model.errors import (
    CorruptError,
    ExpectedVersionMismatchError,
    MovedError,
    PreconditionFailedError,
    ReadSetChangedError,
    UnavailableError,
)
from omnigraph.model.limits import FRAGMENT_ROWS_MAX, MANIFEST_FRAGMENTS_MAX, PUBLISHER_RETRY_BUDGET
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.ports import TableStore


@dataclass(frozen=True, slots=True)
class Fence:
    """Advances the manifest of a branch so that the previous holder of its lease cannot publish."""

    branch_states: BranchStates
    tables: TableStore

    def __call__(self, branch: str | None) -> None:
        """Create a version of a branch's manifest with the same content as the one before it."""
        name = MAIN if branch is None else BranchName(branch)
        for _ in range(PUBLISHER_RETRY_BUDGET + 1):
            is_there = self.tables.find_head(manifest_ref(name)) is not None
            if not is_there or not self.branch_states.has_branch(name):
                # The lease was held to create or delete the branch: there is no manifest to publish
                # on.
                return
            if self._move(self.branch_states.state(name)):
                return
        raise UnavailableError(
            action=f"take over branch '{name}'",
            reason="others keep publishing on it; try again",
        )

    def _move(self, state: ManifestState) -> bool:
        # Every publish replaces the head row; on a branch that does not have one yet, the row
        # belongs to another branch and remains so.
        staged = self.tables.stage_replacement(
            pa.Table.from_pylist([encode_head_row(state.head)], schema=MANIFEST_SCHEMA),
            replacing=[head_id(state.head.branch)],
            onto=state.at,
        )
        try:
            landed = self.tables.apply(staged)
        except ExpectedVersionMismatchError:
            return False
        self.branch_states.remember(replace(state, at=landed))
        return True


def require_locks_held(held: HeldLocks) -> None:
    """Raise `ReadSetChangedError` if another process has taken the locks.

    For leases, the storage is checked.
    """
    if not held.is_held():
        raise ReadSetChangedError(
            member="the turn to write", expected="this process", actual="another one"
        )


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The changes that a publish makes, and the requirements that must hold when it does.

    `expected` names the version of every table that the write changes or relied on, and
    `expected_head` the commit that the caller requires, if any. `schema_hash` is the schema under
    which the write was prepared, or the one that replaces `replaced_hash`. The commit's id and time
    are assigned once; only its parent is determined again on every attempt. `looked_at` is the
    version of the manifest up to which it is known that no commit answers the request.
    """

    changes: tuple[Change, ...]
    expected: Mapping[str, int]
    expected_head: str | None
    commit_id: str
    created_at: datetime
    actor: str | None
    merged_parent_id: str | None
    schema_hash: str
    notes: CommitNotes = NO_NOTES
    replaced_hash: str | None = None
    looked_at: int = 0


def publish(
    intent: PublishRequest,
    *,
    onto: ManifestState,
    held: HeldLocks,
    branch_states: BranchStates,
    tables: TableStore,
    failpoints: Failpoints,
) -> ManifestState:
    """Publish an intent on a branch, or raise; `onto` is the last known state of the branch.

    `held` are the locks under which it is published. The returned state contains the intent's
    commit; its head is a later commit if another process had already published the intent.
    `ExpectedVersionMismatchError` is never retried: the state that the write relied on no longer
    exists.
    """
    state = onto
    for attempt in range(PUBLISHER_RETRY_BUDGET + 1):
        if attempt or held.has_lapsed():
            state = branch_states.state(onto.branch)
            if branch_states.has_commit(state, intent.commit_id):
                # A response was lost, or the process that seized the lease has recovered this
                # write.
                return state
        try:
            failpoints.maybe_fail(Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION)
        except MovedError:
            continue
        if attempt or not held.trusts(state.at.version) or held.has_lapsed():
            # The order matters: read the manifest, check the lease, swap.
            require_locks_held(held)
            held.trust(state.at.version)
        require_head(intent.expected_head, state)
        require_expected(intent.expected, state)
        require_schema(intent.replaced_hash or intent.schema_hash, state)
        _require_first(intent, state, tables)
        changes = plan_changes(intent.changes, state)
        failpoints.maybe_fail(Failpoint.GRAPH_PUBLISH_BEFORE_COMMIT_APPEND)
        published = _publish_once(changes, commit_of(intent, state), state, tables)
        if published is not None:
            branch_states.remember(published)
            held.trust(published.at.version)
            failpoints.maybe_fail(Failpoint.GRAPH_PUBLISH_AFTER_MANIFEST_COMMIT)
            return published
    raise ReadSetChangedError(
        member=f"branch '{onto.branch}'", expected=onto.head.id, actual=state.head.id
    )


def require_expected(expected: Mapping[str, int], state: ManifestState) -> None:
    """Raise unless every table is at the version that the write expects."""
    for table_key, version in expected.items():
        actual = state.version_of(table_key)
        if actual != version:
            raise ExpectedVersionMismatchError(table_key=table_key, expected=version, actual=actual)


def require_schema(expected: str, state: ManifestState) -> None:
    """Raise if another schema was accepted since; the head of main names the graph's schema."""
    actual = state.head.schema_hash
    if state.branch == MAIN and actual not in (None, expected):
        raise ReadSetChangedError(
            member="the schema", expected=str(expected)[:14], actual=str(actual)[:14]
        )


def require_head(expected: str | None, state: ManifestState) -> None:
    """Raise unless the branch is at the commit that the caller named, if it named one."""
    if expected is not None and state.head.id != expected:
        raise PreconditionFailedError(expected=expected, actual=state.head.id)


def _require_first(intent: PublishRequest, state: ManifestState, tables: TableStore) -> None:
    request = intent.notes.request
    if request is not None:
        require_key_unused(
            request.key, actor=intent.actor, state=state, since=intent.looked_at, tables=tables
        )


def commit_of(intent: PublishRequest, state: ManifestState) -> Commit:
    """The commit that an intent becomes when it is published onto a state."""
    return Commit(
        id=intent.commit_id,
        branch=state.branch,
        parent_id=state.head.id,
        merged_parent_id=intent.merged_parent_id,
        actor=intent.actor,
        created_at=intent.created_at,
        manifest_version=state.at.version + 1,
        schema_hash=intent.schema_hash,
        notes=intent.notes,
    )


def plan_changes(changes: tuple[Change, ...], state: ManifestState) -> tuple[Change, ...]:
    """The changes in the order in which they are written, each checked against the state."""
    registered = dict(state.path_by_table)
    taken = set(state.snapshot.entries)
    ordered = sorted(changes, key=lambda change: not isinstance(change, Register))
    seen: set[tuple[str, int]] = set()
    for change in ordered:
        match change:
            case Register(table_key, path):
                # A key that no type uses any more may be assigned to another table.
                if table_key in taken and registered[table_key] != path:
                    raise ReadSetChangedError(
                        member=f"the place of '{table_key}'",
                        expected=path,
                        actual=registered[table_key],
                    )
                registered[table_key] = path
                taken.add(table_key)
            case Update(entry):
                _require_registered(entry.table_key, registered)
                if (entry.table_key, entry.version) in seen:
                    raise CorruptError(
                        subject=f"'{entry.table_key}'",
                        problem=f"version {entry.version} is published twice in one commit",
                    )
                seen.add((entry.table_key, entry.version))
                _require_new_version(change, state)
            case Tombstone(table_key, version):
                _require_registered(table_key, registered)
                if state.tombstones.get(table_key, 0) >= version:
                    raise CorruptError(
                        subject=f"'{table_key}'", problem=f"it is already gone at version {version}"
                    )
    return tuple(ordered)


def _require_registered(table_key: str, registered: Mapping[str, str]) -> None:
    if table_key not in registered:
        raise CorruptError(
            subject=f"'{table_key}'", problem="a version of it is published, but it has no place"
        )


def _require_new_version(update: Update, state: ManifestState) -> None:
    entry = update.entry
    known = state.latest.get(entry.table_key)
    if known is None or known.version < entry.version:
        return
    # The same version under another branch hands the table over to that branch's table branch.
    is_handoff = (
        known.version == entry.version
        and known.row_count == entry.row_count
        and known.branch != entry.branch
    )
    if not is_handoff:
        raise CorruptError(
            subject=f"'{entry.table_key}'",
            problem=f"version {entry.version} is published, but {known.version} already is",
        )


def _publish_once(
    changes: tuple[Change, ...], commit: Commit, state: ManifestState, tables: TableStore
) -> ManifestState | None:
    rows = encode_manifest(changes, commit, after=state.head)
    # The ids of existing rows: the head row, and rows that the changes write again.
    known = [object_id_of(change) for change in changes if _is_known(change, state)]
    replacing = [head_id(state.head.branch), *known]
    staged = tables.stage_replacement(rows, replacing=replacing, onto=state.at)
    try:
        landed = tables.apply(staged)
    except ExpectedVersionMismatchError:
        return None
    return reduce_manifest(rows, at=landed, branch=state.branch, onto=state)


def _is_known(change: Change, state: ManifestState) -> bool:
    match change:
        case Register(table_key):
            return table_key in state.path_by_table
        case Update(entry):
            known = state.latest.get(entry.table_key)
            return known is not None and known.version == entry.version
        case Tombstone():
            return False


def compact_manifest(
    state: ManifestState, *, branch_states: BranchStates, tables: TableStore
) -> None:
    """Compact the manifest, so that the cost of opening a graph does not grow with its history.

    Only the layout changes: a concurrent writer wins, and the next write tries again.
    """
    counts = tables.fragment_row_counts(state.at)
    if len(counts) > MANIFEST_FRAGMENTS_MAX:
        _compact(state, choose_tier(counts), branch_states, tables)


def join_manifest(state: ManifestState, *, branch_states: BranchStates, tables: TableStore) -> None:
    """Compact all of history into as few files as possible.

    Only the layout changes: a concurrent writer wins.
    """
    if len(tables.fragment_row_counts(state.at)) > 1:
        _compact(state, FRAGMENT_ROWS_MAX, branch_states, tables)


def _compact(
    state: ManifestState, rows_per_fragment: int, branch_states: BranchStates, tables: TableStore
) -> None:
    compacted = tables.compact(state.at, rows_per_fragment=rows_per_fragment)
    if compacted is not None:
        branch_states.remember(replace(state, at=compacted))


def choose_tier(row_counts: tuple[int, ...]) -> int:
    """The size below which fragments are joined, so that each row is rewritten only a few times.

    Fragments grow in tiers, each sixteen times the previous one: joining all fragments every time
    would rewrite the whole history every few commits.
    """
    tier = 1024
    while sum(count >= tier for count in row_counts) > MANIFEST_FRAGMENTS_MAX // 2:
        tier *= 16
    return tier
