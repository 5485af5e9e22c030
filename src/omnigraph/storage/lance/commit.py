"""Commits to Lance: advances one table by one version, and reads the transactions of versions.

No other module commits to Lance. A commit is tried once, and the version that Lance reports is
checked, because Lance can rebase a write onto another version and report success. On a local disk,
files are flushed before the version is acknowledged. A transaction identifies the write that made
a version, which recovery relies on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from uuid import uuid4

import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments
from lance.optimize import Compaction, CompactionOptions

from omnigraph.model.errors import ExpectedVersionMismatchError, UnexpectedBaseError
from omnigraph.model.limits import FRAGMENT_ROWS_MAX
from omnigraph.storage.fsync import Durability
from omnigraph.storage.lance.branches import read_varint, skip_value
from omnigraph.storage.lance.errors import FOREIGN, Failure, classify, lance_errors, translate
from omnigraph.storage.lance.handles import DatasetCache, describe_version, folder_of, version_file
from omnigraph.storage.lance.scan import to_stored
from omnigraph.storage.lance.stage import data_files
from omnigraph.storage.ports import (
    ObjectStore,
    StagedWrite,
    TableRef,
    TableVersion,
    TransactionRecord,
)


def find_transaction(handles: DatasetCache, at: TableVersion) -> TransactionRecord | None:
    """The transaction that made a version; None if Lance does not have it or cannot decode it."""
    table = handles.find_newest(at.ref)
    if table is None or table.version < at.version:
        return None
    try:
        # Lance locks a handle during this call and rejects concurrent readers.
        found = copy(table).read_transaction(at.version)
    except TypeError:
        # pylance 14 cannot represent the transaction of Lance's own compaction of an indexed table.
        return None
    except FOREIGN as error:
        if classify(error) is Failure.MISSING_VERSION:
            return None
        name = describe_version(at)
        raise translate(error, table=name, action=f"read what made '{name}'") from error
    if found is None:
        return None
    return TransactionRecord(
        uuid=found.uuid,
        read_version=found.read_version,
        operation=type(found.operation).__name__,
        properties=dict(found.transaction_properties or {}),
    )


class LanceCommits:
    """Commits versions of the tables that are opened through a dataset cache.

    Without a `disk` to flush, a commit that Lance acknowledges is assumed to be durable.
    """

    def __init__(self, handles: DatasetCache, *, disk: Durability | None) -> None:
        self._handles = handles
        self._disk = disk

    def create_table(self, path: str, rows: pa.Table, *, config: Mapping[str, str]) -> TableVersion:
        """Create a table, at version 1, or at version 2 if it has a configuration."""
        # Any earlier table of this name was deleted, or the creation fails.
        self._handles.forget(lambda cached: cached.path == path)
        with lance_errors(table=path, action=f"make '{path}'"):
            table = self._give_birth(TableRef(path, None), to_stored(rows))
            if table.version != 1:
                raise UnexpectedBaseError(table=path, expected=1, found=table.version)
            if config:
                # Lance cannot set the configuration when it creates a table. A crash here leaves a
                # table that lacks it and is complete otherwise.
                entries = LanceOperation.UpdateMap(dict(config))
                operation = LanceOperation.UpdateConfig(config_updates=entries)
                table = LanceDataset.commit(table, _transaction(1, operation), max_retries=0)
            if self._disk:
                self._disk.secure_tree(path)
        # The handle is not cached, because tables are created outside the shared session.
        return TableVersion(TableRef(path, None), table.version)

    def apply(self, staged: StagedWrite) -> TableVersion:
        """Advance a table by a staged write."""
        base = staged.base
        self._secure(base, (f"{base.ref.path}/{file}" for file in staged.files))
        # A crash here leaves files that no version refers to.
        return self._advance(base, staged.transaction)

    def restore_version(self, at: TableVersion, *, uuid: str) -> TableVersion:
        """Make the content of an old version the newest version."""
        self._handles.get(at)
        head = TableVersion(at.ref, self._handles.get_newest(at.ref).version)
        operation = LanceOperation.Restore(at.version)
        return self._advance(head, Transaction(head.version, operation, uuid, {}))

    def compact(self, at: TableVersion, *, rows_per_fragment: int) -> TableVersion | None:
        """Compact fragments below that size; None if another writer was first."""
        table = copy(self._handles.get(at))
        name = describe_version(at)
        with lance_errors(table=name, action=f"join small files of '{name}'"):
            options = CompactionOptions(target_rows_per_fragment=rows_per_fragment)
            groups = [
                LanceOperation.RewriteGroup(task.fragments, task.execute(table).new_fragments)
                for task in Compaction.plan(table, options).tasks
            ]
        if not groups:
            return at
        written = [fragment for group in groups for fragment in group.new_fragments]
        self._secure(at, (f"{folder_of(at.ref)}/{file}" for file in data_files(written)))
        # Lance's own compaction takes two versions. After this one, an index covers fewer rows than
        # before and has no wrong entries.
        operation = LanceOperation.Rewrite(groups, [])
        try:
            return self._advance(at, _transaction(at.version, operation))
        except (ExpectedVersionMismatchError, UnexpectedBaseError):
            # In the second case it landed after another write, whose rows it did not change either.
            return None

    def _give_birth(self, ref: TableRef, rows: pa.Table) -> LanceDataset:
        # `write_dataset` would replace a table that another process creates at the same time; a
        # commit onto version 0 is rejected instead.
        uri, options = self._handles.uri(ref), self._handles.storage_options
        fragments: list[FragmentMetadata] = []
        if rows.num_rows:
            fragments = write_fragments(
                rows,
                uri,
                mode="create",
                max_rows_per_file=FRAGMENT_ROWS_MAX,
                data_storage_version="2.2",
                storage_options=options,
                allow_external_blob_outside_bases=True,
                session=self._handles.session,
            )
        if self._disk:
            self._disk.secure(f"{ref.path}/{file}" for file in data_files(fragments))
        return LanceDataset.commit(
            uri,
            _transaction(0, LanceOperation.Overwrite(rows.schema, fragments)),
            max_retries=0,
            storage_options=options,
            enable_stable_row_ids=True,
            enable_v2_manifest_paths=True,
        )

    def _advance(self, base: TableVersion, transaction: Transaction) -> TableVersion:
        expected = TableVersion(base.ref, base.version + 1)
        # Lance locks a handle while it commits through it and rejects concurrent readers.
        table = copy(self._handles.get(base))
        try:
            # Zero retries does not disable rebasing, so the version is checked as well.
            landed = LanceDataset.commit(table, transaction, max_retries=0)
        except CommitConflictError as error:
            # A storage client that retries a request may get a conflict with its own first attempt.
            made_by = find_transaction(self._handles, expected)
            if made_by is None or made_by.uuid != transaction.uuid:
                raise self._moved(base) from error
            landed = self._handles.get(expected)
        except FOREIGN as error:
            if self._handles.set_aside_cut(expected):
                return self._advance(base, transaction)
            name = describe_version(base)
            raise translate(error, table=name, action=f"add to '{name}'") from error
        if landed.version != expected.version:
            raise UnexpectedBaseError(
                table=base.ref.path, expected=expected.version, found=landed.version
            )
        self._secure_version(expected, transaction)
        self._handles.keep(base.ref, landed)
        return expected

    def _moved(self, base: TableVersion) -> ExpectedVersionMismatchError:
        newest = self._handles.find_newest(base.ref)
        return ExpectedVersionMismatchError(
            table_key=base.ref.path,
            expected=base.version,
            actual=0 if newest is None else newest.version,
        )

    def _secure_version(self, at: TableVersion, made_by: Transaction) -> None:
        folder = folder_of(at.ref)
        record = f"_transactions/{made_by.read_version}-{made_by.uuid}.txn"
        self._secure(at, (f"{folder}/{version_file(at.version)}", f"{folder}/{record}"))

    def _secure(self, at: TableVersion, files: Iterable[str]) -> None:
        if self._disk:
            name = describe_version(at)
            with lance_errors(table=name, action=f"flush files of '{name}'"):
                self._disk.secure(files)


def _transaction(read_version: int, operation: LanceOperation.BaseOperation) -> Transaction:
    return Transaction(read_version, operation, str(uuid4()), {})


# The fields of Lance's transaction record that identify the operation; exactly one is present.
_NAME_BY_FIELD = {
    100: "Append",
    101: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    106: "Restore",
    107: "ReserveFragments",
    108: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
}


def find_operations(
    handles: DatasetCache, files: ObjectStore, ref: TableRef, *, after: int
) -> tuple[str | None, ...]:
    """The operation of each version after `after`, up to the newest; None if it is not known."""
    newest = handles.get_newest(ref)
    if newest.version <= after:
        return ()
    with lance_errors(table=ref.path, action=f"read how '{folder_of(ref)}' came about"):
        tracked = copy(newest).tracked_files(min_version=after + 1).read_all().to_pylist()
    record_by_version = {
        each["version"]: each["path"] for each in tracked if each["type"] == "transaction file"
    }
    paths = [record_by_version.get(each) for each in range(after + 1, newest.version + 1)]
    found = [None if path is None else files.find(f"{folder_of(ref)}/{path}") for path in paths]
    return tuple(None if each is None else read_operation(each.content) for each in found)


def read_operation(record: bytes) -> str | None:
    """The operation of a transaction record; None if the record does not contain one."""
    place = 0
    try:
        while place < len(record):
            key, place = read_varint(record, place)
            if key >> 3 in _NAME_BY_FIELD:
                return _NAME_BY_FIELD[key >> 3]
            place = skip_value(record, place, key=key)
    except ValueError:
        # The content is truncated or is not a transaction record.
        return None
    return None
