"""Threads for calls of the engine: so many run at once, so many wait, and no more.

The engine blocks, so nothing of it runs on the event loop. Reads and writes have threads of their
own: writes wait for each other, and reads must not wait with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Condition
from typing import TypeVar

from omnigraph.server.problems import too_many

T = TypeVar("T")


class Workers:
    """Some threads and a bounded queue before them."""

    def __init__(self, *, name: str, running_max: int, waiting_max: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=running_max, thread_name_prefix=name)
        self._taken_max = running_max + waiting_max
        self._taken = 0
        self._changed = Condition()

    async def run(self, work: Callable[[], T]) -> T:
        """Run a blocking call on a thread; 429 at once if too many wait already."""
        with self._changed:
            if self._taken >= self._taken_max:
                raise too_many(f"the server has {self._taken:,} calls under way already")
            self._taken += 1
        # The thread logs under the id of the request.
        future = self._pool.submit(copy_context().run, work)
        # Counted until the call is done, which a caller that was given up does not wait for.
        future.add_done_callback(self._give_back)
        return await asyncio.wrap_future(future)

    def close(self, *, within_s: float) -> bool:
        """Take no more, and wait for what runs; False if that takes too long."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            return self._changed.wait_for(lambda: self._taken == 0, timeout=within_s)

    def _give_back(self, done: object) -> None:
        del done
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()
