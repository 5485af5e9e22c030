"""Write queues: who holds the lock of a type on a branch is the only one who may move it.

Promises that writers of one graph exclude each other key by key, whichever handles of a process
they use, and on local disks across processes; that several keys are taken in one order, so nobody
waits in a circle; that a wait is bounded; and that a writer that dies lets go.

On S3 writers of *different processes* do not exclude each other here: there the locks hold within
this process only, and what two processes do at once is caught by version checks and the publisher.
Locks are not reentrant: asking again for a key that one holds waits in vain.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol
from weakref import WeakValueDictionary

from omnigraph.model.errors import UnavailableError
from omnigraph.storage.local_files import LOCKS_FOLDER, FileLock, lock_file, unlock_file
from omnigraph.storage.locations import Location
from omnigraph.storage.object_errors import storage_errors


@dataclass(frozen=True, slots=True)
class LockKey:
    """What one write excludes another from: a table on a branch of it (None: its own)."""

    table_key: str
    branch: str | None


class HeldLocks:
    """The proof that locks are held, good until they are let go."""

    def __init__(self, keys: frozenset[LockKey]) -> None:
        self._keys = keys

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held."""
        return not self._keys

    def covers(self, keys: Iterable[LockKey]) -> bool:
        """Whether all of these are held now."""
        return self._keys.issuperset(keys)

    def expire(self) -> None:
        """Take note that the locks are let go."""
        self._keys = frozenset()


class WriteLocks(Protocol):
    """The write queues of one graph."""

    def hold(self, keys: Iterable[LockKey]) -> AbstractContextManager[HeldLocks]:
        """Hold locks for the block; `UnavailableError` if others keep one for too long."""


def open_write_locks(location: Location, *, timeout_s: float) -> WriteLocks:
    """The write queues of a graph; every handle of it in this process shares them.

    `timeout_s` bounds the wait of one `hold`, however many keys it asks for.
    """
    folder = Path(location.root) / LOCKS_FOLDER if location.is_local else None
    return _WriteLocks(root=location.root, folder=folder, timeout_s=timeout_s)


class _WriteLocks:
    def __init__(self, *, root: str, folder: Path | None, timeout_s: float) -> None:
        self._root = root
        self._folder = folder
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self, keys: Iterable[LockKey]) -> Iterator[HeldLocks]:
        ordered = _sort_keys(keys)
        end = time.monotonic() + self._timeout_s
        with ExitStack() as stack:
            for key in ordered:
                # Threads wait for each other without asking the disk; then one asks for all.
                stack.enter_context(self._held_in_process(key, end))
                if self._folder is not None:
                    stack.enter_context(self._held_on_disk(key, self._folder, end))
            held = HeldLocks(frozenset(ordered))
            stack.callback(held.expire)
            yield held

    @contextmanager
    def _held_in_process(self, key: LockKey, end: float) -> Iterator[None]:
        lock = _PROCESS_LOCKS.lock_of(self._root, key)
        if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise self._refusal(key, holder="another thread of this process")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _held_on_disk(self, key: LockKey, folder: Path, end: float) -> Iterator[None]:
        path = folder / f"{_digest(key)}.lock"
        with storage_errors(f"lock {path}"):
            try:
                lock = lock_file(path, timeout_s=end - time.monotonic())
            except BlockingIOError as error:
                raise self._refusal(key, holder=_read_holder(path)) from error
        try:
            _write_holder(lock)
            yield
        finally:
            unlock_file(lock)

    def _refusal(self, key: LockKey, *, holder: str) -> UnavailableError:
        # Keys of no type are our own: the manifest's, for one.
        name = key.table_key.partition(":")[2] or "the graph"
        branch = f" on branch '{key.branch}'" if key.branch else ""
        return UnavailableError(
            action=f"write {name}{branch}",
            reason=f"{holder} has been writing it for more than {self._timeout_s:g} s; "
            "try again when that write is done, or end it if it hangs",
        )


class _ProcessLocks:
    """The locks that all handles in this process share, by root and key.

    A lock is kept as long as somebody holds it or waits for it, so the mapping stays as small as
    what is going on. A fork starts without: the locks of its parent's threads would never open.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._guard = Lock()
        self._lock_by_name: WeakValueDictionary[tuple[str, LockKey], Lock] = WeakValueDictionary()

    def lock_of(self, root: str, key: LockKey) -> Lock:
        with self._guard:
            return self._lock_by_name.setdefault((root, key), Lock())


# State of the module, because handles know nothing of each other; and not behind a cached function,
# which may run twice when two threads come first.
_PROCESS_LOCKS = _ProcessLocks()


def _sort_keys(keys: Iterable[LockKey]) -> list[LockKey]:
    # Once each, and a table before its branches: whoever takes several takes them in this order.
    return sorted(set(keys), key=lambda key: (key.table_key, key.branch is not None, key.branch))


def _digest(key: LockKey) -> str:
    # Names have any length and characters; a file name has not.
    text = key.table_key if key.branch is None else f"{key.table_key}\0{key.branch}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write_holder(lock: FileLock) -> None:
    number = str(lock.process_id).encode()
    # Only for the message of who waits in vain: a full disk must not keep a clean-up from running.
    with suppress(OSError):
        os.pwrite(lock.descriptor, number, 0)
        os.ftruncate(lock.descriptor, len(number))


def _read_holder(path: Path) -> str:
    number = path.read_bytes()[:20].decode(errors="replace")
    return f"process {number}" if number.isdigit() else "another process"
