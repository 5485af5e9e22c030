"""Write queues: who holds the lock of a type on a branch is the only one who may move it.

Promises that writers of one graph exclude each other key by key, whichever handles of a process
they use; that several keys are taken in one order, so nobody waits in a circle; that a wait is
bounded; and that a writer that dies lets go. Among processes a local disk excludes key by key, by
file locks that end with their process. An object store excludes branch by branch, by leases, which
can be taken from a process that is only paused: whoever holds such locks asks before it publishes.
Locks are not reentrant: asking again for a key that one holds waits in vain.
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
from omnigraph.storage.lease_records import LeaseObject, Owner
from omnigraph.storage.leases import BranchLease
from omnigraph.storage.local_files import (
    LOCKS_FOLDER,
    FileLock,
    is_locked,
    lock_file,
    unlock_file,
)
from omnigraph.storage.locations import Location
from omnigraph.storage.object_errors import storage_errors
from omnigraph.storage.ports import ObjectStore
from omnigraph.storage.tenures import LeaseTerms, Tenure


@dataclass(frozen=True, slots=True)
class LockKey:
    """What one write excludes another from: a table on a branch of it (None: its own)."""

    table_key: str
    branch: str | None


class HeldLocks:
    """The proof that locks are held, good until they are let go.

    `is_fresh` says that the leases among them were taken for this hold and not before it.
    """

    def __init__(
        self,
        keys: frozenset[LockKey],
        *,
        tenure_by_branch: Mapping[str | None, Tenure],
        is_fresh: bool,
    ) -> None:
        self._keys = keys
        self.tenure_by_branch = tenure_by_branch
        self.is_fresh = is_fresh

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held."""
        return not self._keys

    @property
    def is_revocable(self) -> bool:
        """Whether another process may take them from one that it believes to be dead."""
        return bool(self.tenure_by_branch)

    def covers(self, keys: Iterable[LockKey]) -> bool:
        """Whether all of these are held now."""
        return self._keys.issuperset(keys)

    def expire(self) -> None:
        """Take note that the locks are let go."""
        self._keys = frozenset()

    def has_lapsed(self) -> bool:
        """Whether another process may have taken them by now; asks nobody."""
        return any(tenure.has_lapsed() for tenure in self.tenure_by_branch.values())

    def is_kept(self) -> bool:
        """Whether no other process has taken them, asked of the storage."""
        return all(tenure.is_kept() for tenure in self.tenure_by_branch.values())

    def trusts(self, version: int) -> bool:
        """Whether a version of the branch was known, made or asked about while it was ours."""
        return all(version <= tenure.trusted for tenure in self.tenure_by_branch.values())

    def trust(self, version: int) -> None:
        """Take note of such a version."""
        for tenure in self.tenure_by_branch.values():
            tenure.trust(version)


class WriteLocks(Protocol):
    """The write queues of one graph."""

    def hold(self, keys: Iterable[LockKey]) -> AbstractContextManager[HeldLocks]:
        """Hold locks for the block; `BusyError` if others keep one for too long."""

    def hold_within(
        self, held: HeldLocks, keys: Iterable[LockKey]
    ) -> AbstractContextManager[HeldLocks]:
        """Hold further locks; what a lease of those held already covers takes no other."""

    def find_holder(self, keys: Iterable[LockKey]) -> str | None:
        """Who seems to hold one of these locks now, found by a look that writes nothing."""


def hold_nothing() -> HeldLocks:
    """What is held by who needs no locks."""
    return HeldLocks(frozenset(), tenure_by_branch={}, is_fresh=False)


class ProcessLocks:
    """The locks and leases that all handles in this process share, by root.

    One is kept as long as somebody holds it or waits for it, so the mappings stay as small as what
    is going on. A fork starts without: the locks of its parent's threads would never open, and its
    parent's leases are not its own.
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

    def lock_of(self, root: str, key: LockKey) -> Lock:
        """The lock of a key."""
        with self._guard:
            return self._lock_by_name.setdefault((root, key), Lock())

    def lease_of(self, root: str, branch: str | None) -> BranchLease:
        """The lease of a branch."""
        with self._guard:
            return self._lease_by_name.setdefault((root, branch), BranchLease(self._owner))


# State of the module, because handles know nothing of each other; and not behind a cached function,
# which may run twice when two threads come first.
THIS_PROCESS = ProcessLocks()


@dataclass(frozen=True, slots=True)
class Locking:
    """Whose the locks are, whose time it is, and how long a lease is good."""

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
    """The write queues of a graph; every handle of it in this process shares them.

    `fence` is called for a branch whose lease was taken from a process that had not let go, before
    anybody holds it. `timeout_s` bounds the wait of one `hold`, however many keys it asks for.
    """
    if location.is_local:
        folder = Path(location.root) / LOCKS_FOLDER
        return _FileLocks(locking, root=location.root, folder=folder, timeout_s=timeout_s)

    def terms_of(branch: str | None) -> LeaseTerms:
        place = LeaseObject(objects, branch)
        return LeaseTerms(place, locking.clock, locking.lease_s, timeout_s, fence)

    return _LeaseLocks(locking, root=location.root, terms_of=terms_of, timeout_s=timeout_s)


class _FileLocks:
    """Write queues on a local disk."""

    def __init__(self, locking: Locking, *, root: str, folder: Path, timeout_s: float) -> None:
        self._threads = _ThreadLocks(locking.process_locks, root, timeout_s)
        self._folder = folder
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self, keys: Iterable[LockKey]) -> Iterator[HeldLocks]:
        ordered = _sort_keys(keys)
        end = time.monotonic() + self._timeout_s
        with ExitStack() as stack:
            for key in ordered:
                # Threads wait for each other without asking the disk; then one asks for all.
                stack.enter_context(self._threads.hold(key, end))
                stack.enter_context(self._held_on_disk(key, end))
            held = HeldLocks(frozenset(ordered), tenure_by_branch={}, is_fresh=False)
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
        return self._folder / f"{_digest(key)}.lock"

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
    """Write queues on an object store."""

    def __init__(
        self,
        locking: Locking,
        *,
        root: str,
        terms_of: Callable[[str | None], LeaseTerms],
        timeout_s: float,
    ) -> None:
        self._process_locks = locking.process_locks
        self._threads = _ThreadLocks(locking.process_locks, root, timeout_s)
        self._root = root
        self._terms_of = terms_of
        self._timeout_s = timeout_s
        # For what they remember: taking again what we let go last is one request.
        self._kept: dict[str | None, BranchLease] = {}

    def hold(self, keys: Iterable[LockKey]) -> AbstractContextManager[HeldLocks]:
        return self.hold_within(hold_nothing(), keys)

    @contextmanager
    def hold_within(self, held: HeldLocks, keys: Iterable[LockKey]) -> Iterator[HeldLocks]:
        ordered = _sort_keys(keys)
        branches = sorted({key.branch for key in ordered}, key=lambda branch: branch or "")
        end = time.monotonic() + self._timeout_s
        tenures = {each: held.tenure_by_branch.get(each) for each in branches}
        is_fresh = bool(branches)
        with ExitStack() as stack:
            taken: dict[str | None, Tenure] = {}
            # Leases before locks: who waits for a lease must not keep its holder from a lock.
            for branch, tenure in tenures.items():
                if tenure is None:
                    lease = self._lease_of(branch).hold(self._terms_of(branch), end=end)
                    taken[branch], is_new = stack.enter_context(lease)
                    is_fresh = is_fresh and is_new
                else:
                    taken[branch], is_fresh = tenure, False
            for key in ordered:
                stack.enter_context(self._threads.hold(key, end))
            got = HeldLocks(frozenset(ordered), tenure_by_branch=taken, is_fresh=is_fresh)
            stack.callback(got.expire)
            yield got

    def find_holder(self, keys: Iterable[LockKey]) -> str | None:
        for branch in {key.branch for key in keys}:
            terms = self._terms_of(branch)
            seen = terms.place.find()
            if seen is not None and seen.lease.is_good(terms.clock.now()):
                owner = seen.lease.owner
                return f"process {owner.process_id} on {owner.host}"
        return None

    def _lease_of(self, branch: str | None) -> BranchLease:
        lease = self._process_locks.lease_of(self._root, branch)
        self._kept[branch] = lease
        return lease


class _ThreadLocks:
    """The part of write queues that is among the threads of this process."""

    def __init__(self, process_locks: ProcessLocks, root: str, timeout_s: float) -> None:
        self._process_locks = process_locks
        self._root = root
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self, key: LockKey, end: float) -> Iterator[None]:
        lock = self._process_locks.lock_of(self._root, key)
        if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
            raise _refusal(key, self._timeout_s, holder="another thread of this process")
        try:
            yield
        finally:
            lock.release()


def _refusal(key: LockKey, timeout_s: float, *, holder: str) -> BusyError:
    # Keys of no type are our own: the manifest's, for one, and the schema's.
    name = key.table_key.partition(":")[2] or "the graph"
    branch = f" on branch '{key.branch}'" if key.branch and key.branch != key.table_key else ""
    return BusyError(action=f"write {name}{branch}", holder=holder, waited_s=timeout_s)


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
