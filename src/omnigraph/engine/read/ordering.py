"""Sort keys: values as 64-bit integers that sort as the values do, and the sorting of rows.

Null sorts before every value and NaN after every number; the two float zeros are equal. Texts
compare by their UTF-8 bytes, and lists element by element. Sorting is stable. The functions are
pure and know nothing of queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

_BITS_MAX = 63
_WORD_BYTES = 8
_COUNT_BITS = 3
_SAMPLE_ROWS = 50_000
_ROUNDS_MAX = 32
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number near 2 ** 64 divided by the golden ratio, which spreads neighbouring numbers."""
_HASH_SHIFT = 29


def rank_bytes(texts: pa.LargeBinaryArray) -> Numbers:
    """An integer for every text that sorts as the text does; the integers may have gaps."""
    sample = texts.slice(0, _SAMPLE_ROWS)
    if 4 * len(pc.unique(sample)) > len(sample):
        return _rank(texts)
    encoded = texts.dictionary_encode()
    # Nulls index the last rank.
    ranks = np.append(_rank(encoded.dictionary), -1)
    found: Numbers = ranks[encoded.indices.fill_null(len(ranks) - 1).to_numpy()]
    return found


def _rank(texts: pa.LargeBinaryArray) -> Numbers:
    """The rank of a text is the number of texts before it."""
    ranks = np.where(texts.is_valid().to_numpy(zero_copy_only=False), 0, -1)
    tied = np.flatnonzero(ranks == 0)
    words = _Words(texts)
    depth = _shared_length(texts)
    for _round in range(_ROUNDS_MAX):
        width = _width(ranks, tied)
        if not len(tied) or width < 1:
            break
        tied = _refine(ranks, tied, words, depth, width)
        depth += width
    if len(tied):
        # The remaining texts share long prefixes and are compared whole, which is faster.
        _refine_whole(ranks, tied, texts)
    return ranks


def _shared_length(texts: pa.LargeBinaryArray) -> int:
    """The length of the common prefix of all texts: that of the smallest and the largest."""
    limits = pc.min_max(texts)
    first, last = (np.frombuffer(limits[each].as_py() or b"", np.uint8) for each in ("min", "max"))
    size = min(len(first), len(last))
    differ = np.flatnonzero(first[:size] != last[:size])
    return int(differ[0]) if len(differ) else size


def _width(ranks: Numbers, tied: Numbers) -> int:
    """The number of bytes that fit into an integer beside a group, a length and a position."""
    group_bits = int(np.count_nonzero(_starts(ranks[tied]))).bit_length()
    return min(
        _WORD_BYTES - 1,
        (_BITS_MAX - group_bits - _COUNT_BITS - len(tied).bit_length()) // 8,
    )


def _refine(ranks: Numbers, tied: Numbers, words: _Words, depth: int, width: int) -> Numbers:
    """Refine the ranks of tied texts by `width` more bytes; returns those still tied, in order."""
    are_starts = _starts(ranks[tied])
    groups = np.cumsum(are_starts)
    content, held = words.read(tied, depth, width)
    # Missing bytes are padded with zeros; if the padded bytes are equal, the shorter text is first.
    packed = (((groups << (8 * width)) | content) << _COUNT_BITS) | held
    position_bits = len(tied).bit_length()
    packed = (packed << position_bits) | np.arange(len(tied))
    packed.sort()
    tied = tied[packed & ((1 << position_bits) - 1)]
    packed >>= position_bits
    are_alone = _assign(ranks, tied, are_starts, _starts(packed))
    are_at_end = (packed & ((1 << _COUNT_BITS) - 1)) < width
    return tied[~(are_alone | are_at_end)]


def _refine_whole(ranks: Numbers, tied: Numbers, texts: pa.LargeBinaryArray) -> None:
    # Sorting whole texts preserves the order of the groups, so group boundaries do not move.
    are_starts = _starts(ranks[tied])
    chosen = texts.take(pa.array(tied))
    order = pc.array_sort_indices(chosen)
    chosen = chosen.take(order)
    differ = pc.not_equal(chosen.slice(1), chosen.slice(0, len(chosen) - 1))
    are_new = np.append(True, differ.to_numpy(zero_copy_only=False))
    _assign(ranks, tied[order.to_numpy()], are_starts, are_new)


def _assign(ranks: Numbers, tied: Numbers, were_starts: Marks, are_starts: Marks) -> Marks:
    """Rank texts by their new, smaller groups, and mark the texts that are alone in a group."""
    ranks[tied] += _start_positions(are_starts) - _start_positions(were_starts)
    are_alone: Marks = are_starts & np.append(are_starts[1:], True)
    return are_alone


def _starts(numbers: Numbers) -> Marks:
    """Mark the first number of each run of equal numbers."""
    return np.append(np.ones(min(len(numbers), 1), np.bool_), numbers[1:] != numbers[:-1])


def _start_positions(are_starts: Marks) -> Numbers:
    starts = np.flatnonzero(are_starts)
    return np.repeat(starts, np.diff(np.append(starts, len(are_starts))))


class _Words:
    """The bytes of texts as integers that compare as the bytes do."""

    def __init__(self, texts: pa.LargeBinaryArray) -> None:
        _validity, offsets, content = texts.buffers()
        first, last = texts.offset, texts.offset + len(texts)
        limits = np.frombuffer(offsets, np.int64)[first : last + 1] if offsets else np.zeros(1, int)
        self._starts, self.lengths = limits[:-1], np.diff(limits)
        held = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
        if len(held) < _WORD_BYTES:
            held = np.append(held, np.zeros(_WORD_BYTES, np.uint8))
        # A word starts at every byte.
        self._words = np.ndarray(len(held) - _WORD_BYTES + 1, ">u8", held, strides=(1,))

    def read(self, rows: Numbers, depth: int, width: int) -> tuple[Numbers, Numbers]:
        """Up to `width` bytes of some texts from a depth on, zero-padded, and their number."""
        wanted = self._starts[rows] + depth
        found = np.minimum(wanted, len(self._words) - 1)
        words = self._words[found].astype(np.uint64)
        # Near the end of the buffer a word starts before the wanted byte and is shifted.
        late = np.minimum((wanted - found) * 8, _BITS_MAX).astype(np.uint64)
        held = np.clip(self.lengths[rows] - depth, 0, width)
        masks = np.array(
            [(1 << 64) - (1 << (64 - 8 * each)) for each in range(_WORD_BYTES)], np.uint64
        )
        words = ((words << late) & masks[held]) >> np.uint64(64 - 8 * width)
        return words.astype(np.int64), held


def hash_texts(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for every text that is the same for equal texts, and rarely for others."""
    words = _Words(texts.cast(pa.large_binary()))
    width = _WORD_BYTES - 1
    hashes = words.lengths.astype(np.uint64)
    rows, depth = np.arange(len(texts)), 0
    while len(rows := rows[words.lengths[rows] > depth]):
        content, _held = words.read(rows, depth, width)
        mixed = (hashes[rows] ^ content.view(np.uint64)) * _HASH_FACTOR
        hashes[rows] = mixed ^ (mixed >> np.uint64(_HASH_SHIFT))
        depth += width
    return hashes


def hash_text(text: str) -> int:
    """The number that `hash_texts` has for a text, in a fraction of its time for few texts."""
    content = text.encode()
    width = _WORD_BYTES - 1
    hashed = len(content)
    for depth in range(0, len(content), width):
        word = int.from_bytes(content[depth : depth + width].ljust(width, b"\0"), "big")
        mixed = ((hashed ^ word) * int(_HASH_FACTOR)) % 2**64
        hashed = mixed ^ (mixed >> int(_HASH_SHIFT))
    return hashed


Keys = npt.NDArray[np.int64]

_SMALLEST = np.iinfo(np.int64).min
_SELECTED_PART_MAX = 8


def order_keys(values: pa.Array | pa.ChunkedArray, *, is_descending: bool) -> Keys:
    """Integers that sort as the values do; equal integers represent equal values."""
    keys = _ascending(whole(values))
    # The complement reverses the order and, unlike negation, never overflows.
    return ~keys if is_descending else keys


def sort_rows(keys: Sequence[Keys], *, count: int, start: int, stop: int | None) -> Keys:
    """The positions of the rows from `start` up to `stop`, sorted; the first key is primary."""
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
    """The values as one array; texts become large binaries, whose total length is unbounded."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.large_binary())
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def is_list(type: pa.DataType) -> bool:
    """Whether values of a type are lists; a vector is a list of fixed size."""
    return bool(pa.types.is_list(type) or pa.types.is_fixed_size_list(type))


def lists_as_bytes(lists: pa.Array, element_keys: Keys) -> pa.Array:
    """Lists as bytes that compare as the sequences of their element keys do."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    ends = np.cumsum(lengths, dtype=np.int64)
    # Unsigned big-endian integers compare as their bytes do.
    contents = (element_keys.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8")
    offsets = np.concatenate([np.zeros(1, np.int64), ends]) * contents.itemsize
    present = np.packbits(lists.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    buffers = [pa.py_buffer(each) for each in (present, offsets, contents)]
    return pa.Array.from_buffers(pa.large_binary(), len(lists), buffers)


def without_signed_zeros(values: pa.Array) -> pa.Array:
    """The values with every -0.0 as 0.0, which is what a group of both zeros shows."""
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
    numbers[np.isnan(numbers)] = np.nan  # the same bit pattern for every NaN
    bits = numbers.view(np.int64)
    # The bits of a negative float grow with its magnitude, so their order is reversed.
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
        # No smaller integer remains for null.
        _, keys = np.unique(keys, return_inverse=True)
        smallest = 0
    return np.where(present, keys, smallest - 1)


def _as_integers(values: pa.Array) -> pa.Array:
    """The values in a type that Arrow can cast to 64 bits, which it cannot for some types."""
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int8())
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


def _select(keys: Sequence[Keys], wanted: int) -> Keys:
    """The positions of the first `wanted` rows, in no particular order."""
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
    # Sorting packed integers is several times faster than an indirect sort.
    packed = np.zeros(count, np.int64)
    for key, (low, _high), width in zip(keys, ranges, widths, strict=True):
        packed = (packed << width) | (key - low)
    packed = (packed << position_bits) | np.arange(count)
    packed.sort()
    return packed & ((1 << position_bits) - 1)
