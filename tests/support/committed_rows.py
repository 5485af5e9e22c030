"""Rows in memory: change sets and committed rows from dictionaries, and what a write breaks.

`CommittedTables` finds values by their exact bits, so that -0.0 is not 0.0 and no NaN is found:
a caller that looks for floats through the port must allow for stores that differ.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import pyarrow as pa

from omnigraph.engine.commit.integrity.check import find_violations
from omnigraph.engine.commit.prepared_write import TableChange, TableChanges
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import Violation
from omnigraph.storage.row_files import table_schema

Row = Mapping[str, object]
"""One row: `id`, `src` and `dst` on edges, and properties; one that is left out is null."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """The declared type of a name that must be there."""
    return catalog.nodes.get(name) or catalog.edges[name]


def rows_of(
    catalog: Catalog, name: str, rows: Iterable[Row], *, chunk_size: int = 2**20
) -> pa.Table:
    """Rows of a type as a table with all its columns, in chunks of at most some rows."""
    schema = table_schema(find_type(catalog, name))
    columns = [[_physical(row.get(column.name)) for row in rows] for column in schema]
    starts = range(0, len(columns[0]), chunk_size)
    arrays = [
        pa.chunked_array(
            [pa.array(cells[start : start + chunk_size], column.type) for start in starts],
            column.type,
        )
        for column, cells in zip(schema, columns, strict=True)
    ]
    return pa.table(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class Write:
    """What a write does to one type, before it is a table."""

    put: Sequence[Row] = ()
    removed: Sequence[str] = ()
    is_overwrite: bool = False


def change_set(
    catalog: Catalog, write_by_type: Mapping[str, Write], *, chunk_size: int = 2**20
) -> TableChanges:
    """A change set in the order of table keys."""
    changes = {}
    for name, write in write_by_type.items():
        declared = find_type(catalog, name)
        put = rows_of(catalog, name, write.put, chunk_size=chunk_size)
        removed = pa.array(write.removed, pa.string())
        changes[table_key_of(declared)] = TableChange(declared, put, removed, write.is_overwrite)
    return dict(sorted(changes.items()))


@dataclass(frozen=True, slots=True)
class CommittedTables:
    """Committed rows held in memory; `asked` lists each call but `count`, as method and table."""

    table_by_key: Mapping[str, pa.Table]
    requested: list[tuple[str, str]] = field(default_factory=list)

    def count(self, table_key: str) -> int:
        rows = self.table_by_key.get(table_key)
        return 0 if rows is None else int(rows.num_rows)

    def find_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        self.requested.append(("find_ids", table_key))
        return self._rows_with(table_key, "id", ids).column("id").combine_chunks()

    def find_rows(
        self, table_key: str, column: str, values: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        self.requested.append(("find_rows", table_key))
        return self._rows_with(table_key, column, values).select(columns)

    def scan(self, table_key: str, *, columns: Sequence[str]) -> pa.Table:
        self.requested.append(("scan", table_key))
        return self.table_by_key[table_key].select(columns)

    def _rows_with(self, table_key: str, column: str, values: pa.Array) -> pa.Table:
        assert values.null_count == 0
        rows = self.table_by_key[table_key]
        assert rows.schema.field(column).type == values.type
        wanted = {_bits(value) for value in values.to_pylist()} - {None}
        return rows.filter(pa.array([_bits(value) in wanted for value in rows[column].to_pylist()]))


def committed_tables(
    catalog: Catalog, rows_by_type: Mapping[str, Iterable[Row]], *, chunk_size: int = 2**20
) -> CommittedTables:
    """Committed rows by type; every column is nullable, as it may have been when they came."""
    table_by_key = {}
    for name, rows in rows_by_type.items():
        table = rows_of(catalog, name, rows, chunk_size=chunk_size)
        once = pa.schema([column.with_nullable(nullable=True) for column in table.schema])
        table_by_key[table_key_of(find_type(catalog, name))] = table.cast(once)
    return CommittedTables(table_by_key)


def violations_of(
    catalog: Catalog,
    writes: Mapping[str, Write],
    *,
    committed: Mapping[str, Iterable[Row]] | None = None,
) -> tuple[Violation, ...]:
    """What a write breaks, given the committed rows by type."""
    found = find_violations(
        change_set(catalog, writes),
        catalog=catalog,
        committed=committed_tables(catalog, committed or {}),
    )
    assert found.count == len(found.found)
    return found.found


def messages_of(
    catalog: Catalog,
    writes: Mapping[str, Write],
    *,
    committed: Mapping[str, Iterable[Row]] | None = None,
) -> list[str]:
    """The same, only what it says."""
    return [each.message for each in violations_of(catalog, writes, committed=committed)]


def _physical(value: object) -> object:
    if isinstance(value, datetime):
        elapsed = value - _EPOCH
        return elapsed.days * 86_400_000 + elapsed.seconds * 1000 + elapsed.microseconds // 1000
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return value


def _bits(value: object) -> object:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else struct.pack("<d", value)
