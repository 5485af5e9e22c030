"""Cleanup: deletes old table versions that a retention policy does not keep and no ref needs.

Versions that a branch, a tag, a merge base, a recent state or an active reader needs are never
deleted. History remains complete: commits whose rows were deleted are still listed, and reading
one raises `NotFoundError`. A failure for one type is reported there and does not stop the others.
Retention takes no locks; it reads the branches again if one disappears meanwhile.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.publish import require_locks_held
from omnigraph.engine.commit.sidecar import list_sidecars
from omnigraph.engine.ops.refs import Tag, list_tags
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.state.ancestry import Ancestry, ForkPoint, find_fork_points, gather_ancestry
from omnigraph.engine.state.history import Ancestor
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    MANIFEST_PATH,
    STATE_COLUMNS,
    ManifestState,
    Snapshot,
    decode_commits,
    table_branch_of,
    type_name_of,
)
from omnigraph.engine.state.readers import Readers
from omnigraph.model.errors import (
    DriftError,
    GraphError,
    InvalidValueError,
    NotFoundError,
    RecoveryRequiredError,
    UnavailableError,
)
from omnigraph.model.limits import (
    BRANCH_LISTINGS_MAX,
    CLEANUP_IDLE_DAYS_MAX,
    LEASE_CLOCK_SKEW_S_MAX,
    READER_GRACE_S,
)
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import TableRef, TableVersion
from omnigraph.storage.predicates import And, IsNull, equals

Looked = TypeVar("Looked")


@dataclass(frozen=True, slots=True)
class RequiredVersions:
    """The table versions that must not be deleted.

    `versions` are single versions. `first_by_table_branch` maps a table branch to a version from
    which on all are required. `table_branches` are those that branches name, and `tags` the tags
    that were read.
    """

    path: WritePath
    versions: set[TableVersion] = field(default_factory=set)
    first_by_table_branch: dict[TableRef, int] = field(default_factory=dict)
    table_branches: set[TableRef] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)

    def has(self, at: TableVersion) -> bool:
        """Whether a version is required."""
        first = self.first_by_table_branch.get(at.ref)
        return at in self.versions or (first is not None and at.version >= first)

    def find_tagged_since(self) -> frozenset[TableVersion]:
        """The versions named by tags that were created after these were gathered."""
        found = list_tags(self.path.stores.objects)
        return self._find_tagged(tag for tag in found if tag.name not in self.tags)

    def gather(self, states: Mapping[BranchName, ManifestState], *, since: datetime) -> None:
        """Add the versions that refs need, or that a branch has named since a timestamp."""
        for state in states.values():
            self._add(state.snapshot)
            self.table_branches.update(entry.at.ref for entry in state.snapshot)
            self._add_recent(state, since)
        tags = list_tags(self.path.stores.objects)
        self.tags.update(tag.name for tag in tags)
        self.versions.update(self._find_tagged(tags))
        self._add_fork_points(states)

    def _add(self, snapshot: Snapshot) -> None:
        self.versions.update(entry.at for entry in snapshot)

    def _add_since(self, table_branch: TableRef, version: int) -> None:
        self.first_by_table_branch[table_branch] = min(
            version, self.first_by_table_branch.get(table_branch, version)
        )

    def _add_recent(self, state: ManifestState, since: datetime) -> None:
        """Add the versions that a branch has named since a timestamp.

        The branch's own table branches only grow, so these are all versions from the one named
        then. Of the table branch of another branch it names one version until it writes the table
        itself.
        """
        version = self.path.stores.tables.find_version_before(state.at.ref, since)
        named: dict[TableRef, int] = {}
        if version is not None:
            past = self.path.branch_states.state_at(state.branch, version).snapshot
            self._add(past)
            named = {entry.at.ref: entry.version for entry in past}
        own = table_branch_of(state.branch)
        for entry in state.snapshot:
            if entry.branch == own and entry.at.ref not in named:
                named[entry.at.ref] = 0
        for table_branch, first in named.items():
            if table_branch.branch == own:
                self._add_since(table_branch, first)

    def _find_tagged(self, tags: Iterable[Tag]) -> frozenset[TableVersion]:
        found = (
            self._find_snapshot(each.commit_id, each.branch, each.manifest_version) for each in tags
        )
        return frozenset(entry.at for snapshot in found if snapshot for entry in snapshot)

    def _add_fork_points(self, states: Mapping[BranchName, ManifestState]) -> None:
        """Add the states at the fork points of the branches, which merges use as their base."""
        known: dict[str, Ancestor] = {}
        table_branches_by_head: dict[str, set[TableRef]] = defaultdict(set)
        for state in states.values():
            own = table_branch_of(state.branch)
            # The commits made on the branch itself, without those inherited from another branch.
            is_own = IsNull("table_branch") if own is None else equals("table_branch", own)
            predicate = And((equals("object_type", GRAPH_COMMIT), is_own))
            tables = self.path.stores.tables
            rows = tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate)
            known |= gather_ancestry(decode_commits(rows))
            paths = state.path_by_table.values()
            table_branches_by_head[state.head.id] |= {TableRef(each, own) for each in paths}
        head_ids = (state.head.id for state in states.values())
        for fork_point in find_fork_points(head_ids, known=known):
            commit = fork_point.commit
            snapshot = self._find_snapshot(commit.id, commit.branch, commit.manifest_version)
            if snapshot is not None:
                self._add(snapshot)
            else:
                self._add_ways_around(fork_point, known, table_branches_by_head)

    def _add_ways_around(
        self,
        fork_point: ForkPoint,
        known: Ancestry,
        table_branches_by_head: Mapping[str, Iterable[TableRef]],
    ) -> None:
        """Add the versions that may describe a fork point that was deleted with its branch.

        These are all versions since the nearest readable states before it, and all versions on the
        own table branches of the heads that descend from it.
        """
        for snapshot in self._find_before(fork_point.commit, known):
            self._add(snapshot)
            for entry in snapshot:
                self._add_since(entry.at.ref, entry.version)
        for head_id in fork_point.head_ids:
            for table_branch in table_branches_by_head[head_id]:
                if table_branch.branch is not None:
                    self._add_since(table_branch, 0)

    def _find_before(self, commit: Ancestor, known: Ancestry) -> Iterator[Snapshot]:
        """The nearest readable states before a commit, on every path back from it."""
        waiting, seen = [*commit.parent_ids], set(commit.parent_ids)
        while waiting:
            each = known.get(waiting.pop())
            if each is None:
                continue
            snapshot = self._find_snapshot(each.id, each.branch, each.manifest_version)
            if snapshot is not None:
                yield snapshot
                continue
            fresh = [id for id in each.parent_ids if id not in seen]
            seen.update(fresh)
            waiting += fresh

    def _find_snapshot(self, commit_id: str, branch: str, version: int) -> Snapshot | None:
        try:
            state = self.path.branch_states.state_of(commit_id, branch=branch, version=version)
        except NotFoundError:
            # The state was deleted with its branch, so the reference cannot be resolved.
            return None
        return state.snapshot


def find_states(path: WritePath) -> dict[BranchName, ManifestState]:
    """The current state of every branch, including those of open transactions, main first.

    Raises `UnavailableError` if branches are deleted on every attempt.
    """
    return _look(_read_states, path)


def find_required_versions(*, since: datetime, path: WritePath) -> RequiredVersions:
    """The versions of all tables that refs need, or that a branch has named since a timestamp.

    Raises `UnavailableError` if branches are deleted on every attempt.
    """

    def gather(path: WritePath) -> RequiredVersions:
        states, needs = _read_states(path), RequiredVersions(path)
        needs.gather(states, since=since)
        deleted = states.keys() - {MAIN, *path.branch_states.others()}
        if deleted:
            # A branch forked from it meanwhile may need versions that neither state names.
            raise NotFoundError(kind="branch", name=min(deleted), advice="")
        return needs

    return _look(gather, path)


def _look(read: Callable[[WritePath], Looked], path: WritePath) -> Looked:
    """Read all branches, and again if one of them is deleted meanwhile."""
    for _ in range(BRANCH_LISTINGS_MAX):
        # The manifest is never cleaned up, so a missing version was deleted with its branch.
        with suppress(NotFoundError):
            return read(path)
    raise UnavailableError(
        action="find out what is needed", reason="others keep deleting branches; try again"
    )


def _read_states(path: WritePath) -> dict[BranchName, ManifestState]:
    states = {}
    for branch in (MAIN, *path.branch_states.others()):
        path.failpoints.maybe_fail(Failpoint.CLEANUP_RESOLVE_BRANCH_SNAPSHOT)
        # The captured state includes types added after the branch, at their first version.
        states[branch] = path.branch_states.capture(branch).state
    return states


@dataclass(frozen=True, slots=True)
class Policy:
    """A retention policy: a number of newest versions, a maximum age, or both.

    A version is deleted if it is neither among the newest nor young enough.
    """

    keep: int | None
    older_than: timedelta | None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was deleted of one type, or would be; `error` says why the deletion is incomplete."""

    type: str
    table_key: str
    old_versions_removed: int
    bytes_removed: int
    error: str | None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table and the keys of its current and former types; the first key is reported."""

    path: str
    keys: tuple[str, ...]


_CLOCKS_APART = timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)

_LOG = logging.getLogger(__name__)

DeletableVersions = Mapping[TableRef, tuple[int, ...]]
"""Versions by table branch."""


def parse_policy(keep: object, older_than: object) -> Policy:
    """Parse a retention policy; a number as `older_than` is in seconds.

    Raises `InvalidValueError` if both arguments are missing or one is invalid.
    """
    if keep is None and older_than is None:
        raise InvalidValueError(
            subject="cleanup",
            expected="keep or older_than",
            value=None,
            problem="specify `keep`, a number of versions of each type, `older_than`, a "
            "maximum age, or both; nothing was deleted",
        )
    if keep is None or (isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1):
        return Policy(keep, _parse_age(older_than))
    raise InvalidValueError(
        subject="keep",
        expected="a number of versions",
        value=keep,
        problem="it is the number of versions of each type to keep, at least 1",
    )


def cleanup(
    policy: Policy, *, is_preview: bool, trusts_clock: bool, readers: Readers, path: WritePath
) -> tuple[CleanupReport, ...]:
    """Delete the versions that the policy does not retain and no branch, tag or reader needs.

    A preview deletes nothing. Without `trusts_clock`, a clock far ahead of the newest commit is
    rejected.
    """
    root = path.recover()
    if not is_preview:
        sweep_transactions(root, path=path)
    _require_none_under_way(path)
    states = find_states(path)
    if not trusts_clock:
        _require_plausible_clock(states, path)
    _require_undrifted(states, path)
    tables = _list_tables(states)
    error_by_path = {} if is_preview else _remove_orphans(tables, states, path)
    sweep = _Sweep(policy, timedelta(seconds=READER_GRACE_S), is_preview, readers, path)
    reports = sweep.run(tables, states)
    return tuple(
        replace(each, error=error_by_path.get(table.path) or each.error)
        for table, each in zip(tables, reports, strict=True)
    )


def _require_plausible_clock(states: Mapping[BranchName, ManifestState], path: WritePath) -> None:
    """Raise if the clock is further ahead of the newest commit than a graph is likely to be idle.

    The ages of versions and the claims of readers are measured by this clock.
    """
    now = path.runtime.now()
    newest = max(state.head.created_at for state in states.values())
    idle = now - newest
    if idle > timedelta(days=CLEANUP_IDLE_DAYS_MAX):
        raise InvalidValueError(
            subject="cleanup",
            expected="a clock that agrees with the graph",
            value=now.isoformat(),
            problem=f"the clock of this machine says {now:%Y-%m-%d}, {idle.days:,} days after the "
            "newest commit; nothing was deleted; check the clock, and if it is correct, use "
            "trust_clock=True or --trust-clock",
        )


def purge(table_paths: Collection[str], *, readers: Readers, path: WritePath) -> None:
    """Delete all but the newest version of some tables of main, without grace for readers.

    Only versions that a tag or a claim names are retained. Failures are logged; the next cleanup of
    the graph deletes the rest.
    """
    # The negative grace period covers a storage clock that differs from this machine's.
    sweep = _Sweep(Policy(1, None), -_CLOCKS_APART, is_preview=False, readers=readers, path=path)
    try:
        states = find_states(path)
        tables = [each for each in _list_tables(states) if each.path in table_paths]
        errors = [report.error for report in sweep.run(tables, states) if report.error is not None]
    except GraphError as error:
        errors = [str(error)]
    for problem in errors:
        _LOG.warning("what was dropped for good is not deleted yet: %s", problem)


@dataclass(frozen=True, slots=True)
class _Sweep:
    """One deletion of versions by a policy; `grace` is how long replaced versions are retained."""

    policy: Policy
    grace: timedelta
    is_preview: bool
    readers: Readers
    path: WritePath

    def run(
        self, tables: Sequence[_Table], states: Mapping[BranchName, ManifestState]
    ) -> list[CleanupReport]:
        """Delete the versions, or preview that, and report on each table."""
        # Listed before the required versions are read, so that later versions are not candidates.
        listed = {table.path: self._list_versions(table, states) for table in tables}
        now = self.path.runtime.now()
        needs = find_required_versions(since=now - self.grace, path=self.path)
        spare = {key: self._choose(each, needs, now) for key, each in listed.items()}
        with self._announced(spare.values()):
            # Includes tags created since: creating a tag checks for announced cleanups afterwards.
            in_use = self.readers.find_read() | needs.find_tagged_since()
            return [self._clean(table, spare[table.path], in_use) for table in tables]

    def _list_versions(
        self, table: _Table, states: Mapping[BranchName, ManifestState]
    ) -> DeletableVersions:
        tables = self.path.stores.tables
        branches = [None, *sorted(each for each in tables.branches(table.path) if each in states)]
        table_branches = [TableRef(table.path, each) for each in branches]
        return {table_branch: tables.versions(table_branch) for table_branch in table_branches}

    def _choose(
        self, listed: DeletableVersions, needs: RequiredVersions, now: datetime
    ) -> DeletableVersions:
        """The versions that the policy does not retain and that are not required."""
        chosen = {}
        for table_branch, versions in listed.items():
            if table_branch.branch is not None and table_branch not in needs.table_branches:
                # A writer is about to name it, or its deletion failed.
                continue
            old = set(versions[: -(self.policy.keep or 1)])
            if self.policy.older_than is not None and old:
                timestamp = now - self.policy.older_than
                newest_old = self.path.stores.tables.find_version_before(table_branch, timestamp)
                old = {each for each in old if newest_old is not None and each <= newest_old}
            spare = tuple(
                each for each in sorted(old) if not needs.has(TableVersion(table_branch, each))
            )
            # The main table branch is always included, to find files that no version names. Another
            # table branch may be deleted meanwhile, together with such files.
            if spare or table_branch.branch is None:
                chosen[table_branch] = spare
        return chosen

    @contextmanager
    def _announced(self, spare: Iterable[DeletableVersions]) -> Iterator[None]:
        """Announce the versions that are about to be deleted, if any, for the block."""
        doomed = [
            TableVersion(table_branch, each)
            for each_table in spare
            for table_branch, versions in each_table.items()
            for each in versions
        ]
        if self.is_preview or not doomed:
            yield
            return
        self.readers.forget_dead()
        with self.readers.cleaning(doomed, id=self.path.runtime.new_id()):
            yield

    def _clean(
        self, table: _Table, spare: DeletableVersions, in_use: frozenset[TableVersion]
    ) -> CleanupReport:
        """Delete versions of one type, or preview that; an error becomes part of the report."""
        report = CleanupReport(
            type=type_name_of(table.keys[0]),
            table_key=table.keys[0],
            old_versions_removed=0,
            bytes_removed=0,
            error=None,
        )
        tables = self.path.stores.tables
        act = tables.preview_cleaning if self.is_preview else tables.clean
        try:
            self.path.failpoints.maybe_fail(Failpoint.CLEANUP_TABLE_GC)
            for table_branch, versions in spare.items():
                unused = (
                    each for each in versions if TableVersion(table_branch, each) not in in_use
                )
                done = act(table_branch, tuple(unused))
                report = replace(
                    report,
                    old_versions_removed=report.old_versions_removed + done.versions,
                    bytes_removed=report.bytes_removed + done.size,
                )
        except GraphError as error:
            return replace(report, error=str(error))
        return report


def _parse_age(older_than: object) -> timedelta | None:
    match older_than:
        case None:
            return None
        case timedelta() if older_than >= timedelta(0):
            return older_than
        case bool():
            pass
        case int() | float() if 0 <= older_than <= timedelta.max.total_seconds():
            return timedelta(seconds=older_than)
        case _:
            pass
    raise InvalidValueError(
        subject="older_than",
        expected="a timedelta, or seconds",
        value=older_than,
        problem="it is a timedelta or a number of seconds, not below zero",
    )


# Before anything is deleted


def _require_none_under_way(path: WritePath) -> None:
    """Wait for the writes in progress; `RecoveryRequiredError` if one remains unfinished."""
    under_way = list_sidecars(path.stores.objects)
    for sidecar in under_way:
        branch = table_branch_of(sidecar.branch)
        with path.locks.hold({LockKey(pin.table_key, branch) for pin in sidecar.pins}):
            # The writer has finished or failed.
            pass
    if under_way:
        path.recover()
    left = {sidecar.operation_id for sidecar in list_sidecars(path.stores.objects)}
    for sidecar in under_way:
        if sidecar.operation_id in left:
            raise RecoveryRequiredError(operation_id=sidecar.operation_id)


def _require_undrifted(states: Mapping[BranchName, ManifestState], path: WritePath) -> None:
    for state in states.values():
        for entry in state.snapshot:
            if entry.branch != table_branch_of(state.branch) or not path.has_drifted(entry):
                continue
            newest = path.stores.tables.find_head(entry.at.ref)
            now_named = path.branch_states.state(state.branch).version_of(entry.table_key)
            # Otherwise, a write finished in between.
            if now_named == entry.version and newest is not None:
                raise DriftError(
                    type=type_name_of(entry.table_key),
                    expected=entry.version,
                    actual=newest,
                    advice="`omnigraph repair` shows what it was and adopts or refuses it",
                )


def _list_tables(states: Mapping[BranchName, ManifestState]) -> tuple[_Table, ...]:
    """Every table that a branch knows, ordered by its current type, or else a former one."""
    current: dict[str, set[str]] = {}
    former: dict[str, set[str]] = {}
    for state in states.values():
        for entry in state.snapshot:
            current.setdefault(entry.path, set()).add(entry.table_key)
        for table_key, table_path in state.path_by_table.items():
            former.setdefault(table_path, set()).add(table_key)
    tables = [
        _Table(
            table_path,
            (*sorted(current.get(table_path, ())), *sorted(keys - current.get(table_path, set()))),
        )
        for table_path, keys in former.items()
    ]
    return tuple(sorted(tables, key=lambda table: table.keys))


# Table branches that no branch names


def _remove_orphans(
    tables: Iterable[_Table], states: Mapping[BranchName, ManifestState], path: WritePath
) -> dict[str, str]:
    """Delete the table branches that no branch names; returns errors by table path."""
    errors = {}
    for table in tables:
        try:
            names = path.stores.tables.branches(table.path)
            # The longest name first: Lance nests a branch in one whose name is its prefix.
            for name in sorted(names, key=lambda name: (-len(name), name)):
                table_branch = TableRef(table.path, name)
                if not _is_named(table_branch, states):
                    _remove_orphan(table_branch, table, path)
        except GraphError as error:
            errors[table.path] = str(error)
    return errors


def _remove_orphan(table_branch: TableRef, table: _Table, path: WritePath) -> None:
    # A writer that creates a table branch holds its lock until the branch names it, and a process
    # that forks that branch holds its manifest lock.
    with (
        path.locks.hold(
            [LockKey(table_key, table_branch.branch) for table_key in table.keys]
        ) as held,
        path.locks.hold_within(held, [LockKey(MANIFEST_PATH, table_branch.branch)]) as turn,
    ):
        path.failpoints.maybe_fail(Failpoint.CLEANUP_RECONCILE_FORK)
        is_recorded = any(
            (pin.table_path, pin.table_branch) == (table_branch.path, table_branch.branch)
            for sidecar in list_sidecars(path.stores.objects)
            for pin in sidecar.pins
        )
        if is_recorded or _is_named(table_branch, find_states(path)):
            return
        require_locks_held(turn)
        path.stores.tables.delete_branch(table_branch)


def _is_named(table_branch: TableRef, states: Mapping[BranchName, ManifestState]) -> bool:
    return any(
        entry.at.ref == table_branch for state in states.values() for entry in state.snapshot
    )
