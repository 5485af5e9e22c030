"""Committed rows of a snapshot as one write sees them, and the pending rows of that write.

Every type that is read joins the read set: if it changes before the commit, the write must be
prepared again. Few ids or values are looked up through an index; for many, one column scan is
cheaper. Pending rows are in memory only, and the last row of an id replaces earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.state.manifest import Entry, Snapshot
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.ports import TableReader
from omnigraph.storage.predicates import OneOf, Predicate
from omnigraph.storage.row_files import table_schema


class SnapshotRows:
    """Committed rows as one write sees them; implements `CommittedRows`."""

    def __init__(self, snapshot: Snapshot, *, tables: TableReader) -> None:
        self._snapshot = snapshot
        self._tables = tables
        self._read_keys: set[str] = set()

    @property
    def read_set(self) -> frozenset[str]:
        """The types that were read."""
        return frozenset(self._read_keys)

    def count(self, table_key: str) -> int:
        entry = self._entry(table_key)
        return entry.row_count if entry else 0

    def find_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        entry = self._entry(table_key)
        distinct = pc.unique(ids)
        if entry is not None and entry.row_count and 0 < len(distinct) <= PROBED_VALUES_MAX:
            return self._tables.find_ids(entry.at, ids=distinct)
        return self.find_rows(table_key, "id", ids, columns=["id"])["id"].combine_chunks()

    def find_rows(
        self, table_key: str, column: str, values: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        values = pc.unique(values)
        entry = self._entry(table_key)
        if entry is None or not entry.row_count or not len(values):
            return self._no_rows(entry, columns)
        if len(values) <= PROBED_VALUES_MAX:
            if column == "id":
                return self._tables.find_rows(entry.at, ids=values, columns=columns)
            return self.select(table_key, predicate=OneOf(column, values), columns=columns)
        rows = self.scan(table_key, columns=list(dict.fromkeys([*columns, column])))
        return rows.filter(pc.is_in(rows[column], value_set=values)).select(columns)

    def select(
        self, table_key: str, *, predicate: Predicate | None, columns: Sequence[str]
    ) -> pa.Table:
        """The rows that match a predicate."""
        entry = self._entry(table_key)
        if entry is None:
            return self._no_rows(None, columns)
        return self._tables.scan(entry.at, columns=columns, predicate=predicate)

    def scan(self, table_key: str, *, columns: Sequence[str]) -> pa.Table:
        return self.select(table_key, predicate=None, columns=columns)

    def _entry(self, table_key: str) -> Entry | None:
        self._read_keys.add(table_key)
        return self._snapshot.entries.get(table_key)

    def _no_rows(self, entry: Entry | None, columns: Sequence[str]) -> pa.Table:
        if entry is None:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        schema = self._tables.schema(entry.at)
        return pa.schema([schema.field(name) for name in columns]).empty_table()


class PendingRows:
    """Rows that a query puts and ids that it removes."""

    def __init__(self, declared: NodeType | EdgeType) -> None:
        self.declared = declared
        self.replaces_committed = False
        self._rows = table_schema(declared).empty_table()
        self._batches: list[pa.Table] = []
        self._removed = pa.array([], pa.string())

    @property
    def is_empty(self) -> bool:
        """Whether no rows were put and no ids were removed."""
        return not (self._batches or self._rows.num_rows or len(self._removed))

    @property
    def removed(self) -> pa.Array:
        """The ids removed so far, each once."""
        return self._removed

    def put(self, rows: pa.Table, *, replaces_committed: bool) -> None:
        """Put rows; each replaces an earlier one with the same id."""
        # The integrity checks report nulls in required columns, so the columns are only relabelled
        # here.
        schema = self._rows.schema
        self._batches.append(pa.table([rows[name] for name in schema.names], schema=schema))
        self.replaces_committed |= replaces_committed

    def rows(self) -> pa.Table:
        """The rows put so far, the last one of each id."""
        if self._batches:
            self._rows = keep_last(pa.concat_tables([self._rows, *self._batches]))
            self._batches = []
        return self._rows

    def remove(self, ids: pa.Array) -> pa.Array:
        """Remove ids, and return those that had not been removed before."""
        fresh = pc.unique(ids.filter(pc.invert(pc.is_in(ids, value_set=self._removed))))
        self._removed = pa.concat_arrays([self._removed, fresh])
        return fresh


def keep_last(rows: pa.Table) -> pa.Table:
    """The last row of each id, in the order of these rows."""
    ids = rows["id"].combine_chunks()
    distinct = pc.unique(ids)
    if len(distinct) == len(ids):
        return rows
    last = np.empty(len(distinct), dtype=np.int64)
    # Later assignments to one position win, so the last row of each id remains.
    last[pc.index_in(ids, value_set=distinct).to_numpy()] = np.arange(len(ids))
    return rows.take(pa.array(np.sort(last)))
