"""From text to vector: what searches and upkeep ask of whoever does it.

Promises nothing about how vectors come about; a model's name says whether two of them may be
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Embedder(Protocol):
    """Turns texts into vectors of length 1, always the same way for one model.

    Whoever cannot, for now or as it is configured, raises `EmbeddingError`.
    """

    @property
    def model(self) -> str:
        """The name of the model, as `@embed` records it; empty if it has none."""

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector of a text that something is looked for with, as single-precision numbers."""

    def embed_many(self, texts: Sequence[str], dimension: int) -> npt.NDArray[np.float32]:
        """The vectors of texts that are looked for, a row each."""
