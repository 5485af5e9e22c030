"""The reconciler: upkeep that happens by itself, round after round, if somebody starts it.

A round finishes or undoes what dead writers left, lays out branches that have become worn, and
deletes old versions if it was told how many to keep. Each of these is a call like any other, under
the same locks, so several reconcilers of one graph, in one process or many, only find less to do.
What fails in a round is logged and kept, and the next round tries again. Knows the graph only as
the chores that it is given.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from omnigraph.engine.commit.audit import Recovery
from omnigraph.engine.ops.cleanup import CleanupReport
from omnigraph.engine.results import OptimizeReport
from omnigraph.model.errors import GraphError, InvalidValueError, NotFoundError
from omnigraph.model.runtime import Clock

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chores:
    """What there is to do in a round, one call each; `trim` is None if nothing is to be deleted."""

    refresh: Callable[[], None]
    recoveries: Callable[[], list[Recovery]]
    branches: Callable[[], list[str]]
    is_worn: Callable[[str], bool]
    optimize: Callable[[str], list[OptimizeReport]]
    trim: Callable[[], list[CleanupReport]] | None


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did, and what went wrong in it.

    `recovered` are the writes that were ended meanwhile, `optimized` the types that were laid out
    anew, by branch, and `trimmed` the types of which old versions were deleted, or could not
    be.
    """

    recovered: tuple[Recovery, ...]
    optimized: Mapping[str, tuple[OptimizeReport, ...]]
    trimmed: tuple[CleanupReport, ...]
    errors: tuple[GraphError, ...]

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do, and nothing went wrong."""
        return not (self.recovered or self.optimized or self.trimmed or self.errors)


class Reconciler:
    """Upkeep in rounds: by itself between `start` and `stop`, or one round at a time.

    `last_error` is what went wrong first in the last round; None if nothing did.
    """

    def __init__(self, chores: Chores, *, interval_s: float, clock: Clock) -> None:
        self._chores = chores
        self._interval_s = interval_s
        self._clock = clock
        self._is_over = threading.Event()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self.last_error: GraphError | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether rounds happen by themselves now."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin with rounds, the first one interval from now; starting again changes nothing."""
        if self.is_running:
            return
        self._is_over.clear()
        # A daemon, so that it keeps no program from ending; stopped then, because a thread that
        # is still inside of a library when the interpreter goes away takes it down.
        self._thread = threading.Thread(target=self._run, name="omnigraph-reconciler", daemon=True)
        atexit.register(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """End after the chore that is under way, and wait for that; stopping again is fine."""
        self._is_over.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        atexit.unregister(self.stop)

    def run_once(self) -> Round:
        """Do one round now, whether rounds happen by themselves or not, and tell what it did."""
        with self._turn:
            done = self._play()
        self.last_error = next(iter(done.errors), None)
        return done

    def _run(self) -> None:
        while not self._clock.wait(self._is_over, timeout_s=self._interval_s):
            self.run_once()

    def _play(self) -> Round:
        errors: list[GraphError] = []
        known: set[str] = set()
        with _keeping(errors):
            known = {each.operation_id for each in self._chores.recoveries()}
        with _keeping(errors):
            self._chores.refresh()
        recovered: list[Recovery] = []
        with _keeping(errors):
            found = self._chores.recoveries()
            recovered = [each for each in found if each.operation_id not in known]
        optimized = dict(self._optimize(errors))
        trimmed: list[CleanupReport] = []
        if self._chores.trim is not None and not self._is_stopping:
            with _keeping(errors):
                trimmed = [
                    each for each in self._chores.trim() if each.old_versions_removed or each.error
                ]
        return Round(tuple(recovered), optimized, tuple(trimmed), tuple(errors))

    def _optimize(
        self, errors: list[GraphError]
    ) -> Iterator[tuple[str, tuple[OptimizeReport, ...]]]:
        branches: list[str] = []
        with _keeping(errors):
            branches = self._chores.branches()
        for branch in branches:
            if self._is_stopping:
                return
            # A branch may be deleted since it was listed.
            with _keeping(errors), suppress(NotFoundError):
                if not self._chores.is_worn(branch):
                    continue
                done = [each for each in self._chores.optimize(branch) if each.committed]
                if done:
                    yield branch, tuple(done)

    @property
    def _is_stopping(self) -> bool:
        return self._is_over.is_set() and self._thread is threading.current_thread()


def parse_interval(interval_s: object) -> float:
    """The pause between two rounds that a caller means."""
    match interval_s:
        case bool():
            pass
        case int() | float() if 0 < interval_s <= threading.TIMEOUT_MAX:
            return float(interval_s)
        case _:
            pass
    raise InvalidValueError(
        subject="interval_s",
        expected="seconds above zero",
        value=interval_s,
        problem=f"{interval_s!r} is no number of seconds above zero",
    )


@contextmanager
def _keeping(errors: list[GraphError]) -> Iterator[None]:
    """Keep what goes wrong in the block, so that other chores are done all the same."""
    try:
        yield
    except GraphError as error:
        _LOG.warning("a round of upkeep left something undone: %s", error)
        errors.append(error)
