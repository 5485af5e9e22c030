"""Vectors of texts that a query compares with: kept while it runs, given out when it runs again.

Both are embedders, so that a query need not know which of them it asks. A text is told by its hash:
a receipt says nothing of the words that a query holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from omnigraph.engine.retrieval.answers import QueryVector, hash_text
from omnigraph.model.embedding import Embedder
from omnigraph.model.errors import InvalidValueError


class KeepingEmbedder:
    """A provider that is asked for each text once, and whose answers are kept."""

    def __init__(self, provider: Embedder) -> None:
        self._provider = provider
        self._made: dict[tuple[str, int], QueryVector] = {}

    @property
    def model(self) -> str:
        """The provider's."""
        return self._provider.model

    @property
    def vectors(self) -> tuple[QueryVector, ...]:
        """What was made so far, in an order that depends on the texts alone."""
        return tuple(self._made[key] for key in sorted(self._made))

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The provider's vector."""
        key = hash_text(text), dimension
        if key not in self._made:
            made = self._provider.embed(text, dimension)
            self._made[key] = QueryVector(self._provider.model, key[0], tuple(made))
        return self._made[key].numbers

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The same, a row for each text."""
        return np.array([self.embed(text, dimension) for text in texts], np.float32)


class KeptEmbedder:
    """Gives out the vectors of a receipt, and asks nobody."""

    def __init__(self, vectors: Iterable[QueryVector]) -> None:
        self._vectors = tuple(vectors)

    @property
    def model(self) -> str:
        """The model that made them."""
        return next((each.model for each in self._vectors if each.model is not None), "")

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector that was kept; `InvalidValueError` if the receipt lacks it."""
        wanted = hash_text(text)
        for each in self._vectors:
            if each.text_hash == wanted and len(each.numbers) == dimension:
                return each.numbers
        raise InvalidValueError(
            subject="receipt",
            expected="a receipt of this graph",
            value=None,
            problem=f"it has no vector of {dimension} numbers for a text of its query",
        )

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The same, a row for each text."""
        return np.array([self.embed(text, dimension) for text in texts], np.float32)
