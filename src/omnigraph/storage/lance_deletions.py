"""The files in which Lance keeps the deleted rows of a fragment: an Arrow list, or a bitmap.

Promises the places that a file holds, ascending, or `ValueError` for what is no such file. Reading
them costs what was deleted, where a scan would count through the whole fragment. The bitmap has
the portable form of Roaring bitmaps, 65,536 places a container.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets = npt.NDArray[np.uint64]
"""Places in a fragment, ascending, counted with the rows that are deleted."""

_COOKIE = 12346
_ARRAY_MAX = 4_096
_BITMAP_BYTES = 8_192


def decode_list(content: bytes) -> Offsets:
    """The places that an Arrow file lists."""
    with pa.ipc.open_file(pa.BufferReader(content)) as reader:
        places: npt.NDArray[np.uint32] = reader.read_all().column(0).to_numpy()
    return np.sort(places).astype(np.uint64)


def decode_bitmap(content: bytes) -> Offsets:
    """The places that a bitmap marks."""
    return np.concatenate([np.empty(0, np.uint64), *_containers(_Reader(content))])


class _Reader:
    """Little-endian numbers, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, count: int, width: int) -> npt.NDArray[np.uint64]:
        """The next numbers of some bytes each."""
        found = np.frombuffer(self._content, f"<u{width}", count, self._position)
        self._position += count * width
        return found.astype(np.uint64)


def _containers(reader: _Reader) -> Iterator[Offsets]:
    cookie, count = reader.take(2, 4).tolist()
    if cookie != _COOKIE:
        # Lance 14 writes no runs, so bitmaps that start otherwise are not looked into.
        raise ValueError(f"a bitmap of deletions starts with {cookie}")
    header = reader.take(2 * count, 2).reshape(count, 2)
    # Where each container starts, which is behind the one before.
    reader.take(count, 4)
    for key, last in header:
        yield (key << np.uint64(16)) + _decode_container(reader, int(last) + 1)


def _decode_container(reader: _Reader, cardinality: int) -> Offsets:
    if cardinality <= _ARRAY_MAX:
        return reader.take(cardinality, 2)
    bits = np.unpackbits(reader.take(_BITMAP_BYTES, 1).astype(np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint64)
