"""Times of calls, taken in turns so that a busy moment hits every contender alike.

The caller chooses the clock: processor time for our own work, wall time for what people wait for.
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
        """What nineteen of twenty runs stay within."""
        return self.seconds[math.ceil(len(self.seconds) * 0.95) - 1]


def measure(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    warm_up_rounds: int,
    clock: Callable[[], float],
) -> dict[str, Timing]:
    """The times of every contender over some rounds, in each of which all of them run once."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(warm_up_rounds):
        for run in contenders.values():
            run()
    for _ in range(rounds):
        for name, run in contenders.items():
            # The garbage of one contender is not the next one's to collect.
            gc.collect()
            start = clock()
            run()
            taken[name].append(clock() - start)
    return {name: Timing(tuple(sorted(seconds))) for name, seconds in taken.items()}
