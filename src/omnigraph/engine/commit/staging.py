"""Staging: from a prepared write to files that nobody refers to, one staged write a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.state.snapshot import Entry
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.failpoints import Failpoint, Failpoints
from omnigraph.storage.ports import StagedWrite, TableStore, TableVersion
from omnigraph.storage.table_layout import IndexSpec, LayoutStep


@dataclass(frozen=True, slots=True)
class LayoutMove:
    """A step of layout, which can only be staged once the step before it has moved the table."""

    step: LayoutStep
    wanted: tuple[IndexSpec, ...]
    uuid: str

    def apply(self, onto: TableVersion, tables: TableStore) -> TableVersion:
        """Move the table on from where the step before has led."""
        staged = tables.stage_layout(self.step, wanted=self.wanted, onto=onto, uuid=self.uuid)
        return tables.apply(staged)


@dataclass(frozen=True, slots=True)
class LiftMove:
    """A version more with the same rows."""

    uuid: str

    def apply(self, onto: TableVersion, tables: TableStore) -> TableVersion:
        """Move the table on as it is."""
        return tables.restore(onto, uuid=self.uuid)


LaterMove = LayoutMove | LiftMove


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table of a write: where it stands, what will move it, and what will move it on."""

    entry: Entry
    change: TableChange
    write: StagedWrite | None
    later: tuple[LaterMove, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        """The transactions that will move it, in their order."""
        first = () if self.write is None else (self.write.uuid,)
        return (*first, *(move.uuid for move in self.later))

    @property
    def row_count(self) -> int:
        """How many rows the table has once the write is applied."""
        if self.write is None:
            return self.entry.row_count
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
        later = tuple(_plan_later(change))
        if files is not None or later:
            staged.append(StagedTable(entry, change, files, later))
    if Placement.LAYOUT in write.placement.values():
        failpoints.maybe_fail(Failpoint.OPTIMIZE_BEFORE_COMPACT)
    if Placement.INDEX in write.placement.values():
        failpoints.maybe_fail(Failpoint.ENSURE_INDICES_POST_STAGE_PRE_COMMIT_BTREE)
    return tuple(staged)


def _plan_later(change: TableChange) -> Iterator[LaterMove]:
    for step in change.layout[1:]:
        yield LayoutMove(step, change.indexes, str(uuid4()))
    for _ in range(change.lift):
        yield LiftMove(str(uuid4()))


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
        case Placement.COLUMNS:
            columns = table_schema(change.type)
            return tables.stage_columns(columns, renames=change.renames, onto=entry.at)
        case Placement.FILES:
            return tables.stage_files(
                change.files,
                change.struck,
                columns=table_schema(change.type),
                is_overwrite=change.is_overwrite,
                onto=entry.at,
            )
        case Placement.INDEX:
            return tables.stage_indexes(change.indexes, onto=entry.at)
        case Placement.LAYOUT:
            first, uuid = change.layout[0], str(uuid4())
            return tables.stage_layout(first, wanted=change.indexes, onto=entry.at, uuid=uuid)
