"""From text to vector: what a search asks of whoever does it.

Promises nothing about how vectors come about; a model's name says whether two of them may be
compared.
"""

from __future__ import annotations

from typing import Protocol


class Embedder(Protocol):
    """Turns texts into vectors, always the same way for one model."""

    @property
    def model(self) -> str:
        """The name of the model, as `@embed` records it; empty if it has none."""

    def embed(self, text: str, dimension: int) -> tuple[float, ...]:
        """The vector of a text, of length 1, as single-precision numbers."""
