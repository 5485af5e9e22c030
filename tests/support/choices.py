"""Choices for generators: one small number a choice, so that generating is cheap and shrinks well.

The first of several alternatives is the simplest one; shrinking ends there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

T = TypeVar("T")

# Built once: making a strategy costs ten times as much as drawing from it.
_NUMBERS = st.integers(0, 2**16 - 1)


@dataclass(frozen=True, slots=True)
class Choices:
    """Makes the choices of one generated value."""

    draw: DrawFn

    def count(self, most: int) -> int:
        """A number from zero to the one given."""
        return self.draw(_NUMBERS) % (most + 1)

    def one(self, alternatives: Sequence[T]) -> T:
        """One of some alternatives."""
        return alternatives[self.count(len(alternatives) - 1)]

    def some(self, alternatives: Sequence[T], *, least: int, most: int) -> list[T]:
        """Several different ones in any order, as far as there are enough."""
        left = list(alternatives)
        wanted = min(least + self.count(most - least), len(left))
        return [left.pop(self.count(len(left) - 1)) for _ in range(wanted)]

    def often(self) -> bool:
        """Yes, half of the time."""
        return self.count(1) == 1

    def seldom(self) -> bool:
        """Yes, now and then."""
        return self.count(5) == 5
