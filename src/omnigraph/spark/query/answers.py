"""Rows that Spark returns, in the form that results have everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.model.types import PropertyType
from omnigraph.storage.arrow_schema import arrow_type


def to_local(rows: pa.Table, types: Sequence[PropertyType]) -> pa.Table:
    """The rows with columns of the types that are stored, and the names they came with."""
    columns = [
        _convert(column, arrow_type(type)) for column, type in zip(rows.columns, types, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=rows.column_names)


def _convert(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_fixed_size_list(target):
        return _as_vectors(column.combine_chunks(), target)
    for type in _way_to(target):
        column = column.cast(type)
    return column


def _way_to(target: pa.DataType) -> Sequence[pa.DataType]:
    """What a column becomes on its way: Arrow cuts a moment that becomes a date to its day."""
    if target == pa.date64():
        return (pa.timestamp("ms", "UTC"), pa.int64(), target)
    if pa.types.is_list(target):
        field = target.value_field
        return [pa.list_(field.with_type(each)) for each in _way_to(target.value_type)]
    return (target,)


def _as_vectors(lists: pa.Array, target: pa.DataType) -> pa.Array:
    # Arrow's own cast reads past the end of a column that holds nothing but null.
    is_there = lists.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.zeros((len(lists), target.list_size), np.float32)
    numbers[is_there] = lists.flatten().to_numpy().reshape(-1, target.list_size)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(numbers.ravel()), type=target, mask=pa.array(~is_there)
    )
