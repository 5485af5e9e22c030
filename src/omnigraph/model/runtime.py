"""Time and ids: what a run cannot compute, given to it from outside.

Promises that the ids of one process ascend, within a millisecond and when the clock is set back
too. A test gives a runtime of its own and holds both still.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from secrets import randbits
from threading import Event, Lock
from typing import Protocol

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ENDINGS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 80


class Runtime(Protocol):
    """Where an operation gets the time and new ids from."""

    def now(self) -> datetime:
        """This moment, in UTC."""

    def new_id(self) -> str:
        """A ULID greater than every one before it."""

    def new_ids(self, count: int) -> list[str]:
        """That many of them, ascending, at a fraction of the cost of single ones."""


class Clock(Protocol):
    """Where waiting gets its time from; a test holds it still or turns it by hand."""

    def now(self) -> datetime:
        """This moment, in UTC, as this machine believes it to be."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        """Whether an event came before that much time had passed."""


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
    """The texts of consecutive ULIDs, given as the number of the first."""
    ids: list[str] = []
    number, end = first, first + count
    while number < end:
        # Two characters are ten bits: within such a block only the ending changes.
        start = number % len(_ENDINGS)
        prefix = "".join(_ALPHABET[number >> shift & 31] for shift in range(125, 5, -5))
        ids += [prefix + ending for ending in _ENDINGS[start : start + end - number]]
        number += len(_ENDINGS) - start
    return ids
