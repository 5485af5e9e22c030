"""Rows of a result as JSON text, put together column by column: no row is ever an object here.

Gives what the rows of a `Result` give, value by value. Small results go the plain way, which costs
less there.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.values import BLOB_PREFIX

_TEXT = pa.large_string()

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_RARE_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
# The backslash first, so that those of other escapes are not escaped again.
_ESCAPED_OFTEN = ("\\", '"', "\n", "\r", "\t")
_ESCAPED_SELDOM = tuple(each for each in map(chr, range(0x20)) if each not in _ESCAPED_OFTEN)


def encode_objects(rows: pa.Table) -> bytes:
    """The rows as JSON objects with commas between them; where columns share a name, the last
    of them counts."""
    column_by_name = dict(zip(rows.schema.names, rows.columns, strict=True))
    if not rows.num_rows:
        return b""
    if not column_by_name:
        return b",".join([b"{}"] * rows.num_rows)
    parts: list[str | pa.Array] = []
    opening = "{"
    for name, column in column_by_name.items():
        parts += [f"{opening}{orjson.dumps(name).decode()}:", _write(column.combine_chunks())]
        opening = ","
    return _content(_join(*parts, "},"))[:-1]


def _content(texts: pa.Array) -> bytes:
    """All texts one behind the other."""
    _, offsets, content = texts.buffers()
    limits = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return bytes(memoryview(content)[limits[0] : limits[-1]])


def _join(*parts: str | pa.Array) -> pa.Array:
    texts = [
        pa.scalar(each, _TEXT) if isinstance(each, str) else each.cast(_TEXT) for each in parts
    ]
    return pc.binary_join_element_wise(*texts, pa.scalar("", _TEXT))


# Columns as texts, null as the word


def _write(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        # A vector: a number that is not finite is null in it, as orjson writes it anyway.
        written = _write_lists(column, _write_numbers(column.flatten()))
    elif pa.types.is_list(kind):
        written = _write_lists(column, _write_elements(column.flatten()))
    else:
        written = _write_elements(column)
    return pc.fill_null(written, pa.scalar("null", written.type)) if column.null_count else written


def _write_lists(column: pa.Array, elements: pa.Array) -> pa.Array:
    if elements.null_count:
        elements = pc.fill_null(elements, pa.scalar("null", elements.type))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, elements.cast(_TEXT))
    written = _join("[", pc.binary_join(lists, pa.scalar(",", _TEXT)), "]")
    return pc.if_else(column.is_valid(), written, None) if column.null_count else written


def _write_elements(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _join('"', _escape(column.cast(_TEXT)), '"')
    if pa.types.is_floating(kind):
        return _write_floats(column)
    if pa.types.is_date32(kind):
        return _write_moments(column, "D")
    if pa.types.is_date64(kind):
        return _write_moments(column, "ms")
    if pa.types.is_large_binary(kind):
        return _write_blobs(column)
    return column.cast(_TEXT)


def _escape(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    is_strange = pc.any(pc.match_substring_regex(texts, _RARE_CONTROL)).as_py()
    for character in (*_ESCAPED_OFTEN, *(_ESCAPED_SELDOM if is_strange else ())):
        texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts


def _write_floats(numbers: pa.Array) -> pa.Array:
    written = _write_numbers(numbers)
    is_finite = pc.fill_null(pc.is_finite(numbers), fill_value=True)
    if pc.all(is_finite).as_py():
        return written
    named = pc.if_else(
        pc.is_nan(numbers), '"NaN"', pc.if_else(pc.greater(numbers, 0), '"Infinity"', '"-Infinity"')
    )
    return pc.if_else(is_finite, written, named.cast(_TEXT))


def _write_numbers(numbers: pa.Array) -> pa.Array:
    """The shortest decimals of 64 bits, as rows have them; `null` for what is not finite."""
    if not len(numbers):
        return pa.array([], _TEXT)
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    written = np.frombuffer(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY), np.uint8)[1:]
    ends = np.flatnonzero(written == ord(",")) + 1
    offsets = np.concatenate(([0], ends, [len(written)]))
    texts = pa.LargeStringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets), pa.py_buffer(written)
    )
    decimals = pc.ascii_rtrim(texts, characters=",]")
    return pc.if_else(numbers.is_valid(), decimals, None) if numbers.null_count else decimals


def _write_moments(column: pa.Array, unit: Literal["D", "ms"]) -> pa.Array:
    width = pa.int32() if unit == "D" else pa.int64()
    moments = column.cast(width).fill_null(0).to_numpy().astype(f"datetime64[{unit}]")
    texts = np.datetime_as_string(moments, unit=unit, timezone="naive" if unit == "D" else "UTC")
    quoted = _join('"', pa.array(texts, _TEXT), '"')
    return pc.if_else(column.is_valid(), quoted, None) if column.null_count else quoted


def _write_blobs(column: pa.Array) -> pa.Array:
    # A call a blob: each is large, and Arrow has no base64.
    return pa.array(
        [
            None if each is None else f'"{BLOB_PREFIX}{b64encode(each).decode()}"'
            for each in column.to_pylist()
        ],
        _TEXT,
    )
