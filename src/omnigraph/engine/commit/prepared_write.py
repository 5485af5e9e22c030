"""A prepared write: change sets by type, schema changes, and the port to committed rows.

Mutations, loads, merges and schema changes all produce this value; every integrity check and the
staging phase read it. A change set holds the final rows of the write, one row per id, before any
file exists. Every table that a check reads joins the read set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from omnigraph.engine.state.history import NO_NOTES, CommitNotes
from omnigraph.engine.state.manifest import Change, Entry, Register, Tombstone, Update
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.storage.ports import (
    FragmentDeletions,
    IndexSpec,
    LayoutStep,
    NewFile,
    TableVersion,
    VersionFile,
)


class CommittedRows(Protocol):
    """The reads that checks may make of a write's basis; unknown tables have no rows."""

    def count(self, table_key: str) -> int:
        """The number of rows of a type."""

    def find_ids(self, table_key: str, ids: pa.Array) -> pa.Array:
        """The ids that exist among the given ones, in any order, each once."""

    def find_rows(
        self, table_key: str, column: str, values: pa.Array, *, columns: Sequence[str]
    ) -> pa.Table:
        """The rows whose column holds one of the values (of the column's type, without nulls)."""

    def scan(self, table_key: str, *, columns: Sequence[str]) -> pa.Table:
        """Every row of a type."""


@dataclass(frozen=True, slots=True)
class SchemaDelta:
    """The types that a schema change affects, and the hash of the schema that it replaces.

    `registered` are the locations of the tables of new keys, `adopted` are existing tables that
    become the table of a type unchanged, and `dropped` are types that are removed.
    """

    replaced_hash: str = field(metadata={"json": "replaced_schema_hash"})
    registered: tuple[Register, ...] = field(metadata={"json": "registrations"})
    adopted: tuple[Entry, ...] = field(metadata={"json": "adoptions"})
    dropped: tuple[Tombstone, ...] = field(metadata={"json": "tombstones"})

    def changes(self, describe: Callable[[TableVersion], VersionFile]) -> tuple[Change, ...]:
        """The delta as changes of the manifest."""
        adopted = (Update(each, describe(each.at)) for each in self.adopted)
        return (*self.registered, *adopted, *self.dropped)


@dataclass(frozen=True, slots=True)
class TableChange:
    """The changes that a write makes to the rows of one type.

    `put` replaces rows with the same id and adds the others. `removed` holds the ids to remove
    (distinct, all committed). With `is_overwrite`, every committed row that `put` does not hold is
    removed, and `removed` is empty. A change that only builds `indexes`, takes steps of `layout`,
    or gives the table the columns of its type does not change any row. `renames` are the columns
    that retain their values under another name, and `published_key` is the key of a type that was
    renamed. `version_bumps` is the number of versions without a change, which take the table above
    the versions that a key has had before. `files` are rows that other processes have already
    written, and `deletions` the rows that these replace; `put` and `removed` are then empty.
    """

    type: NodeType | EdgeType
    put: pa.Table
    removed: pa.Array
    is_overwrite: bool
    indexes: tuple[IndexSpec, ...] = ()
    layout: tuple[LayoutStep, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    published_key: str | None = None
    version_bumps: int = 0
    files: tuple[NewFile, ...] = ()
    deletions: tuple[FragmentDeletions, ...] = ()


TableChanges = Mapping[str, TableChange]
"""The changes of one write by table key, in the order of keys."""


class StagingMode(StrEnum):
    """How the rows of a change reach their table; each change is one staged write."""

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
    """The changes that a write makes to the schema and to the list of types.

    `source` is the text to accept; it is None on a branch that catches up with the accepted schema.
    """

    source: str | None
    schema_hash: str
    delta: SchemaDelta


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write that was computed and checked, and of which no file exists yet.

    `read_set` names the types whose committed rows the write read. A strict write depends on the
    rows that it read (it updates, deletes or overwrites), so it is never prepared again
    automatically. A write with a merged parent is a commit even if it changes nothing.
    """

    changes: TableChanges
    placement: Mapping[str, StagingMode]
    read_set: frozenset[str]
    is_strict: bool
    merged_parent_id: str | None = None
    notes: CommitNotes = NO_NOTES
    schema: SchemaChange | None = None

    @property
    def is_commit(self) -> bool:
        """Whether the write results in a commit."""
        return bool(self.changes or self.schema) or self.merged_parent_id is not None
