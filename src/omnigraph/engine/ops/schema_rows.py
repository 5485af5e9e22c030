"""Rows that a change of schema writes anew, because what was dropped must be in no file.

Held whole in this process, or copied part by part by others into files that no version names. The
rows and their order are the same either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from omnigraph.engine.ops.schema_tables import TableMove
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.lance_parts import copy_rows
from omnigraph.storage.ports import TableStore
from omnigraph.storage.table_layout import Workers
from omnigraph.storage.table_parts import LineFolder, NewFile, TablePart


def measure(move: TableMove, tables: TableStore) -> int:
    """About how many bytes of rows a table keeps."""
    sought = _find_columns(move, tables).sought
    return sum(tables.stored_bytes(move.entry.at, name) for name in sought)


def rewrite(move: TableMove, tables: TableStore) -> pa.Table:
    """All rows of a table with the columns of a type, so that no file holds what was dropped."""
    columns = _find_columns(move, tables)
    rows = tables.scan(move.entry.at, columns=columns.sought, predicate=None)
    return _arrange(columns, rows)


def rewrite_by(workers: Workers, move: TableMove, tables: TableStore) -> tuple[NewFile, ...]:
    """The same as files that others write."""
    entry = move.entry
    parts = tables.parts(entry.at, rows_max=workers.share(entry.row_count))
    work = partial(_copy, _find_columns(move, tables), tables.folder(entry.at.ref))
    written = workers.run(work, parts, stage="rewrite")
    return tuple(file for files in written for file in files)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that are wanted, and which stored one each is; None for those that are new."""

    schema: pa.Schema
    stored: tuple[str | None, ...]

    @property
    def sought(self) -> Sequence[str]:
        """Those that have to be read."""
        return [name for name in self.stored if name is not None]


def _find_columns(move: TableMove, tables: TableStore) -> _Columns:
    schema = table_schema(move.declared)
    old_name = {new: old for old, new in move.renames.items()}
    stored = frozenset(tables.schema(move.entry.at).names)
    wanted = [old_name.get(name, name) for name in schema.names]
    return _Columns(schema, tuple(name if name in stored else None for name in wanted))


def _arrange(columns: _Columns, rows: pa.Table) -> pa.Table:
    arranged = [
        pa.nulls(rows.num_rows, field.type) if name is None else rows[name]
        for name, field in zip(columns.stored, columns.schema, strict=True)
    ]
    return pa.table(arranged, schema=columns.schema)


# Where the work is done


def _copy(columns: _Columns, folder: LineFolder, part: TablePart) -> tuple[NewFile, ...]:
    convert = partial(_arrange, columns)
    return copy_rows(part, into=folder, columns=columns.sought, convert=convert)
