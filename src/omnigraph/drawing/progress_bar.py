"""A progress bar: one terminal line that is redrawn with the stage, percentage and rate.

`show_progress` writes nothing if standard error is not a terminal, such as a file, a pipe or a log.
The module does not know what is counted; a bar can be passed to any call that takes a `progress`.
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
    """A `progress` that draws; as a context manager, it ends the line on exit."""

    def __init__(self, terminal: TextIO, *, width: int, clock: Callable[[], float]) -> None:
        self._terminal, self._width, self._clock = terminal, width, clock
        self._stage: str | None = None
        self._shown = 0
        self._began = self._drawn = clock()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Draw the progress of a stage, at a limited rate."""
        now = self._clock()
        if stage != self._stage:
            self._end_line()
            self._stage, self._began = stage, now
        elif done != total and now - self._drawn < 1 / PROGRESS_DRAWS_PER_S_MAX:
            return
        self._drawn = now
        line = _line(stage, done, total, seconds=now - self._began)[: self._width - 1]
        # Blanks overwrite the rest of a longer line, because some terminals do not support escape
        # codes or have them disabled.
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
    """A `progress` that writes nothing."""

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Write nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def show_progress() -> ProgressBar | SilentProgress:
    """A `progress` that draws on standard error if that is a terminal; close it with `with`."""
    if not sys.stderr.isatty():
        return SilentProgress()
    width = os.get_terminal_size(sys.stderr.fileno()).columns
    # A terminal of unknown width reports zero columns.
    return ProgressBar(sys.stderr, width=width or 80, clock=time.monotonic)


def _line(stage: str, done: int, total: int | None, *, seconds: float) -> str:
    rate = f"  {done / seconds:,.0f}/s" if done and seconds else ""
    if not total:
        return f"{stage}  {done:,}{rate}" if done else f"{stage} ..."
    share = min(done / total, 1)
    bar = "#" * int(share * _BAR_WIDTH)
    return f"{stage}  [{bar:<{_BAR_WIDTH}}] {share:4.0%}  {done:,} of {total:,}{rate}"
