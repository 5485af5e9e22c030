"""The `TableStore` of a graph on Lance, on a local disk or on S3.

It combines the dataset cache, scans, staged writes, commits and branches. Exceptions of Lance are
translated into OmniGraph errors. The module has no knowledge of graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset

from omnigraph.model.errors import CorruptError, NotFoundError, ReadSetChangedError
from omnigraph.model.limits import PROBED_VALUES_MAX
from omnigraph.storage.fsync import Durability, flush_path
from omnigraph.storage.lance import (
    branches,
    cleanup,
    commit,
    compaction,
    delta,
    index,
    scan,
    stage,
    vector_search,
)
from omnigraph.storage.lance import fragments as lance_parts
from omnigraph.storage.lance.branches import is_own
from omnigraph.storage.lance.commit import LanceCommits
from omnigraph.storage.lance.errors import lance_errors, missing_version
from omnigraph.storage.lance.handles import DatasetCache, describe_version, folder_of, version_file
from omnigraph.storage.lance.id_lookup import RowAddressCache
from omnigraph.storage.lance.index import WorkerPool
from omnigraph.storage.lance.predicates import render_predicate
from omnigraph.storage.lance.scan import as_bytes, blobs_among
from omnigraph.storage.lance.timestamps import (
    as_timestamps,
    read_batches,
    read_rows,
)
from omnigraph.storage.locations import parse_location
from omnigraph.storage.objects import delete_rows_file, open_objects
from omnigraph.storage.ports import (
    Cleaned,
    FollowedDelta,
    FragmentDeletions,
    IndexSpec,
    Layout,
    LayoutStep,
    NearRows,
    NewFile,
    ReadAccess,
    ReadMeter,
    StagedWrite,
    StorageRead,
    StoredBlob,
    TableBranchFolder,
    TableDelta,
    TablePart,
    TableRef,
    TableVersion,
    TransactionRecord,
    VectorSearch,
    VersionFile,
    Workers,
)
from omnigraph.storage.predicates import Predicate


class LanceTables:
    """The tables below one root."""

    def __init__(
        self, root: str, *, storage_options: Mapping[str, str], is_local: bool, is_durable: bool
    ) -> None:
        self._root = root
        self._is_local = is_local
        self._handles = DatasetCache(root, storage_options=storage_options, is_local=is_local)
        # An object store acknowledges only durable writes, so only disks are flushed.
        self._disk = Durability(Path(root), flush=flush_path) if is_local and is_durable else None
        self._places = RowAddressCache()
        self._workers: Workers | None = None
        self._meter: ReadMeter | None = None
        self._commits = LanceCommits(self._handles, disk=self._disk)
        self._files = open_objects(
            parse_location(root, storage_options=storage_options), is_durable=is_durable
        )

    def with_workers(self, workers: Workers) -> LanceTables:
        parallel = copy(self)
        parallel._workers = workers  # noqa: SLF001  # another of our own
        return parallel

    def metered(self, meter: ReadMeter) -> LanceTables:
        measured = copy(self)
        measured._meter = meter  # noqa: SLF001  # another of our own
        return measured

    # Reads

    def find_head(self, ref: TableRef) -> int | None:
        newest = self._handles.find_newest(ref)
        return None if newest is None else newest.version

    def generation(self) -> int:
        return self._handles.generation

    def schema(self, at: TableVersion) -> pa.Schema:
        stored = self._handles.get(at).schema
        return as_timestamps(as_bytes(stored, blobs_among(stored.names, stored)))

    def column_numbers(self, at: TableVersion) -> Mapping[str, int]:
        fields = self._handles.get(at).lance_schema.fields()
        return {field.name(): field.id() for field in fields}

    def scan(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> pa.Table:
        with self._reading(at) as table:
            stored = render_predicate(predicate, table.schema)
            if stored is None or "id" not in columns:
                found = scan.scan(table, columns=columns, predicate=stored, meter=self._meter)
                return read_rows(found)
            rows = scan.scan_placed(
                table, columns=columns, predicate=stored, fragments=None, meter=self._meter
            )
            self._places.note(table, at.ref.path, rows)
            return read_rows(rows.select(columns))

    def scan_batches(
        self, at: TableVersion, *, columns: Sequence[str], predicate: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        with self._reading(at) as table:
            stored = render_predicate(predicate, table.schema)
            yield from read_batches(
                scan.scan_batches(table, columns=columns, predicate=stored, meter=self._meter)
            )

    def find_ids(self, at: TableVersion, *, ids: pa.Array) -> pa.Array:
        assert len(ids) <= PROBED_VALUES_MAX, "for more ids a scan is cheaper"
        with self._reading(at) as table:
            return self._places.find_ids(table, at.ref.path, ids)

    def find_rows(self, at: TableVersion, *, ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        assert len(ids) <= PROBED_VALUES_MAX, "for more ids a scan is cheaper"
        with self._reading(at) as table:
            found = self._places.find(table, at.ref.path, ids, columns=columns)
            return read_rows(found.select(columns))

    def take(
        self, at: TableVersion, *, positions: npt.NDArray[np.int64], columns: Sequence[str]
    ) -> pa.Table:
        with self._reading(at) as table, self._measuring(table, ReadAccess.ADDRESS):
            deletions = delta.Deletions(at.ref.path, self._files)
            return read_rows(delta.take(table, positions, columns=columns, deletions=deletions))

    def stored_bytes(self, at: TableVersion, column: str) -> int:
        with self._reading(at) as table:
            return scan.stored_bytes(table, column)

    def find_nearest(
        self, at: TableVersion, search: VectorSearch, *, count: int, base: TableVersion
    ) -> NearRows | None:
        assert at.ref.path == base.ref.path, "versions of one table"
        with (
            self._reading(at) as table,
            self._reading(base) as own,
            self._measuring(table, ReadAccess.INDEX),
        ):
            deletions = delta.Deletions(at.ref.path, self._files)
            return vector_search.find_nearest(
                table, search, count=count, base=own, deletions=deletions
            )

    def scan_by_id(self, at: TableVersion, *, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._reading(at) as table:
            yield from read_batches(scan.scan_by_id(table, columns=columns))

    def read_blob(
        self, at: TableVersion, *, id: str, column: str, start: int, length: int | None
    ) -> StoredBlob | None:
        with self._reading(at) as table:
            row = self._places.find(table, at.ref.path, pa.array([id]), columns=["id"])
            if not row.num_rows:
                return None
            address = row["_rowaddr"][0].as_py()
            return scan.read_blob(table, address, column, start=start, length=length)

    def scan_new(
        self, at: TableVersion, *, since: TableVersion | None, columns: Sequence[str]
    ) -> pa.Table:
        known = None if since is None else self._find(since)
        with self._reading(at) as table:
            if known is None:
                return read_rows(scan.scan(table, columns=columns, predicate=None))
            return read_rows(scan.scan_new(table, since=known, columns=columns))

    def find_delta(
        self, old: TableVersion, new: TableVersion, *, columns: Sequence[str]
    ) -> TableDelta:
        assert old.ref.path == new.ref.path, "a delta is between versions of one table"
        with self._reading(old) as before, self._reading(new) as after:
            return _without_addresses(self._find_delta(old.ref.path, before, after, columns))

    def follow_delta(
        self, old: TableVersion, new: TableVersion, *, base: TableVersion, columns: Sequence[str]
    ) -> FollowedDelta:
        assert old.ref.path == new.ref.path == base.ref.path, "versions of one table"
        with self._reading(old) as before, self._reading(new) as after, self._reading(base) as own:
            with self._measuring(after, ReadAccess.CHANGES):
                found = self._find_delta(old.ref.path, before, after, columns)
            positions = delta.find_positions(
                found.deleted[delta.ADDRESS].to_numpy(),
                at=before,
                base=own,
                deletions=delta.Deletions(base.ref.path, self._files),
            )
            return FollowedDelta(_without_addresses(found), positions)

    def _find_delta(
        self, path: str, old: LanceDataset, new: LanceDataset, columns: Sequence[str]
    ) -> TableDelta:
        deletions = delta.Deletions(path, self._files)
        return delta.find_delta(old, new, columns=columns, deletions=deletions, places=self._places)

    def count_delta(self, old: TableVersion, new: TableVersion) -> int | None:
        assert old.ref.path == new.ref.path, "a delta is between versions of one table"
        if old == new:
            return 0
        if self.column_numbers(old) != self.column_numbers(new):
            return None
        with self._reading(old) as before, self._reading(new) as after:
            return delta.count_delta(before, after)

    def count(self, at: TableVersion, *, predicate: Predicate | None) -> int:
        with self._reading(at) as table:
            return table.count_rows(render_predicate(predicate, table.schema))

    def fragment_row_counts(self, at: TableVersion) -> tuple[int, ...]:
        fragments = self._handles.get(at).get_fragments()
        return tuple(fragment.metadata.num_rows for fragment in fragments)

    def indexes(self, at: TableVersion) -> Mapping[IndexSpec, int]:
        with self._reading(at) as table:
            return index.find_indexes(table)

    def plan_layout(self, at: TableVersion, *, wanted: Sequence[IndexSpec]) -> Layout:
        with self._reading(at) as table:
            return compaction.plan_layout(table, wanted=wanted)

    def parts(self, at: TableVersion, *, rows_max: int) -> tuple[TablePart, ...]:
        with self._reading(at) as table:
            return lance_parts.split_table(table, folder=self.folder(at.ref), rows_max=rows_max)

    def folder(self, ref: TableRef) -> TableBranchFolder:
        is_bare = ref.branch is not None and self._handles.find_newest(ref) is None
        return TableBranchFolder(self._handles.uri(ref), self._handles.storage_options, is_bare)

    def describe(self, at: TableVersion) -> VersionFile:
        path = f"{folder_of(at.ref)}/{version_file(at.version)}"
        if not self._is_local:
            return VersionFile(path, None)
        with lance_errors(table=describe_version(at), action=f"look at '{path}'"):
            return VersionFile(path, (Path(self._root) / path).stat().st_size)

    def versions(self, ref: TableRef) -> tuple[int, ...]:
        return cleanup.list_versions(self._handles, ref)

    def find_version_before(self, ref: TableRef, timestamp: datetime) -> int | None:
        return cleanup.find_version_before(self._handles, ref, timestamp)

    def preview_cleaning(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        return cleanup.preview_delete_versions(self._handles, ref, versions)

    def find_transaction(self, at: TableVersion) -> TransactionRecord | None:
        return commit.find_transaction(self._handles, at)

    def find_operations(self, ref: TableRef, *, after: int) -> tuple[str | None, ...]:
        return commit.find_operations(self._handles, self._files, ref, after=after)

    def branches(self, path: str) -> frozenset[str]:
        return branches.list_branches(self._handles, path)

    def is_fresh_fork(self, ref: TableRef, *, of: TableVersion) -> bool:
        return branches.is_fresh_fork(self._handles, self._files, ref, of)

    def find_outside(self, at: TableVersion) -> frozenset[str]:
        name = describe_version(at)
        with lance_errors(table=name, action=f"read '{name}'"):
            return self._find_outside(at.ref.path, self._handles.get(at))

    # Staging

    def stage_append(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        with self._staging(onto) as table:
            return stage.stage_append(table, rows, onto=onto)

    def stage_merge_insert(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        with self._staging(onto) as table:
            nothing = pa.array([], pa.string())
            return stage.stage_merge(table, rows, removing=nothing, onto=onto, places=self._places)

    def stage_exchange(
        self, rows: pa.Table, *, removing: pa.Array, onto: TableVersion
    ) -> StagedWrite:
        with self._staging(onto) as table:
            return stage.stage_merge(table, rows, removing=removing, onto=onto, places=self._places)

    def stage_overwrite(self, rows: pa.Table, *, onto: TableVersion) -> StagedWrite:
        with self._staging(onto) as table:
            return stage.stage_overwrite(table, rows, onto=onto)

    def stage_delete(self, ids: pa.Array, *, onto: TableVersion) -> StagedWrite | None:
        with self._staging(onto) as table:
            return stage.stage_delete(table, ids, onto=onto, places=self._places)

    def stage_replacement(
        self, rows: pa.Table, *, replacing: Sequence[str], onto: TableVersion
    ) -> StagedWrite:
        with self._staging(onto) as table:
            return stage.stage_replacement(table, rows, replacing=replacing, onto=onto)

    def stage_files(
        self,
        files: Sequence[NewFile],
        deletions: Sequence[FragmentDeletions],
        *,
        columns: pa.Schema,
        is_overwrite: bool,
        onto: TableVersion,
    ) -> StagedWrite:
        with self._staging(onto) as table:
            staged = lance_parts.stage_files(
                table, files, deletions, columns=columns, is_overwrite=is_overwrite, onto=onto
            )
        self._require_files(staged)
        return staged

    def stage_indexes(self, specs: Sequence[IndexSpec], *, onto: TableVersion) -> StagedWrite:
        with self._staging(onto) as table:
            return index.stage_indexes(table, specs, onto=onto, pool=self._pool(onto))

    def stage_layout(
        self, step: LayoutStep, *, wanted: Sequence[IndexSpec], onto: TableVersion, uuid: str
    ) -> StagedWrite:
        with self._staging(onto) as table:
            return compaction.stage_layout(
                table, step, wanted=wanted, onto=onto, uuid=uuid, pool=self._pool(onto)
            )

    def stage_columns(
        self, schema: pa.Schema, *, renames: Mapping[str, str], onto: TableVersion
    ) -> StagedWrite | None:
        with self._staging(onto) as table:
            return stage.stage_columns(table, schema, renames=renames, onto=onto)

    # Durable effects

    def create(self, path: str, rows: pa.Table, *, config: Mapping[str, str]) -> TableVersion:
        return self._commits.create_table(path, rows, config=config)

    def apply(self, staged: StagedWrite) -> TableVersion:
        landed = self._commits.apply(staged)
        if staged.ids is not None:
            table = self._handles.get(landed)
            self._places.note_written(table, landed.ref.path, staged.ids, files=staged.files)
        return landed

    def compact(self, at: TableVersion, *, rows_per_fragment: int) -> TableVersion | None:
        return self._commits.compact(at, rows_per_fragment=rows_per_fragment)

    def delete_files(self, ref: TableRef, files: Sequence[NewFile]) -> None:
        for path in lance_parts.file_paths(files):
            delete_rows_file(self._files, f"{folder_of(ref)}/{path}")

    def clean(self, ref: TableRef, versions: Sequence[int]) -> Cleaned:
        return cleanup.delete_versions(self._handles, self._files, ref, versions)

    def restore(self, at: TableVersion, *, uuid: str) -> TableVersion:
        return self._commits.restore_version(at, uuid=uuid)

    def fork(self, at: TableVersion, *, branch: str) -> TableRef:
        return branches.fork(self._handles, at, branch, disk=self._disk)

    def delete_branch(self, ref: TableRef) -> None:
        branches.delete_branch(self._handles, ref, disk=self._disk)

    @contextmanager
    def _reading(self, at: TableVersion) -> Iterator[LanceDataset]:
        table = self._handles.get(at)
        name = describe_version(at)
        self._require_own_files(at, table)
        try:
            with lance_errors(table=name, action=f"read '{name}'"):
                yield table
        except CorruptError as error:
            if self._is_deleted(at, table):
                raise missing_version(name) from error
            raise

    @contextmanager
    def _measuring(self, table: LanceDataset, access: ReadAccess) -> Iterator[None]:
        """Report a read for which Lance has no statistics of its own.

        Its bytes include those of other reads of the same version at the same time.
        """
        if self._meter is None:
            yield
            return
        before = table.io_stats_snapshot().read_bytes
        yield
        self._meter(StorageRead(access, table.io_stats_snapshot().read_bytes - before))

    def _is_deleted(self, at: TableVersion, opened: LanceDataset) -> bool:
        if at.ref.branch is not None:
            # Deleting a branch first removes it from the list and then deletes its files; a listed
            # branch may have been recreated meanwhile.
            is_listed = at.ref.branch in self.branches(at.ref.path)
            if not is_listed or self._handles.was_remade(at, opened):
                return True
        newest = self.find_head(at.ref)
        # The newest version is never cleaned up.
        return newest is not None and at.version < newest and self._is_cleaned_up(at)

    def _is_cleaned_up(self, at: TableVersion) -> bool:
        description = self._files.find(f"{folder_of(at.ref)}/{version_file(at.version)}")
        doomed = cleanup.find_versions_being_deleted(self._files, at.ref)
        return description is None or at.version in doomed

    def _require_files(self, staged: StagedWrite) -> None:
        path = staged.base.ref.path
        names_by_folder: dict[str, set[str]] = {}
        for file in staged.files:
            folder, _, name = file.rpartition("/")
            names_by_folder.setdefault(folder, set()).add(name)
        for folder, names in names_by_folder.items():
            missing = names - self._files.list(f"{path}/{folder}").token_by_name.keys()
            if missing:
                raise ReadSetChangedError(
                    member=f"a new file of '{path}'", expected=min(missing), actual="none"
                )

    def _pool(self, onto: TableVersion) -> WorkerPool | None:
        return None if self._workers is None else WorkerPool(self.folder(onto.ref), self._workers)

    @contextmanager
    def _staging(self, onto: TableVersion) -> Iterator[LanceDataset]:
        table = self._handles.get(onto)
        name = describe_version(onto)
        self._require_own_files(onto, table)
        with lance_errors(table=name, action=f"write files for '{name}'"):
            yield table

    def _require_own_files(self, at: TableVersion, table: LanceDataset) -> None:
        """Raise `CorruptError` if a version refers to files of another graph.

        Such a version belongs to a copy and refers to the files of the original graph.
        """
        if at.ref.branch is None:
            return
        outside = sorted(self._find_outside(at.ref.path, table))
        if outside:
            # Closed, so that it is opened again once its files are rewritten.
            self._handles.forget(lambda cached: cached.branch == at.ref.branch)
            raise CorruptError(
                subject=f"branch '{at.ref.branch}'",
                problem=f"its files are at {outside[0]}, because the graph was copied or moved "
                "after the branch was made; nothing was read or written; to make its branches "
                f"refer to this graph, run `omnigraph repair {quote(self._root)} --relocate`",
            )

    def _find_outside(self, path: str, table: LanceDataset) -> frozenset[str]:
        own = f"{self._root}/{path}"
        places = {each.path for each in table.base_paths().values()}
        others = frozenset(place for place in places if not is_own(place, table=own))
        if not self._is_local or not others:
            return others
        # A location may have several names.
        resolved = str(Path(own).resolve())
        return frozenset(
            each for each in others if not is_own(str(Path(each).resolve()), table=resolved)
        )

    def _find(self, at: TableVersion) -> LanceDataset | None:
        try:
            return self._handles.get(at)
        except NotFoundError:
            return None


def _without_addresses(found: TableDelta) -> TableDelta:
    def read(rows: pa.Table) -> pa.Table:
        return read_rows(rows.select([n for n in rows.column_names if n != delta.ADDRESS]))

    return TableDelta(read(found.deleted), read(found.added))
