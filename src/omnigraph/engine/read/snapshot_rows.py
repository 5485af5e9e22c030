"""The rows of a snapshot, looked up for checks and mutations, and a record of what was asked.

Whatever is asked about joins the read set: a write that relied on the answer must be prepared
again when that type has moved. Few ids are looked up where they are known to lie, and few other
values by a filter, which an index answers; for many, one scan of the column is cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.state.snapshot import Entry, Snapshot
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import TableStore


class SnapshotRows:
    """Committed rows as one write sees them; implements `CommittedRows`."""

    def __init__(self, snapshot: Snapshot, *, tables: TableStore) -> None:
        self._snapshot = snapshot
        self._tables = tables
        self._asked: set[str] = set()

    @property
    def read_set(self) -> frozenset[str]:
        """The types that were asked about."""
        return frozenset(self._asked)

    def count(self, table_key: str) -> int:
        """How many rows a type has."""
        entry = self._entry(table_key)
        return entry.row_count if entry else 0

    def find_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        """Those of the ids that are there, each once."""
        entry = self._entry(table_key)
        distinct = pc.unique(ids)
        if entry is not None and entry.row_count and 0 < len(distinct) <= PROBED_VALUES_MAX:
            return self._tables.find_ids(entry.at, ids=distinct)
        return self.find_rows(table_key, "id", ids, columns=["id"])["id"].combine_chunks()

    def find_rows(
        self, table_key: str, column: str, values: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows whose column holds one of the values."""
        values = pc.unique(values)
        entry = self._entry(table_key)
        if entry is None or not entry.row_count or not len(values):
            return self._no_rows(entry, columns)
        if len(values) <= PROBED_VALUES_MAX:
            if column == "id":
                return self._tables.find_rows(entry.at, ids=values, columns=columns)
            return self.select(table_key, predicate=render_in(column, values), columns=columns)
        rows = self.scan(table_key, columns=list(dict.fromkeys([*columns, column])))
        return rows.filter(pc.is_in(rows[column], value_set=values)).select(columns)

    def select(self, table_key: str, *, predicate: str | None, columns: Sequence[str]) -> pa.Table:
        """The rows that a predicate holds for."""
        entry = self._entry(table_key)
        if entry is None:
            return self._no_rows(None, columns)
        return self._tables.scan(entry.at, columns=columns, predicate=predicate)

    def scan(self, table_key: str, *, columns: Sequence[str]) -> pa.Table:
        """Every row of a type."""
        return self.select(table_key, predicate=None, columns=columns)

    def _entry(self, table_key: str) -> Entry | None:
        self._asked.add(table_key)
        return self._snapshot.entries.get(table_key)

    def _no_rows(self, entry: Entry | None, columns: Sequence[str]) -> pa.Table:
        if entry is None:
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        schema = self._tables.schema(entry.at)
        return pa.schema([schema.field(name) for name in columns]).empty_table()
