"""Rows in which two versions of a table differ, in parts that other processes can be given.

Small frozen values that survive pickling; what they name is read in `lance_delta_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.table_parts import LineFolder, TablePart


@dataclass(frozen=True, slots=True)
class VersionPlace:
    """A version of a table, and where it is."""

    folder: LineFolder
    version: int


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """Rows of some fragments of a version: all, or those that another version has deleted.

    The part's row count is about that of these rows.
    """

    part: TablePart
    deleted_in: VersionPlace | None

    @property
    def row_count(self) -> int:
        """About how many rows there are."""
        return self.part.row_count


@dataclass(frozen=True, slots=True)
class DeltaParts:
    """The rows of an old and of a new version that the other has not at their place."""

    gone: tuple[DeltaPart, ...]
    come: tuple[DeltaPart, ...]

    @property
    def row_count(self) -> int:
        """About how many rows there are to read."""
        return sum(each.row_count for each in (*self.gone, *self.come))


NO_DELTA = DeltaParts((), ())
"""Two versions that are the same."""
