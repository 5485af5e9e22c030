"""Cleaning up: old versions of types are deleted, as far as nobody needs them.

The caller says how many versions of a type to keep, or how old they may become. What a branch, a
tag or a reader needs stays in any case, and so does history itself: commits whose rows are gone are
still listed, and reading one of them is `NotFoundError`. What fails for one type is told there, and
the others go on. Lines of tables that deleted branches left behind go first.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from omnigraph.engine.commit.fencing import require_kept
from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.sidecar import Sidecar, list_sidecars
from omnigraph.engine.ops.retention import Needs, find_needs, find_states, find_tagged_since
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.state.manifest import MANIFEST_PATH, ManifestState
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.snapshot import Entry, line_of, type_name_of
from omnigraph.model.errors import (
    DriftError,
    GraphError,
    InvalidValueError,
    RecoveryRequiredError,
)
from omnigraph.model.limits import LEASE_CLOCK_SKEW_S_MAX, READER_GRACE_S
from omnigraph.model.names import BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.locks import LockKey
from omnigraph.storage.ports import TableRef, TableVersion


@dataclass(frozen=True, slots=True)
class Policy:
    """What a caller wants to keep: the newest versions, or what is younger; at least one of them.

    A version goes if it is neither among the newest nor young enough.
    """

    keep: int | None
    older_than: timedelta | None


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was deleted of one type, or would be, and why not all of it was."""

    type: str
    table_key: str
    old_versions_removed: int
    bytes_removed: int
    error: str | None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table and what types it was and is: the key that is reported comes first."""

    path: str
    keys: tuple[str, ...]


_CLOCKS_APART = timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)

_LOG = logging.getLogger(__name__)

Spare = Mapping[TableRef, tuple[int, ...]]
"""Versions by the line that they are of."""


def parse_policy(keep: object, older_than: object) -> Policy:
    """The policy that a caller means; a number is seconds."""
    if keep is None and older_than is None:
        raise InvalidValueError(
            subject="cleanup",
            expected="keep or older_than",
            value=None,
            problem="say what to keep: `keep` versions of each type, those not `older_than` a "
            "time, or both; nothing was deleted",
        )
    return Policy(_parse_keep(keep), _parse_age(older_than))


def cleanup(
    policy: Policy, *, is_preview: bool, readers: Readers, path: WritePath
) -> tuple[CleanupReport, ...]:
    """Delete what a policy does not keep and nobody needs, or only tell, and report by type."""
    root = path.heal()
    if not is_preview:
        sweep_transactions(root, path=path)
    _require_none_under_way(path)
    states = find_states(path)
    _require_undrifted(states, path)
    tables = _list_tables(states)
    error_by_path: dict[str, str] = {}
    if not is_preview:
        error_by_path = _remove_orphans(tables, states, path)
    sweep = _Sweep(policy, timedelta(seconds=READER_GRACE_S), is_preview, readers, path)
    reports = sweep.run(tables, states)
    return tuple(
        replace(each, error=error_by_path.get(table.path) or each.error)
        for table, each in zip(tables, reports, strict=True)
    )


def purge(table_paths: Collection[str], *, readers: Readers, path: WritePath) -> None:
    """Delete all but the newest version of some tables of main, whoever was reading them.

    Only what a tag or a claim names stays. What fails is told to the log: the next clean-up of the
    graph does it.
    """
    # A moment ahead, because storage may tell another time than this machine.
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
    """One deletion of versions: by what policy, and for how long what was true stays."""

    policy: Policy
    grace: timedelta
    is_preview: bool
    readers: Readers
    path: WritePath

    def run(
        self, tables: Sequence[_Table], states: Mapping[BranchName, ManifestState]
    ) -> list[CleanupReport]:
        """What was deleted of each table, or would be."""
        # Before the look at what is needed: what comes later is not up for deletion.
        listed = {table.path: _list_versions(table, states, self.path) for table in tables}
        now = self.path.runtime.now()
        needs = find_needs(since=now - self.grace, path=self.path)
        spare = {
            key: _choose(self.policy, each, needs, now, self.path) for key, each in listed.items()
        }
        with _announced(
            spare.values(), is_preview=self.is_preview, readers=self.readers, path=self.path
        ):
            # Also of tags that were given since: who gives one looks for us afterwards.
            kept = self.readers.find_read() | find_tagged_since(needs, self.path)
            return [
                _clean(
                    table, _without(spare[table.path], kept), self.path, is_preview=self.is_preview
                )
                for table in tables
            ]


@contextmanager
def _announced(
    spare: Iterable[Spare], *, is_preview: bool, readers: Readers, path: WritePath
) -> Iterator[None]:
    """Say what is about to be deleted, if anything is, for the block."""
    doomed = [
        TableVersion(line, each)
        for lines in spare
        for line, versions in lines.items()
        for each in versions
    ]
    if is_preview or not doomed:
        yield
        return
    readers.forget_dead()
    with readers.cleaning(doomed, id=path.runtime.new_id()):
        yield


def _clean(table: _Table, spare: Spare, path: WritePath, *, is_preview: bool) -> CleanupReport:
    """Delete versions of one type, or look what that would be; what goes wrong is in the report."""
    report = CleanupReport(
        type=type_name_of(table.keys[0]),
        table_key=table.keys[0],
        old_versions_removed=0,
        bytes_removed=0,
        error=None,
    )
    tables = path.stores.tables
    act = tables.preview_cleaning if is_preview else tables.clean
    try:
        path.failpoints.maybe_fail(Failpoint.CLEANUP_TABLE_GC)
        for line, versions in spare.items():
            done = act(line, versions)
            report = replace(
                report,
                old_versions_removed=report.old_versions_removed + done.versions,
                bytes_removed=report.bytes_removed + done.size,
            )
    except GraphError as error:
        return replace(report, error=str(error))
    return report


def _parse_keep(keep: object) -> int | None:
    if keep is None or (isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1):
        return keep
    raise InvalidValueError(
        subject="keep",
        expected="a number of versions",
        value=keep,
        problem="it is the number of versions of each type to keep, at least 1",
    )


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
    """Wait for the writes that are under way, and raise if one of them did not end."""
    under_way = list_sidecars(path.stores.objects)
    for sidecar in under_way:
        with path.locks.hold(_lock_keys(sidecar)):
            # Its writer has ended, well or not.
            pass
    if under_way:
        path.heal()
    left = {sidecar.operation_id for sidecar in list_sidecars(path.stores.objects)}
    for sidecar in under_way:
        if sidecar.operation_id in left:
            raise RecoveryRequiredError(operation_id=sidecar.operation_id)


def _lock_keys(sidecar: Sidecar) -> list[LockKey]:
    branch = line_of(sidecar.branch)
    return [LockKey(table_key, branch) for table_key in {pin.table_key for pin in sidecar.pins}]


def _require_undrifted(states: Mapping[BranchName, ManifestState], path: WritePath) -> None:
    for state in states.values():
        for entry in state.snapshot:
            if entry.branch == line_of(state.branch) and path.has_drifted(entry):
                _require_still_named(entry, state, path)


def _require_still_named(entry: Entry, state: ManifestState, path: WritePath) -> None:
    newest = path.stores.tables.find_head(entry.at.ref)
    now_named = path.authority.state(state.branch).version_of(entry.table_key)
    if now_named != entry.version or newest is None:
        # A write that ended in between.
        return
    raise DriftError(
        type=type_name_of(entry.table_key),
        expected=entry.version,
        actual=newest,
        advice="`omnigraph repair` shows what it was and adopts or refuses it",
    )


def _list_tables(states: Mapping[BranchName, ManifestState]) -> tuple[_Table, ...]:
    """Every table that a branch knows of, by the type that it is now, or else was."""
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


# Lines that nobody names


def _remove_orphans(
    tables: Iterable[_Table], states: Mapping[BranchName, ManifestState], path: WritePath
) -> dict[str, str]:
    """Remove the lines of tables that no branch names; what went wrong, by table."""
    errors = {}
    for table in tables:
        try:
            lines = path.stores.tables.branches(table.path)
            # The longest name first: Lance keeps a branch inside one whose name it continues.
            for name in sorted(lines, key=lambda name: (-len(name), name)):
                line = TableRef(table.path, name)
                if not _is_named(line, states):
                    _remove_orphan(line, table, path)
        except GraphError as error:
            errors[table.path] = str(error)
    return errors


def _remove_orphan(line: TableRef, table: _Table, path: WritePath) -> None:
    # Whoever makes such a line holds its lock until the branch names it, and whoever makes a
    # branch of that branch holds its turn.
    with (
        path.locks.hold([LockKey(table_key, line.branch) for table_key in table.keys]) as held,
        path.locks.hold_within(held, [LockKey(MANIFEST_PATH, line.branch)]) as turn,
    ):
        path.failpoints.maybe_fail(Failpoint.CLEANUP_RECONCILE_FORK)
        is_recorded = any(
            (pin.table_path, pin.table_branch) == (line.path, line.branch)
            for sidecar in list_sidecars(path.stores.objects)
            for pin in sidecar.pins
        )
        if is_recorded or _is_named(line, find_states(path)):
            return
        require_kept(turn)
        path.stores.tables.delete_branch(line)


def _is_named(line: TableRef, states: Mapping[BranchName, ManifestState]) -> bool:
    return any(entry.at.ref == line for state in states.values() for entry in state.snapshot)


# Versions that nobody needs


def _list_versions(
    table: _Table, states: Mapping[BranchName, ManifestState], path: WritePath
) -> Spare:
    branches = path.stores.tables.branches(table.path)
    lines = [None, *sorted(name for name in branches if name in states)]
    return {
        TableRef(table.path, name): path.stores.tables.versions(TableRef(table.path, name))
        for name in lines
    }


def _choose(policy: Policy, listed: Spare, needs: Needs, now: datetime, path: WritePath) -> Spare:
    """The versions that a policy does not keep and nobody needs."""
    chosen = {}
    for line, versions in listed.items():
        if line.branch is not None and line not in needs.lines:
            # Somebody is about to name it, or it could not be removed.
            continue
        old = set(versions[: -(policy.keep or 1)])
        if policy.older_than is not None and old:
            moment = now - policy.older_than
            newest_old = path.stores.tables.find_version_before(line, moment)
            old = {each for each in old if newest_old is not None and each <= newest_old}
        spare = tuple(each for each in sorted(old) if not needs.has(TableVersion(line, each)))
        # A table's own line is looked into in any case, for files that no version names. A branch's
        # may be deleted meanwhile, and these with it.
        if spare or line.branch is None:
            chosen[line] = spare
    return chosen


def _without(spare: Spare, kept: frozenset[TableVersion]) -> Spare:
    return {
        line: tuple(each for each in versions if TableVersion(line, each) not in kept)
        for line, versions in spare.items()
    }
