"""Rows as the JSON of results, which people read: dates as text, numbers that JSON lacks as words.

Columns that the rows lack are null. The lines of an export are another encoding, in `json_lines`.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.values import BLOB_PREFIX
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.types import STRING, PropertyType, Scalar, Vector


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
        case Scalar.DATE:
            return _write_moments(column, "D")
        case Scalar.DATETIME:
            return _write_moments(column, "ms")
        case Scalar.BLOB:
            return _encode_blobs(column)
        case _:
            return _list_of(column)


def _encode_blobs(column: pa.Array) -> list[object]:
    return [
        None if each is None else f"{BLOB_PREFIX}{b64encode(each).decode()}"
        for each in column.to_pylist()
    ]


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
