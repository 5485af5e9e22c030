"""A cache of open tables, so that no version is opened twice.

A cached handle is never moved to another version: Lance moves handles in place and rejects two
threads that do so at once, so a copy is moved instead. The newest version is read from the storage
each time. A branch or a graph that was deleted and recreated is not mistaken for its predecessor.
The module has no knowledge of rows.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from threading import Lock

import lance
from lance import LanceDataset
from lance import Session as LanceSession  # type: ignore[attr-defined]  # not in its __all__

from omnigraph.model.errors import CorruptError
from omnigraph.model.limits import (
    OBJECT_RETRIES_MAX,
    OBJECT_RETRY_TIMEOUT_S,
    OPEN_TABLES_MAX,
    OPENED_TABLE_BRANCHES_MAX,
    TABLE_INDEX_BYTES_MAX,
    TABLE_METADATA_BYTES_MAX,
)
from omnigraph.storage.lance.errors import (
    FOREIGN,
    Failure,
    classify,
    lance_errors,
    missing_version,
    translate,
)
from omnigraph.storage.ports import TableRef, TableVersion

_KEY_MARK = b"lance-schema:unenforced-primary-key"

_ABSENT = frozenset({Failure.MISSING_TABLE, Failure.MISSING_VERSION})


class DatasetCache:
    """The open tables of one graph."""

    def __init__(self, root: str, *, storage_options: Mapping[str, str], is_local: bool) -> None:
        self._root = root
        self.is_local = is_local
        self.storage_options = None if is_local else _bounded(storage_options)
        self.session = LanceSession(
            index_cache_size_bytes=TABLE_INDEX_BYTES_MAX,
            metadata_cache_size_bytes=TABLE_METADATA_BYTES_MAX,
        )
        self._lock = Lock()
        self._generation = 0
        self._stamp_by_version: dict[TableVersion, object] = {}
        self._table_by_version: OrderedDict[TableVersion, LanceDataset] = OrderedDict()
        self._met: set[TableRef] = set()
        self._deleted: set[TableRef] = set()

    @property
    def generation(self) -> int:
        """How often a cached table turned out to be deleted or recreated."""
        return self._generation

    def uri(self, ref: TableRef) -> str:
        """The URI at which Lance opens a table or a table branch."""
        return f"{self._root}/{folder_of(ref)}"

    def get(self, at: TableVersion) -> LanceDataset:
        """One version of a table; the caller must not move the handle to another version.

        Raises `NotFoundError` if the version does not exist, and `CorruptError` if the table does
        not.
        """
        with self._lock:
            cached = self._table_by_version.get(at)
            if cached is not None:
                self._table_by_version.move_to_end(at)
                return cached
        found = self._open(at.ref, version=at.version)
        if found is None:
            raise self._missing(at)
        return self.keep(at.ref, found)

    def find_newest(self, ref: TableRef) -> LanceDataset | None:
        """The newest version, read from the storage; None if there is no such table or branch."""
        cached = self._find_cached(ref)
        if cached is None:
            found = self._open_newest(ref)
            return None if found is None else self.keep(ref, found)
        has_stamps = ref.branch is None and self.is_local
        if has_stamps:
            if self._was_replaced(ref, cached.version):
                self._forget_replaced(ref)
                return self.find_newest(ref)
            if self._has_not_moved(ref, cached.version):
                return cached
        newest = self._move_on(ref, cached)
        if newest is None:
            self._forget_replaced(ref)
            return None
        if not has_stamps and not self._continues(ref, cached, newest):
            self._forget_replaced(ref)
        return self.keep(ref, newest)

    def get_newest(self, ref: TableRef) -> LanceDataset:
        """The newest version of a table; raises `CorruptError` if the table does not exist."""
        newest = self.find_newest(ref)
        if newest is None:
            raise CorruptError(subject=f"'{ref.path}'", problem=str(Failure.MISSING_TABLE))
        return newest

    def keep(self, ref: TableRef, table: LanceDataset) -> LanceDataset:
        """Cache a handle at its version; the handle must not be moved from now on."""
        at = TableVersion(ref, table.version)
        stamp = self._find_stamp(ref, table.version)
        with self._lock:
            self._meet(ref)
            self._table_by_version[at] = table
            self._table_by_version.move_to_end(at)
            self._stamp_by_version[at] = stamp
            while len(self._table_by_version) > OPEN_TABLES_MAX:
                closed, _ = self._table_by_version.popitem(last=False)
                self._stamp_by_version.pop(closed, None)
        return table

    def forget(self, is_deleted: Callable[[TableRef], bool]) -> None:
        """Close the tables that were deleted, or that may be recreated from now on."""
        with self._lock:
            self._generation += 1
            self._close(is_deleted)

    def forget_deleted(self, ref: TableRef) -> None:
        """Close a deleted table branch; if it is opened again, it was recreated."""
        with self._lock:
            self._close(lambda cached: cached == ref)
            self._deleted.add(ref)

    def forget_before_making(self, ref: TableRef) -> None:
        """Close a table branch that is about to be created, if it was opened before.

        A branch that was never opened has no predecessor.
        """
        with self._lock:
            if ref in self._met:
                self._succeed(ref)

    def _close(self, is_deleted: Callable[[TableRef], bool]) -> None:
        for at in [at for at in self._table_by_version if is_deleted(at.ref)]:
            del self._table_by_version[at]
            self._stamp_by_version.pop(at, None)

    def _meet(self, ref: TableRef) -> None:
        if ref in self._deleted:
            self._succeed(ref)
        if len(self._met) >= OPENED_TABLE_BRANCHES_MAX:
            # Everything cached about them is invalidated by the generation.
            self._generation += 1
            self._met.clear()
            self._deleted.clear()
        self._met.add(ref)

    def _succeed(self, ref: TableRef) -> None:
        """Invalidate the predecessor of a recreated table branch and the tables of its branch."""
        self._generation += 1
        self._close(lambda cached: cached.branch == ref.branch)
        self._deleted.discard(ref)

    def was_remade(self, at: TableVersion, opened: LanceDataset) -> bool:
        """Whether an opened version was deleted or recreated since."""
        present = self._open(at.ref, version=at.version)
        return present is None or _written_at(present) != _written_at(opened)

    def _forget_replaced(self, ref: TableRef) -> None:
        # If one table of a branch was replaced, so were the others; a replaced main means a
        # replaced graph.
        self.forget(lambda cached: ref.branch in (None, cached.branch))

    def _find_cached(self, ref: TableRef) -> LanceDataset | None:
        with self._lock:
            versions = [at for at in self._table_by_version if at.ref == ref]
            newest = max(versions, key=lambda at: at.version, default=None)
            return None if newest is None else self._table_by_version[newest]

    def _open_newest(self, ref: TableRef) -> LanceDataset | None:
        try:
            return self._open(ref, version=None)
        except CorruptError as error:
            return self._open_before_cut(ref, error)

    def _move_on(self, ref: TableRef, cached: LanceDataset) -> LanceDataset | None:
        newest = copy(cached)
        try:
            return newest if self._exists(ref, lambda: _check_out_newest(newest)) else None
        except CorruptError as error:
            return self._open_before_cut(ref, error)

    def _open_before_cut(self, ref: TableRef, error: CorruptError) -> LanceDataset:
        """The version before a damaged newest one, as if the damaged one had never been written.

        A power loss may truncate a version before it is flushed, and so before it is acknowledged.
        If it was damaged later, a reader that pins versions detects that one is missing.
        """
        newest, earlier = self._newest_files(ref)
        before = None if earlier is None else self._open(ref, version=_version_of(earlier))
        if newest is None or before is None:
            raise error
        if _is_published_to(before):
            # The versions of this table are not pinned: only an operator who saw the power loss
            # knows what was lost.
            raise CorruptError(
                subject=f"'{newest.relative_to(self._root)}'",
                problem="the newest description of the graph's history is damaged; if the power "
                "failed, move that file out of the graph and open it again: the write that it was "
                "part of was not acknowledged, and is then finished or undone; otherwise restore "
                "it from a copy of the graph",
            ) from error
        return before

    def set_aside_cut(self, at: TableVersion) -> bool:
        """Rename a version's manifest file that a power loss truncated; returns whether it did.

        The caller holds the locks of the table and knows that the version is not pinned.
        """
        newest, _ = self._newest_files(at.ref)
        if newest is None or _version_of(newest) != at.version:
            return False
        try:
            self._open(at.ref, version=None)
        except CorruptError as error:
            self._open_before_cut(at.ref, error)
        else:
            return False
        with lance_errors(table=at.ref.path, action=f"rename '{newest}'"):
            newest.rename(newest.with_suffix(".cut"))
        # A crash here leaves a table without that version, which is how all readers treat it.
        return True

    def _newest_files(self, ref: TableRef) -> tuple[Path | None, Path | None]:
        """The manifest files of the two newest versions, if files can be truncated."""
        if not self.is_local:
            # Object stores show only complete files.
            return None, None
        # The newest sorts first by name.
        files = sorted(Path(self.uri(ref), "_versions").glob("*.manifest"))
        newest, earlier, *_ = (*files, None, None)
        return newest, earlier

    def _open(self, ref: TableRef, *, version: int | None) -> LanceDataset | None:
        opened: list[LanceDataset] = []

        def open_table() -> None:
            table = lance.dataset(
                self.uri(ref),
                version=version,
                storage_options=self.storage_options,
                session=self.session,
            )
            _require_described(table)
            opened.append(table)

        return opened[0] if self._exists(ref, open_table) else None

    def _exists(self, ref: TableRef, look: Callable[[], None]) -> bool:
        try:
            look()
        except FOREIGN as error:
            if classify(error) in _ABSENT:
                return False
            raise translate(error, table=ref.path, action=f"open '{ref.path}'") from error
        return True

    def _missing(self, at: TableVersion) -> Exception:
        if at.ref.branch is None and self.find_newest(at.ref) is None:
            return CorruptError(subject=f"'{at.ref.path}'", problem=str(Failure.MISSING_TABLE))
        return missing_version(describe_version(at))

    def _was_replaced(self, ref: TableRef, version: int) -> bool:
        # A recreated graph has the same version numbers in other files.
        known = self._stamp_by_version.get(TableVersion(ref, version))
        return known is not None and known != self._find_stamp(ref, version)

    def _find_stamp(self, ref: TableRef, version: int) -> object:
        if not self.is_local:
            return None
        try:
            found = Path(f"{self.uri(ref)}/{version_file(version)}").stat()
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns)

    def _has_not_moved(self, ref: TableRef, version: int) -> bool:
        # The cost of listing a folder grows with history, and Lance's own commit checks no more
        # than this: the version hint, and whether the next version exists. In doubt the folder is
        # listed.
        folder = self.uri(ref)
        try:
            hint = json.loads(Path(f"{folder}/_versions/latest_version_hint.json").read_bytes())
        except (OSError, ValueError):
            return False
        next_file = Path(f"{folder}/{version_file(version + 1)}")
        return hint == {"version": version} and not next_file.exists()

    def _continues(self, ref: TableRef, cached: LanceDataset, newest: LanceDataset) -> bool:
        # A recreated branch or graph of the same name may have the same version numbers.
        if newest.version < cached.version:
            return False
        if newest.version == cached.version:
            # Lance reads the version again if its entity tag changed, so this check sends no
            # request.
            return _written_at(newest) == _written_at(cached)
        if ref.branch is None and not _files_of(cached).isdisjoint(_files_of(newest)):
            # Two graphs share no file. Two branches share the files of their base.
            return True
        known = self._open(ref, version=cached.version)
        return known is not None and _written_at(known) == _written_at(cached)


def folder_of(ref: TableRef) -> str:
    """The folder of a table or a table branch, below the root."""
    return ref.path if ref.branch is None else f"{ref.path}/tree/{ref.branch}"


def version_file(version: int) -> str:
    """The manifest file of a version, below the table; numbers descend, so the newest is first."""
    return f"_versions/{2**64 - 1 - version:020}.manifest"


def describe_version(at: TableVersion) -> str:
    """The name of a version in messages."""
    return f"{folder_of(at.ref)}@{at.version}"


def _version_of(file: Path) -> int:
    return 2**64 - 1 - int(file.stem)


def _check_out_newest(table: LanceDataset) -> None:
    table.checkout_latest()  # type: ignore[no-untyped-call]  # pylance types it not
    _require_described(table)


def _require_described(table: LanceDataset) -> None:
    # A power loss can leave a manifest file of zeros, which Lance reads as an empty table of
    # version 0.
    if table.version == 0:
        raise ValueError("failed to decode: the version is described by zeros")


def _is_published_to(table: LanceDataset) -> bool:
    return any(_KEY_MARK in (field.metadata or {}) for field in table.schema)


def _written_at(table: LanceDataset) -> object:
    return table.get_version()["timestamp"]


def _files_of(table: LanceDataset) -> frozenset[str]:
    fragments = table.get_fragments()
    return frozenset(str(file.path) for each in fragments for file in each.data_files())


def _bounded(storage_options: Mapping[str, str]) -> dict[str, str]:
    # Lance retries for three minutes by default.
    return {
        "client_max_retries": str(OBJECT_RETRIES_MAX),
        "client_retry_timeout": str(OBJECT_RETRY_TIMEOUT_S),
        **storage_options,
    }
