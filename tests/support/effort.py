"""How much the interpreter does for a call: counted, not timed, so no neighbour disturbs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_lines(run: Callable[[], object]) -> int:
    """The lines of Python that a call runs, each turn of a loop included."""
    counter = _LineCounter()
    before = sys.gettrace()
    sys.settrace(counter)
    try:
        run()
    finally:
        sys.settrace(before)
    return counter.line_count


class _LineCounter:
    """A trace function that follows every frame and counts its lines."""

    def __init__(self) -> None:
        self.line_count = 0

    def __call__(self, _frame: FrameType, event: str, _arg: object) -> _LineCounter:
        self.line_count += event == "line"
        return self
