"""Commits: a table advances by one version, in one attempt, and the version reported is checked.

Lance retries nothing here, and whatever it says, the number of the version it made is looked at:
it rebases writes onto versions that nobody prepared them for and reports success. On local disks
what a version consists of is flushed before the version is acknowledged, staged files even before
it exists. Nothing else in OmniGraph commits to Lance.
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
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance_blobs import to_stored
from omnigraph.storage.lance_errors import FOREIGN, lance_errors, translate
from omnigraph.storage.lance_handles import (
    LanceHandles,
    describe_version,
    folder_of,
    version_file,
)
from omnigraph.storage.lance_history import find_transaction
from omnigraph.storage.lance_staging import data_files
from omnigraph.storage.ports import StagedWrite, TableRef, TableVersion


class LanceCommits:
    """Makes versions of the tables that are opened through some handles.

    Without a disk to flush, what Lance acknowledges is taken to be durable.
    """

    def __init__(self, handles: LanceHandles, *, disk: Durability | None) -> None:
        self._handles = handles
        self._disk = disk

    def create_table(self, path: str, rows: pa.Table, *, config: Mapping[str, str]) -> TableVersion:
        """Create a table, at version 1 or, if it has a configuration, at 2."""
        # Whatever was there under this name is gone, or the table is not made.
        self._handles.forget(lambda kept: kept.path == path)
        with lance_errors(table=path, action=f"make '{path}'"):
            table = self._give_birth(TableRef(path, None), to_stored(rows))
            if table.version != 1:
                raise UnexpectedBaseError(table=path, expected=1, found=table.version)
            if config:
                # Lance cannot give a table its configuration at birth. A crash here leaves one
                # that lacks it and is whole otherwise.
                entries = LanceOperation.UpdateMap(dict(config))
                operation = LanceOperation.UpdateConfig(config_updates=entries)
                table = LanceDataset.commit(table, _transaction(1, operation), max_retries=0)
            if self._disk:
                self._disk.secure_tree(path)
        # The handle is not kept: tables are born outside of the session that the others share.
        return TableVersion(TableRef(path, None), table.version)

    def apply(self, staged: StagedWrite) -> TableVersion:
        """Advance a table by a staged write."""
        base = staged.base
        self._secure(base, (f"{base.ref.path}/{file}" for file in staged.files))
        # A crash here leaves files nobody refers to.
        return self._advance(base, staged.transaction)

    def restore_version(self, at: TableVersion, *, uuid: str) -> TableVersion:
        """Make an old version the newest."""
        self._handles.get(at)
        head = TableVersion(at.ref, self._handles.get_newest(at.ref).version)
        operation = LanceOperation.Restore(at.version)
        return self._advance(head, Transaction(head.version, operation, uuid, {}))

    def compact(self, at: TableVersion, *, rows_per_fragment: int) -> TableVersion | None:
        """Join fragments smaller than that; None if another writer was first."""
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
        # Lance's own compaction takes two versions. After this one an index knows less of the
        # table than before, and nothing wrong.
        operation = LanceOperation.Rewrite(groups, [])
        try:
            return self._advance(at, _transaction(at.version, operation))
        except (ExpectedVersionMismatchError, UnexpectedBaseError):
            # In the second case it landed behind another write, and changed no row there either.
            return None

    def _give_birth(self, ref: TableRef, rows: pa.Table) -> LanceDataset:
        # `write_dataset` would replace a table that another made at the same moment; a commit onto
        # version 0 is refused instead.
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
        # Lance holds a handle for itself while it commits through it, and refuses readers then.
        table = copy(self._handles.get(base))
        try:
            # Zero retries is not zero rebasing, so the version has to be checked too.
            landed = LanceDataset.commit(table, transaction, max_retries=0)
        except CommitConflictError as error:
            # A storage that repeats a request may refuse the repetition of what it has done.
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
