"""How much the interpreter does for a call, counted and not timed, so that no neighbour disturbs it."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Protocol


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


class _Trace(Protocol):
    def __call__(self, frame: FrameType, event: str, arg: object) -> "_Trace": ...


class _LineCounter:
    """A trace function that follows every frame and counts its lines."""

    def __init__(self) -> None:
        self.line_count = 0

    def __call__(self, _frame: FrameType, event: str, _arg: object) -> _Trace:
        self.line_count += event == "line"
        return self
