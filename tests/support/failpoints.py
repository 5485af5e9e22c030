"""Failpoints that a test activates: arrivals fail a number of times, or wait until released.

An inactive failpoint does nothing. An activation ends with its block.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.model.errors import GraphError, ReadSetChangedError, UnavailableError
from omnigraph.storage.failpoints import Failpoint


@dataclass(frozen=True, slots=True)
class Fail:
    """The first arrivals, up to a number, fail, and all later ones pass."""

    times: float


@dataclass(frozen=True, slots=True)
class Park:
    """The first arrival blocks until it is released; all later ones pass.

    `timeout_s` bounds the wait of either side for the other.
    """

    timeout_s: float


Action = Fail | Park

FAIL_ALWAYS = Fail(math.inf)


def fail_times(count: int) -> Fail:
    """Fail the first `count` arrivals, then pass."""
    return Fail(count)


class Activation:
    """An active failpoint: its number of arrivals, and the parked arrival if there is one."""

    def __init__(self, name: Failpoint, action: Action) -> None:
        self._name = name
        self._action = action
        self._counting = threading.Lock()
        self._arrivals = 0
        self._has_arrived = threading.Event()
        self._is_released = threading.Event()

    @property
    def arrivals(self) -> int:
        """The number of arrivals since the failpoint was activated."""
        return self._arrivals

    def wait_for_arrival(self) -> None:
        """Wait until the first arrival is parked; raises `TimeoutError` if none comes."""
        assert isinstance(self._action, Park)
        if not self._has_arrived.wait(self._action.timeout_s):
            raise TimeoutError(f"nothing reached the failpoint {self._name}")

    def release(self) -> None:
        """Let the parked arrival continue."""
        self._is_released.set()

    def arrive(self) -> None:
        """Perform the action of this arrival: pass, fail or wait."""
        with self._counting:
            number = self._arrivals
            self._arrivals += 1
        match self._action:
            case Fail(times):
                if number < times:
                    raise _injected_error(self._name)
            case Park(timeout_s):
                self._has_arrived.set()
                if number == 0 and not self._is_released.wait(timeout_s):
                    raise _injected_error(self._name)


class Failpoints:
    """The failpoints of one graph; none is active until a test activates it."""

    def __init__(self) -> None:
        self._active: dict[Failpoint, Activation] = {}

    def maybe_fail(self, name: Failpoint) -> None:
        """Raise or wait if a test has activated this failpoint."""
        if self._active and (activation := self._active.get(name)) is not None:
            activation.arrive()

    @contextmanager
    def activate(self, name: Failpoint, action: Action) -> Iterator[Activation]:
        """Activate a failpoint for the block; a parked arrival continues at its end."""
        assert name not in self._active, f"{name} is active already"
        activation = Activation(Failpoint(name), action)
        self._active[name] = activation
        try:
            yield activation
        finally:
            del self._active[name]
            activation.release()


def _injected_error(name: Failpoint) -> GraphError:
    reason = f"injected failpoint triggered: {name}"
    if name is Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION:
        # Simulates another writer that was first, which is not a storage failure.
        return ReadSetChangedError(member=f"({reason}) the head", expected="one", actual="another")
    return UnavailableError(action="go on", reason=reason)
