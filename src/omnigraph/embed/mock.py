"""Vectors without a model: the same text always has the same one.

Promises every bit: the numbers are those of every other implementation, so that stored vectors and
expected results can be shared. Texts that mean the same are not near each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.model.names import fnv1a_64

_BITS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """An embedder that asks nobody, under the name of any model."""

    model: str

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """A unit vector that follows from the bytes of the text alone."""
        state = fnv1a_64(text)
        shares = np.empty(dimension, np.float64)
        for place in range(dimension):
            state = _shifted(state)
            shares[place] = float(state) / float(_BITS)
        numbers = shares.astype(np.float32) * np.float32(2) - np.float32(1)
        # Only the length is worked out in double precision, one number after the other.
        squares = np.add.accumulate(np.square(numbers.astype(np.float64)))
        return tuple((numbers / np.sqrt(squares[-1:]).astype(np.float32)).tolist())

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The same, a row for each text."""
        made = np.empty((len(texts), dimension), np.float32)
        for row, text in enumerate(texts):
            made[row] = self.embed(text, dimension)
        return made


def _shifted(state: int) -> int:
    """The next state of a 64-bit xorshift generator."""
    state ^= state << 13 & _BITS
    state ^= state >> 7
    return state ^ (state << 17 & _BITS)
