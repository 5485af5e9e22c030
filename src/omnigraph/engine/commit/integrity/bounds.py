"""`@range`: comparisons of a column with bounds that lose no digit on either side.

An integer column compares with the next integer inside, a float column with the next float inside,
so that neither values nor bounds beyond 53 bits are rounded. A NaN is outside of every range.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.commit.integrity.violations import show_value
from omnigraph.model.catalog import Range


def find_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    """Which values a range excludes; null for null."""
    if pa.types.is_floating(cells.type):
        return _find_floats_outside(pc.cast(cells, pa.float64()), bounds)
    return _find_integers_outside(cells, bounds)


def describe_excess(cell: pa.Scalar, bounds: Range) -> str:
    """How a value that a range excludes leaves it."""
    value = cell.as_py()
    if math.isnan(value):
        return "is NaN"
    # Python compares integers with floats exactly.
    if bounds.minimum is not None and value < bounds.minimum:
        return f"{show_value(cell)} < min {bounds.minimum}"
    return f"{show_value(cell)} > max {bounds.maximum}"


def _find_floats_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    outside = pc.is_nan(cells)
    if (low := bounds.minimum) is not None:
        nearest = float(low)
        least = nearest if nearest >= low else math.nextafter(nearest, math.inf)
        outside = pc.or_(outside, pc.less(cells, least))
    if (high := bounds.maximum) is not None:
        nearest = float(high)
        greatest = nearest if nearest <= high else math.nextafter(nearest, -math.inf)
        outside = pc.or_(outside, pc.greater(cells, greatest))
    return outside


def _find_integers_outside(cells: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    least, greatest = _limits(cells.type)
    low = least if bounds.minimum is None else math.ceil(bounds.minimum)
    high = greatest if bounds.maximum is None else math.floor(bounds.maximum)
    if low > greatest or high < least:
        return pc.is_valid(cells)
    # In the column's own type, because Arrow cannot compare the upper half of UInt64 with Int64.
    return pc.or_(
        pc.less(cells, pa.scalar(max(low, least), cells.type)),
        pc.greater(cells, pa.scalar(min(high, greatest), cells.type)),
    )


def _limits(type: pa.DataType) -> tuple[int, int]:
    if pa.types.is_signed_integer(type):
        return -(2 ** (type.bit_width - 1)), 2 ** (type.bit_width - 1) - 1
    return 0, 2**type.bit_width - 1
