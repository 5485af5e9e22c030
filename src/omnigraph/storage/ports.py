"""The two ports through which everything durable happens: tables and objects.

Every method says whether it has a durable effect; those that have one are the ones a fault test
cuts, fails or delays. Paths are relative to the graph's root, with `/`. Errors are already ours:
nothing above this module sees an exception of Lance or obstore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import Transaction

from omnigraph.storage.table_layout import IndexSpec, IndexState, Layout, LayoutStep, Workers
from omnigraph.storage.table_parts import LineFolder, NewFile, StruckFragment, TablePart


@dataclass(frozen=True, slots=True)
class TableRef:
    """A line of versions: a table's path below the root, and the branch of it (None: its own)."""

    path: str
    branch: str | None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One immutable version of a table."""

    ref: TableRef
    version: int


class StagedKind(StrEnum):
    """What applying a staged write will do."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    REPLACEMENT = "replacement"
    INDEX = "index"
    COMPACTION = "compaction"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """Files that nobody refers to, and the transaction that would make them a version.

    `rows_added` and `rows_removed` are what the table's row count gains and loses by it. `files`
    are paths below the table, for those who must make them durable. `ids` are those of the rows in
    the files, in their order; None if they are many, or not known.
    """

    base: TableVersion
    kind: StagedKind
    transaction: Transaction
    rows_added: int
    rows_removed: int
    files: tuple[str, ...]
    ids: pa.Array | None = None

    @property
    def uuid(self) -> str:
        """What proves, long after a crash, that a version is this write."""
        return str(self.transaction.uuid)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How many versions of a line were deleted, and how many bytes of files with them."""

    versions: int
    size: int


@dataclass(frozen=True, slots=True)
class VersionFile:
    """The file in which Lance describes one version; the size is None where asking costs."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """What Lance remembers of the transaction that made a version."""

    uuid: str
    read_version: int
    operation: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object's bytes, and the token that `put_if_match` compares."""

    content: bytes
    token: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One level below a prefix: its objects by name with their tokens, and deeper prefixes."""

    token_by_name: Mapping[str, str]
    prefixes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The rows in which the files of two versions differ, each with the columns its version has.

    A row of which every value stayed the same may be in both: it was only written again.
    """

    gone: pa.Table
    come: pa.Table


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A part of a blob; the size of the whole is None if the row has none.

    `place` names the stored bytes: two reads that give the same place give the same bytes.
    """

    content: bytes
    size: int | None
    place: str


class ObjectStore(Protocol):
    """Small control files: the schema, sidecars, claims."""

    def find(self, path: str) -> StoredObject | None:
        """The object, or None if there is none."""

    def list(self, prefix: str) -> Listing:
        """One level of names below a prefix; nothing there is an empty listing."""

    def tokens(self, prefix: str) -> Mapping[str, str]:
        """The objects of that level with their tokens, without a look at what lies deeper."""

    def put(self, path: str, content: bytes) -> str:
        """Durable effect: write the object whole, replacing what was there; its new token."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Durable effect: write the object unless there is one; whether it was written."""

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        """Durable effect: replace the object that has this token; None if it has another."""

    def delete(self, path: str) -> None:
        """Durable effect: remove the object, unless power is lost then; a missing one is fine."""

    def delete_prefix(self, prefix: str) -> None:
        """Durable effect: remove everything below a prefix; nothing there is fine."""


class RowReader(Protocol):
    """Rows at exact versions, and nothing else: what reads ask of a store.

    A store has all rows; what stands before it for a reader who may not see everything, some.
    """

    def schema(self, at: TableVersion) -> pa.Schema:
        """The columns of a version."""

    def scan(self, at: TableVersion, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
        """The rows of a version that a predicate holds for."""

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        """Those of some ids that are there."""

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows with some ids."""

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows in the order of their ids."""

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        """Some bytes of a blob."""

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows in which two versions differ."""

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        """The rows at these places of a scan."""

    def stored_bytes(self, at: TableVersion, column: str) -> int:
        """How much room a column takes."""


class TableStore(RowReader, Protocol):
    """Lance tables, opened at exact versions and changed only by staged writes."""

    def with_workers(self, workers: Workers) -> TableStore:
        """The same tables, with indexes and joined files of theirs written by others."""

    # Reads

    def find_head(self, ref: TableRef) -> int | None:
        """The newest version, asked of the storage; None if there is no such table or branch."""

    def generation(self) -> int:
        """A number that grows whenever a table or branch turns out to be another of its name.

        Asks nobody: it is `find_head` that finds out.
        """

    def column_numbers(self, at: TableVersion) -> Mapping[str, int]:
        """The columns of a version, each with the number that it keeps when it is renamed.

        A table that is written anew as a whole has its columns numbered anew.
        """

    def scan(self, at: TableVersion, *, columns: Sequence[str], predicate: str | None) -> pa.Table:
        """The rows of a version that a predicate holds for, in one table; blobs as bytes.

        `NotFoundError` means that the version was cleaned up or that its branch is gone.
        """

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        """Those of some ids that are there, at most `PROBED_VALUES_MAX` of them and each once.

        Costs no request once the table has been asked before, unless rows were deleted near them.
        """

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows with some ids, at most `PROBED_VALUES_MAX` of them and each once.

        Costs about the same for a table of one file and of many once it has been asked before.
        """

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows in the order of their ids, a batch at a time; blobs as bytes.

        No more is in memory at once than about twice `SORTED_BYTES_MAX` and some batches, however
        many rows and blobs there are.
        """

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        """Some bytes of a blob, or all from `start` on; None if there is no such row.

        Only those bytes are read. What lies behind the end of the blob is left out.
        """

    def scan_new(
        self, at: TableVersion, *, since: TableVersion | None, columns: Sequence[str]
    ) -> pa.Table:
        """At least the rows that came after `since`, by reading only files it does not have."""

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows of `old` that `new` has not or has elsewhere, and the other way round.

        Both are versions of one table, on whichever of its branches and in either order of time.
        Costs what changed between them; after a compaction that is all it moved. Of the columns
        those are read that a version has; blobs come as bytes.
        """

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        """The rows at these places of a scan of the version; places ascend, each once."""

    def count(self, at: TableVersion, *, predicate: str | None) -> int:
        """How many rows of a version a predicate holds for."""

    def fragment_row_counts(self, at: TableVersion) -> tuple[int, ...]:
        """The rows of each fragment, in order."""

    def indexes(self, at: TableVersion) -> tuple[IndexState, ...]:
        """The indexes of a version, by column."""

    def plan_layout(self, at: TableVersion, *, wanted: Sequence[IndexSpec]) -> Layout:
        """What is to do so that a table lies in few files and its indexes know every row.

        `wanted` are the indexes it should have and can: of columns that it has, and with vectors.
        """

    def parts(self, at: TableVersion, *, rows_max: int) -> tuple[TablePart, ...]:
        """A version in parts of about so many rows, for other processes to read."""

    def describe(self, at: TableVersion) -> VersionFile:
        """Where Lance keeps the description of a version; costs no request."""

    def versions(self, ref: TableRef) -> tuple[int, ...]:
        """The versions of a line that are there, ascending; none if there is no such line."""

    def find_version_before(self, ref: TableRef, moment: datetime) -> int | None:
        """The newest version of a line that was made before a moment; None if there is none."""

    def preview_cleaning(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        """What cleaning would delete."""

    def find_transaction(self, at: TableVersion) -> TransactionRecord | None:
        """What made a version; None if Lance no longer knows."""

    def find_operations(self, ref: TableRef, *, after: int) -> tuple[str | None, ...]:
        """What Lance calls that which made each version after one; None where it is not known."""

    def branches(self, path: str) -> frozenset[str]:
        """The branches of a table."""

    def is_fresh_fork(self, ref: TableRef, *, of: TableVersion) -> bool:
        """Whether a branch of a table, which exists, is just as it was forked from a version."""

    def find_outside(self, at: TableVersion) -> frozenset[str]:
        """The places outside of a moved or copied graph in which a version looks for its files."""

    # Staging: files that nobody refers to

    def stage_append(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Rows to add. There must be some."""

    def stage_append_stream(self, rows: pa.RecordBatchReader, *, onto: TableVersion) -> StagedWrite:
        """The same from a stream that is never held whole."""

    def stage_merge_insert(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Rows that replace those with the same `id` and are added otherwise; ids are distinct."""

    def stage_exchange(
        self, rows: pa.Table, *, removing: pa.Array, onto: TableVersion
    ) -> StagedWrite:
        """The same, while the rows with other ids go; there must be rows to put."""

    def stage_overwrite(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Rows, perhaps none, that replace all there are; the table gets their columns."""

    def stage_delete(self, ids: pa.Array, *, onto: TableVersion) -> StagedWrite | None:
        """Remove the rows with these ids; None, and so no version, if there is none of them."""

    def stage_replacement(
        self, rows: pa.Table, *, replacing: Sequence[str], onto: TableVersion
    ) -> StagedWrite:
        """Rows of the manifest; those that exist under the `object_id`s in `replacing` go.

        Of two such writes onto one version that replace the same row, one is refused by `apply`:
        whoever always replaces one common row has a compare-and-swap.
        """

    def folder(self, ref: TableRef) -> LineFolder:
        """Where other processes write files for a line, which need not exist yet."""

    def stage_files(
        self,
        files: Sequence[NewFile],
        struck: Sequence[StruckFragment],
        *,
        columns: pa.Schema,
        is_overwrite: bool,
        onto: TableVersion,
    ) -> StagedWrite:
        """Files of rows that other processes wrote, while the rows they struck go.

        `ReadSetChangedError` means that a file is gone: so is the line that it was written for.
        """

    def stage_indexes(self, specs: Sequence[IndexSpec], *, onto: TableVersion) -> StagedWrite:
        """Indexes of columns over all rows; what is there already is completed or replaced.

        At least one must lack something. For a vector index a row must have a vector.
        """

    def stage_layout(
        self, step: LayoutStep, *, wanted: Sequence[IndexSpec], onto: TableVersion, uuid: str
    ) -> StagedWrite:
        """One step of a plan, onto the version that the step before it has made.

        No row changes, nor its id; their order in a scan may. The transaction gets the uuid.
        """

    def stage_columns(
        self, schema: pa.Schema, *, renames: Mapping[str, str], onto: TableVersion
    ) -> StagedWrite | None:
        """The columns of a schema in place of those there are; None if it has just these.

        `renames` lead from names that are there to names of the schema. What else is missing is
        added, null everywhere, and what is not in the schema goes, its index too. No row is
        written, so it costs the same however many there are.
        """

    # Durable effects

    def create(self, path: str, rows: pa.Table, *, config: Mapping[str, str]) -> TableVersion:
        """Durable effect: create a table; `AlreadyExistsError` if there is one.

        It is born whole at version 1; a configuration is then set by version 2.
        """

    def apply(self, staged: StagedWrite) -> TableVersion:
        """Durable effect: advance a table by exactly one version.

        `ExpectedVersionMismatchError` means that nothing landed, `UnexpectedBaseError` that the
        write landed on a version nobody prepared it for.
        """

    def compact(self, at: TableVersion, *, rows_per_fragment: int) -> TableVersion | None:
        """Durable effect: join fragments smaller than that; None if another writer was first.

        Content stays the same, and so does the version if there is nothing to join. Only for
        tables whose versions nobody pins.
        """

    def delete_files(self, ref: TableRef, files: Sequence[NewFile]) -> None:
        """Durable effect: remove files of a line that no version names; a missing one is fine."""

    def fork(self, at: TableVersion, *, branch: str) -> TableRef:
        """Durable effect: start a branch of the table at a version; it must not exist."""

    def delete_branch(self, ref: TableRef) -> None:
        """Durable effect: remove a branch of the table and its files; a missing one is fine."""

    def clean(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        """Durable effect: delete versions of a line, and the files that no other version has.

        The newest one stays, and those that branches were made from; a missing one is fine. Files
        that no version names go when they are a week old.
        """

    def restore(self, at: TableVersion, *, uuid: str) -> TableVersion:
        """Durable effect: make an old version's content the newest, by a transaction's uuid."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Both ports of one graph."""

    objects: ObjectStore
    tables: TableStore
