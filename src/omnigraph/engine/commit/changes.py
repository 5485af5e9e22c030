"""A change set: what a write means, type by type, before any file of it exists.

Rows are Arrow tables with the columns of `table_schema`, one row an id: the final image of the
write. Every surface (mutation, load, merge) produces one, every check and the staging read one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from omnigraph.engine.commit.schema_delta import SchemaDelta
from omnigraph.engine.state.history import NO_NOTES, CommitNotes
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.table_layout import IndexSpec, LayoutStep
from omnigraph.storage.table_parts import NewFile, StruckFragment


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a write does to the rows of one type.

    `put` replaces rows with the same id and adds the others. `removed` holds the ids (distinct,
    all committed) that go. With `is_overwrite` every committed row goes that `put` does not hold,
    and `removed` is empty. A change that only builds `indexes`, takes steps of `layout`, or gives
    the table the columns of its type, changes no row. `renames` are the columns that keep their
    values under another name, and `published_key` is the key of a type that was renamed. `lift` is
    by how many versions the table goes further as it is, above those that a key has had before.
    Rows that other processes have written already are `files`, and the rows that these replace are
    `struck`; `put` and `removed` are empty then.
    """

    type: NodeType | EdgeType
    put: pa.Table
    removed: pa.Array
    is_overwrite: bool
    indexes: tuple[IndexSpec, ...] = ()
    layout: tuple[LayoutStep, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    published_key: str | None = None
    lift: int = 0
    files: tuple[NewFile, ...] = ()
    struck: tuple[StruckFragment, ...] = ()


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
    LAYOUT = "layout"
    COLUMNS = "columns"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a write does to the schema, and to the list of types.

    `source` is the text to accept; None on a branch that catches up with what was accepted.
    """

    source: str | None
    schema_hash: str
    delta: SchemaDelta


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
    schema: SchemaChange | None = None

    @property
    def is_commit(self) -> bool:
        """Whether there is anything for history to say."""
        return bool(self.changes or self.schema) or self.merged_parent_id is not None
