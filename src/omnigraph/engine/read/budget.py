"""What one query may cost: memory and time, asked before they are spent.

A query that is over its budget ends with `LimitExceededError`; the machine, and everybody else on
it, never notices. One that its caller has stopped ends the next time that it asks for anything. A
call may have less than the graph allows, never more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from threading import Event

from omnigraph.model.errors import InvalidValueError, LimitExceededError, UnavailableError

_CODE_BYTES = 8


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What one call may cost at most, and what stops it; None: as much as the graph allows.

    Whoever sets `cancelled`, from any thread, ends the call.
    """

    seconds_max: float | None = None
    bytes_max: int | None = None
    cancelled: Event | None = None

    def __post_init__(self) -> None:
        for name, given in (("seconds_max", self.seconds_max), ("bytes_max", self.bytes_max)):
            # Not the other way round, because NaN is not below anything either.
            if given is not None and not given > 0:
                raise InvalidValueError(
                    subject=name,
                    expected="a positive number",
                    value=given,
                    problem=f"{given} leaves nothing to spend",
                )


@dataclass(frozen=True, slots=True)
class Allowance:
    """What each query of a graph may cost; only differences of what `clock` shows mean anything.

    `cancelled` is set once the caller of a query does not want it any more.
    """

    bytes_max: int
    seconds_max: float
    clock: Callable[[], float]
    cancelled: Event | None = None

    def within(self, limits: CallLimits | None) -> Allowance:
        """The same for a call with limits of its own, which take away and never add."""
        if limits is None:
            return self
        bytes_max = self.bytes_max if limits.bytes_max is None else limits.bytes_max
        seconds_max = self.seconds_max if limits.seconds_max is None else limits.seconds_max
        return replace(
            self,
            bytes_max=min(self.bytes_max, bytes_max),
            seconds_max=min(self.seconds_max, seconds_max),
            cancelled=limits.cancelled,
        )


class Budget:
    """The budget of one query, from the moment it is made."""

    def __init__(self, allowance: Allowance) -> None:
        self._bytes_max = allowance.bytes_max
        self._seconds_max = allowance.seconds_max
        self._clock = allowance.clock
        self._cancelled = allowance.cancelled
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
        """Raise if the query has run for too long, or its caller has stopped it."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise UnavailableError(action="finish the query", reason="its caller stopped it")
        now = self._clock()
        if now > self._end:
            raise LimitExceededError(
                resource="the time of a query in seconds",
                limit=int(self._seconds_max),
                found=ceil(now - self._end + self._seconds_max),
            )
