"""What a command knows of the terminal that it talks to: whether there is one, how wide, which
colours, and how to show there that something takes a while.

In a file, a pipe or a log nothing is coloured, cut or drawn. Reads no environment of its own: it is
given, because `NO_COLOR`, `TERM` and `COLUMNS` are in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Thread
from typing import TextIO

from omnigraph.cli.display import clip
from omnigraph.drawing.progress_bar import ProgressBar, SilentProgress

_WIDTH_OTHERWISE = 80
_PATIENCE_S = 0.7
_TICK_S = 0.2


class Colour(StrEnum):
    """What a terminal is told to set a text off."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"
    BOLD = "1"
    FAINT = "2"


@dataclass(frozen=True, slots=True)
class Terminal:
    """A stream as a person sees it; `width` is None where it is no terminal and nothing is cut."""

    width: int | None
    has_colours: bool

    def paint(self, text: str, colour: Colour) -> str:
        """A text in a colour, or as it is where there are none."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colours and text else text

    def cut(self, text: str) -> str:
        """As much of a line as fits."""
        return text if self.width is None else clip(text, self.width)


PLAIN = Terminal(width=None, has_colours=False)
"""A file or a pipe."""


def describe_terminal(stream: TextIO, environment: Mapping[str, str]) -> Terminal:
    """What a stream is to the person in front of it."""
    if not stream.isatty():
        return PLAIN
    has_colours = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return Terminal(width=_width_of(stream, environment), has_colours=has_colours)


def standard_output(environment: Mapping[str, str]) -> Terminal:
    """What the standard output is, where payloads go."""
    return describe_terminal(sys.stdout, environment)


def standard_error(environment: Mapping[str, str]) -> Terminal:
    """What the standard error is, where everything else goes."""
    return describe_terminal(sys.stderr, environment)


def progress(environment: Mapping[str, str]) -> ProgressBar | SilentProgress:
    """A `progress` that draws on the standard error if that is a terminal; close it by `with`."""
    width = standard_error(environment).width
    if width is None or environment.get("TERM") == "dumb":
        return SilentProgress()
    return ProgressBar(sys.stderr, width=width, clock=time.monotonic)


@contextmanager
def waiting(deed: str, environment: Mapping[str, str]) -> Iterator[None]:
    """A block that may take a while: a terminal is told so, once it does, until it ends."""
    if standard_error(environment).width is None or environment.get("TERM") == "dumb":
        yield
        return
    is_over = Event()
    teller = Thread(target=_tell, args=(sys.stderr, deed, is_over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _tell(terminal: TextIO, deed: str, is_over: Event) -> None:
    began = time.monotonic()
    line = ""
    # What is done in a moment is not announced.
    pause_s = _PATIENCE_S
    while not is_over.wait(pause_s):
        pause_s = _TICK_S
        line = f"{deed} ... {time.monotonic() - began:.0f} s"
        terminal.write(f"\r{line}")
        terminal.flush()
    if line:
        terminal.write(f"\r{' ' * len(line)}\r")
        terminal.flush()


def _width_of(stream: TextIO, environment: Mapping[str, str]) -> int:
    chosen = environment.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen):
        return int(chosen)
    try:
        # A terminal that does not know its width says that it has none.
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH_OTHERWISE
    except OSError:
        return _WIDTH_OTHERWISE
