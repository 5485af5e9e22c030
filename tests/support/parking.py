"""Stores that pause: an operation is stopped before or after its N-th durable effect.

The test defines what stopping means: a waiting thread, or a process that signals its parent. Counts
what any code does through the two ports of a graph, so that no effect is overlooked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from omnigraph.storage.ports import Stores

P = ParamSpec("P")
T = TypeVar("T")

OBJECT_EFFECTS = ("put", "put_if_absent", "put_if_match", "delete", "delete_prefix")
TABLE_EFFECTS = ("create", "apply", "compact", "fork", "delete_branch", "restore")


class Stop:
    """A place at which an operation pauses, once it is armed."""

    def __init__(self, *, at: int, is_after: bool, stand_still: Callable[[], None]) -> None:
        self._at = at
        self._is_after = is_after
        self._stand_still = stand_still
        self._is_armed = False
        self.seen = 0
        self.hit: str | None = None

    def __str__(self) -> str:
        return f"{'after' if self._is_after else 'before'} effect {self._at}, {self.hit}"

    def arm(self) -> None:
        """Count from now on."""
        self._is_armed = True

    def around(self, call: Callable[P, T]) -> Callable[P, T]:
        """A call that is counted."""
        name = getattr(call, "__name__", repr(call))

        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            self.seen += self._is_armed
            if not self._is_armed or self.seen != self._at:
                return call(*args, **kwargs)
            self.hit = name
            if not self._is_after:
                self._stand_still()
                return call(*args, **kwargs)
            done = call(*args, **kwargs)
            self._stand_still()
            return done

        return run


class Parking:
    """A place at which a thread waits until it is released."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._is_there = threading.Event()
        self._may_go = threading.Event()

    def stand_still(self) -> None:
        """Wait."""
        self._is_there.set()
        assert self._may_go.wait(self._timeout_s), "it was never released"

    def has_arrived(self, thread: threading.Thread) -> bool:
        """Whether a thread waits here; False once the thread has ended instead."""
        while not self._is_there.wait(0.01):
            if not thread.is_alive():
                return self._is_there.is_set()
        return True

    def release(self) -> None:
        """Release the waiting thread."""
        self._may_go.set()


def stopping(stores: Stores, stop: Stop) -> Stores:
    """The same stores, each durable effect of theirs counted."""
    for store, names in ((stores.objects, OBJECT_EFFECTS), (stores.tables, TABLE_EFFECTS)):
        for name in names:
            setattr(store, name, stop.around(getattr(store, name)))
    return stores
