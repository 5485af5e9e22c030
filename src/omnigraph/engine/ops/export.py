"""Export: the rows of a snapshot as NDJSON lines, Arrow batches, or files that a load accepts.

Edge types precede node types, types are ordered by name, and rows by id, so two exports of one
state are equal. One batch of rows is in memory at a time. An export folder appears under its name
only when all its files are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.results import ExportedType, ExportReport
from omnigraph.engine.rows.json_rows import encode_block, encode_entity, encode_rows
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, Snapshot, get_stored_type, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import EXPORT_INLINE_ROWS_MAX
from omnigraph.storage.fsync import flush_path
from omnigraph.storage.ports import RowReader
from omnigraph.storage.row_files import FileFormat, new_folder, table_schema, write_rows

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def export(
    snapshot: Snapshot, *, catalog: Catalog, tables: RowReader, types: Sequence[str] | None
) -> Iterator[str]:
    """The lines of some types, or of all; a name can select both a node and an edge type.

    An unknown type is rejected immediately. A line that cannot be encoded, because a number is not
    finite, raises `InvalidValueError` when it is reached.
    """
    chosen = select_types(catalog, types)
    return (
        line
        for declared in chosen
        for batch in scan_type(declared, snapshot=snapshot, tables=tables)
        for line in encode_rows(declared, batch)
    )


def export_batches(
    type_name: str, *, snapshot: Snapshot, catalog: Catalog, tables: RowReader
) -> pa.RecordBatchReader:
    """The rows of one type as a stream of Arrow batches; a `DateTime` is a UTC timestamp."""
    declared = get_stored_type(type_name, catalog)
    schema = table_schema(declared)
    batches = scan_type(declared, snapshot=snapshot, tables=tables)
    return pa.RecordBatchReader.from_batches(schema, (complete(each, schema) for each in batches))


def select_types(catalog: Catalog, types: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types that have the given names, or all types, in the order of an export.

    Raises `NotFoundError` if no type has a name.
    """
    if types is None:
        return _in_order(catalog.stored_types())
    chosen: list[NodeType | EdgeType] = []
    for name in types:
        found = [kind[name] for kind in (catalog.nodes, catalog.edges) if name in kind]
        if not found:
            names = {*catalog.nodes, *catalog.edges}
            raise NotFoundError(kind="type", name=name, advice=advise_name(name, names) or "")
        chosen += found
    return _in_order(chosen)


def scan_type(
    declared: NodeType | EdgeType, *, snapshot: Snapshot, tables: RowReader
) -> Iterator[pa.RecordBatch]:
    """The rows of a type by id, with those of its columns that exist in the snapshot."""
    entry = snapshot.entries.get(table_key_of(declared))
    if entry is None:
        # A type that was added after the snapshot has no table in it, and no rows.
        return iter(())
    return tables.scan_by_id(entry.at, columns=stored_columns(declared, entry, tables))


def stored_columns(declared: NodeType | EdgeType, entry: Entry, tables: RowReader) -> list[str]:
    """The columns of a type that exist in its snapshot entry."""
    # A property that was added after the version has no column in it.
    stored = set(tables.schema(entry.at).names)
    return ["id", *declared.ends, *(name for name in declared.properties if name in stored)]


def read_entity(
    declared: NodeType | EdgeType, id: str, *, snapshot: Snapshot, tables: RowReader
) -> dict[str, object] | None:
    """The id, endpoints and properties of an entity, or None."""
    entry = snapshot.entries.get(table_key_of(declared))
    if entry is None:
        # A type that was added after the snapshot has no entities in it.
        return None
    columns = tables.schema(entry.at).names
    found = tables.find_rows(entry.at, ids=pa.array([id]), columns=columns)
    return encode_entity(declared, found) if found.num_rows else None


def complete(rows: Rows, schema: pa.Schema) -> Rows:
    """The rows with all columns of a schema, null where they are missing."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return type(rows).from_arrays(columns, schema=schema)


def _in_order(types: Sequence[NodeType | EdgeType]) -> list[NodeType | EdgeType]:
    by_key = {table_key_of(each): each for each in types}
    return [by_key[key] for key in sorted(by_key)]


def export_files(
    folder: Path,
    *,
    basis: Basis,
    tables: RowReader,
    format: FileFormat,
    types: Sequence[str] | None,
) -> ExportReport:
    """Write some types, or all, of a state.

    An unknown type, a folder that is not empty, or a number that JSON cannot represent is rejected,
    and no folder is created.
    """
    chosen = select_types(basis.catalog, types)
    done = []
    with new_folder(folder) as hidden:
        for declared in chosen:
            name = f"{name_file(declared, basis.catalog)}.{format}"
            rows = scan_type(declared, snapshot=basis.snapshot, tables=tables)
            row_count = write_batches(hidden / name, declared, rows, format)
            done.append(ExportedType(declared.name, row_count, str(folder / name)))
    return ExportReport(basis.state.head.id, str(folder), format.value, tuple(done))


def is_large_export(basis: Basis, types: Sequence[str] | None) -> bool:
    """Whether the selected types of a state have more rows than one process should write."""
    if basis.visible is not None:
        # Spark does not apply row-level security.
        return False
    entries = basis.snapshot.entries
    keys = {table_key_of(each) for each in select_types(basis.catalog, types)}
    row_count = sum(entries[key].row_count for key in keys & entries.keys())
    return row_count > EXPORT_INLINE_ROWS_MAX


def name_file(declared: NodeType | EdgeType, catalog: Catalog) -> str:
    """The name, without a suffix, by which a load recognizes the type of a file or folder."""
    # A load derives the type from the file name, which is case-insensitive for edge types.
    is_node = any(each.lower() == declared.name.lower() for each in catalog.nodes)
    is_edge = any(each.lower() == declared.name.lower() for each in catalog.edges)
    return table_key_of(declared) if is_node and is_edge else declared.name


def write_batches(
    path: Path,
    declared: NodeType | EdgeType,
    batches: Iterator[pa.RecordBatch],
    format: FileFormat,
) -> int:
    """Write rows of a type, with the columns that exist, as one durable file."""
    schema = table_schema(declared)
    if format is not FileFormat.NDJSON:
        batches = (complete(each, schema) for each in batches)
    row_count = write_rows(
        path, batches, schema=schema, format=format, encode=partial(encode_block, declared)
    )
    flush_path(path)
    return row_count
