"""Timestamps between rows and Lance: rows have `timestamp[ms, UTC]`, older tables have `date64`.

Earlier versions of OmniGraph stored a `DateTime` in a column of type `date64`. Such a table keeps
that type until it is converted; rows are translated on their way in and out. Both
types hold the same 64-bit count of milliseconds since 1970, so values are reinterpreted and never
computed. A table has one of the two types in all its `DateTime` columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from omnigraph.storage.row_files import TIMESTAMP

_DATE64 = pa.date64()


def has_date64(schema: pa.Schema) -> bool:
    """Whether a table stores its timestamps as `date64`."""
    return bool(date64_columns(schema))


def date64_columns(schema: pa.Schema) -> frozenset[str]:
    """The columns of `date64` values or of lists of them."""
    return frozenset(each.name for each in schema if _replace(each.type, _DATE64, TIMESTAMP))


def as_timestamps(schema: pa.Schema) -> pa.Schema:
    """The columns of a table, or of rows read from it, with timestamps."""
    return _convert(schema, _DATE64, TIMESTAMP)


def as_stored(schema: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """The columns of rows in the types of a table with a stored schema."""
    return _convert(schema, TIMESTAMP, _DATE64) if has_date64(stored) else schema


def read_rows(rows: pa.Table) -> pa.Table:
    """Rows read from a table, with timestamps."""
    given = rows.schema
    schema = as_timestamps(given)
    return rows if schema is given else _reinterpret(rows, schema)


def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same for batches."""
    for batch in batches:
        given = batch.schema
        schema = as_timestamps(given)
        yield batch if schema is given else _reinterpret_batch(batch, schema)


def store_rows(rows: pa.Table, stored: pa.Schema) -> pa.Table:
    """Rows in the types of a table with a stored schema."""
    given = rows.schema
    schema = as_stored(given, stored)
    return rows if schema is given else _reinterpret(rows, schema)


def _convert(schema: pa.Schema, old: pa.DataType, new: pa.DataType) -> pa.Schema:
    types = [_replace(each.type, old, new) for each in schema]
    if not any(types):
        return schema
    fields = [
        each if type is None else each.with_type(type)
        for each, type in zip(schema, types, strict=True)
    ]
    return pa.schema(fields, metadata=schema.metadata)


def _replace(type: pa.DataType, old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """The type with `old` replaced by `new`; None if it does not contain `old`."""
    if type == old:
        return new
    if pa.types.is_list(type) and type.value_type == old:
        return pa.list_(type.value_field.with_type(new))
    return None


def _reinterpret(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        column
        if column.type == field.type
        else pa.chunked_array([each.view(field.type) for each in column.chunks], field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _reinterpret_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.view(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)
