"""Blobs between rows and Lance: `large_binary` columns outside, Lance's blob columns on disk.

Small blobs lie in the data file, larger ones in files beside it; a scan that does not ask for the
column reads none of them, and a part of one is read alone. Every `large_binary` column of a table
is a blob.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from lance import LanceDataset, blob_field

from omnigraph.storage.ports import StoredBlob

_OFFSET_BITS = 32
_BYTES = pa.large_binary()
_BLOB = blob_field("blob").type


def to_stored_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as Lance is to keep them."""
    fields = [
        blob_field(field.name, nullable=field.nullable) if field.type == _BYTES else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def to_stored(rows: pa.Table) -> pa.Table:
    """The rows as Lance is to keep them."""
    schema = to_stored_schema(rows.schema)
    if schema.equals(rows.schema):
        return rows
    columns = [
        pa.chunked_array([_to_blobs(chunk) for chunk in column.chunks], field.type)
        if field.type == _BLOB and column.type == _BYTES
        else column
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def to_stored_stream(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """The same for a stream, a batch at a time."""
    schema = to_stored_schema(rows.schema)
    if schema.equals(rows.schema):
        return rows
    batches = (stored for batch in rows for stored in to_stored(pa.table(batch)).to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def as_bytes(schema: pa.Schema, blobs: Collection[str]) -> pa.Schema:
    """The columns of a table, or of what was read of it, as rows have them."""
    fields = [
        pa.field(field.name, _BYTES, nullable=field.nullable) if field.name in blobs else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def blobs_among(columns: Collection[str], schema: pa.Schema) -> frozenset[str]:
    """Which of the columns of a table hold blobs."""
    return frozenset(
        field.name for field in schema if field.type == _BLOB and field.name in columns
    )


def read_blob(
    table: LanceDataset, address: int, column: str, *, start: int, length: int | None
) -> StoredBlob:
    """A part of the blob at an address, and nothing else of it."""
    (blob,) = table.take_blobs(column, addresses=[address], buffer_size=0)
    if blob is None:
        return StoredBlob(b"", None, "")
    with blob:
        size = blob.size()
        end = size if length is None else min(size, start + length)
        content = blob.read_range(start, end - start) if start < end else b""
    return StoredBlob(content, size, _name_place(table, address, column))


def _name_place(table: LanceDataset, address: int, column: str) -> str:
    """The file, the row of it and the column: what is there never changes."""
    fragment = table.get_fragment(address >> _OFFSET_BITS)
    field = table.lance_schema.field(column)
    assert fragment is not None, "the row was found in it"
    assert field is not None, "the blob was read from it"
    # The column's number, because its name may change while the file stays.
    files = [each.path for each in fragment.data_files() if field.id() in each.fields]
    return f"{files[0]}:{address % 2**_OFFSET_BITS}:{field.id()}"


def _to_blobs(values: pa.Array) -> pa.Array:
    absent = [pa.nulls(len(values), field.type) for field in list(_BLOB.storage_type)[1:]]
    stored = pa.StructArray.from_arrays(
        [values, *absent], fields=list(_BLOB.storage_type), mask=values.is_null()
    )
    return pa.ExtensionArray.from_storage(_BLOB, stored)
