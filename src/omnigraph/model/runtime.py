"""Time, ids and deferred imports: what a process takes from its environment.

Ids of one process ascend, also within a millisecond and after the clock is set back. A test
replaces the runtime to control time and ids. A lazy module is imported at first use; all types
here are safe to share between threads.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from importlib import import_module
from secrets import randbits
from threading import Event, Lock
from typing import Protocol

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ENDINGS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 80


class Runtime(Protocol):
    """The source of time and of new ids for an operation."""

    def now(self) -> datetime:
        """The current time, in UTC."""

    def new_id(self) -> str:
        """A ULID greater than all previous ones."""

    def new_ids(self, count: int) -> list[str]:
        """`count` ULIDs, ascending, at a fraction of the cost of single ones."""


class Clock(Protocol):
    """The source of time for waits; a test can stop it or advance it."""

    def now(self) -> datetime:
        """The current time, in UTC, by the clock of this machine."""

    def monotonic(self) -> float:
        """Seconds that never decrease; only differences are meaningful."""

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        """Wait for an event; returns whether it was set before the timeout."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        return event.wait(timeout_s)


class SystemRuntime:
    """The machine's clock and random numbers; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def new_id(self) -> str:
        return self.new_ids(1)[0]

    def new_ids(self, count: int) -> list[str]:
        fresh = time.time_ns() // 1_000_000 << _RANDOM_BITS | randbits(_RANDOM_BITS)
        with self._lock:
            first = max(fresh, self._last + 1)
            self._last = first + count - 1
        return encode_ids(first, count)


def encode_ids(first: int, count: int) -> list[str]:
    """The text form of consecutive ULIDs; `first` is the number of the first one."""
    ids: list[str] = []
    number, end = first, first + count
    while number < end:
        # Two characters are ten bits, so only the ending changes within such a block.
        start = number % len(_ENDINGS)
        prefix = "".join(_ALPHABET[number >> shift & 31] for shift in range(125, 5, -5))
        ids += [prefix + ending for ending in _ENDINGS[start : start + end - number]]
        number += len(_ENDINGS) - start
    return ids


class LazyModule:
    """A module that is imported when an attribute of it is first used; safe between threads."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._name), name)


def lazy_module(name: str) -> LazyModule:
    """The module with a name, imported at its first use."""
    return LazyModule(name)
