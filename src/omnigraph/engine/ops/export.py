"""Export: the rows of a snapshot as lines that a load reads back, a batch in memory at a time.

Edge types come before node types, types in the order of their names, rows in the order of their
ids: two exports of one state are equal. Never sees a later state than the snapshot's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.engine.ops.reading.type_names import get_stored_type
from omnigraph.engine.read.json_lines import encode_rows
from omnigraph.engine.state.snapshot import Entry, Snapshot, table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import NotFoundError
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.ports import RowReader
from omnigraph.storage.row_files import exchange_schema


def export(
    snapshot: Snapshot, *, catalog: Catalog, tables: RowReader, types: Sequence[str] | None
) -> Iterator[str]:
    """The lines of some types, or of all; a name that is both a node and an edge type is both.

    An unknown type is refused at once. A line that cannot be written, because a number is not
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
    schema = exchange_schema(table_schema(declared))
    batches = scan_type(declared, snapshot=snapshot, tables=tables)
    return pa.RecordBatchReader.from_batches(schema, (complete(each, schema) for each in batches))


def select_types(catalog: Catalog, types: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types that names mean, or all, in the order of an export.

    `NotFoundError` if a name means none.
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
    """The rows of a type by id, with those of its columns that the snapshot has."""
    entry = snapshot.entries.get(table_key_of(declared))
    # A type that was added after the snapshot has no table in it, and no rows.
    return iter(()) if entry is None else _scan(declared, entry, tables)


def stored_columns(declared: NodeType | EdgeType, entry: Entry, tables: RowReader) -> list[str]:
    """The columns of a type that its entry in a snapshot has."""
    # A property that was added after the version has no column in it.
    stored = set(tables.schema(entry.at).names)
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    return ["id", *ends, *(name for name in declared.properties if name in stored)]


def complete(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with all columns of a schema, null where they have none."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _in_order(types: Sequence[NodeType | EdgeType]) -> list[NodeType | EdgeType]:
    by_key = {table_key_of(each): each for each in types}
    return [by_key[key] for key in sorted(by_key)]


def _scan(
    declared: NodeType | EdgeType, entry: Entry, tables: RowReader
) -> Iterator[pa.RecordBatch]:
    return tables.scan_by_id(entry.at, columns=stored_columns(declared, entry, tables))
