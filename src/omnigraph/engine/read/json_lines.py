"""Rows as lines of JSON that a load reads back, every value so that it becomes the same bits.

Lines are put together column by column, as Arrow texts: no row is ever an object here. Columns that
the rows lack are null.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.json_text import (
    content,
    join,
    quote,
    with_nulls,
    write_blobs,
    write_decimals,
    write_lists,
)
from omnigraph.model.catalog import EdgeType, NodeType, Property
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import FLOATS, STRING, PropertyType, Scalar, Vector


def encode_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> Iterator[str]:
    """The rows of a type as lines that a load reads, without line ends.

    A number that is not finite has no place in JSON: `InvalidValueError` names the row it is in.
    """
    lines: list[str] = _join_rows(declared, rows, end="").to_pylist()
    return iter(lines)


def encode_block(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> memoryview:
    """The same lines with their ends, as the bytes of a file."""
    return content(_join_rows(declared, rows, end="\n"))


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


# Columns as texts, null as the word


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
        case Scalar.DATE:
            return column.cast(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            return column.cast(pa.int64()).cast(pa.string())
        case Scalar.F64:
            return write_decimals(column)
        case Vector() | Scalar.F32:
            return _write_narrow(column)
        case Scalar.BOOL | Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return column.cast(pa.string())


def _write_narrow(numbers: pa.Array) -> pa.Array:
    """The shortest decimals of 32-bit floats: 0.1, for one."""
    texts = write_decimals(numbers)
    reread = texts.cast(pa.float64()).cast(pa.float32(), safe=False)
    # A load reads 64 bits and then rounds to 32; a few decimals end up next to where they should.
    is_missed = pc.not_equal(reread, numbers)
    if pc.any(is_missed).as_py():
        texts = pc.if_else(is_missed, write_decimals(numbers.cast(pa.float64())), texts)
    return texts
