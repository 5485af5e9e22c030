"""What a task reports of the rows it staged.

A portion is what one task reads: splits of files, or one partition of a frame. A row is known by
its portion, its type, and how many rows of that type the portion had before it; this never changes,
whatever is left out of the files later.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.engine.ops.reading.pieces import Place
from omnigraph.model.errors import Violation
from omnigraph.storage.table_parts import NewFile

_INPUT_BITS, _PORTION_BITS, _ROW_BITS = 6, 16, 30

INPUTS_MAX = 1 << _INPUT_BITS
"""How many inputs of a job can be told apart."""

POSITION_BITS = _INPUT_BITS + _PORTION_BITS + _ROW_BITS
"""How many bits the position of a row takes."""


@dataclass(frozen=True, slots=True, order=True)
class PortionKey:
    """Which input of a job, by its order, and which portion of it."""

    source: int
    number: int

    def position(self, ordinal: int) -> int:
        """A number for a row of a type that grows in the order of the input."""
        assert self.number < 1 << _PORTION_BITS, "more portions than positions can tell apart"
        return ((self.source << _PORTION_BITS | self.number) << _ROW_BITS) + ordinal


def parse_position(position: int) -> tuple[PortionKey, int]:
    """The portion that a position lies in, and the row of it."""
    portion, ordinal = position >> _ROW_BITS, position & (1 << _ROW_BITS) - 1
    return PortionKey(portion >> _PORTION_BITS, portion & (1 << _PORTION_BITS) - 1), ordinal


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one type that a portion has.

    Unless some row `has_given_id`, by its key or by itself, every id is new. `dropped` are the rows
    that were left out of the files, ascending. `checksum` is of the ids and ends of all rows.
    """

    table_key: str
    files: tuple[NewFile, ...]
    has_given_id: bool
    dropped: tuple[int, ...]
    checksum: int

    @property
    def row_count(self) -> int:
        """How many rows the files hold."""
        return sum(each.row_count for each in self.files)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that rows of a type break: how many do, and the first of them.

    `rank` is the place of the rule among those that are checked for the type. `positions` are those
    of the rows that are told of, None where they are not of the job.
    """

    table_key: str
    rank: int
    count: int
    violations: tuple[Violation, ...]
    positions: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row is rejected."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that was left out, or could not be read: why, where it stands, and what it was.

    Records and lines are counted from the start of the portion's split of that number.
    """

    type: str | None
    reason: Reason
    split: int
    place: Place
    original: str


@dataclass(frozen=True, slots=True)
class StagedPortion:
    """What became of a portion.

    `counts` are the records and lines of each of its splits. `fault` is the split, if any, at which
    reading stopped because a row cannot be converted; what follows it was not read.
    """

    key: PortionKey
    rows: tuple[StagedRows, ...]
    counts: tuple[tuple[int, int], ...]
    fault: int | None
    problem: str
    broken: tuple[Broken, ...]
    rejected: tuple[RejectedRow, ...]
