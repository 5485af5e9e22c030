"""Limits per actor for concurrent writes, and bounded worker threads for engine calls.

A request over a limit fails at once with 429 and never waits. Engine calls block, so they run on
worker threads and never on the event loop. Reads and writes use separate pools, because writes wait
for each other. Both parts are safe to share between threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from threading import Condition, Lock, Thread
from typing import TypeVar

from omnigraph.server.responses import too_large, too_many

ANONYMOUS = "anonymous"
"""The actor of all requests on a server without tokens."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one actor's writes in progress, over all graphs of the server."""

    requests_max: int
    bytes_max: int


class Admission:
    """Counts the writes in progress of each actor; safe to share between threads."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = Lock()
        self._used: dict[str, tuple[int, int]] = {}

    @contextmanager
    def admit(self, actor: str | None, *, request_bytes: int) -> Iterator[None]:
        """Take a slot and bytes of an actor's budget until the block ends; 429 if it is exhausted.

        Raises 413 if the request alone exceeds the byte budget of an actor.
        """
        name = ANONYMOUS if actor is None else actor
        self._take(name, request_bytes)
        try:
            yield
        finally:
            self._give_back(name, request_bytes)

    def _take(self, actor: str, request_bytes: int) -> None:
        budget = self._budget
        if request_bytes > budget.bytes_max:
            raise too_large(
                f"the request is {request_bytes:,} bytes; the limit of an actor is "
                f"{budget.bytes_max:,}"
            )
        with self._lock:
            requests, held_bytes = self._used.get(actor, (0, 0))
            if requests >= budget.requests_max:
                raise too_many(f"actor in-flight count cap {budget.requests_max} exceeded")
            if held_bytes + request_bytes > budget.bytes_max:
                raise too_many(
                    f"actor byte budget exceeded: {held_bytes + request_bytes} of "
                    f"{budget.bytes_max} bytes"
                )
            self._used[actor] = (requests + 1, held_bytes + request_bytes)

    def _give_back(self, actor: str, request_bytes: int) -> None:
        with self._lock:
            requests, held_bytes = self._used[actor]
            if requests == 1:
                del self._used[actor]
            else:
                self._used[actor] = (requests - 1, held_bytes - request_bytes)


T = TypeVar("T")


class Workers:
    """A thread pool with a bounded queue."""

    def __init__(self, *, name: str, running_max: int, waiting_max: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=running_max, thread_name_prefix=name)
        self._taken_max = running_max + waiting_max
        self._taken = 0
        self._changed = Condition()

    async def run(self, work: Callable[[], T]) -> T:
        """Run a blocking call on a thread; 429 at once if the queue is full."""
        with self._changed:
            if self._taken >= self._taken_max:
                raise too_many(f"the server has {self._taken:,} calls in progress")
            self._taken += 1
        # The context is copied so that the thread logs under the id of the request.
        future = self._pool.submit(copy_context().run, work)
        # The slot is held until the call ends, which may be after its request was cancelled.
        future.add_done_callback(self._give_back)
        return await asyncio.wrap_future(future)

    def close(self, *, within_s: float) -> bool:
        """Accept no more calls and wait for those that run; False on timeout."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            return self._changed.wait_for(lambda: self._taken == 0, timeout=within_s)

    def _give_back(self, done: object) -> None:
        del done
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()


def close_all(pools: Sequence[Workers], stopping: Thread, *, within_s: float) -> bool:
    """Close all pools and join a thread within one shared deadline; False on timeout."""
    deadline = time.monotonic() + within_s

    def left_s() -> float:
        return max(0.0, deadline - time.monotonic())

    are_done = [pool.close(within_s=left_s()) for pool in pools]
    stopping.join(left_s())
    return all(are_done) and not stopping.is_alive()
