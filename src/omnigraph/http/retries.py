"""The retry policy of HTTP calls: how many attempts, how long each, and the waits between them.

Which failures are retried is decided by the caller, because it depends on what a repetition would
do. This module opens no connection and imports no HTTP library, so that configuration can hold a
policy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum, auto

from omnigraph.model.runtime import Clock

_TIMEOUT_S_MIN = 0.001


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The bounds of the attempts of one call."""

    timeout_s: float
    """Longest time of one attempt."""
    attempts_max: int
    deadline_s: float | None
    """Longest time of all attempts and waits together, if it is bounded."""
    backoff_s: float
    """Wait after the first attempt."""
    backoff_factor: int
    """How much longer each further wait is."""
    wait_s_max: float
    jitter: float
    """Largest random change of a wait, as a fraction of it: spreads clients that failed at once."""


class Exhausted(Enum):
    """The bound that rules out another attempt."""

    ATTEMPTS = auto()
    DEADLINE = auto()


class Attempts:
    """The attempts of one call; used by one thread."""

    def __init__(self, policy: RetryPolicy, clock: Clock) -> None:
        self._policy, self._clock = policy, clock
        self._start = clock.monotonic()
        self.count = 1

    def timeout_s(self) -> float:
        """The time that the current attempt may take."""
        return max(_TIMEOUT_S_MIN, min(self._policy.timeout_s, self._remaining_s()))

    def next_wait(self, *, retry_after_s: float) -> float | Exhausted:
        """The wait before the next attempt, or the bound that rules it out.

        `retry_after_s` is the wait that the server requested, 0 if it requested none.
        """
        policy = self._policy
        if self.count == policy.attempts_max:
            return Exhausted.ATTEMPTS
        backoff_s: float = policy.backoff_s * policy.backoff_factor ** (self.count - 1)
        backoff_s *= 1 + policy.jitter * (2 * random.random() - 1)
        wait_s = min(max(backoff_s, retry_after_s), policy.wait_s_max)
        if wait_s >= self._remaining_s():
            return Exhausted.DEADLINE
        self.count += 1
        return wait_s

    def _remaining_s(self) -> float:
        if self._policy.deadline_s is None:
            return float("inf")
        return self._policy.deadline_s - (self._clock.monotonic() - self._start)
