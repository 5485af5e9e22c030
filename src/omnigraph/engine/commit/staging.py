"""Staging: the files of a prepared write, one staged write per table, and lazy table branches.

No version refers to staged files, so a crash leaves only unused space. The first write of a branch
to a table creates the table branch. The caller holds the write locks of every table from before
the fork until after the publish. A table branch that the manifest does not name and that has
changes is removed and forked again, so a branch never shows rows that were not published on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from uuid import uuid4

from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.publish import require_locks_held
from omnigraph.engine.state.manifest import Entry, ManifestState, type_name_of
from omnigraph.model.errors import (
    AlreadyExistsError,
    ExpectedVersionMismatchError,
    GraphError,
    ReadSetChangedError,
)
from omnigraph.model.limits import STAGED_TOGETHER_BYTES_MIN
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.locks import HeldLocks
from omnigraph.storage.ports import (
    IndexSpec,
    LayoutStep,
    NewFile,
    StagedWrite,
    TableRef,
    TableStore,
    TableVersion,
)
from omnigraph.storage.row_files import table_schema

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionStep:
    """A layout step, which can only be staged once the step before it has advanced the table."""

    step: LayoutStep
    wanted: tuple[IndexSpec, ...]
    uuid: str

    def apply(self, onto: TableVersion, tables: TableStore) -> TableVersion:
        """Advance the table from the version that the previous step produced."""
        staged = tables.stage_layout(self.step, wanted=self.wanted, onto=onto, uuid=self.uuid)
        return tables.apply(staged)


@dataclass(frozen=True, slots=True)
class VersionBump:
    """One more version with the same rows."""

    uuid: str

    def apply(self, onto: TableVersion, tables: TableStore) -> TableVersion:
        """Advance the table without changing it."""
        return tables.restore(onto, uuid=self.uuid)


DeferredStep = CompactionStep | VersionBump


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table of a write: its current entry, its staged write, and the steps after that."""

    entry: Entry
    change: TableChange
    write: StagedWrite | None
    later: tuple[DeferredStep, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        """The transactions that will advance the table, in order."""
        first = () if self.write is None else (self.write.uuid,)
        return (*first, *(move.uuid for move in self.later))

    @property
    def row_count(self) -> int:
        """The number of rows of the table once the write is applied."""
        if self.write is None:
            return self.entry.row_count
        return self.entry.row_count + self.write.rows_added - self.write.rows_removed


def stage(
    write: PreparedWrite,
    *,
    entries: Mapping[str, Entry],
    tables: TableStore,
    failpoints: Failpoints,
    threads_max: int,
) -> tuple[StagedTable, ...]:
    """Write the files of every change, each onto the entry of its table.

    Up to `threads_max` tables are written concurrently, if they are large enough. If several fail,
    the error of the first is raised; the files of the others are left unreferenced, as after any
    write that is not applied.
    """
    size = sum(each.put.nbytes for each in write.changes.values())
    threads = threads_max if size >= STAGED_TOGETHER_BYTES_MIN else 1

    def stage_table(table_key: str) -> StagedWrite | None:
        change, placement = write.changes[table_key], write.placement[table_key]
        return _stage_one(change, placement, entries[table_key], tables)

    staged = []
    for table_key, files in zip(
        write.changes, _run_each(stage_table, write.changes, threads), strict=True
    ):
        change = write.changes[table_key]
        later: tuple[DeferredStep, ...] = (
            *(CompactionStep(step, change.indexes, str(uuid4())) for step in change.layout[1:]),
            *(VersionBump(str(uuid4())) for _ in range(change.version_bumps)),
        )
        if files is not None or later:
            staged.append(StagedTable(entries[table_key], change, files, later))
    if StagingMode.LAYOUT in write.placement.values():
        failpoints.maybe_fail(Failpoint.OPTIMIZE_BEFORE_COMPACT)
    if StagingMode.INDEX in write.placement.values():
        failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_STAGE_PRE_COMMIT_BTREE)
    return tuple(staged)


def _run_each(
    stage_table: Callable[[str], StagedWrite | None], table_keys: Collection[str], threads_max: int
) -> list[StagedWrite | None]:
    """The result of staging each table, in the order of the tables."""
    threads = min(threads_max, len(table_keys))
    if threads <= 1:
        return [stage_table(each) for each in table_keys]
    # Lance releases the interpreter lock while it writes, so threads write concurrently.
    with ThreadPoolExecutor(threads, thread_name_prefix="omnigraph-stage") as pool:
        running = [pool.submit(stage_table, each) for each in table_keys]
        try:
            return [each.result() for each in running]
        finally:
            # After an error, tables that are still queued need not be written.
            pool.shutdown(wait=True, cancel_futures=True)


def _stage_one(
    change: TableChange, placement: StagingMode, entry: Entry, tables: TableStore
) -> StagedWrite | None:
    match placement:
        case StagingMode.APPEND:
            return tables.stage_append(change.put, onto=entry.at)
        case StagingMode.MERGE:
            return tables.stage_merge_insert(change.put, onto=entry.at)
        case StagingMode.EXCHANGE:
            return tables.stage_exchange(change.put, removing=change.removed, onto=entry.at)
        case StagingMode.OVERWRITE:
            return tables.stage_overwrite(change.put, onto=entry.at)
        case StagingMode.REMOVE:
            return tables.stage_delete(change.removed, onto=entry.at)
        case StagingMode.COLUMNS:
            columns = table_schema(change.type)
            return tables.stage_columns(columns, renames=change.renames, onto=entry.at)
        case StagingMode.FILES:
            return tables.stage_files(
                change.files,
                change.deletions,
                columns=table_schema(change.type),
                is_overwrite=change.is_overwrite,
                onto=entry.at,
            )
        case StagingMode.INDEX:
            return tables.stage_indexes(change.indexes, onto=entry.at)
        case StagingMode.LAYOUT:
            first, uuid = change.layout[0], str(uuid4())
            return tables.stage_layout(first, wanted=change.indexes, onto=entry.at, uuid=uuid)


def discard_files(ref: TableRef, files: Sequence[NewFile], *, tables: TableStore) -> None:
    """Delete files that no version names; `cleanup` deletes those that cannot be deleted now."""
    try:
        tables.delete_files(ref, files)
    except GraphError as error:
        _LOG.warning("files of a write were not deleted: %s", error)


def needs_fork(entry: Entry, branch: BranchName) -> bool:
    """Whether a write on a branch would touch a table branch that belongs to another branch."""
    return branch not in (MAIN, entry.branch)


def fork(
    entry: Entry,
    *,
    branch: BranchName,
    state: ManifestState,
    held: HeldLocks,
    tables: TableStore,
    failpoints: Failpoints,
) -> Entry:
    """Create a branch's table branch at the version of an entry, and return the entry on it.

    `state` is the branch's current manifest, read under the locks that are `held`. Raises
    `ExpectedVersionMismatchError` if the manifest names another version, and `ReadSetChangedError`
    if another process took the locks.
    """
    current = state.snapshot.get(entry.table_key)
    if current != entry:
        raise ExpectedVersionMismatchError(
            table_key=entry.table_key, expected=entry.version, actual=current.version
        )
    failpoints.maybe_fail(Failpoint.FORK_BEFORE_CLASSIFY)
    table_branch = TableRef(entry.path, branch)
    if branch in tables.branches(entry.path):
        if tables.is_fresh_fork(table_branch, of=entry.at):
            # Nothing was ever added to the table branch. It may hold files that a long write is
            # about to reference.
            return replace(entry, branch=branch)
        failpoints.maybe_fail(Failpoint.FORK_BEFORE_RECLAIM)
        # The table branch existed before this check, so if the locks are still held, no process has
        # published it.
        require_locks_held(held)
        tables.delete_branch(table_branch)
    try:
        tables.fork(entry.at, branch=branch)
    except AlreadyExistsError as error:
        # Only a process that took the locks creates it at the same time.
        raise ReadSetChangedError(
            member=f"{type_name_of(entry.table_key)} on branch '{branch}'",
            expected="unwritten",
            actual="written by another process",
        ) from error
    return replace(entry, branch=branch)
