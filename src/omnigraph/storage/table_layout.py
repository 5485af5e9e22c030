"""How a table lies: its indexes, the steps by which it would lie better, and who takes them.

What is here says what is to be done, in words that neither Lance nor a graph is needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class IndexKind(StrEnum):
    """What an index answers: comparisons, words of a text, or distances of a vector."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    VECTOR = "VECTOR"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index that a column should have."""

    column: str
    kind: IndexKind


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index that a column has, and how many rows of the version it knows."""

    spec: IndexSpec
    rows_covered: int


class LayoutStep(StrEnum):
    """What can be done about how a table lies, in the order in which it is done."""

    RELEASE = "forget what indexes know of files that are to be joined"
    COMPACT = "join files, and leave out rows that were deleted"
    INDEX = "let every index know every row"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a version lies, and the steps by which it would lie better: one version each.

    `fragments_removed` of its `fragments` would be joined; `uncovered` are the wanted indexes that
    there are not, or that do not know every row. About `rows_moved` rows are written or indexed.
    """

    steps: tuple[LayoutStep, ...]
    fragments: int
    fragments_removed: int
    uncovered: tuple[IndexSpec, ...]
    rows_moved: int


class Workers(Protocol):
    """Other processes that take tasks: what they write is named by nobody until it is staged."""

    def share(self, row_count: int) -> int:
        """How many of so many rows one task should take."""

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, stage: str) -> tuple[R, ...]:
        """What some work makes of each task, in their order; all survive pickling.

        A task may be run more than once, and its outcome is of one of the runs.
        """
