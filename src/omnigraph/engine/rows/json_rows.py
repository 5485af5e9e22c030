"""Rows as JSON: the values of query results, and the NDJSON of exports.

Results show dates as text and non-finite numbers as words. NDJSON lines are lossless: a load
restores the same values, and a number that JSON cannot represent is an error. Lines are built
column by column as Arrow texts. Columns that the rows lack are null.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.rows.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType, NodeType, Property
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import FLOATS, STRING, PropertyType, Scalar, Vector


def encode_entity(
    declared: NodeType | EdgeType, row: pa.Table | pa.RecordBatch
) -> dict[str, object]:
    """A single row of a type as results show it, including the ids of an edge's ends."""
    types = dict.fromkeys(("id", *declared.ends), STRING)
    types |= {name: each.type for name, each in declared.properties.items()}
    shown: dict[str, object] = dict.fromkeys(types)
    for name in types.keys() & set(row.schema.names):
        (shown[name],) = encode_column(row[name], types[name])
    return shown


def encode_column(column: pa.Array | pa.ChunkedArray, type: PropertyType) -> list[object]:
    """The values of a result column as JSON values."""
    pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [cell for each in pieces for cell in _encode(each, type)]


def _encode(column: pa.Array, type: PropertyType) -> list[object]:
    if not (type.is_list or type.is_vector):
        return _encode_elements(column, type.element)
    elements = _encode_elements(column.flatten(), type.element)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    limits = pairwise([0, *np.cumsum(lengths).tolist()])
    present = column.is_valid().to_pylist()
    return [
        elements[start:end] if is_present else None
        for (start, end), is_present in zip(limits, present, strict=True)
    ]


def _encode_elements(column: pa.Array, element: Scalar | Vector) -> list[object]:
    match element:
        case Vector():
            return _replace_unfinite(column, lambda _number: None)
        case Scalar.F32 | Scalar.F64:
            return _replace_unfinite(column, _name_unfinite)
        case Scalar.DATE | Scalar.DATETIME:
            return _list_of(pc.if_else(column.is_valid(), _temporal_texts(column), None))
        case Scalar.BLOB:
            return [
                None if each is None else f"{BLOB_PREFIX}{b64encode(each).decode()}"
                for each in column.to_pylist()
            ]
        case _:
            return _list_of(column)


def _replace_unfinite(column: pa.Array, replace: Callable[[float], object]) -> list[object]:
    numbers = _list_of(column)
    unfinite = pc.indices_nonzero(pc.invert(pc.is_finite(column)))
    for position in unfinite.to_pylist():
        numbers[position] = replace(column[position].as_py())
    return numbers


def _name_unfinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _temporal_texts(column: pa.Array) -> pa.Array:
    """Dates, or UTC timestamps with milliseconds, as texts; the text of a null is arbitrary."""
    is_date = pa.types.is_date32(column.type)
    unit: Literal["D", "ms"] = "D" if is_date else "ms"
    numbers = column.cast(pa.int32() if is_date else pa.int64()).fill_null(0).to_numpy()
    # Not with Arrow, whose calendar does not cover all of its numbers.
    texts = np.datetime_as_string(
        numbers.astype(f"datetime64[{unit}]"), unit=unit, timezone="naive" if is_date else "UTC"
    )
    return pa.array(texts, TEXT)


def _list_of(column: pa.Array) -> list[object]:
    values: list[object] = column.to_pylist()
    return values


TEXT = pa.large_string()

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_RARE_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
# The backslash comes first, so that the backslashes of other escapes are not escaped again.
_ESCAPED_OFTEN = ("\\", '"', "\n", "\r", "\t")
_ESCAPED_SELDOM = tuple(each for each in map(chr, range(0x20)) if each not in _ESCAPED_OFTEN)


def join(*parts: str | pa.Array) -> pa.Array:
    """Concatenate texts row by row; a single text is repeated in every row."""
    texts = [pa.scalar(each, TEXT) if isinstance(each, str) else each.cast(TEXT) for each in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", TEXT))


def content(texts: pa.Array) -> memoryview:
    """The bytes of all texts, concatenated."""
    if not len(texts):
        return memoryview(b"")
    _, offsets, characters = texts.buffers()
    limits = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(characters)[limits[0] : limits[-1]]


def quote(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings."""
    return join('"', escape(texts.cast(TEXT)), '"')


def write_temporals(column: pa.Array) -> pa.Array:
    """Dates, or UTC timestamps with milliseconds, as quoted ISO texts."""
    quoted = join('"', _temporal_texts(column), '"')
    return pc.if_else(column.is_valid(), quoted, None) if column.null_count else quoted


def write_decimals(numbers: pa.Array) -> pa.Array:
    """The shortest decimals that parse as these numbers, each with a fraction.

    Numbers that are not finite become `null`.
    """
    if not len(numbers):
        return pa.array([], TEXT)
    # orjson needs a quarter of Arrow's time and writes the fraction that preserves -0.0 as a float.
    array = orjson.dumps(
        numbers.fill_null(0).to_numpy(zero_copy_only=False), option=orjson.OPT_SERIALIZE_NUMPY
    )
    written = np.frombuffer(array, np.uint8)[1:]
    ends = np.flatnonzero(written == ord(",")) + 1
    offsets = np.concatenate(([0], ends, [len(written)]))
    texts = pa.LargeStringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets), pa.py_buffer(written)
    )
    decimals = pc.ascii_rtrim(texts, characters=",]")
    return pc.if_else(numbers.is_valid(), decimals, None) if numbers.null_count else decimals


def write_lists(column: pa.Array, elements: pa.Array) -> pa.Array:
    """Lists as JSON; `elements` are their flattened elements, already written."""
    if elements.null_count:
        elements = pc.fill_null(elements, pa.scalar("null", elements.type))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, elements.cast(TEXT))
    written = join("[", pc.binary_join(lists, pa.scalar(",", TEXT)), "]")
    return pc.if_else(column.is_valid(), written, None) if column.null_count else written


def write_blobs(column: pa.Array) -> pa.Array:
    """Blobs in base64, with the prefix that distinguishes them from texts."""
    # One call per blob: blobs are large, and Arrow has no base64.
    return pa.array(
        [
            None if each is None else f'"{BLOB_PREFIX}{b64encode(each).decode()}"'
            for each in column.to_pylist()
        ],
        TEXT,
    )


def with_nulls(written: pa.Array) -> pa.Array:
    """The same texts with the word `null` in place of nulls."""
    return pc.fill_null(written, pa.scalar("null", written.type)) if written.null_count else written


def escape(texts: pa.Array) -> pa.Array:
    """Texts as the content of JSON strings."""
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    is_strange = pc.any(pc.match_substring_regex(texts, _RARE_CONTROL)).as_py()
    for character in (*_ESCAPED_OFTEN, *(_ESCAPED_SELDOM if is_strange else ())):
        texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts


def encode_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> Iterator[str]:
    """The rows of a type as lines that a load reads, without line ends.

    JSON cannot represent a number that is not finite: `InvalidValueError` names the row that has
    one.
    """
    lines: list[str] = _join_rows(declared, rows, end="").to_pylist()
    return iter(lines)


def encode_block(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> memoryview:
    """The rows of a type as lines with line ends, as the bytes of a file."""
    return content(_join_rows(declared, rows, end="\n"))


def _join_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch, *, end: str) -> pa.Array:
    parts: list[str | pa.Array] = []
    match declared:
        case NodeType():
            parts += [f'{{"type":"{declared.name}","data":{{"id":']
        case EdgeType():
            ends = [_write(rows[each], STRING) for each in declared.ends]
            parts += [
                f'{{"edge":"{declared.name}","from":',
                ends[0],
                ',"to":',
                ends[1],
                ',"data":{"id":',
            ]
    parts += [_write(rows["id"], STRING)]
    for each in declared.properties.values():
        if each.name in rows.schema.names:
            _require_finite(declared, each, rows)
            parts += [f',"{each.name}":', _write(rows[each.name], each.type)]
        else:
            parts += [f',"{each.name}":null']
    return join(*parts, "}}" + end)


def _require_finite(declared: NodeType | EdgeType, prop: Property, rows: pa.RecordBatch) -> None:
    type = prop.type
    if not (type.is_vector or type.element in FLOATS):
        return
    column = rows[prop.name]
    is_nested = type.is_list or type.is_vector
    numbers = column.flatten() if is_nested else column
    position = pc.index(pc.is_finite(numbers), False).as_py()
    if position == -1:
        return
    row = pc.list_parent_indices(column)[position].as_py() if is_nested else position
    value = numbers[position].as_py()
    raise InvalidValueError(
        subject=f"{declared.name} '{rows['id'][row].as_py()}', property '{prop.name}'",
        expected=str(type),
        value=value,
        problem=f"{value} cannot be written as JSON; set it to a number and export again, "
        "or export Parquet or Arrow files, which keep it",
    )


# Columns as texts, with the word `null` for nulls


def _write(column: pa.Array, type: PropertyType) -> pa.Array:
    if type.is_list or type.is_vector:
        return with_nulls(write_lists(column, _write_elements(column.flatten(), type.element)))
    return with_nulls(_write_elements(column, type.element))


def _write_elements(column: pa.Array, element: Scalar | Vector) -> pa.Array:
    match element:
        case Scalar.STRING:
            return quote(column)
        case Scalar.BLOB:
            return write_blobs(column)
        case Scalar.DATE | Scalar.DATETIME:
            return write_temporals(column)
        case Scalar.F64:
            return write_decimals(column)
        case Vector() | Scalar.F32:
            return _write_narrow(column)
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return column.cast(pa.string())


def _write_narrow(numbers: pa.Array) -> pa.Array:
    """The shortest decimals of 32-bit floats, such as 0.1."""
    texts = write_decimals(numbers)
    reread = texts.cast(pa.float64()).cast(pa.float32(), safe=False)
    # A load parses 64 bits and then rounds to 32; for a few decimals that gives a neighbouring
    # value.
    is_missed = pc.not_equal(reread, numbers)
    if pc.any(is_missed).as_py():
        texts = pc.if_else(is_missed, write_decimals(numbers.cast(pa.float64())), texts)
    return texts
