"""The net changes of one type between two states: what came, what went, what is different.

Rows are compared by id and by value, so what was only written again, moved to other files or
undone in between is no change. Rows have the declared columns; those that a version lacks are
null. Costs what was written between the two states, never what the type holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.ops.row_equality import equal_rows
from omnigraph.engine.state.snapshot import Entry
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import TableDelta, TableStore


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
    old: Entry | None, new: Entry | None, declared: NodeType | EdgeType, tables: TableStore
) -> TypeChanges:
    """What changed from one state of a type to another; None is a state without the type."""
    schema = table_schema(declared)
    delta = _find_delta(old, new, schema, tables)
    gone, come = _fit(delta.gone, schema), _fit(delta.come, schema)
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


def _find_delta(
    old: Entry | None, new: Entry | None, schema: pa.Schema, tables: TableStore
) -> TableDelta:
    if old is not None and new is not None and old.path == new.path:
        if old.at == new.at:
            return TableDelta(gone=schema.empty_table(), come=schema.empty_table())
        return tables.find_delta(old.at, new.at, columns=schema.names)
    return TableDelta(gone=_scan(old, schema, tables), come=_scan(new, schema, tables))


def _scan(entry: Entry | None, schema: pa.Schema, tables: TableStore) -> pa.Table:
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
