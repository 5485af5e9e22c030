"""Rows of a result as JSON text, put together column by column: no row is ever an object here.

Gives what the rows of a `Result` give, value by value. Small results go the plain way, which costs
less there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.json_text import (
    TEXT,
    content,
    join,
    quote,
    with_nulls,
    write_blobs,
    write_decimals,
    write_lists,
)


def encode_objects(rows: pa.Table) -> bytes:
    """The rows as JSON objects with commas between them; where columns share a name, the last
    of them counts."""
    return bytes(_encode(rows, between=",")[:-1])


def encode_lines(rows: pa.Table) -> bytes:
    """The same objects, each on a line of its own."""
    return bytes(_encode(rows, between="\n"))


def write_texts(rows: pa.Table) -> list[pa.Array]:
    """Each column as texts that people read: texts and dates as they are, anything else as JSON."""
    return [with_nulls(_write_text(column.combine_chunks())) for column in rows.columns]


def _encode(rows: pa.Table, *, between: str) -> memoryview:
    column_by_name = dict(zip(rows.schema.names, rows.columns, strict=True))
    if not rows.num_rows:
        return memoryview(b"")
    if not column_by_name:
        return memoryview(f"{{}}{between}".encode() * rows.num_rows)
    parts: list[str | pa.Array] = []
    opening = "{"
    for name, column in column_by_name.items():
        written = with_nulls(_write(column.combine_chunks()))
        parts += [f"{opening}{orjson.dumps(name).decode()}:", written]
        opening = ","
    return content(join(*parts, f"}}{between}"))


def _write_text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(TEXT)
    written = _write(column)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return written
    # What JSON has no literal for is quoted there: dates, blobs, numbers that are not finite.
    return pc.utf8_trim(written, characters='"')


def _write(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        # A vector: a number that is not finite is null in it, as orjson writes it anyway.
        return write_lists(column, _write_numbers(column.flatten()))
    if pa.types.is_list(kind):
        return write_lists(column, _write_elements(column.flatten()))
    return _write_elements(column)


def _write_elements(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quote(column)
    if pa.types.is_floating(kind):
        return _write_floats(column)
    if pa.types.is_date32(kind):
        return _write_moments(column, "D")
    if pa.types.is_date64(kind):
        return _write_moments(column, "ms")
    if pa.types.is_large_binary(kind):
        return write_blobs(column)
    return column.cast(TEXT)


def _write_floats(numbers: pa.Array) -> pa.Array:
    written = _write_numbers(numbers)
    is_finite = pc.fill_null(pc.is_finite(numbers), fill_value=True)
    if pc.all(is_finite).as_py():
        return written
    named = pc.if_else(
        pc.is_nan(numbers), '"NaN"', pc.if_else(pc.greater(numbers, 0), '"Infinity"', '"-Infinity"')
    )
    return pc.if_else(is_finite, written, named.cast(TEXT))


def _write_numbers(numbers: pa.Array) -> pa.Array:
    # As rows have them: numbers of 64 bits.
    return write_decimals(numbers.cast(pa.float64()))


def _write_moments(column: pa.Array, unit: Literal["D", "ms"]) -> pa.Array:
    width = pa.int32() if unit == "D" else pa.int64()
    moments = column.cast(width).fill_null(0).to_numpy().astype(f"datetime64[{unit}]")
    texts = np.datetime_as_string(moments, unit=unit, timezone="naive" if unit == "D" else "UTC")
    quoted = join('"', pa.array(texts, TEXT), '"')
    return pc.if_else(column.is_valid(), quoted, None) if column.null_count else quoted
