"""Clocks for tests, and locks that follow them as those of a process of its own would.

A clock of ours passes no time by itself: sleeping turns it at once, and who waits for an event
waits for the event alone. So nothing is renewed behind a test's back, and no test sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event

from omnigraph.model.runtime import Clock
from omnigraph.storage.locations import Location
from omnigraph.storage.locks import Locking, ProcessLocks, WriteLocks, open_write_locks
from omnigraph.storage.objects import open_objects

START = datetime(2026, 1, 1, tzinfo=UTC)
TTL_S = 15.0


class HandClock:
    """A clock that is turned by hand; `ahead_s` is what it shows above the true time."""

    def __init__(self, *, ahead_s: float = 0.0) -> None:
        self._ahead_s = ahead_s
        self.passed_s = 0.0

    def now(self) -> datetime:
        """What it shows."""
        return START + timedelta(seconds=self.passed_s + self._ahead_s)

    def monotonic(self) -> float:
        """How far it was turned."""
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        """Turn it."""
        self.passed_s += seconds

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        """Wait for the event, for as long as that takes."""
        del timeout_s
        return event.wait()


def make_locking(clock: Clock, *, ttl_s: float = TTL_S) -> Locking:
    """What a process of its own has, as far as locks are concerned."""
    return Locking(ProcessLocks(), clock, ttl_s)


def open_locks(
    location: Location,
    locking: Locking,
    *,
    timeout_s: float,
    fence: Callable[[str | None], None] | None = None,
) -> WriteLocks:
    """The write queues of a place, through a handle of their own."""
    return open_write_locks(
        location,
        objects=open_objects(location, is_durable=False),
        locking=locking,
        fence=fence or _fence_nothing,
        timeout_s=timeout_s,
    )


def _fence_nothing(branch: str | None) -> None:
    """Where there are only locks, there is nothing to be fenced."""
