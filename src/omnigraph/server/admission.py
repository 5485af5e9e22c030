"""How much one actor may have under way: requests that write, and the bytes that they bring.

Counts and never waits: who is too many is told so at once. Knows no clock and no requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from omnigraph.server.problems import too_large, too_many

ANONYMOUS = "anonymous"
"""Who everybody is on a server without tokens."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one actor may have under way at once, over all graphs of the server."""

    requests_max: int
    bytes_max: int


class Admission:
    """Counts what each actor has under way; safe to share between threads."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = Lock()
        self._used: dict[str, tuple[int, int]] = {}

    @contextmanager
    def admit(self, actor: str | None, *, request_bytes: int) -> Iterator[None]:
        """Take a slot and bytes of an actor's budget until the block ends; 429 if there is none.

        413 if the request alone is more than an actor may ever have.
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
                f"the request is {request_bytes:,} bytes; an actor may have "
                f"{budget.bytes_max:,} under way"
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
