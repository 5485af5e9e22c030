"""Tenures: a process's hold of a lease, kept alive while its threads write, and then let go.

Promises that a tenure which another process has ended says so when it is asked, and that nothing is
written to a lease that is no longer ours. Knows neither how a lease is taken nor what is written
under it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event, Lock, Thread

from omnigraph.model.errors import CorruptError, UnavailableError
from omnigraph.model.runtime import Clock
from omnigraph.storage.lease_records import LeaseObject, SeenLease

_LOG = logging.getLogger(__name__)

# What is trusted before anything is: versions are counted from 1.
_NOTHING = 0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """Where a lease is, how long it is good, and what must happen when one is seized."""

    place: LeaseObject
    clock: Clock
    ttl_s: float
    timeout_s: float
    fence: Callable[[str | None], None]


class Tenure:
    """One process's hold of a lease, shared by its threads, from taking it to letting it go.

    `trusted` is the newest version of the branch that was known before the lease began, or made or
    asked about under it: a writer that starts from there meets the fence of whoever seized it.
    """

    def __init__(self, seen: SeenLease, *, terms: LeaseTerms, asked_at: float) -> None:
        self._seen = seen
        self._terms = terms
        self._renewed_at = asked_at
        self._process_id = os.getpid()
        self._is_over = Event()
        self._writing = Lock()
        self._started_at = asked_at
        self.is_lost = False
        self.users = 1
        self.trusted = _NOTHING

    @property
    def age_s(self) -> float:
        """For how long it has been held."""
        return self._terms.clock.monotonic() - self._started_at

    def trust(self, version: int) -> None:
        """Take note of a version from which it is safe to go on."""
        self.trusted = max(self.trusted, version)

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was this process that took it, and not one that this is a fork of."""
        return self._process_id == os.getpid()

    def has_lapsed(self) -> bool:
        """Whether it is lost, or may be by now as far as this process can tell; asks nobody."""
        if self.is_lost or not self.is_of_this_process:
            return True
        return self._terms.clock.monotonic() - self._renewed_at > self._terms.ttl_s

    def is_kept(self) -> bool:
        """Whether nobody has taken the lease, asked of the storage."""
        if self.is_lost or not self.is_of_this_process:
            return False
        found = self._terms.place.find()
        self.is_lost = found is None or not self._is_same(found)
        return not self.is_lost

    def keep_alive(self) -> None:
        """Renew the lease from now on, until it is let go or lost."""
        Thread(target=self._beat, name="omnigraph-lease", daemon=True).start()

    def stop(self) -> None:
        """Renew it no more, and leave it to run out."""
        self._is_over.set()

    def let_go(self) -> SeenLease | None:
        """Durable effect: what is there afterwards; None if that is not known, or not ours."""
        self.stop()
        with self._writing:
            if self.is_lost:
                return None
            try:
                return self._write(is_held=False)
            except (UnavailableError, CorruptError) as error:
                # What was done under it is done; the next writer waits until its time is up.
                _LOG.warning("a lease stays until it expires: %s", error)
                return None

    def _beat(self) -> None:
        while not self._terms.clock.wait(self._is_over, timeout_s=self._terms.ttl_s / 3):
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
        asked_at = self._terms.clock.monotonic()
        found = self._write(is_held=True)
        if self.is_lost or found is None:
            _LOG.warning("a lease is lost: another process took it")
            return
        self._seen, self._renewed_at = found, asked_at

    def _write(self, *, is_held: bool) -> SeenLease | None:
        terms, lease = self._terms, self._seen.lease
        wanted = replace(
            lease,
            heartbeat=lease.heartbeat + 1,
            expires_at=terms.clock.now() + timedelta(seconds=terms.ttl_s),
            is_held=is_held,
        )
        found = terms.place.write(wanted, after=self._seen)
        self.is_lost = found is None or not self._is_same(found)
        return found

    def _is_same(self, found: SeenLease) -> bool:
        mine = self._seen.lease
        return (found.lease.owner, found.lease.epoch) == (mine.owner, mine.epoch)
