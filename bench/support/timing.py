"""Measures several contenders in alternation, so that load peaks affect all of them alike.

The caller chooses the clock: CPU time for computation, wall time for latency.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one contender in seconds, sorted."""

    seconds: tuple[float, ...]

    @property
    def fastest(self) -> float:
        return self.seconds[0]

    @property
    def slowest(self) -> float:
        return self.seconds[-1]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def p95(self) -> float:
        """The 95th percentile."""
        return self.seconds[math.ceil(len(self.seconds) * 0.95) - 1]


def measure(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warmup_rounds: int,
    clock: Callable[[], float],
) -> dict[str, Timing]:
    """Run every contender once per round and return the times of each."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(warmup_rounds):
        for run in contenders.values():
            run()
    for _ in range(rounds):
        for name, run in contenders.items():
            # Garbage of one contender must not be collected during the run of the next.
            gc.collect()
            start = clock()
            run()
            taken[name].append(clock() - start)
    return {name: Timing(tuple(sorted(seconds))) for name, seconds in taken.items()}
