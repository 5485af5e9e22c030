"""Budgets: the memory and time that one query may use, checked before they are used.

A query that exceeds its budget fails with `LimitExceededError` and does not affect other work on
the machine. A cancelled query fails at its next check. A call can lower the limits of the graph but
never raise them.
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
    """The limits of one call; None is the limit of the graph.

    Setting `cancelled`, from any thread, stops the call. A limit that is not positive raises
    `InvalidValueError`.
    """

    seconds_max: float | None = None
    bytes_max: int | None = None
    cancelled: Event | None = None

    def __post_init__(self) -> None:
        for name, given in (("seconds_max", self.seconds_max), ("bytes_max", self.bytes_max)):
            # `given <= 0` would accept NaN.
            if given is not None and not given > 0:
                raise InvalidValueError(
                    subject=name,
                    expected="a positive number",
                    value=given,
                    problem=f"{given} leaves nothing to spend",
                )


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of each query of a graph; only differences between readings of `clock` are used.

    The caller sets `cancelled` to stop a query.
    """

    bytes_max: int
    seconds_max: float
    clock: Callable[[], float]
    cancelled: Event | None = None

    def within(self, limits: CallLimits | None) -> Allowance:
        """The allowance of a call; its limits can lower those of the graph, never raise them."""
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
    """The budget of one query; its time starts when the budget is created."""

    def __init__(self, allowance: Allowance) -> None:
        self._bytes_max = allowance.bytes_max
        self._seconds_max = allowance.seconds_max
        self._clock = allowance.clock
        self._cancelled = allowance.cancelled
        self._end = allowance.clock() + allowance.seconds_max

    def require_rows(self, count: int, *, width: int) -> None:
        """Raise unless `count` rows of `width` columns fit the budget and there is time left."""
        self.require_time()
        self.require_bytes(count * max(width, 1) * _CODE_BYTES)

    def require_bytes(self, count: int) -> None:
        """Raise `LimitExceededError` unless `count` bytes fit the budget."""
        if count > self._bytes_max:
            raise LimitExceededError(
                resource="the memory of a query in bytes", limit=self._bytes_max, found=count
            )

    def require_time(self) -> None:
        """Raise `LimitExceededError` after the time limit, and `UnavailableError` if cancelled."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise UnavailableError(action="finish the query", reason="its caller stopped it")
        now = self._clock()
        if now > self._end:
            raise LimitExceededError(
                resource="the time of a query in seconds",
                limit=int(self._seconds_max),
                found=ceil(now - self._end + self._seconds_max),
            )
