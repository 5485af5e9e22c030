"""The order of rows: values as numbers that sort like them, and the rows of a window in order.

Null is smaller than every value and NaN greater than every number; the two zeros are equal; texts
compare by their UTF-8 bytes, false before true, lists element by element with a prefix first. Rows
that no key tells apart keep the order they came in. Knows nothing of queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.read.byte_order import rank_bytes

Keys = npt.NDArray[np.int64]

_BITS_MAX = 63
_SMALLEST = np.iinfo(np.int64).min
_SELECTED_PART_MAX = 8


def order_keys(values: pa.Array | pa.ChunkedArray, *, is_descending: bool) -> Keys:
    """Numbers that sort as the values do; equal numbers stand for equal values."""
    keys = _ascending(whole(values))
    # The complement turns the order around and, unlike the negative, never overflows.
    return ~keys if is_descending else keys


def sort_rows(keys: Sequence[Keys], *, count: int, start: int, stop: int | None) -> Keys:
    """The positions of the rows from `start` up to `stop`, in order; the first key counts most."""
    end = count if stop is None else min(stop, count)
    if start >= end:
        return np.zeros(0, np.int64)
    if not keys:
        return np.arange(start, end)
    if end > count // _SELECTED_PART_MAX:
        return _sort(keys, count)[start:end]
    chosen = np.sort(_select(keys, end))
    return chosen[_sort([each[chosen] for each in keys], end)[start:]]


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values in one piece; texts become bytes whose total length has no bound."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.large_binary())
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def is_list(type: pa.DataType) -> bool:
    """Whether values of a type are lists; a vector is one of fixed size."""
    return bool(pa.types.is_list(type) or pa.types.is_fixed_size_list(type))


def lists_as_bytes(lists: pa.Array, element_keys: Keys) -> pa.Array:
    """Lists as bytes that are equal, and sort, as the keys of their elements say."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    ends = np.cumsum(lengths, dtype=np.int64)
    # Big-endian and without a sign, numbers compare as their bytes do.
    contents = (element_keys.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8")
    offsets = np.concatenate([np.zeros(1, np.int64), ends]) * contents.itemsize
    present = np.packbits(lists.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    buffers = [pa.py_buffer(each) for each in (present, offsets, contents)]
    return pa.Array.from_buffers(pa.large_binary(), len(lists), buffers)


def without_signed_zeros(values: pa.Array) -> pa.Array:
    """The same values, with every -0.0 as 0.0: what a group of both zeros shows."""
    type = values.type
    if pa.types.is_floating(type):
        return pc.add(values, pa.scalar(0.0, type))
    if pa.types.is_fixed_size_list(type):
        lists = values.cast(pa.list_(type.value_field))
        return without_signed_zeros(lists).cast(type)
    if pa.types.is_list(type) and pa.types.is_floating(type.value_type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        elements = without_signed_zeros(values.flatten())
        return pa.ListArray.from_arrays(offsets, elements, type=type, mask=values.is_null())
    return values


def _ascending(values: pa.Array) -> Keys:
    type = values.type
    if pa.types.is_null(type):
        return np.zeros(len(values), np.int64)
    if pa.types.is_large_binary(type):
        return rank_bytes(values)
    if is_list(type):
        return rank_bytes(lists_as_bytes(values, _ascending(whole(values.flatten()))))
    if pa.types.is_floating(type):
        return _float_keys(values)
    return _integer_keys(values)


def _float_keys(values: pa.Array) -> Keys:
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
    numbers[np.isnan(numbers)] = np.nan  # one of the many patterns of bits
    bits = numbers.view(np.int64)
    # The bits of a negative number grow with its size.
    keys: Keys = bits ^ ((bits >> _BITS_MAX) & np.iinfo(np.int64).max)
    keys[values.is_null().to_numpy(zero_copy_only=False)] = _SMALLEST
    return keys


def _integer_keys(values: pa.Array) -> Keys:
    numbers = _as_integers(values)
    if values.null_count:
        numbers = numbers.fill_null(0)
    if pa.types.is_uint64(values.type):
        keys: Keys = (numbers.to_numpy() ^ np.uint64(1 << 63)).view(np.int64)
    else:
        keys = numbers.cast(pa.int64()).to_numpy()
    if not values.null_count:
        return keys
    present = values.is_valid().to_numpy(zero_copy_only=False)
    smallest = int(keys.min(initial=0, where=present))
    if smallest == _SMALLEST:
        # No number is left below it for null.
        _, keys = np.unique(keys, return_inverse=True)
        smallest = 0
    return np.where(present, keys, smallest - 1)


def _as_integers(values: pa.Array) -> pa.Array:
    """What Arrow casts to 64 bits: it knows no such cast for some types."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


def _select(keys: Sequence[Keys], wanted: int) -> Keys:
    """The positions that come first, as many as are wanted, in no particular order."""
    first, *others = keys
    last = np.partition(first, wanted - 1)[wanted - 1]
    before, tied = np.flatnonzero(first < last), np.flatnonzero(first == last)
    missing = wanted - len(before)
    if others and missing < len(tied):
        tied = tied[_select([each[tied] for each in others], missing)]
    return np.concatenate([before, tied[:missing]])


def _sort(keys: Sequence[Keys], count: int) -> Keys:
    ranges = [(int(each.min()), int(each.max())) for each in keys]
    widths = [(high - low).bit_length() for low, high in ranges]
    position_bits = count.bit_length()
    if sum(widths) + position_bits > _BITS_MAX:
        return np.lexsort(keys[::-1])
    # Sorting plain numbers is several times faster than finding out how to arrange them.
    packed = np.zeros(count, np.int64)
    for key, (low, _high), width in zip(keys, ranges, widths, strict=True):
        packed = (packed << width) | (key - low)
    packed = (packed << position_bits) | np.arange(count)
    packed.sort()
    return packed & ((1 << position_bits) - 1)
