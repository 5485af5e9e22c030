"""A change set: what a write means, type by type, before any file of it exists.

Rows are Arrow tables with the columns of `table_schema`, one row an id: the final image of the
write. Every surface (mutation, load, merge) produces one, every check and the staging read one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.state.history import NO_NOTES, CommitNotes
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.ports import IndexSpec


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a write does to the rows of one type.

    `put` replaces rows with the same id and adds the others. `removed` holds the ids (distinct,
    all committed) that go. With `is_overwrite` every committed row goes that `put` does not hold,
    and `removed` is empty. A change that only builds `indexes` changes no row.
    """

    type: NodeType | EdgeType
    put: pa.Table
    removed: pa.Array
    is_overwrite: bool
    indexes: tuple[IndexSpec, ...] = ()


ChangeSet = Mapping[str, TableChange]
"""The changes of one write by table key, in the order of keys."""


class Placement(StrEnum):
    """How the rows of a change reach their table: one staged write each."""

    APPEND = "append"
    MERGE = "merge"
    EXCHANGE = "exchange"
    OVERWRITE = "overwrite"
    REMOVE = "remove"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write that has been worked out and checked, and of which no file exists yet.

    `read_set` names the types whose committed rows it looked at. A strict write depends on the
    rows it saw (it updates, deletes or overwrites), so it is never prepared again on its own.
    With a merged parent it is a commit even if it changes nothing.
    """

    changes: ChangeSet
    placement: Mapping[str, Placement]
    read_set: frozenset[str]
    is_strict: bool
    merged_parent_id: str | None = None
    notes: CommitNotes = NO_NOTES

    @property
    def is_commit(self) -> bool:
        """Whether there is anything for history to say."""
        return bool(self.changes) or self.merged_parent_id is not None
