"""The reconciler: automatic maintenance in rounds, once it is started.

A round recovers interrupted writes, optimizes branches that need it, and deletes old versions if a
retention policy is set. Each of these is an ordinary call under the same locks, so several
reconcilers of one graph, in one process or many, only find less to do. A failure in a round is
logged and recorded, and the next round tries again. The module knows the graph only as the tasks
that it receives.
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

from omnigraph.engine.maintenance.cleanup import CleanupReport
from omnigraph.engine.results import OptimizeReport
from omnigraph.engine.state.history import Recovery
from omnigraph.model.errors import GraphError, InvalidValueError, NotFoundError
from omnigraph.model.runtime import Clock

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MaintenanceTasks:
    """The tasks of a round, one call each; `trim` is None if nothing is to be deleted."""

    refresh: Callable[[], None]
    recoveries: Callable[[], list[Recovery]]
    branches: Callable[[], list[str]]
    is_worn: Callable[[str], bool]
    optimize: Callable[[str], list[OptimizeReport]]
    trim: Callable[[], list[CleanupReport]] | None


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did, and its errors.

    `recovered` are the writes that were recovered meanwhile, `optimized` the types that were
    optimized, by branch, and `trimmed` the types whose old versions were deleted, or could not be.
    """

    recovered: tuple[Recovery, ...]
    optimized: Mapping[str, tuple[OptimizeReport, ...]]
    trimmed: tuple[CleanupReport, ...]
    errors: tuple[GraphError, ...]

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do and no error occurred."""
        return not (self.recovered or self.optimized or self.trimmed or self.errors)


class Reconciler:
    """Maintenance in rounds: automatic between `start` and `stop`, or one round at a time.

    `last_error` is the first error of the last round; None if there was none.
    """

    def __init__(self, chores: MaintenanceTasks, *, interval_s: float, clock: Clock) -> None:
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
        """Whether automatic rounds are running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start automatic rounds, the first one interval from now; idempotent."""
        if self.is_running:
            return
        self._is_over.clear()
        # A daemon thread does not keep the program from exiting. It is stopped at exit, because a
        # thread that is still inside a library when the interpreter shuts down crashes it.
        self._thread = threading.Thread(target=self._run, name="omnigraph-reconciler", daemon=True)
        atexit.register(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current task, and wait for it; idempotent."""
        self._is_over.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        atexit.unregister(self.stop)

    def run_once(self) -> Round:
        """Run one round now, whether or not automatic rounds are running, and report on it."""
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
            # A branch may have been deleted since it was listed.
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
    """Parse the pause between two rounds; `InvalidValueError` unless it is above zero."""
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
        problem=f"{interval_s!r} is not a positive number of seconds",
    )


@contextmanager
def _keeping(errors: list[GraphError]) -> Iterator[None]:
    """Log and collect a `GraphError` of the block, so that the other tasks still run."""
    try:
        yield
    except GraphError as error:
        _LOG.warning("a maintenance round is incomplete: %s", error)
        errors.append(error)
