"""What is served now, and how something else takes its place while requests are under way.

A request has one revision from its beginning to its end, so a reload is never seen half done. What
the new revision does not serve any more is closed when the last that began before it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, Thread

from omnigraph.engine.graph import Graph
from omnigraph.server.served import Judge, Served
from omnigraph.server.tokens import Tokens


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """All that a reload replaces at once; `gate` decides about the server itself.

    `number` is that of the cluster's state, None where there is no cluster.
    """

    number: int | None
    graphs: Mapping[str, Served]
    gate: Judge | None
    tokens: Tokens


class Serving:
    """The revision that is served; safe to share between threads."""

    def __init__(self, revision: Revision) -> None:
        self._lock = Lock()
        self._now = revision
        self._users: Counter[Revision] = Counter()
        self._open = _graphs_of(revision)

    @property
    def now(self) -> Revision:
        """What a request would get that began now."""
        return self._now

    def enter(self) -> Revision:
        """The revision for one user, who says by `leave` when it is done with it."""
        with self._lock:
            self._users[self._now] += 1
            return self._now

    def enter_again(self, revision: Revision) -> None:
        """One more use of a revision, begun by somebody who uses it."""
        with self._lock:
            assert self._users[revision] > 0, "what nobody uses may be closed"
            self._users[revision] += 1

    def leave(self, revision: Revision) -> None:
        """End one use of a revision."""
        with self._lock:
            self._users[revision] -= 1
            is_last = self._users[revision] == 0
            if is_last:
                del self._users[revision]
            closing = self._give_up() if is_last and revision is not self._now else ()
        if closing:
            # Whoever leaves answers requests, and a graph may have something to wait for.
            Thread(target=_close, args=(closing,), daemon=True).start()

    def swap(self, revision: Revision) -> None:
        """Serve another revision from now on."""
        with self._lock:
            self._now = revision
            self._open |= _graphs_of(revision)
            closing = self._give_up()
        _close(closing)

    def close(self) -> None:
        """Let go of every graph, used or not."""
        with self._lock:
            closing, self._open = tuple(self._open), frozenset()
        _close(closing)

    def _give_up(self) -> tuple[Graph, ...]:
        """The open graphs that no revision in use has any more."""
        needed = frozenset[Graph]().union(*map(_graphs_of, (self._now, *self._users)))
        given_up = self._open - needed
        self._open &= needed
        return tuple(given_up)


def _graphs_of(revision: Revision) -> frozenset[Graph]:
    return frozenset(each.graph for each in revision.graphs.values())


def _close(graphs: tuple[Graph, ...]) -> None:
    for each in graphs:
        each.close()
