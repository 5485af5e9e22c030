"""Staging: from a prepared write to files that nobody refers to, one staged write a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.state.snapshot import Entry
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.ports import StagedWrite, TableStore


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table of a write: where it stands, and what will move it."""

    entry: Entry
    change: TableChange
    write: StagedWrite

    @property
    def row_count(self) -> int:
        """How many rows the table has once the write is applied."""
        return self.entry.row_count + self.write.rows_added - self.write.rows_removed


def stage(
    write: PreparedWrite,
    *,
    entries: Mapping[str, Entry],
    tables: TableStore,
    failpoints: Failpoints,
) -> tuple[StagedTable, ...]:
    """Write the files of every change, each onto the entry of its table."""
    staged = []
    for table_key, change in write.changes.items():
        entry = entries[table_key]
        files = _stage_one(change, write.placement[table_key], entry, tables)
        if files is not None:
            staged.append(StagedTable(entry, change, files))
    if Placement.INDEX in write.placement.values():
        failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_STAGE_PRE_COMMIT_BTREE)
    return tuple(staged)


def _stage_one(
    change: TableChange, placement: Placement, entry: Entry, tables: TableStore
) -> StagedWrite | None:
    match placement:
        case Placement.APPEND:
            return tables.stage_append(change.put, onto=entry.at)
        case Placement.MERGE:
            return tables.stage_merge_insert(change.put, onto=entry.at)
        case Placement.EXCHANGE:
            return tables.stage_exchange(change.put, removing=change.removed, onto=entry.at)
        case Placement.OVERWRITE:
            return tables.stage_overwrite(change.put, onto=entry.at)
        case Placement.REMOVE:
            return tables.stage_delete(change.removed, onto=entry.at)
        case Placement.INDEX:
            return tables.stage_indexes(change.indexes, onto=entry.at)
