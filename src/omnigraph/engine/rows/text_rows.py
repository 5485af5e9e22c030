"""Result rows as JSON, CSV and TSV text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.rows.json_rows import (
    TEXT,
    content,
    join,
    quote,
    with_nulls,
    write_blobs,
    write_decimals,
    write_lists,
    write_temporals,
)


def encode_objects(rows: pa.Table) -> bytes:
    """The rows as JSON objects, separated by commas.

    If columns share a name, the last of them is used.
    """
    return bytes(_encode(rows, between=",")[:-1])


def encode_lines(rows: pa.Table) -> bytes:
    """The rows as JSON objects, one per line."""
    return bytes(_encode(rows, between="\n"))


def write_texts(rows: pa.Table) -> list[pa.Array]:
    """Each column as readable texts: texts and dates unchanged, all other values as JSON."""
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
    if _is_text(kind):
        return column.cast(TEXT)
    written = _write(column)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return written
    # JSON quotes the values that it has no literal for: dates, blobs, numbers that are not finite.
    return pc.utf8_trim(written, characters='"')


def _write(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        # In a vector, a number that is not finite is null, as orjson writes it anyway.
        return write_lists(column, _write_numbers(column.flatten()))
    if pa.types.is_list(kind):
        return write_lists(column, _write_elements(column.flatten()))
    return _write_elements(column)


def _write_elements(column: pa.Array) -> pa.Array:
    kind = column.type
    if _is_text(kind):
        return quote(column)
    if pa.types.is_floating(kind):
        return _write_floats(column)
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return write_temporals(column)
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
    # Rows have 64-bit numbers.
    return write_decimals(numbers.cast(pa.float64()))


# A number may start with a sign; any other text that starts like this may be a formula.
_MAY_BE_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class Delimiter(StrEnum):
    """The separator between two fields."""

    COMMA = ","
    TAB = "\t"


def encode_csv_names(names: Sequence[str], delimiter: Delimiter) -> bytes:
    """The header line with the names of the columns."""
    quoted = _quote(pa.array(names, TEXT), delimiter).to_pylist()
    return delimiter.join(quoted).encode() + b"\n"


def encode_csv(rows: pa.Table, delimiter: Delimiter) -> bytes:
    """The rows as delimited lines, without a header."""
    parts: list[str | pa.Array] = []
    for column, texts in zip(rows.columns, write_texts(rows), strict=True):
        shown = _disarm(texts) if _is_text(column.type) else texts
        parts += [delimiter.value, _quote(shown, delimiter)]
    return bytes(content(join(*parts[1:], "\n"))) if parts and rows.num_rows else b""


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _disarm(texts: pa.Array) -> pa.Array:
    """The texts; those that a spreadsheet might run as a formula get an apostrophe in front."""
    may_run = pc.match_substring_regex(texts, _MAY_BE_FORMULA)
    if not pc.any(may_run).as_py():
        return texts
    is_number = pc.match_substring_regex(texts, _NUMBER)
    return pc.if_else(pc.and_not(may_run, is_number), join("'", texts), texts)


def _quote(texts: pa.Array, delimiter: Delimiter) -> pa.Array:
    is_special = pc.match_substring_regex(texts, f'[{re.escape(delimiter)}"\\r\\n]')
    if not pc.any(is_special).as_py():
        return texts
    return pc.if_else(is_special, join('"', pc.replace_substring(texts, '"', '""'), '"'), texts)
