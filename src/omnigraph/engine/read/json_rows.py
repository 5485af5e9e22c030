"""Rows as JSON, in the two encodings there are: lines that a load reads back, and results.

Lines write every value so that loading it gives the same bits; results write what people read:
dates as text, numbers that JSON lacks as words. Columns that the rows lack are null.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType, NodeType, Property
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.types import FLOATS, STRING, PropertyType, Scalar, Vector

Encode = Callable[[pa.Array, Scalar | Vector], list[object]]
"""Makes JSON values of a flat column of some element type."""


def encode_rows(declared: NodeType | EdgeType, rows: pa.RecordBatch) -> Iterator[str]:
    """The rows of a type as lines that a load reads, without line ends.

    A number that is not finite has no place in JSON: `InvalidValueError` names the row it is in.
    """
    names = ["id", *declared.properties]
    columns = [_list_of(rows["id"])]
    for each in declared.properties.values():
        _require_finite(declared, each, rows)
        columns.append(_encode_column(rows, each, _encode_for_loading))
    contents = (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))
    match declared:
        case NodeType(name=name):
            for content in contents:
                yield orjson.dumps({"type": name, "data": content}).decode()
        case EdgeType(name=name):
            ends = zip(_list_of(rows["src"]), _list_of(rows["dst"]), contents, strict=True)
            for source, target, content in ends:
                line = {"edge": name, "from": source, "to": target, "data": content}
                yield orjson.dumps(line).decode()


def entity_as_json(
    declared: NodeType | EdgeType, row: pa.Table | pa.RecordBatch
) -> dict[str, object]:
    """A single row of a type as results show it, with the ids of an edge's ends."""
    ends = ("src", "dst") if isinstance(declared, EdgeType) else ()
    types = dict.fromkeys(("id", *ends), STRING)
    types |= {name: each.type for name, each in declared.properties.items()}
    shown: dict[str, object] = dict.fromkeys(types)
    for name in types.keys() & set(row.schema.names):
        (shown[name],) = column_as_json(row[name], types[name])
    return shown


def column_as_json(column: pa.Array | pa.ChunkedArray, type: PropertyType) -> list[object]:
    """The values of a column of a result."""
    pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [cell for each in pieces for cell in _encode(each, type, _encode_for_reading)]


def _encode_column(rows: pa.RecordBatch, prop: Property, encode: Encode) -> list[object]:
    if prop.name not in rows.schema.names:
        return [None] * len(rows)
    return _encode(rows[prop.name], prop.type, encode)


def _encode(column: pa.Array, type: PropertyType, encode: Encode) -> list[object]:
    if not (type.is_list or type.is_vector):
        return encode(column, type.element)
    elements = encode(column.flatten(), type.element)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    limits = pairwise([0, *np.cumsum(lengths).tolist()])
    present = column.is_valid().to_pylist()
    return [
        elements[start:end] if is_present else None
        for (start, end), is_present in zip(limits, present, strict=True)
    ]


# Lines


def _require_finite(declared: NodeType | EdgeType, prop: Property, rows: pa.RecordBatch) -> None:
    type = prop.type
    if not (type.is_vector or type.element in FLOATS) or prop.name not in rows.schema.names:
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
        problem=f"{value} cannot be written as JSON; set it to a number and export again",
    )


def _encode_for_loading(column: pa.Array, element: Scalar | Vector) -> list[object]:
    match element:
        case Vector() | Scalar.F32:
            return _shorten(column)
        case Scalar.DATE:
            return _list_of(column.cast(pa.int32()))
        case Scalar.DATETIME:
            return _list_of(column.cast(pa.int64()))
        case Scalar.BLOB:
            return _encode_blobs(column)
        case _:
            return _list_of(column)


def _shorten(column: pa.Array) -> list[object]:
    """Finite 32-bit floats as the shortest decimals that a load rounds to them: 0.1, for one."""
    numbers: npt.NDArray[np.float32] = column.to_numpy(zero_copy_only=False)
    # Null becomes NaN on the way to numpy, and null again in orjson.
    written = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)
    decimals: list[object] = orjson.loads(written)
    reread = np.array(decimals, np.float64).astype(np.float32)
    # A load reads 64 bits and then rounds to 32; a few decimals end up next to where they should.
    for missed in np.flatnonzero((reread != numbers) & ~np.isnan(numbers)).tolist():
        decimals[missed] = float(numbers[missed])
    return decimals


def _encode_blobs(column: pa.Array) -> list[object]:
    return [
        None if each is None else f"{BLOB_PREFIX}{b64encode(each).decode()}"
        for each in column.to_pylist()
    ]


# Results


def _encode_for_reading(column: pa.Array, element: Scalar | Vector) -> list[object]:
    match element:
        case Vector():
            return _replace_unfinite(column, lambda _number: None)
        case Scalar.F32 | Scalar.F64:
            return _replace_unfinite(column, _name_unfinite)
        case Scalar.DATE:
            return _write_moments(column, "D")
        case Scalar.DATETIME:
            return _write_moments(column, "ms")
        case Scalar.BLOB:
            return _encode_blobs(column)
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


def _write_moments(column: pa.Array, unit: Literal["D", "ms"]) -> list[object]:
    """Dates, or UTC timestamps with three digits after the second, in any year that is stored."""
    width = pa.int32() if unit == "D" else pa.int64()
    moments = column.cast(width).fill_null(0).to_numpy().astype(f"datetime64[{unit}]")
    texts = np.datetime_as_string(moments, unit=unit, timezone="naive" if unit == "D" else "UTC")
    return _list_of(pc.if_else(column.is_valid(), pa.array(texts, pa.string()), None))


def _list_of(column: pa.Array) -> list[object]:
    values: list[object] = column.to_pylist()
    return values
