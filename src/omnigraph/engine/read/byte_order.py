"""Texts in the order of their bytes, as numbers.

Promises equal numbers for equal texts, a smaller one for a text that comes first, and -1 for null.
Sorts a few bytes of every text at a time, packed into plain numbers: to compare whole texts, as
Arrow does, takes far longer.
"""

from __future__ import annotations

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


def rank_bytes(texts: pa.LargeBinaryArray) -> Numbers:
    """A number for every text that sorts as the text does; numbers may be left out."""
    sample = texts.slice(0, _SAMPLE_ROWS)
    if 4 * len(pc.unique(sample)) > len(sample):
        return _rank(texts)
    encoded = texts.dictionary_encode()
    # Null finds the last of the ranks.
    ranks = np.append(_rank(encoded.dictionary), -1)
    found: Numbers = ranks[encoded.indices.fill_null(len(ranks) - 1).to_numpy()]
    return found


def _rank(texts: pa.LargeBinaryArray) -> Numbers:
    """The number of a text is how many come before it."""
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
        # What is left has long beginnings in common, and is better compared whole.
        _refine_whole(ranks, tied, texts)
    return ranks


def _shared_length(texts: pa.LargeBinaryArray) -> int:
    """How many bytes all texts begin with: those that the first and the last of them share."""
    limits = pc.min_max(texts)
    first, last = (np.frombuffer(limits[each].as_py() or b"", np.uint8) for each in ("min", "max"))
    size = min(len(first), len(last))
    differ = np.flatnonzero(first[:size] != last[:size])
    return int(differ[0]) if len(differ) else size


def _width(ranks: Numbers, tied: Numbers) -> int:
    """How many bytes fit into a number beside a group, a length and a position."""
    group_bits = int(np.count_nonzero(_starts(ranks[tied]))).bit_length()
    return min(
        _WORD_BYTES - 1,
        (_BITS_MAX - group_bits - _COUNT_BITS - len(tied).bit_length()) // 8,
    )


def _refine(ranks: Numbers, tied: Numbers, words: _Words, depth: int, width: int) -> Numbers:
    """Tell tied texts apart by some more bytes; those that are still tied, in order."""
    are_starts = _starts(ranks[tied])
    groups = np.cumsum(are_starts)
    content, held = words.read(tied, depth, width)
    # Where bytes are equal up to zeros that stand for none, the shorter text comes first.
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
    # The order of whole texts is the order of the groups, so these stay where they are.
    are_starts = _starts(ranks[tied])
    chosen = texts.take(pa.array(tied))
    order = pc.array_sort_indices(chosen)
    chosen = chosen.take(order)
    differ = pc.not_equal(chosen.slice(1), chosen.slice(0, len(chosen) - 1))
    are_new = np.append(True, differ.to_numpy(zero_copy_only=False))
    _assign(ranks, tied[order.to_numpy()], are_starts, are_new)


def _assign(ranks: Numbers, tied: Numbers, were_starts: Marks, are_starts: Marks) -> Marks:
    """Number the texts of smaller groups, and mark those that are the only one of theirs."""
    ranks[tied] += _start_positions(are_starts) - _start_positions(were_starts)
    are_alone: Marks = are_starts & np.append(are_starts[1:], True)
    return are_alone


def _starts(numbers: Numbers) -> Marks:
    """Where a run of equal numbers starts."""
    return np.append(np.ones(min(len(numbers), 1), np.bool_), numbers[1:] != numbers[:-1])


def _start_positions(are_starts: Marks) -> Numbers:
    starts = np.flatnonzero(are_starts)
    return np.repeat(starts, np.diff(np.append(starts, len(are_starts))))


class _Words:
    """Bytes of texts as numbers that compare as the bytes do."""

    def __init__(self, texts: pa.LargeBinaryArray) -> None:
        _validity, offsets, content = texts.buffers()
        first, last = texts.offset, texts.offset + len(texts)
        limits = np.frombuffer(offsets, np.int64)[first : last + 1] if offsets else np.zeros(1, int)
        self._starts, self._lengths = limits[:-1], np.diff(limits)
        held = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
        if len(held) < _WORD_BYTES:
            held = np.append(held, np.zeros(_WORD_BYTES, np.uint8))
        # A word starts at every byte.
        self._words = np.ndarray(len(held) - _WORD_BYTES + 1, ">u8", held, strides=(1,))

    def read(self, rows: Numbers, depth: int, width: int) -> tuple[Numbers, Numbers]:
        """The bytes of some texts from a depth on, and how many there were; zero where none."""
        wanted = self._starts[rows] + depth
        found = np.minimum(wanted, len(self._words) - 1)
        words = self._words[found].astype(np.uint64)
        # The last words of the buffer start too early.
        late = np.minimum((wanted - found) * 8, _BITS_MAX).astype(np.uint64)
        held = np.clip(self._lengths[rows] - depth, 0, width)
        kept = np.array(
            [(1 << 64) - (1 << (64 - 8 * each)) for each in range(_WORD_BYTES)], np.uint64
        )
        words = ((words << late) & kept[held]) >> np.uint64(64 - 8 * width)
        return words.astype(np.int64), held
