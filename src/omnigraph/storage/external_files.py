"""Files outside a graph, local or in S3, and references to external blobs.

Folder entries come in the order of their names. A blob reference is followed only below a prefix
that was allowed when the graph was opened, and a symbolic link that leaves it is rejected. The
content becomes part of the graph, so later changes to the file do not affect a commit. File
formats are not known here.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from errno import ENAMETOOLONG
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from urllib.parse import unquote

from obstore.store import S3Store

from omnigraph.model.errors import InvalidValueError, UnreadableError
from omnigraph.model.limits import REFERENCE_CHARACTERS_MAX
from omnigraph.storage.errors import storage_errors
from omnigraph.storage.objects import open_bucket
from omnigraph.storage.row_files import require_property_size

_S3 = "s3://"


class EntryKind(StrEnum):
    """The kind of an entry; a linked folder is a symbolic link to a folder elsewhere."""

    FILE = "file"
    FOLDER = "folder"
    LINKED_FOLDER = "linked folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder; the size of a folder is not meaningful."""

    path: str
    kind: EntryKind
    size: int

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder or a linked folder."""
        return self.kind is not EntryKind.FILE

    @property
    def name(self) -> str:
        """The last component of its path."""
        return self.path.rstrip("/").rpartition("/")[2]


class ExternalFiles:
    """Access to local files and files in S3.

    Raises `UnreadableError` for a file that cannot be read, and `UnavailableError` if the storage
    does not respond. Relative local paths start in `folder`.
    """

    def __init__(self, storage_options: Mapping[str, str], *, folder: str) -> None:
        # Options hold secrets, so they are not printed with this object.
        self.storage_options = storage_options
        self._folder = folder
        self._store_by_bucket: dict[str, S3Store] = {}

    def find(self, path: str) -> Entry | None:
        """The file or folder at a path; None if it does not exist."""
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
        """A path that does not depend on the current folder."""
        return path if is_remote(path) else os.path.join(self._folder, path)  # noqa: PTH118  # as it is

    def entries(self, path: str) -> tuple[Entry, ...]:
        """The entries of a folder, sorted by name."""
        entries = self._list_keys(path) if is_remote(path) else self._list_folder(path)
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def open(self, path: str) -> io.RawIOBase:
        """Open a file for random-access reads."""
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
        # Some programs create an empty folder as a key with the folder's name.
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
    """An object in S3; each read is one request, so callers with small reads need a buffer."""

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
    """Whether a path is in S3."""
    return path.startswith(_S3)


def unreadable(path: str, error: Exception) -> UnreadableError:
    """The error for a file that exists and cannot be read."""
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
        # A dangling link; opening it raises.
        return Entry(path, EntryKind.FILE, 0)


_REFERENCE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_UNFIT = re.compile(r"[\x00-\x1f\x7f?#\\]")
_SCHEMES = ("file", "s3")
_ALLOW = 'open the graph with external_blobs=("{}",) to allow what lies below it'


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder or file: a bucket, empty for the local disk, and the components of a path in it."""

    scheme: str
    bucket: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    def holds(self, other: _Place) -> bool:
        """Whether another location is below this one."""
        return (
            (self.scheme, self.bucket) == (other.scheme, other.bucket)
            and len(self.parts) < len(other.parts)
            and other.parts[: len(self.parts)] == self.parts
        )


@dataclass(frozen=True, slots=True)
class ExternalBlobs:
    """The locations below which references are followed, and their storage options."""

    allowed: tuple[_Place, ...]
    # Options hold secrets, so they are excluded from `repr`.
    storage_options: Mapping[str, str] = field(repr=False, hash=False)

    def read(self, reference: str) -> bytes:
        """The content that a reference names.

        Raises `ValueError` with the reason if the content is not available.
        """
        place = _parse(reference)
        if not any(each.holds(place) for each in self.allowed):
            above = f"{reference.rpartition('/')[0]}/"
            advice = _ALLOW.format(above)
            raise ValueError(f'references are not followed there; give "base64:…", or {advice}')
        with storage_errors(f"read {reference}"):
            try:
                return self._read_file(place) if place.scheme == "file" else self._read_key(place)
            except (FileNotFoundError, NotADirectoryError, RuntimeError) as error:
                # Python raises `RuntimeError` for a link that leads to itself.
                raise ValueError("the reference names nothing that is there") from error

    def _read_file(self, place: _Place) -> bytes:
        path = Path("/" + place.path).resolve(strict=True)
        folders = [Path("/" + each.path).resolve() for each in self.allowed if each.holds(place)]
        if not any(path.is_relative_to(folder) for folder in folders):
            raise ValueError("the reference is a link that leads out of what is allowed")
        found = path.stat()
        if not S_ISREG(found.st_mode):
            raise ValueError("the reference names no file")
        require_property_size(found.st_size)
        return path.read_bytes()

    def _read_key(self, place: _Place) -> bytes:
        found = open_bucket(place.bucket, "", self.storage_options).get(place.path)
        require_property_size(found.meta["size"])
        return bytes(found.bytes())


NO_EXTERNAL_BLOBS = ExternalBlobs((), {})
"""No reference is followed."""


def parse_external_blobs(
    prefixes: Iterable[str], *, storage_options: Mapping[str, str]
) -> ExternalBlobs:
    """The locations that a caller allows."""
    if isinstance(prefixes, str):
        raise _refuse(prefixes, f"several places are needed, such as ({prefixes!r},)")
    allowed = []
    for each in prefixes:
        if not isinstance(each, str):
            raise _refuse(each, "a place is a text such as s3://bucket/prefix")
        try:
            allowed.append(_parse(each.rstrip("/")))
        except ValueError as error:
            raise _refuse(each, str(error)) from error
    return ExternalBlobs(tuple(allowed), dict(storage_options))


def _parse(reference: str) -> _Place:
    if len(reference) > REFERENCE_CHARACTERS_MAX:
        raise ValueError('a blob is given as "base64:…"; this is too long for a reference')
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ValueError('a blob is given as "base64:…"')
    scheme, rest = found[1].lower(), found[2]
    if scheme not in _SCHEMES:
        raise ValueError(f'{scheme}:// is never followed; give the content as "base64:…"')
    bucket, slash, path = rest.partition("/")
    if scheme == "file":
        bucket = "" if bucket == "localhost" else bucket
        path = unquote(path)
    parts = tuple(path.split("/")) if path else ()
    is_plain = not any(part in ("", ".", "..") for part in parts)
    is_placed = bool(slash and not bucket) if scheme == "file" else bool(bucket)
    if not is_plain or not is_placed or _UNFIT.search(rest) or _UNFIT.search(path):
        raise ValueError("a reference is file:///folder/file or s3://bucket/key, spelled plainly")
    return _Place(scheme, bucket, parts)


def _refuse(given: object, problem: str) -> InvalidValueError:
    return InvalidValueError(
        subject="external_blobs", expected="places", value=given, problem=problem
    )
