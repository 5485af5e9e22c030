"""The storage ports and the values that cross them.

Control files cross `ObjectStore`. Tables cross three ports: `TableReader`, `TableWriter` and
`TableMaintenance`; a `TableStore` is all three.

Every method states whether it has a durable effect; fault tests interrupt exactly those methods.
Paths are relative to the root of the graph. Implementations raise only OmniGraph errors. Values
for other processes are small, immutable and picklable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.predicates import Predicate

if TYPE_CHECKING:
    from lance import Transaction

T = TypeVar("T")
R = TypeVar("R")


class IndexKind(StrEnum):
    """The kind of an index: comparisons, full text, or vector distance."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    VECTOR = "VECTOR"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index that a column should have."""

    column: str
    kind: IndexKind


class LayoutStep(StrEnum):
    """A step that improves the layout of a table, in the order in which the steps run."""

    RELEASE = "forget what indexes know of files or columns that are about to change"
    CONVERT = "store timestamps, which earlier versions stored as dates, in their own type"
    COMPACT = "join files, and leave out rows that were deleted"
    INDEX = "let every index know every row"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a version, and the steps that would improve it, one version each.

    `fragments_removed` of its `fragments` would be compacted. `uncovered` are the wanted indexes
    that do not exist or do not cover every row. About `rows_moved` rows are rewritten or indexed.
    """

    steps: tuple[LayoutStep, ...]
    fragments: int
    fragments_removed: int
    uncovered: tuple[IndexSpec, ...]
    rows_moved: int


class Workers(Protocol):
    """Other processes that run tasks; no version names their files until these are staged."""

    def share(self, row_count: int) -> int:
        """The number of rows, out of `row_count`, that one task should process."""

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, stage: str) -> tuple[R, ...]:
        """Run `work` on each task; returns the results in task order. All values must be picklable.

        A task may run more than once; its result is that of one of the runs.
        """


@dataclass(frozen=True, slots=True)
class TableBranchFolder:
    """The location of a table branch's files; `is_bare` means that the branch did not exist yet."""

    uri: str
    # Options hold secrets, so they are excluded from `repr`.
    storage_options: Mapping[str, str] | None = field(repr=False)
    is_bare: bool


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some fragments of one version, in the order of the table."""

    folder: TableBranchFolder
    version: int
    fragments: tuple[int, ...]
    row_count: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A row file below the folder of a table branch that no version names yet.

    `fragment` is the metadata that Lance needs to add it to a version.
    """

    fragment: str
    row_count: int


@dataclass(frozen=True, slots=True)
class FragmentDeletions:
    """A fragment with deleted rows; `fragment` is Lance's metadata, None if no row is left."""

    number: int
    fragment: str | None
    rows_removed: int


@dataclass(frozen=True, slots=True)
class RewrittenPart:
    """The new files of rewritten rows, and the fragments from which those rows are deleted."""

    files: tuple[NewFile, ...]
    deletions: tuple[FragmentDeletions, ...]


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table branch: the table's path below the root, and its branch (None: the main branch)."""

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
    """Files that no version refers to, and the transaction that would make them a version.

    `rows_added` and `rows_removed` are the changes to the table's row count. `files` are paths
    below the table, for callers that make them durable. `ids` are the ids of the rows in the files,
    in file order; None if they are many or not known.
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
        """The transaction id, which identifies the version of this write even after a crash."""
        return str(self.transaction.uuid)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The number of deleted versions of a table branch, and of the deleted bytes."""

    versions: int
    size: int


@dataclass(frozen=True, slots=True)
class VersionFile:
    """The manifest file of one version; the size is None where reading it costs a request."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """Lance's record of the transaction that made a version."""

    uuid: str
    read_version: int
    operation: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The content of an object, and the token that `put_if_match` compares."""

    content: bytes
    token: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One level below a prefix: its objects by name with their tokens, and deeper prefixes."""

    token_by_name: Mapping[str, str]
    prefixes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The rows that differ between the files of two versions, each with its version's columns.

    A row whose values are all unchanged may be in both tables: it was only rewritten.
    """

    deleted: pa.Table
    added: pa.Table


@dataclass(frozen=True, slots=True)
class FollowedDelta:
    """A delta, and the positions of its deleted rows in a scan of a third version, the base.

    The position is -1 for a row that the base does not have at the same address.
    """

    rows: TableDelta
    deleted_positions: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VectorSearch:
    """A search for the rows near a vector by the index of a column.

    `probes` is the number of partitions of the index that are read.
    """

    column: str
    query: npt.NDArray[np.float32]
    probes: int


@dataclass(frozen=True, slots=True)
class NearRows:
    """Rows of a version near a vector, nearest first, as their positions in a scan of a base.

    The position is -1 for a row that the base does not have at the same address; `ids` are the ids
    of these rows, in order.
    """

    positions: npt.NDArray[np.int64]
    ids: pa.Array


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A part of a blob; `size` is that of the whole blob, None if the row has no blob.

    `place` identifies the stored bytes: two reads that return the same place return the same bytes.
    """

    content: bytes
    size: int | None
    place: str


class ReadAccess(StrEnum):
    """How a read of rows found them."""

    INDEX = "index"
    SCAN = "scan"
    ADDRESS = "row address"
    CHANGES = "changes since a cached version"


@dataclass(frozen=True, slots=True)
class StorageRead:
    """How one read found its rows, and the bytes that it read from the files of the table."""

    access: ReadAccess
    bytes_read: int


ReadMeter = Callable[[StorageRead], None]
"""Receives every finished read, on the thread that read."""


class ObjectStore(Protocol):
    """Small control files, such as the schema, sidecars and claims."""

    def find(self, path: str) -> StoredObject | None:
        """The object, or None if it does not exist."""

    def list(self, prefix: str) -> Listing:
        """One level of names below a prefix; the listing is empty if there is no object."""

    def tokens(self, prefix: str) -> Mapping[str, str]:
        """The objects of that level with their tokens, without listing deeper prefixes."""

    def put(self, path: str, content: bytes) -> str:
        """Durable effect: write or replace the object atomically; return its new token."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Durable effect: write the object if none exists; return whether it was written."""

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        """Durable effect: replace the object with this token; None if the token differs."""

    def delete(self, path: str) -> None:
        """Durable effect: delete the object if it exists; a power loss may undo the deletion."""

    def delete_prefix(self, prefix: str) -> None:
        """Durable effect: delete all objects below a prefix, if there are any."""


class RowReader(Protocol):
    """Reads of rows at exact versions.

    A table store implements it for all rows; row-level security implements it for the rows that a
    reader may see.
    """

    def schema(self, at: TableVersion) -> pa.Schema:
        """The columns of a version."""

    def scan(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> pa.Table:
        """The rows of a version that match a predicate, in one table; blobs are returned as bytes.

        Raises `NotFoundError` if the version was cleaned up or its branch was deleted.
        """

    def scan_batches(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """The same rows in any order, a batch at a time; at least one column, and no blobs.

        Memory use does not depend on the number of rows.
        """

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        """The given ids that exist; at most `PROBED_VALUES_MAX` distinct ids may be given.

        After the first lookup in a table this sends no request, unless rows near them were deleted.
        """

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """The rows with the given ids; at most `PROBED_VALUES_MAX` distinct ids may be given.

        After the first lookup in a table the cost hardly depends on the number of files.
        """

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows in id order, a batch at a time; blobs are returned as bytes.

        Memory use is bounded by about twice `SORTED_BYTES_MAX` plus a few batches, for any number
        of rows and blobs.
        """

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        """A range of bytes of a blob, or all from `start`; None if the row does not exist.

        Only those bytes are read. A range beyond the end of the blob is truncated.
        """

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        """The rows that `old` and `new` do not share at the same address, on each side.

        Both are versions of one table, on any of its branches and in either order of time. The cost
        is proportional to the changes between them; a compaction counts as a change of all rows
        that it moved. Columns that a version does not have are skipped; blobs are returned as
        bytes.
        """

    def follow_delta(
        self, old: TableVersion, new: TableVersion, *, base: TableVersion, columns: Sequence[str]
    ) -> FollowedDelta:
        """The same, with the positions of the deleted rows in a scan of `base`.

        The positions are found by address, at a cost that does not depend on the size of the table.
        """

    def count_delta(self, old: TableVersion, new: TableVersion) -> int | None:
        """An estimate of the number of rows that `find_delta` reads, from metadata only.

        None if the versions have different columns, or if their rows cannot be compared by address.
        """

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        """The rows at these positions of a scan, which ascend and are distinct."""

    def stored_bytes(self, at: TableVersion, column: str) -> int:
        """The stored size of a column in bytes."""

    def find_nearest(
        self, at: TableVersion, search: VectorSearch, *, count: int, base: TableVersion
    ) -> NearRows | None:
        """The rows nearest to a vector by the index of a column, at most `count`, from all rows.

        The order is approximate, and so are the rows: not all partitions of the index are read, and
        distances in it are estimated. Rows that the index does not cover are compared. None if the
        column has no index or a damaged one, or if the version has at most `NEAREST_EXACT_ROWS_MAX`
        rows.
        """


class TableReader(RowReader, Protocol):
    """Reads of tables, their versions and branches. No method has a durable effect."""

    def metered(self, meter: ReadMeter) -> TableReader:
        """The same tables, with `scan`, `scan_batches`, `take` and `follow_delta` reported."""

    def find_head(self, ref: TableRef) -> int | None:
        """The newest version, read from the storage; None if the table or branch does not exist."""

    def generation(self) -> int:
        """A counter that grows when a table or branch turns out to have been recreated.

        It sends no request: `find_head` detects the recreation.
        """

    def column_numbers(self, at: TableVersion) -> Mapping[str, int]:
        """The columns of a version with their field ids, which a rename does not change.

        An overwrite of the whole table assigns new field ids.
        """

    def scan_new(
        self, at: TableVersion, *, since: TableVersion | None, columns: Sequence[str]
    ) -> pa.Table:
        """At least the rows added after `since`, read only from files that it does not have."""

    def count(self, at: TableVersion, *, predicate: Predicate | None) -> int:
        """The number of rows of a version that match a predicate."""

    def fragment_row_counts(self, at: TableVersion) -> tuple[int, ...]:
        """The rows of each fragment, in order."""

    def indexes(self, at: TableVersion) -> Mapping[IndexSpec, int]:
        """The indexes of a version, by column, and the number of rows that each covers."""

    def parts(self, at: TableVersion, *, rows_max: int) -> tuple[TablePart, ...]:
        """A version split into parts of about `rows_max` rows, for other processes to read."""

    def describe(self, at: TableVersion) -> VersionFile:
        """The location of a version's manifest file; sends no request."""

    def folder(self, ref: TableRef) -> TableBranchFolder:
        """Where other processes write files of a table branch, which need not exist yet."""

    def versions(self, ref: TableRef) -> tuple[int, ...]:
        """The existing versions of a table branch, ascending; empty if there is no such branch."""

    def find_transaction(self, at: TableVersion) -> TransactionRecord | None:
        """The transaction that made a version; None if Lance no longer has it."""

    def find_operations(self, ref: TableRef, *, after: int) -> tuple[str | None, ...]:
        """Lance's name of the operation of each version after `after`; None where unknown."""

    def branches(self, path: str) -> frozenset[str]:
        """The branches of a table."""

    def find_outside(self, at: TableVersion) -> frozenset[str]:
        """The locations outside this graph, if it was moved or copied, that a version refers to."""


class TableWriter(Protocol):
    """Writes of rows and columns: stage files that no version refers to, then apply them.

    A method that stages writes files, and only methods that say so have a durable effect.
    """

    def create(self, path: str, rows: pa.Table, *, config: Mapping[str, str]) -> TableVersion:
        """Durable effect: create a table; raises `AlreadyExistsError` if it exists.

        The table is created atomically at version 1; version 2 then sets the configuration, if any.
        """

    def stage_append(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Stage rows to add; at least one row is required."""

    def stage_merge_insert(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Stage an upsert by `id`; ids must be distinct."""

    def stage_exchange(
        self, rows: pa.Table, *, removing: pa.Array, onto: TableVersion
    ) -> StagedWrite:
        """The same, and delete the rows with the ids in `removing`; `rows` must not be empty."""

    def stage_overwrite(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        """Stage rows, possibly none, that replace all rows; the table takes their columns."""

    def stage_delete(self, ids: pa.Array, *, onto: TableVersion) -> StagedWrite | None:
        """Stage the deletion of the rows with these ids; None, and no version, if none exists."""

    def stage_replacement(
        self, rows: pa.Table, *, replacing: Sequence[str], onto: TableVersion
    ) -> StagedWrite:
        """Stage rows of the manifest; existing rows with an `object_id` in `replacing` are deleted.

        Of two such writes onto one version that replace the same row, `apply` rejects one. Writers
        that always replace one common row therefore have a compare-and-swap.
        """

    def stage_files(
        self,
        files: Sequence[NewFile],
        deletions: Sequence[FragmentDeletions],
        *,
        columns: pa.Schema,
        is_overwrite: bool,
        onto: TableVersion,
    ) -> StagedWrite:
        """Stage row files that other processes wrote, and deletions.

        Raises `ReadSetChangedError` if a file does not exist, because its table branch was deleted.
        """

    def stage_columns(
        self, schema: pa.Schema, *, renames: Mapping[str, str], onto: TableVersion
    ) -> StagedWrite | None:
        """Stage a change to the columns of a schema; None if the table already has them.

        `renames` map existing names to names of the schema. Other missing columns are added with
        null values, and columns that are not in the schema are dropped with their indexes. No row
        is written, so the cost does not depend on the number of rows.
        """

    def apply(self, staged: StagedWrite) -> TableVersion:
        """Durable effect: advance a table by exactly one version.

        Raises `ExpectedVersionMismatchError` if nothing was written, and `UnexpectedBaseError` if
        the write landed on a version that it was not prepared for.
        """

    def delete_files(self, ref: TableRef, files: Sequence[NewFile]) -> None:
        """Durable effect: delete files of a table branch that no version names, if they exist."""

    def restore(self, at: TableVersion, *, uuid: str) -> TableVersion:
        """Durable effect: make an old version's content the newest, under a transaction uuid."""


class TableMaintenance(Protocol):
    """Maintenance of tables: layout and indexes, compaction, clean-up, and table branches."""

    def with_workers(self, workers: Workers) -> TableStore:
        """The same tables, whose indexes and compacted files are written by workers."""

    def plan_layout(self, at: TableVersion, *, wanted: Sequence[IndexSpec]) -> Layout:
        """The steps that leave a table with few files and with indexes that cover every row.

        `wanted` are the indexes that the table should have and that can be built: their columns
        exist, and vector columns have vectors.
        """

    def stage_indexes(self, specs: Sequence[IndexSpec], *, onto: TableVersion) -> StagedWrite:
        """Stage indexes over all rows; an existing index is completed or replaced.

        At least one index must be incomplete. A vector index requires at least one row with a
        vector.
        """

    def stage_layout(
        self, step: LayoutStep, *, wanted: Sequence[IndexSpec], onto: TableVersion, uuid: str
    ) -> StagedWrite:
        """Stage one step of a layout, onto the version that the previous step made.

        Rows and their ids do not change; their order in a scan may. The transaction gets the uuid.
        """

    def compact(self, at: TableVersion, *, rows_per_fragment: int) -> TableVersion | None:
        """Durable effect: compact fragments below that size; None if another writer was first.

        The content does not change, nor does the version if there is nothing to compact. Only for
        tables whose versions are not pinned.
        """

    def fork(self, at: TableVersion, *, branch: str) -> TableRef:
        """Durable effect: create a table branch at a version; it must not exist."""

    def is_fresh_fork(self, ref: TableRef, *, of: TableVersion) -> bool:
        """Whether an existing table branch is unchanged since it was forked from a version."""

    def delete_branch(self, ref: TableRef) -> None:
        """Durable effect: delete a table branch and its files, if it exists."""

    def find_version_before(self, ref: TableRef, timestamp: datetime) -> int | None:
        """The newest version of a table branch made before a timestamp; None if there is none."""

    def preview_cleaning(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        """What `clean` would delete."""

    def clean(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        """Durable effect: delete versions of a table branch, and the files that only they use.

        The newest version and versions that branches were forked from are retained; missing
        versions are ignored. Files that no version names are deleted once they are a week old.
        """


class TableStore(TableReader, TableWriter, TableMaintenance, Protocol):
    """All tables of one graph, opened at exact versions and changed only by staged writes."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Both ports of one graph."""

    objects: ObjectStore
    tables: TableStore


@dataclass(frozen=True, slots=True)
class VersionLocation:
    """A version of a table, and its location."""

    folder: TableBranchFolder
    version: int


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """Rows of some fragments of a version: all of them, or those deleted in another version.

    The part's row count is an estimate of the number of these rows.
    """

    part: TablePart
    deleted_in: VersionLocation | None

    @property
    def row_count(self) -> int:
        """The estimated number of rows."""
        return self.part.row_count


@dataclass(frozen=True, slots=True)
class DeltaParts:
    """The rows of an old and of a new version that the other does not have at the same address."""

    deleted: tuple[DeltaPart, ...]
    added: tuple[DeltaPart, ...]

    @property
    def row_count(self) -> int:
        """The estimated number of rows to read."""
        return sum(each.row_count for each in (*self.deleted, *self.added))


NO_DELTA = DeltaParts((), ())
"""The delta of two equal versions."""
