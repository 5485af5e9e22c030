"""The order of values, computed naively, and columns of generated values of every type."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.storage.row_files import TIMESTAMP

Cell = None | bool | int | float | str | Sequence["Cell"]
Sortable = tuple[object, ...]

_TEXTS = st.one_of(
    st.text("ab\0é漢😀", max_size=4),
    st.text("ab", max_size=2).map(lambda text: "a rather long beginning " + text),
)
_CELLS: Mapping[pa.DataType, st.SearchStrategy[Cell]] = MappingProxyType(
    {
        pa.bool_(): st.booleans(),
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
        pa.int64(): st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 0])),
        pa.uint32(): st.integers(0, 2**32 - 1),
        pa.uint64(): st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**64 - 1])),
        pa.float32(): st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, math.nan])),
        pa.float64(): st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan])),
        pa.string(): _TEXTS,
        pa.date32(): st.integers(-(2**31), 2**31 - 1),
        TIMESTAMP: st.integers(-(2**63), 2**63 - 1),
    }
)
SCALAR_TYPES = tuple(_CELLS)


def sortable(value: Cell) -> Sortable:
    """What Python sorts, and finds equal, as the values should be."""
    match value:
        case None:
            return (0,)
        case float() if math.isnan(value):
            return (2,)
        case str():
            return (1, value.encode())
        case bool() | int() | float():
            return (1, value)
        case _:
            return (1, tuple(sortable(each) for each in value))


def cells(type: pa.DataType) -> st.SearchStrategy[Cell]:
    """Values of a type, null among them; dates as the numbers that they are stored as."""
    if pa.types.is_fixed_size_list(type):
        return st.none() | st.lists(cells(type.value_type), min_size=2, max_size=2)
    if pa.types.is_list(type):
        return st.none() | st.lists(cells(type.value_type), max_size=3)
    return st.none() | _CELLS[type]


def columns(type: pa.DataType) -> st.SearchStrategy[list[Cell]]:
    """Short columns in which values come again."""
    few = st.lists(cells(type), min_size=1, max_size=4)
    return few.flatmap(lambda some: st.lists(st.sampled_from(some), max_size=12))


def types() -> st.SearchStrategy[pa.DataType]:
    """The types of a property: scalars, lists of them, and a vector."""
    scalars = st.sampled_from(SCALAR_TYPES)
    vector = pa.list_(pa.float32(), 2)
    return st.one_of(scalars, scalars, scalars.map(pa.list_), st.just(vector))


def column(values: Sequence[Cell], type: pa.DataType) -> pa.Array:
    """An Arrow column of values; of a longer one, to show that offsets are minded."""
    stored = _stored_type(type)
    padded = pa.array([None, *values], stored)
    return padded.cast(type).slice(1)


def _stored_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type):
        return pa.int32()
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_list(type):
        return pa.list_(_stored_type(type.value_type))
    return type
