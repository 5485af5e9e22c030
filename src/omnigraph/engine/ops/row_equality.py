"""Whether two rows hold the same: typed equality of cells, column by column.

Null, an empty text and an empty list are three different things. A number that is none (NaN)
equals itself, and the two zeros of floats differ, because they print differently and must survive
a merge. Blobs are their bytes. Nothing here loops over rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.spaces import one_chunk

Mask = npt.NDArray[np.bool_]


def equal_rows(left: pa.Table, right: pa.Table) -> Mask:
    """Which rows are the same in every column; both have the same columns and as many rows."""
    found = np.ones(left.num_rows, bool)
    for name in left.schema.names:
        found &= equal_cells(left[name], right[name])
    return found


def equal_cells(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Which cells of two columns of one type are the same, row by row."""
    return ~_differ(one_chunk(left), one_chunk(right))


def _differ(one: pa.Array, other: pa.Array) -> Mask:
    is_null, is_other_null = _mask(one.is_null()), _mask(other.is_null())
    found: Mask = is_null != is_other_null
    both = np.flatnonzero(~is_null & ~is_other_null)
    if len(both):
        found[both] = _values_differ(one.take(both), other.take(both))
    return found


def _values_differ(one: pa.Array, other: pa.Array) -> Mask:
    type = one.type
    if pa.types.is_list(type) or pa.types.is_fixed_size_list(type):
        return _lists_differ(one, other)
    if pa.types.is_floating(type):
        return _floats_differ(one, other)
    return _mask(pc.not_equal(one, other))


def _lists_differ(one: pa.Array, other: pa.Array) -> Mask:
    lengths = pc.list_value_length(one)
    found = _mask(pc.not_equal(lengths, pc.list_value_length(other)))
    same_length = np.flatnonzero(~found)
    elements = one.take(same_length).flatten(), other.take(same_length).flatten()
    owners = np.repeat(same_length, lengths.to_numpy()[same_length])
    found[owners[_differ(*elements)]] = True
    return found


def _floats_differ(one: pa.Array, other: pa.Array) -> Mask:
    bits = pa.uint64() if one.type == pa.float64() else pa.uint32()
    both_unordered = pc.and_(pc.is_nan(one), pc.is_nan(other))
    return _mask(pc.and_not(pc.not_equal(one.view(bits), other.view(bits)), both_unordered))


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    # Arrow hands out memory that may not be written to.
    return found.copy()
