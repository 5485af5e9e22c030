"""Rows as lines of JSON that a load reads back, every value so that it becomes the same bits.

Lines are put together column by column, as Arrow texts: no row is ever an object here. Columns that
the rows lack are null.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType, NodeType, Property
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import FLOATS, STRING, PropertyType, Scalar, Vector

_TEXT = pa.large_string()

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_RARE_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
# The backslash first, so that those of other escapes are not escaped again.
_ESCAPED_OFTEN = ("\\", '"', "\n", "\r", "\t")
_ESCAPED_SELDOM = tuple(each for each in map(chr, range(0x20)) if each not in _ESCAPED_OFTEN)


def encode_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> Iterator[str]:
    """The rows of a type as lines that a load reads, without line ends.

    A number that is not finite has no place in JSON: `InvalidValueError` names the row it is in.
    """
    lines: list[str] = _join_rows(declared, rows, end="").to_pylist()
    return iter(lines)


def encode_block(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> memoryview:
    """The same lines with their ends, as the bytes of a file."""
    lines = _join_rows(declared, rows, end="\n")
    if not len(lines):
        return memoryview(b"")
    _, offsets, content = lines.buffers()
    limits = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(content)[limits[0] : limits[-1]]


def _join_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch, *, end: str) -> pa.Array:
    parts: list[str | pa.Array] = []
    match declared:
        case NodeType():
            parts += [f'{{"type":"{declared.name}","data":{{"id":']
        case EdgeType():
            ends = [_write(rows[each], STRING) for each in ("src", "dst")]
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
    return _join(*parts, "}}" + end)


def _join(*parts: str | pa.Array) -> pa.Array:
    # Large texts: a few rows of the largest texts, escaped, exceed what the others can count.
    texts = [
        pa.scalar(each, _TEXT) if isinstance(each, str) else each.cast(_TEXT) for each in parts
    ]
    return pc.binary_join_element_wise(*texts, pa.scalar("", _TEXT))


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


# Columns as texts, null as the word


def _write(column: pa.Array, type: PropertyType) -> pa.Array:
    if type.is_list or type.is_vector:
        written = _write_lists(column, type)
    else:
        written = _write_elements(column, type.element)
    return pc.fill_null(written, pa.scalar("null", written.type)) if column.null_count else written


def _write_lists(column: pa.Array, type: PropertyType) -> pa.Array:
    elements = _write_elements(column.flatten(), type.element).cast(_TEXT)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, elements), pa.scalar(",", _TEXT))
    written = _join("[", joined, "]")
    return pc.if_else(column.is_valid(), written, None) if column.null_count else written


def _write_elements(column: pa.Array, element: Scalar | Vector) -> pa.Array:
    match element:
        case Scalar.STRING:
            return _join('"', _escape(column.cast(_TEXT)), '"')
        case Scalar.BLOB:
            return _write_blobs(column)
        case Scalar.DATE:
            return column.cast(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            return column.cast(pa.int64()).cast(pa.string())
        case Scalar.F64:
            return _write_floats(column)
        case Vector() | Scalar.F32:
            return _write_narrow(column)
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return column.cast(pa.string())


def _escape(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if not pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE)).as_py():
        return texts
    is_strange = pc.any(pc.match_substring_regex(texts, _RARE_CONTROL)).as_py()
    for character in (*_ESCAPED_OFTEN, *(_ESCAPED_SELDOM if is_strange else ())):
        texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts


def _write_blobs(column: pa.Array) -> pa.Array:
    # A call a blob: each is large, and Arrow has no base64.
    return pa.array(
        [
            None if each is None else f'"{BLOB_PREFIX}{b64encode(each).decode()}"'
            for each in column.to_pylist()
        ],
        _TEXT,
    )


def _write_floats(numbers: pa.Array) -> pa.Array:
    """The shortest decimals that are read as these finite numbers, each with a fraction."""
    if not len(numbers):
        return pa.array([], _TEXT)
    # In a quarter of the time that Arrow takes, and with the fraction that keeps -0.0 a float.
    array = orjson.dumps(numbers.fill_null(0).to_numpy(), option=orjson.OPT_SERIALIZE_NUMPY)
    written = np.frombuffer(array, np.uint8)[1:]
    ends = np.flatnonzero(written == ord(",")) + 1
    offsets = np.concatenate(([0], ends, [len(written)]))
    texts = pa.LargeStringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets), pa.py_buffer(written)
    )
    decimals = pc.ascii_rtrim(texts, characters=",]")
    return pc.if_else(numbers.is_valid(), decimals, None) if numbers.null_count else decimals


def _write_narrow(numbers: pa.Array) -> pa.Array:
    """The same for 32-bit floats: 0.1, for one."""
    texts = _write_floats(numbers)
    reread = texts.cast(pa.float64()).cast(pa.float32(), safe=False)
    # A load reads 64 bits and then rounds to 32; a few decimals end up next to where they should.
    is_missed = pc.not_equal(reread, numbers)
    if pc.any(is_missed).as_py():
        texts = pc.if_else(is_missed, _write_floats(numbers.cast(pa.float64())), texts)
    return texts
