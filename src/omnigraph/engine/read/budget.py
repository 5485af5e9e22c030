"""What one query may cost: memory and time, asked before they are spent.

A query that is over its budget ends with `LimitExceededError`; the machine, and everybody else on
it, never notices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from omnigraph.model.errors import LimitExceededError

_CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Allowance:
    """What each query of a graph may cost; only differences of what `clock` shows mean anything."""

    bytes_max: int
    seconds_max: float
    clock: Callable[[], float]


class Budget:
    """The budget of one query, from the moment it is made."""

    def __init__(self, allowance: Allowance) -> None:
        self._bytes_max = allowance.bytes_max
        self._seconds_max = allowance.seconds_max
        self._clock = allowance.clock
        self._end = allowance.clock() + allowance.seconds_max

    def require_rows(self, count: int, *, width: int) -> None:
        """Raise unless so many rows of so many columns may be made now."""
        self.require_time()
        self.require_bytes(count * max(width, 1) * _CODE_BYTES)

    def require_bytes(self, count: int) -> None:
        """Raise unless so many bytes may be held now."""
        if count > self._bytes_max:
            raise LimitExceededError(
                resource="the memory of a query in bytes", limit=self._bytes_max, found=count
            )

    def require_time(self) -> None:
        """Raise if the query has run for too long."""
        now = self._clock()
        if now > self._end:
            raise LimitExceededError(
                resource="the time of a query in seconds",
                limit=int(self._seconds_max),
                found=ceil(now - self._end + self._seconds_max),
            )
