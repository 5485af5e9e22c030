"""Rows that are stored somewhere, read on executors: staged files, or parts of a version.

A staged row is known by its position in the input, a committed one by its address.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.spark.loading.staged import PortionKey, StagedPortion, StagedRows, parse_position
from omnigraph.storage.lance_parts import scan_file, scan_part, take_rows
from omnigraph.storage.table_parts import LineFolder, NewFile, TablePart


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file of the rows of a portion; `start` of its rows come before in the portion's files."""

    folder: LineFolder
    file: NewFile
    portion: PortionKey
    start: int
    dropped: tuple[int, ...]

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return self.file.row_count

    def positions(self) -> pa.Array:
        """The position of each row in the input."""
        end = self.start + self.file.row_count
        numbers = np.arange(end + len(self.dropped))
        kept = np.delete(numbers, np.array(self.dropped, np.int64)) if self.dropped else numbers
        return pa.array(kept[self.start : end] + self.portion.position(0))

    def find(self, ordinal: int) -> int | None:
        """The place in the file of a row of the portion, None if it is in another."""
        offset = ordinal - bisect_left(self.dropped, ordinal) - self.start
        return offset if 0 <= offset < self.file.row_count else None


StoredRows = Sequence[StagedFile | TablePart]


def files_of(portion: StagedPortion, rows: StagedRows, folder: LineFolder) -> Iterator[StagedFile]:
    """The files of a type's rows of a portion."""
    start = 0
    for file in rows.files:
        yield StagedFile(folder, file, portion.key, start, rows.dropped)
        start += file.row_count


def read_stored(stored: StoredRows, *, columns: Sequence[str], with_address: bool) -> pa.Table:
    """Some columns of rows; of committed ones their `_rowaddr` too, if that is asked for."""
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
    """Some columns of staged rows behind the `position` of each."""
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
    """Some columns of the rows at some positions, at least one, in their order."""
    by_portion: dict[PortionKey, list[StagedFile]] = {}
    for each in stored:
        by_portion.setdefault(each.portion, []).append(each)
    file_by_start: dict[tuple[PortionKey, int], StagedFile] = {}
    places_by_start: dict[tuple[PortionKey, int], list[tuple[int, int]]] = {}
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
    # A file of rows that lack what they need says that they may; its neighbours do not.
    return pa.concat_tables(tables, promote_options="default")


def _find_file(files: Sequence[StagedFile], ordinal: int) -> tuple[StagedFile, int]:
    for each in files:
        offset = each.find(ordinal)
        if offset is not None:
            return each, offset
    raise AssertionError("a position names a row that was staged")
