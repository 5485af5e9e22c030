"""What a table is made of, in a form that other processes can be given: parts of it, new files.

Small frozen values that survive pickling. Where the bytes are is part of each; who may read them
is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LineFolder:
    """Where the files of a line of versions are; `is_bare` says that there was no line yet."""

    uri: str
    # Options hold secrets: they are no part of what is printed.
    storage_options: Mapping[str, str] | None = field(repr=False)
    is_bare: bool


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some fragments of one version, in the order of the table."""

    folder: LineFolder
    version: int
    fragments: tuple[int, ...]
    row_count: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of rows below a line's folder that no version names yet.

    `fragment` is what Lance has to be told to name it.
    """

    fragment: str
    row_count: int


@dataclass(frozen=True, slots=True)
class StruckFragment:
    """A fragment of which rows are gone: what Lance has to be told, None if no row is left."""

    number: int
    fragment: str | None
    rows_removed: int


@dataclass(frozen=True, slots=True)
class RewrittenPart:
    """Rows of a part that lie in new files, and the fragments that are without them."""

    files: tuple[NewFile, ...]
    struck: tuple[StruckFragment, ...]
