"""Progress as one line of a terminal that is drawn again and again: stage, share, rate.

Promises to say nothing where nobody looks: in a file, in a pipe, in a log. Does not know what is
counted, nor whose work it is; it can be given to whatever takes a `progress`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from omnigraph.model.limits import PROGRESS_DRAWS_PER_S_MAX

_BAR_WIDTH = 24


class ProgressBar:
    """A `progress` that draws; as a context it leaves the cursor on a line of its own."""

    def __init__(self, terminal: TextIO, *, width: int, clock: Callable[[], float]) -> None:
        self._terminal, self._width, self._clock = terminal, width, clock
        self._stage: str | None = None
        self._shown = 0
        self._began = self._drawn = clock()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Draw how far the stage is, unless that was drawn a moment ago."""
        now = self._clock()
        if stage != self._stage:
            self._end_line()
            self._stage, self._began = stage, now
        elif done != total and now - self._drawn < 1 / PROGRESS_DRAWS_PER_S_MAX:
            return
        self._drawn = now
        line = _line(stage, done, total, seconds=now - self._began)[: self._width - 1]
        # Blanks over what is left of a longer line: some terminals know no codes, or want none.
        self._terminal.write(f"\r{line:<{self._shown}}")
        self._terminal.flush()
        self._shown = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_line()

    def _end_line(self) -> None:
        if self._stage is not None:
            self._terminal.write("\n")
            self._terminal.flush()
        self._stage, self._shown = None, 0


class SilentProgress:
    """A `progress` that says nothing."""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def show_progress() -> ProgressBar | SilentProgress:
    """A `progress` that draws on the standard error if that is a terminal; close it by `with`."""
    if not sys.stderr.isatty():
        return SilentProgress()
    width = os.get_terminal_size(sys.stderr.fileno()).columns
    # A terminal that does not know its width says that it has none.
    return ProgressBar(sys.stderr, width=width or 80, clock=time.monotonic)


def _line(stage: str, done: int, total: int | None, *, seconds: float) -> str:
    rate = f"  {done / seconds:,.0f}/s" if done and seconds else ""
    if not total:
        return f"{stage}  {done:,}{rate}" if done else f"{stage} ..."
    share = min(done / total, 1)
    bar = "#" * int(share * _BAR_WIDTH)
    return f"{stage}  [{bar:<{_BAR_WIDTH}}] {share:4.0%}  {done:,} of {total:,}{rate}"
