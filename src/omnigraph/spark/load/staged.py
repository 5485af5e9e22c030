"""Reports of staging tasks, and columns of staged or committed rows read back on executors.

A staged row is identified by split, type and ordinal, and this position never changes, even if
other rows are removed later. Positions ascend in input order. A committed row is identified by its
address.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.input.batches import InputLocation
from omnigraph.model.errors import Violation
from omnigraph.storage.ports import NewFile, TableBranchFolder, TablePart
from omnigraph.storage.tables import scan_file, scan_part, take_rows

_INPUT_BITS, _PORTION_BITS, _ROW_BITS = 6, 16, 30

INPUTS_MAX = 1 << _INPUT_BITS
"""How many inputs one job can have."""

POSITION_BITS = _INPUT_BITS + _PORTION_BITS + _ROW_BITS
"""The number of bits of a row position."""


@dataclass(frozen=True, slots=True, order=True)
class SplitKey:
    """An input of a job, by its order, and the number of a partition of it."""

    source: int
    number: int

    def position(self, ordinal: int) -> int:
        """The position of a row of a type; positions ascend in input order."""
        assert self.number < 1 << _PORTION_BITS, "more portions than positions can tell apart"
        return ((self.source << _PORTION_BITS | self.number) << _ROW_BITS) + ordinal


def parse_position(position: int) -> tuple[SplitKey, int]:
    """The partition that contains a position, and the ordinal of the row in it."""
    portion, ordinal = position >> _ROW_BITS, position & (1 << _ROW_BITS) - 1
    return SplitKey(portion >> _PORTION_BITS, portion & (1 << _PORTION_BITS) - 1), ordinal


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one type in a partition.

    Unless `has_given_id` (some row has an id, given or made from its key), every id is new.
    `dropped` are the ordinals of rows that were left out of the files, ascending. `checksum` covers
    the ids and endpoints of all rows.
    """

    table_key: str
    files: tuple[NewFile, ...]
    has_given_id: bool
    dropped: tuple[int, ...]
    checksum: int

    @property
    def row_count(self) -> int:
        """How many rows the files contain."""
        return sum(each.row_count for each in self.files)


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that rows of a type violate: the number of violations, and the first of them.

    `rank` is the order of the rule among those checked for the type. `positions` belong to the
    reported rows, and are None for rows that are not of the job.
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
    """A row that was left out or could not be read: the reason, its location and its original text.

    Records and lines are counted from the start of the split with that number in the partition.
    """

    type: str | None
    reason: Reason
    split: int
    place: InputLocation
    original: str


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """The result of staging a partition.

    `counts` are the records and lines of each of its splits. `fault` is the split, if any, at which
    reading stopped because a row cannot be converted; later splits were not read. `unembedded` is
    the reason why rows got no vectors, if staging stopped for that; otherwise it is empty.
    """

    key: SplitKey
    rows: tuple[StagedRows, ...]
    counts: tuple[tuple[int, int], ...]
    fault: int | None
    problem: str
    broken: tuple[Broken, ...]
    rejected: tuple[RejectedRow, ...]
    unembedded: str


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file of a partition's rows; `start` is the number of rows in the files before it."""

    folder: TableBranchFolder
    file: NewFile
    portion: SplitKey
    start: int
    dropped: tuple[int, ...]

    @property
    def row_count(self) -> int:
        """How many rows the file contains."""
        return self.file.row_count

    def positions(self) -> pa.Array:
        """The position of each row in the input."""
        end = self.start + self.file.row_count
        numbers = np.arange(end + len(self.dropped))
        kept = np.delete(numbers, np.array(self.dropped, np.int64)) if self.dropped else numbers
        return pa.array(kept[self.start : end] + self.portion.position(0))

    def find(self, ordinal: int) -> int | None:
        """The offset in the file of a row of the partition; None if it is in another file."""
        offset = ordinal - bisect_left(self.dropped, ordinal) - self.start
        return offset if 0 <= offset < self.file.row_count else None


StoredRows = Sequence[StagedFile | TablePart]


def files_of(
    portion: SplitKey, rows: StagedRows, folder: TableBranchFolder
) -> Iterator[StagedFile]:
    """The files of a type's rows in a partition."""
    start = 0
    for file in rows.files:
        yield StagedFile(folder, file, portion, start, rows.dropped)
        start += file.row_count


def read_stored(stored: StoredRows, *, columns: Sequence[str], with_address: bool) -> pa.Table:
    """Some columns of rows; for committed rows also `_rowaddr`, if requested."""
    batches: list[pa.RecordBatch] = []
    for each in stored:
        match each:
            case TablePart():
                batches += scan_part(
                    each, columns=columns, predicate=None, with_address=with_address
                )
            case StagedFile():
                batches += scan_file(each.folder, each.file, columns=columns)
    return _join([pa.Table.from_batches([each]) for each in batches])


def read_positions(stored: Sequence[StagedFile], *, columns: Sequence[str]) -> pa.Table:
    """Some columns of staged rows, preceded by the `position` of each."""
    tables = [
        pa.Table.from_batches(scan_file(each.folder, each.file, columns=columns)).add_column(
            0, "position", each.positions()
        )
        for each in stored
    ]
    return _join(tables)


def take_positions(
    stored: Sequence[StagedFile], positions: Sequence[int], *, columns: Sequence[str]
) -> pa.Table:
    """Some columns of the rows at the given positions, at least one, in the given order."""
    by_portion: dict[SplitKey, list[StagedFile]] = {}
    for each in stored:
        by_portion.setdefault(each.portion, []).append(each)
    file_by_start: dict[tuple[SplitKey, int], StagedFile] = {}
    places_by_start: dict[tuple[SplitKey, int], list[tuple[int, int]]] = {}
    for index, position in enumerate(positions):
        portion, ordinal = parse_position(position)
        file, offset = _find_file(by_portion[portion], ordinal)
        file_by_start[portion, file.start] = file
        places_by_start.setdefault((portion, file.start), []).append((offset, index))
    parts: list[pa.Table] = []
    indexes: list[int] = []
    for start, places in places_by_start.items():
        file = file_by_start[start]
        offsets, found = zip(*sorted(places), strict=True)
        parts.append(take_rows(file.folder, file.file, offsets, columns=columns))
        indexes += found
    return _join(parts).take(np.argsort(indexes))


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    # The schema of a file whose rows lack required values is nullable, unlike those of other files.
    return pa.concat_tables(tables, promote_options="default")


def _find_file(files: Sequence[StagedFile], ordinal: int) -> tuple[StagedFile, int]:
    for each in files:
        offset = each.find(ordinal)
        if offset is not None:
            return each, offset
    raise AssertionError("a position names a row that was staged")
