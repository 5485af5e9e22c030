"""The net changes of one type between two states: what came, what went, what is different.

Rows are compared by id and by value, so what was only written again, moved to other files or
undone in between is no change. Rows have the declared columns; those that a version lacks are
null. Costs what was written between the two states, never what the type holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.row_equality import equal_rows
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import SPARK_PART_ROWS_MAX
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.delta_parts import NO_DELTA, DeltaPart, DeltaParts, VersionPlace
from omnigraph.storage.lance_delta_parts import plan_delta
from omnigraph.storage.ports import TableDelta, TableStore, TableVersion


class DeltaSource(Protocol):
    """What tells the rows in which two versions of a table differ: a store, or what was read of
    one."""

    def schema(self, at: TableVersion) -> pa.Schema:
        """The columns of a version."""

    def scan(self, at: TableVersion, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
        """All rows of a version, where the predicate is None."""

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows of `old` that `new` has not or has elsewhere, and the other way round."""


@dataclass(frozen=True, slots=True)
class TypeChanges:
    """Rows by what became of them, each part in the order of ids.

    `before` and `after` are the two images of the rows that were updated, one below the other.
    """

    inserted: pa.Table
    before: pa.Table
    after: pa.Table
    deleted: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.inserted.num_rows or self.after.num_rows or self.deleted.num_rows)


def find_changes(
    old: Entry | None, new: Entry | None, declared: NodeType | EdgeType, tables: DeltaSource
) -> TypeChanges:
    """What changed from one state of a type to another; None is a state without the type."""
    delta = _find_delta(old, new, table_schema(declared), tables)
    return compare_rows(declared, gone=delta.gone, come=delta.come)


def compare_rows(declared: NodeType | EdgeType, *, gone: pa.Table, come: pa.Table) -> TypeChanges:
    """What changed where some rows are not any more at their place, and others are at theirs.

    All rows of an id must be among them that are not in both states at the same place.
    """
    schema = table_schema(declared)
    gone, come = _fit(gone, schema), _fit(come, schema)
    # An id occurs once in a version, so one that came and is not among those that went is new.
    place = pc.index_in(come["id"], value_set=gone["id"])
    is_known = place.is_valid()
    replaced = place.drop_null()
    before, after = gone.take(replaced), come.filter(is_known)
    changed = np.flatnonzero(~equal_rows(before, after))
    is_replaced = np.zeros(gone.num_rows, bool)
    is_replaced[replaced.to_numpy()] = True
    return TypeChanges(
        inserted=come.filter(pc.invert(is_known)),
        before=before.take(changed),
        after=after.take(changed),
        deleted=gone.filter(pa.array(~is_replaced)),
    )


def plan_changes(old: Entry | None, new: Entry | None, tables: TableStore) -> DeltaParts:
    """Which rows have to be compared, in parts for other processes; no row is read for it."""
    if old is not None and new is not None and old.path == new.path:
        if old.at == new.at:
            return NO_DELTA
        before, after = (place_of(each.at, tables) for each in (old, new))
        return plan_delta(before, after, rows_max=SPARK_PART_ROWS_MAX)
    return DeltaParts(gone=_take_all(old, tables), come=_take_all(new, tables))


def place_of(at: TableVersion, tables: TableStore) -> VersionPlace:
    """Where other processes find a version."""
    return VersionPlace(tables.folder(at.ref), at.version)


def _take_all(entry: Entry | None, tables: TableStore) -> tuple[DeltaPart, ...]:
    if entry is None:
        return ()
    parts = tables.parts(entry.at, rows_max=SPARK_PART_ROWS_MAX)
    return tuple(DeltaPart(each, None) for each in parts)


def _find_delta(
    old: Entry | None, new: Entry | None, schema: pa.Schema, tables: DeltaSource
) -> TableDelta:
    if old is not None and new is not None and old.path == new.path:
        if old.at == new.at:
            return TableDelta(gone=schema.empty_table(), come=schema.empty_table())
        return tables.find_delta(old.at, new.at, columns=schema.names)
    return TableDelta(gone=_scan(old, schema, tables), come=_scan(new, schema, tables))


def _scan(entry: Entry | None, schema: pa.Schema, tables: DeltaSource) -> pa.Table:
    if entry is None:
        return schema.empty_table()
    stored = set(tables.schema(entry.at).names)
    columns = [name for name in schema.names if name in stored]
    return tables.scan(entry.at, columns=columns, predicate=None)


def _fit(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all declared columns, in the order of ids."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    fitted = pa.table(columns, schema=schema)
    return fitted.take(pc.sort_indices(fitted["id"]))
