"""Branch leases: mutual exclusion of writers that share only an object store.

A lease changes owner only by a conditional write, and its epoch only grows. A process that seizes
a lease first calls the fence. Two processes can both believe that they hold a lease; a paused
holder detects the loss when it checks the storage. Clocks determine how long a process waits and
never which process may write.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import uniform
from threading import Condition, Event, Lock, Thread

from omnigraph.model.errors import BusyError, CorruptError, UnavailableError
from omnigraph.model.limits import (
    LEASE_CLOCK_SKEW_S_MAX,
    LEASE_PROBE_INTERVAL_S_MAX,
    LEASE_PROBE_INTERVAL_S_MIN,
    LEASE_SHARED_S_MAX,
)
from omnigraph.model.records import RecordError, decode_record, encode_record
from omnigraph.model.runtime import Clock
from omnigraph.storage.ports import ObjectStore

LEASES_PREFIX = "__leases"
LEASE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """A process; the nonce distinguishes it from an earlier process with the same number."""

    host: str
    process_id: int
    nonce: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The process that may write on a branch, the lease's epoch, and its expiry.

    `branch` is None on main. The epoch grows whenever the lease changes owner and never shrinks: a
    released lease remains in the storage with `is_held` false.
    """

    branch: str | None
    owner: Owner
    epoch: int
    heartbeat: int
    ttl_s: float
    since: datetime
    expires_at: datetime
    is_held: bool

    @property
    def state(self) -> tuple[Owner, int, int]:
        """A value that differs between any two states of a lease."""
        return (self.owner, self.epoch, self.heartbeat)

    def is_good(self, now: datetime) -> bool:
        """Whether the holder may be alive at a timestamp, allowing for clock skew."""
        return self.is_held and now <= self.expires_at + timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A lease as read from the storage, and the token required to replace it."""

    lease: Lease
    token: str


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """The storage object of one branch's lease."""

    objects: ObjectStore
    branch: str | None

    @property
    def path(self) -> str:
        """The object's path; a digest, because branch names vary in length and contain slashes."""
        return (
            f"{LEASES_PREFIX}/{hashlib.sha256((self.branch or '').encode()).hexdigest()[:32]}.json"
        )

    def find(self) -> ObservedLease | None:
        """The stored lease; None if it was never taken."""
        stored = self.objects.find(self.path)
        if stored is None:
            return None
        return ObservedLease(decode_lease(stored.content, path=self.path), stored.token)

    def write(self, lease: Lease, *, after: ObservedLease | None) -> ObservedLease | None:
        """Durable effect: replace an observed lease; return what is stored, which may be another's.

        If the response is lost, including that of a retried request, the lease is read back.
        """
        content = encode_lease(lease)
        try:
            token = None
            if after is None:
                self.objects.put_if_absent(self.path, content)
            else:
                token = self.objects.put_if_match(self.path, content, token=after.token)
        except UnavailableError:
            found = self.find()
            if found is not None and found.lease.state == lease.state:
                return found
            raise
        return self.find() if token is None else ObservedLease(lease, token)


def encode_lease(lease: Lease) -> bytes:
    """The content of a lease's object."""
    return encode_record(lease, version=LEASE_FORMAT)


def decode_lease(content: bytes, *, path: str) -> Lease:
    """The lease stored in an object; raises `CorruptError` if the content is not valid.

    The object is not changed.
    """
    try:
        return decode_record(Lease, content, version=LEASE_FORMAT)
    except RecordError as error:
        raise CorruptError(
            subject=f"the lease {path}",
            problem=f"{error}; nothing was written; upgrade this OmniGraph if a newer one wrote "
            "it, or delete the object when no process writes to the graph",
        ) from error


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The location of a lease, its duration, and the fence to call when it is seized."""

    place: LeaseObject
    clock: Clock
    ttl_s: float
    timeout_s: float
    fence: Callable[[str | None], None]


class HeldLease:
    """A lease held by one process and shared by its threads, from acquisition to release.

    `trusted` is the newest version of the branch that was known before the lease began, or was made
    or read under it. A writer that starts from it conflicts with the fence of a process that seized
    the lease.
    """

    def __init__(self, seen: ObservedLease, *, options: LeaseOptions, requested_at: float) -> None:
        self._seen = seen
        self._options = options
        self._renewed_at = requested_at
        self._process_id = os.getpid()
        self._is_over = Event()
        self._writing = Lock()
        self._started_at = requested_at
        self.is_lost = False
        self.users = 1
        # Versions are counted from 1.
        self.trusted = 0

    @property
    def age_s(self) -> float:
        """The seconds since the lease was taken."""
        return self._options.clock.monotonic() - self._started_at

    def trust(self, version: int) -> None:
        """Record a version that is safe to write on."""
        self.trusted = max(self.trusted, version)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process took the lease, and not a process that it was forked from."""
        return self._process_id == os.getpid()

    def has_lapsed(self) -> bool:
        """Whether the lease is lost or may have expired by the local clock; sends no request."""
        if self.is_lost or not self.is_of_this_process:
            return True
        return self._options.clock.monotonic() - self._renewed_at > self._options.ttl_s

    def is_held(self) -> bool:
        """Whether this process still owns the lease, read from the storage."""
        if self.is_lost or not self.is_of_this_process:
            return False
        found = self._options.place.find()
        self.is_lost = found is None or not self._is_same(found)
        return not self.is_lost

    def keep_alive(self) -> None:
        """Renew the lease in the background until it is released or lost."""
        Thread(target=self._beat, name="omnigraph-lease", daemon=True).start()

    def stop(self) -> None:
        """Stop renewing the lease and let it expire."""
        self._is_over.set()

    def release(self) -> ObservedLease | None:
        """Durable effect: release the lease; return what is stored, None if unknown or lost."""
        self.stop()
        with self._writing:
            if self.is_lost:
                return None
            try:
                return self._write(is_held=False)
            except (UnavailableError, CorruptError) as error:
                # Writes made under the lease remain valid; the next writer waits until it expires.
                _LOG.warning("a lease stays until it expires: %s", error)
                return None

    def _beat(self) -> None:
        while not self._options.clock.wait(self._is_over, timeout_s=self._options.ttl_s / 3):
            with self._writing:
                if self._is_over.is_set() or self.is_lost:
                    return
                try:
                    self._renew()
                except UnavailableError as error:
                    _LOG.warning("a lease could not be renewed: %s", error)
                except CorruptError as error:
                    _LOG.warning("a lease is lost: %s", error)
                    self.is_lost = True

    def _renew(self) -> None:
        requested_at = self._options.clock.monotonic()
        found = self._write(is_held=True)
        if self.is_lost or found is None:
            _LOG.warning("a lease is lost: another process took it")
            return
        self._seen, self._renewed_at = found, requested_at

    def _write(self, *, is_held: bool) -> ObservedLease | None:
        options, lease = self._options, self._seen.lease
        wanted = replace(
            lease,
            heartbeat=lease.heartbeat + 1,
            expires_at=options.clock.now() + timedelta(seconds=options.ttl_s),
            is_held=is_held,
        )
        found = options.place.write(wanted, after=self._seen)
        self.is_lost = found is None or not self._is_same(found)
        return found

    def _is_same(self, found: ObservedLease) -> bool:
        mine = self._seen.lease
        return (found.lease.owner, found.lease.epoch) == (mine.owner, mine.epoch)


class BranchLease:
    """The lease of one branch, shared by the threads of one process."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._turn = Condition()
        self._held: HeldLease | None = None
        self._is_changing = False
        self._rest_until = 0.0
        self._known: ObservedLease | None = None
        self._watched: tuple[str, float] | None = None

    @contextmanager
    def hold(self, options: LeaseOptions, *, end: float) -> Iterator[tuple[HeldLease, bool]]:
        """Hold the lease for the block; yields it and whether it was newly taken.

        `end` bounds the wait.
        """
        joined = self._join(options, end)
        held = self._take(options, end) if joined is None else joined
        try:
            yield held, joined is None
        finally:
            # A forked process holds nothing, and its copies of locks may never be released.
            if held.is_of_this_process:
                self._leave(held)

    # Coordination between the threads of this process

    def _join(self, options: LeaseOptions, end: float) -> HeldLease | None:
        """The lease that other threads hold; None if this thread takes it and others wait."""
        with self._turn:
            while True:
                now = time.monotonic()
                pause = end - now
                if not self._is_changing:
                    held = self._held
                    if held is None or held.is_lost:
                        pause = min(pause, self._rest_until - now)
                        if pause <= 0:
                            self._is_changing = True
                            return None
                    elif held.age_s <= LEASE_SHARED_S_MAX:
                        held.users += 1
                        return held
                if pause <= 0:
                    raise _refusal(options, holder="another thread of this process")
                self._turn.wait(pause)

    def _take(self, options: LeaseOptions, end: float) -> HeldLease:
        taken: HeldLease | None = None
        try:
            taken = self._acquire(options, options.clock.monotonic() + end - time.monotonic())
            return taken
        finally:
            with self._turn:
                self._held, self._known = taken, None
                self._is_changing = False
                self._turn.notify_all()

    def _leave(self, held: HeldLease) -> None:
        with self._turn:
            held.users -= 1
            if held.users:
                return
            if self._held is not held:
                held.stop()
                return
            self._held, self._is_changing = None, True
        left: ObservedLease | None = None
        try:
            left = held.release()
        finally:
            with self._turn:
                self._known, self._is_changing = left, False
                if held.age_s > LEASE_SHARED_S_MAX:
                    # Other processes poll at intervals and would never find the lease free
                    # otherwise.
                    self._rest_until = time.monotonic() + 2 * LEASE_PROBE_INTERVAL_S_MAX
                self._turn.notify_all()

    # Coordination between processes

    def _acquire(self, options: LeaseOptions, end: float) -> HeldLease:
        place, clock = options.place, options.clock
        # A lease that this process released is usually unchanged, so that taking it again needs one
        # request.
        is_recalled = self._known is not None and not self._known.lease.is_held
        seen = self._known if is_recalled else place.find()
        pause = LEASE_PROBE_INTERVAL_S_MIN
        while True:
            is_seizure = seen is not None and seen.lease.is_held
            if seen is None or not is_seizure or self._is_dead(seen, options):
                requested_at = clock.monotonic()
                wanted = self._plan(seen, options)
                found = place.write(wanted, after=seen)
                if found is not None and found.lease.state == wanted.state:
                    held = HeldLease(found, options=options, requested_at=requested_at)
                    return _begin(held, options, is_seizure=is_seizure)
                seen = found
                if is_recalled:
                    # Another process has held the lease since; `seen` is now current.
                    is_recalled = False
                    continue
            left = end - clock.monotonic()
            if left <= 0:
                raise _refusal(options, holder=_describe(seen))
            clock.sleep(min(left, uniform(pause / 2, pause)))
            pause = min(2 * pause, LEASE_PROBE_INTERVAL_S_MAX)
            seen = place.find()

    def _is_dead(self, seen: ObservedLease, options: LeaseOptions) -> bool:
        """Whether the holder has not renewed the lease for so long that it may be seized."""
        if seen.lease.owner == self._owner:
            # Only one thread of this process takes the lease, so this is left over from an earlier
            # attempt.
            return True
        now = options.clock.monotonic()
        if self._watched is None or self._watched[0] != seen.token:
            self._watched = (seen.token, now)
        is_silent = now - self._watched[1] >= seen.lease.ttl_s
        skew = timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)
        return is_silent or options.clock.now() > seen.lease.expires_at + skew

    def _plan(self, seen: ObservedLease | None, options: LeaseOptions) -> Lease:
        now = options.clock.now()
        return Lease(
            branch=options.place.branch,
            owner=self._owner,
            epoch=seen.lease.epoch + 1 if seen else 1,
            heartbeat=0,
            ttl_s=options.ttl_s,
            since=now,
            expires_at=now + timedelta(seconds=options.ttl_s),
            is_held=True,
        )


def _begin(held: HeldLease, options: LeaseOptions, *, is_seizure: bool) -> HeldLease:
    held.keep_alive()
    is_fenced = not is_seizure
    try:
        if is_seizure:
            options.fence(options.place.branch)
            is_fenced = True
    finally:
        if not is_fenced:
            # A crash or a failure here leaves the lease held, so that the next holder calls the
            # fence too.
            held.stop()
    return held


def _describe(seen: ObservedLease | None) -> str:
    if seen is None:
        return "another process"
    owner, since = seen.lease.owner, seen.lease.since.isoformat(timespec="seconds")
    return f"process {owner.process_id} on {owner.host} (since {since})"


def _refusal(options: LeaseOptions, *, holder: str) -> BusyError:
    branch = options.place.branch or "main"
    return BusyError(
        action=f"write on branch '{branch}'", holder=holder, waited_s=options.timeout_s
    )
