"""Leases: whose turn it is on a branch, among processes that share nothing but an object store.

Promises that a lease changes hands only by a conditional write, that its epoch only grows, that a
holder who dies is followed by another once its time is up, and that whoever takes a lease from one
who did not let go calls the fence before anything else. Does *not* promise that two processes never
both believe they hold it: one that was paused finds out when it asks. Clocks decide how long
somebody waits, never who may write.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import uniform
from threading import Condition

from omnigraph.model.errors import BusyError
from omnigraph.model.limits import (
    LEASE_CLOCK_SKEW_S_MAX,
    LEASE_PROBE_INTERVAL_S_MAX,
    LEASE_PROBE_INTERVAL_S_MIN,
    LEASE_SHARED_S_MAX,
)
from omnigraph.storage.lease_records import Lease, Owner, SeenLease
from omnigraph.storage.tenures import LeaseTerms, Tenure


class BranchLease:
    """The lease of one branch, as the threads of one process share it."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._turn = Condition()
        self._tenure: Tenure | None = None
        self._is_changing = False
        self._rest_until = 0.0
        self._known: SeenLease | None = None
        self._watched: tuple[str, float] | None = None

    @contextmanager
    def hold(self, terms: LeaseTerms, *, end: float) -> Iterator[tuple[Tenure, bool]]:
        """Hold the lease for the block, and whether it was taken for it; `end` bounds the wait."""
        joined = self._find_tenure(terms, end)
        tenure = self._take(terms, end) if joined is None else joined
        try:
            yield tenure, joined is None
        finally:
            # In a fork of the process nothing is held, and its copies of locks may never open.
            if tenure.is_of_this_process:
                self._leave(tenure)

    # Among the threads of this process

    def _find_tenure(self, terms: LeaseTerms, end: float) -> Tenure | None:
        """The tenure of other threads; if there is none, all others wait for us to take one."""
        with self._turn:
            while True:
                now = time.monotonic()
                pause = end - now
                if not self._is_changing:
                    tenure = self._tenure
                    if tenure is None or tenure.is_lost:
                        pause = min(pause, self._rest_until - now)
                        if pause <= 0:
                            self._is_changing = True
                            return None
                    elif tenure.age_s <= LEASE_SHARED_S_MAX:
                        tenure.users += 1
                        return tenure
                if pause <= 0:
                    raise _refusal(terms, holder="another thread of this process")
                self._turn.wait(pause)

    def _take(self, terms: LeaseTerms, end: float) -> Tenure:
        taken: Tenure | None = None
        try:
            taken = self._acquire(terms, terms.clock.monotonic() + end - time.monotonic())
            return taken
        finally:
            with self._turn:
                self._tenure, self._known = taken, None
                self._is_changing = False
                self._turn.notify_all()

    def _leave(self, tenure: Tenure) -> None:
        with self._turn:
            tenure.users -= 1
            if tenure.users:
                return
            if self._tenure is not tenure:
                tenure.stop()
                return
            self._tenure, self._is_changing = None, True
        left: SeenLease | None = None
        try:
            left = tenure.let_go()
        finally:
            with self._turn:
                self._known, self._is_changing = left, False
                if tenure.age_s > LEASE_SHARED_S_MAX:
                    # Others look now and then, and would never see it free.
                    self._rest_until = time.monotonic() + 2 * LEASE_PROBE_INTERVAL_S_MAX
                self._turn.notify_all()

    # Among processes

    def _acquire(self, terms: LeaseTerms, end: float) -> Tenure:
        place, clock = terms.place, terms.clock
        # What we let go ourselves is mostly still there: then taking it is one request.
        is_recalled = self._known is not None and not self._known.lease.is_held
        seen = self._known if is_recalled else place.find()
        pause = LEASE_PROBE_INTERVAL_S_MIN
        while True:
            is_seizure = seen is not None and seen.lease.is_held
            if seen is None or not is_seizure or self._is_dead(seen, terms):
                asked_at = clock.monotonic()
                wanted = self._plan(seen, terms)
                found = place.write(wanted, after=seen)
                if found is not None and found.lease.state == wanted.state:
                    tenure = Tenure(found, terms=terms, asked_at=asked_at)
                    return _begin(tenure, terms, is_seizure=is_seizure)
                seen = found
                if is_recalled:
                    # Others had their turn since; now we know how it is.
                    is_recalled = False
                    continue
            left = end - clock.monotonic()
            if left <= 0:
                raise _refusal(terms, holder=_describe(seen))
            clock.sleep(min(left, uniform(pause / 2, pause)))
            pause = min(2 * pause, LEASE_PROBE_INTERVAL_S_MAX)
            seen = place.find()

    def _is_dead(self, seen: SeenLease, terms: LeaseTerms) -> bool:
        """Whether a holder has shown no sign of life for so long that it may be followed."""
        if seen.lease.owner == self._owner:
            # We are the one thread that takes it, so this is what an attempt of ours has left.
            return True
        now = terms.clock.monotonic()
        if self._watched is None or self._watched[0] != seen.token:
            self._watched = (seen.token, now)
        is_silent = now - self._watched[1] >= seen.lease.ttl_s
        skew = timedelta(seconds=LEASE_CLOCK_SKEW_S_MAX)
        return is_silent or terms.clock.now() > seen.lease.expires_at + skew

    def _plan(self, seen: SeenLease | None, terms: LeaseTerms) -> Lease:
        now = terms.clock.now()
        return Lease(
            branch=terms.place.branch,
            owner=self._owner,
            epoch=seen.lease.epoch + 1 if seen else 1,
            heartbeat=0,
            ttl_s=terms.ttl_s,
            since=now,
            expires_at=now + timedelta(seconds=terms.ttl_s),
            is_held=True,
        )


def _begin(tenure: Tenure, terms: LeaseTerms, *, is_seizure: bool) -> Tenure:
    tenure.keep_alive()
    is_fenced = not is_seizure
    try:
        if is_seizure:
            terms.fence(terms.place.branch)
            is_fenced = True
    finally:
        if not is_fenced:
            # A crash here, or a failure, leaves it held, so that the next one has to fence too.
            tenure.stop()
    return tenure


def _describe(seen: SeenLease | None) -> str:
    if seen is None:
        return "another process"
    owner, since = seen.lease.owner, seen.lease.since.isoformat(timespec="seconds")
    return f"process {owner.process_id} on {owner.host} (since {since})"


def _refusal(terms: LeaseTerms, *, holder: str) -> BusyError:
    branch = terms.place.branch or "main"
    return BusyError(action=f"write on branch '{branch}'", holder=holder, waited_s=terms.timeout_s)
