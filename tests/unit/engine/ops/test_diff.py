"""Typed equality of cells: every kind of column, against the equality of Python values."""

import math
import struct

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from omnigraph.engine.ops.diff import equal_cells, equal_rows
from omnigraph.storage.row_files import TIMESTAMP

FLOATS = st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -math.nan])
TEXTS = st.sampled_from(["", "a", "b", "a\x1f"])

COLUMNS: list[tuple[pa.DataType, SearchStrategy[object]]] = [
    (pa.string(), TEXTS),
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-1, 1)),
    (pa.uint64(), st.sampled_from([0, 2**64 - 1])),
    (pa.date32(), st.integers(0, 2)),
    (TIMESTAMP, st.integers(0, 2)),
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS),
    (pa.large_binary(), st.sampled_from([b"", b"\x00", b"\x00\x00"])),
    (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=2)),
    (pa.list_(pa.float64()), st.lists(st.none() | FLOATS, max_size=2)),
    (pa.list_(pa.float32(), 2), st.lists(FLOATS, min_size=2, max_size=2)),
]


@st.composite
def column_pairs(draw: st.DrawFn) -> tuple[pa.ChunkedArray, pa.ChunkedArray, list[bool]]:
    """Two columns of one type, in chunks and slices, and which of their cells are the same."""
    type, cells = draw(st.sampled_from(COLUMNS))
    pairs = draw(st.lists(st.tuples(st.none() | cells, st.none() | cells), max_size=8))
    columns = []
    for side in (0, 1):
        cut = draw(st.integers(0, len(pairs)))
        values = [pair[side] for pair in pairs]
        # A slice of a longer array has an offset, which is easily forgotten.
        chunks = [pa.array([None, *part], type).slice(1) for part in (values[:cut], values[cut:])]
        columns.append(pa.chunked_array(chunks, type))
    return columns[0], columns[1], [canon(one) == canon(other) for one, other in pairs]


def canon(value: object) -> object:
    """The value so that Python's equality is ours."""
    if isinstance(value, list):
        return [canon(each) for each in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


@given(column_pairs())
def test_cells_are_the_same_if_their_values_are(
    pair: tuple[pa.ChunkedArray, pa.ChunkedArray, list[bool]],
) -> None:
    left, right, expected = pair

    assert equal_cells(left, right).tolist() == expected
    assert equal_cells(right, left).tolist() == expected


def test_rows_are_the_same_if_all_their_cells_are() -> None:
    left = pa.table({"id": ["a", "b", "c"], "age": [1, None, 3]})
    right = pa.table({"id": ["a", "b", "x"], "age": [1, 2, 3]})

    assert equal_rows(left, right).tolist() == [True, False, False]


def test_of_no_rows_none_differ() -> None:
    no_rows = pa.table(
        {"id": pa.array([], pa.string()), "at": pa.array([], pa.list_(pa.float32()))}
    )

    assert equal_rows(no_rows, no_rows).dtype == np.bool_
    assert len(equal_rows(no_rows, no_rows)) == 0
