"""Control objects as files on a local disk, with atomic, conditional and durable writes.

A name refers to the old content or the new one, never to a part, whenever the process or the
machine stops: files are written under a reserved name, flushed, and renamed or linked into place.
obstore does the same without the flush and has no put-if-match on disks, so files are written here.
Files that a dead process left under reserved names are removed by the next writer in the folder an
hour later.

A token consists of a file's inode, modification time and size. Every write creates a new inode and
sets its time with nanosecond precision, so two contents of one name have different tokens, and
computing a token reads no content. A compare-and-replace holds a lock of the root: processes on one
machine exclude each other, and so do those that share a disk on which `flock` works.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from secrets import randbelow

from omnigraph.model.limits import (
    LOCK_PROBE_INTERVAL_S,
    OBJECT_LOCK_TIMEOUT_S,
    STAGED_OBJECT_AGE_MAX_S,
)
from omnigraph.storage.errors import is_reserved, require_object_path, storage_errors
from omnigraph.storage.fsync import flush_path
from omnigraph.storage.ports import Listing, StoredObject

LOCKS_FOLDER = "__locks"
"""The folder of lock files; they hold no objects, so listings omit them."""

_OBJECTS_LOCK = "objects.lock"


@dataclass(frozen=True, slots=True)
class FileLock:
    """A locked file: the descriptor that holds the lock, and the process that took it."""

    descriptor: int
    process_id: int


class LocalObjects:
    """The objects below one folder, which is created by the first write."""

    def __init__(self, root: Path, *, is_durable: bool) -> None:
        self._root = root
        self._locks = root / LOCKS_FOLDER
        self._is_durable = is_durable
        self._swept_at: dict[Path, float] = {}

    def find(self, path: str) -> StoredObject | None:
        target = self._target(path)
        with storage_errors(f"read {target}"):
            try:
                with target.open("rb") as file:
                    # The status of the open file, not of the name, which another write may have
                    # replaced.
                    return StoredObject(file.read(), _token(os.fstat(file.fileno())))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def list(self, prefix: str) -> Listing:
        folder = self._target(prefix) if prefix else self._root
        locks = str(self._locks)
        with storage_errors(f"list {folder}"):
            entries = list(_entries(folder))
            prefixes = frozenset(
                entry.name
                for entry in entries
                if entry.is_dir() and entry.path != locks and _holds_objects(entry.path)
            )
            return Listing(_tokens_of(entries), prefixes)

    def tokens(self, prefix: str) -> Mapping[str, str]:
        folder = self._target(prefix) if prefix else self._root
        with storage_errors(f"list {folder}"):
            return _tokens_of(_entries(folder))

    def put(self, path: str, content: bytes) -> str:
        target = self._target(path)
        with storage_errors(f"write {target}"), self._staged(content, target) as (staged, token):
            with self._turn():
                staged.rename(target)
            self._flush(target.parent)
            return token

    def put_if_absent(self, path: str, content: bytes) -> bool:
        target = self._target(path)
        with storage_errors(f"write {target}"), self._staged(content, target) as (staged, _):
            try:
                # A link never replaces a file, so it needs no lock.
                target.hardlink_to(staged)
            except FileExistsError:
                return False
            self._flush(target.parent)
            return True

    def put_if_match(self, path: str, content: bytes, *, token: str) -> str | None:
        target = self._target(path)
        with storage_errors(f"write {target}"):
            # Most failing writers are detected here, before anything is written.
            if _find_token(target) != token:
                return None
            with self._staged(content, target) as (staged, new_token):
                with self._turn():
                    if _find_token(target) != token:
                        return None
                    staged.rename(target)
                self._flush(target.parent)
                return new_token

    def delete(self, path: str) -> None:
        target = self._target(path)
        with storage_errors(f"delete {target}"):
            if _find_token(target) is None:
                return
            # Not flushed: if a power loss restores the file, the caller can delete it again.
            with self._turn():
                target.unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        folder = self._target(prefix)
        with storage_errors(f"delete {folder}"):
            was_there = False
            while folder.is_dir():
                was_there = True
                # Another process may be deleting the same folder; the next pass then has less to
                # delete.
                with suppress(FileNotFoundError):
                    shutil.rmtree(folder)
            if was_there:
                self._flush(folder.parent)

    def _target(self, path: str) -> Path:
        require_object_path(path)
        return self._root / path

    @contextmanager
    def _staged(self, content: bytes, target: Path) -> Iterator[tuple[Path, str]]:
        """A file beside the target that has the content, and its token."""
        # A crash before the rename leaves a file that no listing shows.
        path = target.with_name(f"#{randbelow(10**18)}")
        try:
            with self._create(path) as file:
                file.write(content)
                file.flush()
                now = time.time_ns()
                # Many kernels set times with millisecond precision only, and inodes are reused at
                # once.
                os.utime(file.fileno(), ns=(now, now))
                if self._is_durable:
                    os.fsync(file.fileno())
                token = _token(os.fstat(file.fileno()))
            self._sweep(target.parent)
            yield path, token
        finally:
            path.unlink(missing_ok=True)

    def _create(self, path: Path) -> BufferedWriter:
        try:
            return path.open("xb")
        except FileNotFoundError:
            self._make_folder(path.parent)
            return path.open("xb")

    def _make_folder(self, folder: Path) -> None:
        if not folder.parent.exists():
            self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self._flush(folder.parent)

    def _sweep(self, folder: Path) -> None:
        # The folder is scanned occasionally. A write in progress is never that old; if it is after
        # all, its last step fails and nothing is written.
        now = time.time()
        if now - self._swept_at.get(folder, 0.0) < STAGED_OBJECT_AGE_MAX_S:
            return
        self._swept_at[folder] = now
        for path in folder.glob("#*"):
            # The file may disappear meanwhile or belong to another user; neither is a reason to
            # reject a write.
            with suppress(OSError):
                status = path.lstat()
                is_old = status.st_mtime < now - STAGED_OBJECT_AGE_MAX_S
                if is_reserved(path.name) and stat.S_ISREG(status.st_mode) and is_old:
                    path.unlink()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        lock = lock_file(self._locks / _OBJECTS_LOCK, timeout_s=OBJECT_LOCK_TIMEOUT_S)
        try:
            yield
        finally:
            unlock_file(lock)

    def _flush(self, folder: Path) -> None:
        # A name is durable once its folder is flushed.
        if self._is_durable:
            flush_path(folder)


def lock_file(path: Path, *, timeout_s: float) -> FileLock:
    """Lock a file, created if necessary, against every other open descriptor of it.

    Raises `BlockingIOError` if the lock is held by another for the whole timeout. The lock belongs
    to the open file description, so threads exclude each other too, and it ends with its process
    however that ends. A forked process inherits the description: if the parent is killed, the lock
    ends when the child does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _wait_for_lock(descriptor, timeout_s)
    except OSError:
        os.close(descriptor)
        raise
    return FileLock(descriptor, os.getpid())


def unlock_file(lock: FileLock) -> None:
    """Release a file lock, at once even if a forked process inherited it."""
    try:
        # A forked process that leaves the block must not release the lock of its parent.
        if lock.process_id == os.getpid():
            fcntl.flock(lock.descriptor, fcntl.LOCK_UN)
    finally:
        os.close(lock.descriptor)


def is_locked(path: Path) -> bool:
    """Whether the lock of a file is held now; creates no file and takes no lasting lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two concurrent checks do not mistake each other for a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _wait_for_lock(descriptor: int, timeout_s: float) -> None:
    # `flock` has no timeout, so the lock is polled.
    end = time.monotonic() + timeout_s
    pause = LOCK_PROBE_INTERVAL_S / 32
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        else:
            return
        time.sleep(pause)
        pause = min(2 * pause, LOCK_PROBE_INTERVAL_S)


def _tokens_of(entries: Iterable[os.DirEntry[str]]) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for entry in entries:
        if not entry.is_dir():
            # The file may disappear meanwhile.
            with suppress(FileNotFoundError):
                tokens[entry.name] = _token(entry.stat())
    return tokens


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if not is_reserved(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return


def _holds_objects(folder: str) -> bool:
    # A prefix exists if there is an object below it; emptied folders remain.
    return any(not entry.is_dir() or _holds_objects(entry.path) for entry in _entries(folder))


def _find_token(target: Path) -> str | None:
    try:
        status = target.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _token(status) if stat.S_ISREG(status.st_mode) else None


def _token(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
