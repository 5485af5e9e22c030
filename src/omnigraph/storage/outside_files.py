"""Files outside of a graph, to be read: on a local disk, or in S3 with the options of the graph.

A place is a path, or `s3://bucket/key`. Folders of S3 are what their keys share up to a slash.
Promises entries in the order of their names. Knows nothing of what files hold.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from errno import ENAMETOOLONG
from pathlib import Path
from stat import S_ISDIR

from obstore.store import S3Store

from omnigraph.model.errors import UnreadableError
from omnigraph.storage.object_errors import storage_errors
from omnigraph.storage.objects import open_bucket

_S3 = "s3://"


class EntryKind(StrEnum):
    """What an entry is; a linked folder is really elsewhere."""

    FILE = "file"
    FOLDER = "folder"
    LINKED_FOLDER = "linked folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder; of a folder the size means nothing."""

    path: str
    kind: EntryKind
    size: int

    @property
    def is_folder(self) -> bool:
        """Whether there are entries in it."""
        return self.kind is not EntryKind.FILE

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rstrip("/").rpartition("/")[2]


class OutsideFiles:
    """The way to files; what cannot be read is an `UnreadableError`, and a storage that does not
    answer an `UnavailableError`. Local paths that are not absolute begin in a `folder`."""

    def __init__(self, storage_options: Mapping[str, str], *, folder: str) -> None:
        # Options hold secrets: they are not printed with this.
        self.storage_options = storage_options
        self._folder = folder
        self._store_by_bucket: dict[str, S3Store] = {}

    def find(self, path: str) -> Entry | None:
        """What is in a place; None if nothing is."""
        if is_remote(path):
            return self._find_key(path)
        try:
            found = Path(self.resolve(path)).stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            if error.errno == ENAMETOOLONG:
                return None
            raise unreadable(path, error) from error
        kind = EntryKind.FOLDER if S_ISDIR(found.st_mode) else EntryKind.FILE
        return Entry(path, kind, found.st_size)

    def resolve(self, path: str) -> str:
        """Where a path leads from anywhere."""
        return path if is_remote(path) else os.path.join(self._folder, path)  # noqa: PTH118  # as it is

    def entries(self, path: str) -> tuple[Entry, ...]:
        """What is in a folder."""
        entries = self._list_keys(path) if is_remote(path) else self._list_folder(path)
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def open(self, path: str) -> io.RawIOBase:
        """A file, to be read from any place on."""
        if is_remote(path):
            store, key = self._split(path)
            with storage_errors(f"read {path}"):
                size = store.head(key)["size"]
            return _RemoteFile(store, key, path=path, size=size)
        try:
            return io.FileIO(self.resolve(path))
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error

    def _list_folder(self, path: str) -> list[Entry]:
        try:
            with os.scandir(path) as found:
                return [_enter(each) for each in found]
        except OSError as error:
            raise unreadable(path, error) from error

    def _list_keys(self, path: str) -> list[Entry]:
        store, prefix = self._split(path)
        with storage_errors(f"list {path}"):
            found = store.list_with_delimiter(prefix.rstrip("/") or None)
        root = f"{path.removesuffix(prefix).rstrip('/')}/"
        # A key that is the folder itself is how some programs make an empty one.
        keys = [each for each in found["objects"] if each["path"] != prefix.rstrip("/")]
        files = [Entry(root + each["path"], EntryKind.FILE, each["size"]) for each in keys]
        folders = [Entry(root + each, EntryKind.FOLDER, 0) for each in found["common_prefixes"]]
        return files + folders

    def _find_key(self, path: str) -> Entry | None:
        store, key = self._split(path)
        if key and not key.endswith("/"):
            with storage_errors(f"read {path}"):
                try:
                    return Entry(path, EntryKind.FILE, store.head(key)["size"])
                except FileNotFoundError:
                    pass
        folder = path.rstrip("/") if key else path
        return Entry(folder, EntryKind.FOLDER, 0) if self._list_keys(folder) else None

    def _split(self, path: str) -> tuple[S3Store, str]:
        bucket, _, key = path.removeprefix(_S3).partition("/")
        if bucket not in self._store_by_bucket:
            self._store_by_bucket[bucket] = open_bucket(bucket, "", self.storage_options)
        return self._store_by_bucket[bucket], key


class _RemoteFile(io.RawIOBase):
    """An object of S3; each read is one request, so who reads little by little has a buffer."""

    def __init__(self, store: S3Store, key: str, *, path: str, size: int) -> None:
        super().__init__()
        self._store, self._key, self._path, self._size = store, key, path, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # Buffer is of Python 3.12
        with memoryview(buffer) as target:
            end = min(self._position + len(target), self._size)
            if end <= self._position:
                return 0
            with storage_errors(f"read {self._path}"):
                found = self._store.get_range(self._key, start=self._position, end=end)
            count = len(found)
            target[:count] = memoryview(found)
            self._position += count
            return count


def is_remote(path: str) -> bool:
    """Whether a place is in S3."""
    return path.startswith(_S3)


def unreadable(path: str, error: Exception) -> UnreadableError:
    """The refusal of a file that is there and cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else None
    return UnreadableError(path=path, reason=reason or str(error))


def _enter(found: os.DirEntry[str]) -> Entry:
    path = str(Path(found.path))
    if found.is_dir():
        kind = EntryKind.LINKED_FOLDER if found.is_symlink() else EntryKind.FOLDER
        return Entry(path, kind, 0)
    try:
        return Entry(path, EntryKind.FILE, found.stat().st_size)
    except FileNotFoundError:
        # A link that leads nowhere; opening it will say so.
        return Entry(path, EntryKind.FILE, 0)
