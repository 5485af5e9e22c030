"""Write locks: only the holder of the lock of a type on a branch may advance it.

Writers of one graph exclude each other key by key, across all handles of a process. Several keys
are taken in one order, so that writers cannot deadlock. A wait is bounded, and a writer that dies
releases its locks. Between processes, a local disk excludes key by key, with file locks that end
with their process. An object store excludes branch by branch, with leases, which can be seized from
a process that is only paused, so the holder of a lease checks it before it publishes. Locks are not
reentrant: requesting a held key again waits until the timeout.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Protocol
from weakref import WeakValueDictionary

from omnigraph.model.errors import BusyError
from omnigraph.model.runtime import Clock
from omnigraph.storage.errors import storage_errors
from omnigraph.storage.leases import BranchLease, HeldLease, LeaseObject, LeaseOptions, Owner
from omnigraph.storage.local_files import (
    LOCKS_FOLDER,
    FileLock,
    is_locked,
    lock_file,
    unlock_file,
)
from omnigraph.storage.locations import Location
from omnigraph.storage.ports import ObjectStore


@dataclass(frozen=True, slots=True)
class LockKey:
    """The unit of exclusion between writes: a table on one of its branches (None: main)."""

    table_key: str
    branch: str | None


class HeldLocks:
    """The proof that locks are held, valid until they are released.

    `is_fresh` means that the leases among them were taken for this hold and not before it.
    """

    def __init__(
        self,
        keys: frozenset[LockKey],
        *,
        lease_by_branch: Mapping[str | None, HeldLease],
        is_fresh: bool,
    ) -> None:
        self._keys = keys
        self.lease_by_branch = lease_by_branch
        self.is_fresh = is_fresh

    @property
    def is_empty(self) -> bool:
        """Whether no lock is held."""
        return not self._keys

    @property
    def is_revocable(self) -> bool:
        """Whether another process may seize them from a process that it believes to be dead."""
        return bool(self.lease_by_branch)

    def covers(self, keys: Iterable[LockKey]) -> bool:
        """Whether all of these keys are held now."""
        return self._keys.issuperset(keys)

    def expire(self) -> None:
        """Record that the locks are released."""
        self._keys = frozenset()

    def has_lapsed(self) -> bool:
        """Whether another process may have seized them by now; sends no request."""
        return any(lease.has_lapsed() for lease in self.lease_by_branch.values())

    def is_held(self) -> bool:
        """Whether no other process has seized them, read from the storage."""
        return all(lease.is_held() for lease in self.lease_by_branch.values())

    def trusts(self, version: int) -> bool:
        """Whether a version of the branch was known, made or read while the lease was held."""
        return all(version <= lease.trusted for lease in self.lease_by_branch.values())

    def trust(self, version: int) -> None:
        """Record such a version."""
        for lease in self.lease_by_branch.values():
            lease.trust(version)


class WriteLocks(Protocol):
    """The write locks of one graph."""

    def hold(self, keys: Iterable[LockKey]) -> AbstractContextManager[HeldLocks]:
        """Hold locks for the block; raises `BusyError` if the wait for one exceeds the timeout."""

    def hold_within(
        self, held: HeldLocks, keys: Iterable[LockKey]
    ) -> AbstractContextManager[HeldLocks]:
        """Hold more locks; keys covered by a lease in `held` take no further lease."""

    def find_holder(self, keys: Iterable[LockKey]) -> str | None:
        """The apparent holder of one of these locks; writes nothing."""


def hold_nothing() -> HeldLocks:
    """The value for callers that need no locks."""
    return HeldLocks(frozenset(), lease_by_branch={}, is_fresh=False)


class ProcessLocks:
    """The locks and leases that all handles in this process share, by root.

    An entry exists as long as a thread holds it or waits for it, so the mappings stay small. A
    forked process starts empty: the locks of its parent's threads would never be released, and it
    does not own its parent's leases.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._guard = Lock()
        self._owner = Owner(socket.gethostname(), os.getpid(), token_hex(8))
        self._lock_by_name: WeakValueDictionary[tuple[str, LockKey], Lock] = WeakValueDictionary()
        self._lease_by_name: WeakValueDictionary[tuple[str, str | None], BranchLease] = (
            WeakValueDictionary()
        )

    @contextmanager
    def hold(self, root: str, key: LockKey, *, end: float, timeout_s: float) -> Iterator[None]:
        """Exclude the other threads of this process, or raise at the end of `timeout_s`."""
        with self._guard:
            lock = self._lock_by_name.setdefault((root, key), Lock())
        if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise _refusal(key, timeout_s, holder="another thread of this process")
        try:
            yield
        finally:
            lock.release()

    def lease_of(self, root: str, branch: str | None) -> BranchLease:
        """The lease of a branch."""
        with self._guard:
            return self._lease_by_name.setdefault((root, branch), BranchLease(self._owner))


# Module state, because handles do not know each other. A cached function could run twice when two
# threads call it first.
THIS_PROCESS = ProcessLocks()


@dataclass(frozen=True, slots=True)
class Locking:
    """The process locks, the clock, and the duration of a lease."""

    process_locks: ProcessLocks
    clock: Clock
    lease_s: float


def open_write_locks(
    location: Location,
    *,
    objects: ObjectStore,
    locking: Locking,
    fence: Callable[[str | None], None],
    timeout_s: float,
) -> WriteLocks:
    """The write locks of a graph, shared by all its handles in this process.

    `fence` is called for a branch whose lease was seized from a process that had not released it,
    before the lease is held. `timeout_s` bounds the wait of one `hold` for any number of keys.
    """
    if location.is_local:
        folder = Path(location.root) / LOCKS_FOLDER
        return _FileLocks(locking, root=location.root, folder=folder, timeout_s=timeout_s)

    def options_of(branch: str | None) -> LeaseOptions:
        place = LeaseObject(objects, branch)
        return LeaseOptions(place, locking.clock, locking.lease_s, timeout_s, fence)

    return _LeaseLocks(locking, root=location.root, options_of=options_of, timeout_s=timeout_s)


class _FileLocks:
    """Write locks on a local disk."""

    def __init__(self, locking: Locking, *, root: str, folder: Path, timeout_s: float) -> None:
        self._process_locks = locking.process_locks
        self._root = root
        self._folder = folder
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self, keys: Iterable[LockKey]) -> Iterator[HeldLocks]:
        ordered = _sort_keys(keys)
        end = time.monotonic() + self._timeout_s
        with ExitStack() as stack:
            for key in ordered:
                # Threads of this process wait for each other in memory, so that only one of them
                # polls the disk.
                turn = self._process_locks.hold(self._root, key, end=end, timeout_s=self._timeout_s)
                stack.enter_context(turn)
                stack.enter_context(self._held_on_disk(key, end))
            held = HeldLocks(frozenset(ordered), lease_by_branch={}, is_fresh=False)
            stack.callback(held.expire)
            yield held

    def hold_within(
        self, held: HeldLocks, keys: Iterable[LockKey]
    ) -> AbstractContextManager[HeldLocks]:
        del held  # a file lock covers one key
        return self.hold(keys)

    def find_holder(self, keys: Iterable[LockKey]) -> str | None:
        for path in [self._path_of(key) for key in _sort_keys(keys)]:
            with storage_errors(f"look at {path}"):
                if is_locked(path):
                    return _read_holder(path)
        return None

    def _path_of(self, key: LockKey) -> Path:
        # Names may have any length and any characters, and file names may not.
        text = key.table_key if key.branch is None else f"{key.table_key}\0{key.branch}"
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.lock"

    @contextmanager
    def _held_on_disk(self, key: LockKey, end: float) -> Iterator[None]:
        path = self._path_of(key)
        with storage_errors(f"lock {path}"):
            try:
                lock = lock_file(path, timeout_s=end - time.monotonic())
            except BlockingIOError as error:
                raise _refusal(key, self._timeout_s, holder=_read_holder(path)) from error
        try:
            _write_holder(lock)
            yield
        finally:
            unlock_file(lock)


class _LeaseLocks:
    """Write locks on an object store."""

    def __init__(
        self,
        locking: Locking,
        *,
        root: str,
        options_of: Callable[[str | None], LeaseOptions],
        timeout_s: float,
    ) -> None:
        self._process_locks = locking.process_locks
        self._root = root
        self._options_of = options_of
        self._timeout_s = timeout_s
        # Referenced for their cached state: taking again a lease that was released last needs one
        # request.
        self._leases: dict[str | None, BranchLease] = {}

    def hold(self, keys: Iterable[LockKey]) -> AbstractContextManager[HeldLocks]:
        return self.hold_within(hold_nothing(), keys)

    @contextmanager
    def hold_within(self, held: HeldLocks, keys: Iterable[LockKey]) -> Iterator[HeldLocks]:
        ordered = _sort_keys(keys)
        branches = sorted({key.branch for key in ordered}, key=lambda branch: branch or "")
        end = time.monotonic() + self._timeout_s
        shared = {each: held.lease_by_branch.get(each) for each in branches}
        is_fresh = bool(branches)
        with ExitStack() as stack:
            taken: dict[str | None, HeldLease] = {}
            # Leases before locks: a thread that waits for a lease must not hold a lock that the
            # lease's holder needs.
            for branch, known in shared.items():
                if known is None:
                    lease = self._process_locks.lease_of(self._root, branch)
                    self._leases[branch] = lease
                    hold = lease.hold(self._options_of(branch), end=end)
                    taken[branch], is_new = stack.enter_context(hold)
                    is_fresh = is_fresh and is_new
                else:
                    taken[branch], is_fresh = known, False
            for key in ordered:
                turn = self._process_locks.hold(self._root, key, end=end, timeout_s=self._timeout_s)
                stack.enter_context(turn)
            got = HeldLocks(frozenset(ordered), lease_by_branch=taken, is_fresh=is_fresh)
            stack.callback(got.expire)
            yield got

    def find_holder(self, keys: Iterable[LockKey]) -> str | None:
        for branch in {key.branch for key in keys}:
            options = self._options_of(branch)
            seen = options.place.find()
            if seen is not None and seen.lease.is_good(options.clock.now()):
                owner = seen.lease.owner
                return f"process {owner.process_id} on {owner.host}"
        return None


def _refusal(key: LockKey, timeout_s: float, *, holder: str) -> BusyError:
    # Keys without a type are internal, such as those of the manifest and of the schema.
    name = key.table_key.partition(":")[2] or "the graph"
    branch = f" on branch '{key.branch}'" if key.branch and key.branch != key.table_key else ""
    return BusyError(action=f"write {name}{branch}", holder=holder, waited_s=timeout_s)


def _sort_keys(keys: Iterable[LockKey]) -> list[LockKey]:
    # Each key once, and a table before its branches: all callers take locks in this order.
    return sorted(set(keys), key=lambda key: (key.table_key, key.branch is not None, key.branch))


def _write_holder(lock: FileLock) -> None:
    number = str(lock.process_id).encode()
    # Only for the message of a writer that times out: a full disk must not prevent a clean-up.
    with suppress(OSError):
        os.pwrite(lock.descriptor, number, 0)
        os.ftruncate(lock.descriptor, len(number))


def _read_holder(path: Path) -> str:
    number = path.read_bytes()[:20].decode(errors="replace")
    return f"process {number}" if number.isdigit() else "another process"
