"""Vectors of texts that were asked for before: within a bound, those that were used last.

Safe to share between threads. Does not know how vectors are made; nothing in it is ever stale, for
one model gives a text one vector.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np
import numpy.typing as npt

_ENTRY_BYTES = 300
"""What an entry takes besides its text and its numbers."""

Vector = npt.NDArray[np.float32]


class KeptVectors:
    """The vectors of some texts, by text and length."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._bytes = bytes_max, 0
        self._vectors: OrderedDict[tuple[str, int], Vector] = OrderedDict()
        self._lock = Lock()

    def find(self, text: str, dimension: int) -> Vector | None:
        """The vector of a text, None if it is not kept."""
        with self._lock:
            found = self._vectors.get((text, dimension))
            if found is not None:
                self._vectors.move_to_end((text, dimension))
            return found

    def keep(self, text: str, vector: Vector) -> None:
        """Keep the vector of a text, at the cost of those that were not used for longest."""
        with self._lock:
            key = (text, len(vector))
            if key not in self._vectors:
                self._bytes += _size(text, vector)
            self._vectors[key] = vector
            while self._bytes > self._bytes_max:
                (old, _), gone = self._vectors.popitem(last=False)
                self._bytes -= _size(old, gone)


def _size(text: str, vector: Vector) -> int:
    # As much as a text of any language takes at most.
    return _ENTRY_BYTES + 4 * len(text) + vector.nbytes
