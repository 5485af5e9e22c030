"""What reading gives: rows of one type, and the way back from a row to where it was written.

The way back is worked out when somebody asks for it, and only then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.external_blobs import ExternalBlobs
from omnigraph.storage.outside_files import OutsideFiles

Declared = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class Means:
    """What reading takes: the types there are, references to blobs, and the way to files."""

    catalog: Catalog
    external: ExternalBlobs
    files: OutsideFiles


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written: a file, empty if it has no name, and a record of it from 1 on.

    `line` is None where rows are counted, not lines.
    """

    file: str
    record: int
    line: int | None

    def __str__(self) -> str:
        within = f"row {self.record}" if self.line is None else self._name_record()
        return f"{self.file}: {within}" if self.file else within

    def _name_record(self) -> str:
        return f"record {self.record} (line {self.line})"


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that was left out: where it stands, what is wrong with it, and how it reads.

    `original` is a line of NDJSON, the very one or, of other inputs, one with the same values.
    """

    place: Place
    message: str
    original: bytes


Report = Callable[[Fault], None]
"""Takes the faults that reading finds, one after the other."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many records, and lines that ended, some part of a file has; rows are records."""

    records: int
    lines: int


NOTHING_YET = Counted(0, 0)
"""What came before the start of a file."""


class Tally:
    """Counts what is read of a file, on top of what came before in it."""

    def __init__(self, before: Counted) -> None:
        self.counted = before

    def add(self, *, records: int, lines: int) -> None:
        """Count some more."""
        self.counted = Counted(self.counted.records + records, self.counted.lines + lines)


class Origin(Protocol):
    """Where the rows of a piece come from."""

    def locate(self, row: int) -> Place:
        """The place of a row."""

    def original(self, row: int) -> bytes:
        """A row as a line of NDJSON, without its end."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a type: the columns of its table, ids null where they are to be made."""

    declared: Declared
    rows: pa.Table
    origin: Origin

    def locate(self, row: int) -> Place:
        """Where a row is written."""
        return self.origin.locate(row)

    def original(self, row: int) -> bytes:
        """A row as a line of NDJSON that a load reads, without its end."""
        return self.origin.original(row)
