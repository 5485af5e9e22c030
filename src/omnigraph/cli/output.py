"""Payloads on stdout, notes on stderr, terminal colours and widths, and escaping.

No stored value reaches a terminal as a control character. Colours, clipping and progress appear
only on a terminal, never in a file or a pipe. The environment is an argument, because it holds
`NO_COLOR`, `TERM` and `COLUMNS`. `CommandError` is the failure of a command that touched no graph.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

import click

from omnigraph.drawing.progress_bar import ProgressBar, SilentProgress
from omnigraph.model.errors import plural
from omnigraph.model.runtime import lazy_module

if TYPE_CHECKING:
    import orjson
else:
    # Help and completion print no JSON.
    orjson = lazy_module("orjson")

_CUT = "…"

# Control characters, line ends, surrogates, and characters that change the text direction.
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_HARMFUL_IN_LINES = re.compile(f"(\x1b\\[(?:0|1|2|31|32|33|36)m|[\t\n])|{_HARMFUL.pattern}")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_NO_ROOM = frozenset({"Mn", "Me", "Cf"})
_WIDE = frozenset({"W", "F"})


def escape_control(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return text if text.isprintable() else _HARMFUL.sub(_escape, text)


def make_lines_harmless(text: str) -> str:
    """Lines of text with control characters escaped, except line ends, tabs and our colours."""
    return _HARMFUL_IN_LINES.sub(lambda found: found[1] or _escape(found), text)


def measure(text: str) -> int:
    """The width of an escaped text in terminal columns."""
    return len(text) if text.isascii() else sum(map(_places, text))


def clip(text: str, room: int) -> str:
    """The part of a text that fits, ending in `…` if it was cut."""
    if measure(text) <= room:
        return text
    return f"{_take(text, room - 1)}{_CUT}"


def split(text: str, room: int) -> list[str]:
    """A text in pieces that fit; a character that is wider than the room is a separate piece."""
    if measure(text) <= room:
        return [text]
    pieces = []
    while text:
        piece = _take(text, room) or text[0]
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces


def fill(text: str, room: int) -> str:
    """A text padded with spaces."""
    return text + " " * (room - measure(text))


def _take(text: str, room: int) -> str:
    if text.isascii():
        return text[:room]
    used = 0
    for end, character in enumerate(text):
        used += _places(character)
        if used > room:
            return text[:end]
    return text


def _places(character: str) -> int:
    if unicodedata.category(character) in _NO_ROOM:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _NAMED:
        return _NAMED[character]
    return f"\\u{ord(character):04x}"


_PRINTED = "omnigraph.printed"


def print_error(body: Mapping[str, object]) -> None:
    """Print an error as JSON, unless output was printed already: programs read one document."""
    context = click.get_current_context(silent=True)
    if context is None or _PRINTED not in context.meta:
        print_json(body)


def print_json(payload: Mapping[str, object] | list[object]) -> None:
    """Print a payload as indented JSON, with keys in insertion order."""
    # Encoded like a server's response, so that a value looks the same in both.
    print_pieces([orjson.dumps(payload, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)])


def print_line(line: str) -> None:
    """Print a line of text output, with control characters escaped."""
    _note_printed()
    click.echo(make_lines_harmless(line))


def print_pieces(pieces: Iterable[bytes]) -> None:
    """Print a payload piece by piece, each as soon as it is available.

    Files and pipes receive it unchanged; on a terminal, control characters are escaped.
    """
    is_shown = sys.stdout.isatty()
    for piece in pieces:
        _note_printed()
        click.echo(_show(piece) if is_shown else piece, nl=False)


def print_note(line: str) -> None:
    """Print a message to standard error."""
    click.echo(make_lines_harmless(line), err=True)


def _note_printed() -> None:
    # A context belongs to one run of one command, so this state does not outlive the command.
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_PRINTED] = True


def _show(piece: bytes) -> str:
    # Payloads contain no colours of ours.
    return make_lines_harmless(piece.decode().replace("\x1b", "\\u001b"))


_WIDTH_OTHERWISE = 80
_PATIENCE_S = 0.7
_TICK_S = 0.2


class Colour(StrEnum):
    """Terminal codes that highlight a text."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"
    BOLD = "1"
    FAINT = "2"


@dataclass(frozen=True, slots=True)
class Terminal:
    """An output stream; `width` is None if it is not a terminal, and then nothing is cut."""

    width: int | None
    has_colours: bool

    def paint(self, text: str, colour: Colour) -> str:
        """A text in a colour, or unchanged if colours are off."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colours and text else text

    def cut(self, text: str) -> str:
        """The part of a line that fits."""
        return text if self.width is None else clip(text, self.width)


PLAIN = Terminal(width=None, has_colours=False)
"""A file or a pipe."""


def describe_terminal(stream: TextIO, environment: Mapping[str, str]) -> Terminal:
    """The terminal properties of a stream."""
    if not stream.isatty():
        return PLAIN
    has_colours = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return Terminal(width=_width_of(stream, environment), has_colours=has_colours)


def standard_output(environment: Mapping[str, str]) -> Terminal:
    """The terminal properties of standard output, which receives payloads."""
    return describe_terminal(sys.stdout, environment)


def standard_error(environment: Mapping[str, str]) -> Terminal:
    """The terminal properties of standard error, which receives everything else."""
    return describe_terminal(sys.stderr, environment)


def progress(environment: Mapping[str, str]) -> ProgressBar | SilentProgress:
    """A `progress` callback, drawn if standard error is a terminal; close it by `with`."""
    width = standard_error(environment).width
    if width is None or environment.get("TERM") == "dumb":
        return SilentProgress()
    return ProgressBar(sys.stderr, width=width, clock=time.monotonic)


@contextmanager
def show_waiting(action: str, environment: Mapping[str, str]) -> Iterator[None]:
    """A block that shows a message with the elapsed time on a terminal while it takes long."""
    if standard_error(environment).width is None or environment.get("TERM") == "dumb":
        yield
        return
    is_over = Event()
    thread = Thread(target=_show_elapsed, args=(sys.stderr, action, is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _show_elapsed(terminal: TextIO, action: str, is_over: Event) -> None:
    began = time.monotonic()
    line = ""
    # A short action shows no message.
    pause_s = _PATIENCE_S
    while not is_over.wait(pause_s):
        pause_s = _TICK_S
        line = f"{action} ... {time.monotonic() - began:.0f} s"
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
        # A terminal that does not know its width reports zero.
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH_OTHERWISE
    except OSError:
        return _WIDTH_OTHERWISE


def show_value(value: object) -> str:
    """A value as JSON on one line."""
    return escape_control(json.dumps(value, ensure_ascii=False))


def show_name(name: str) -> str:
    """An id or branch name, quoted only if it could be misread."""
    is_plain = name.isprintable() and name == name.strip() and name != ""
    return name if is_plain else show_value(name)


def show_count(count: int, noun: str) -> str:
    """A number, and the singular or plural of a noun."""
    return f"{count} {plural(count, noun)}"


def show_properties(properties: Mapping[str, object]) -> str:
    """The properties of a node or an edge that have a value."""
    shown = [
        f"{name}: {show_value(value)}" for name, value in properties.items() if value is not None
    ]
    return "{" + ", ".join(shown) + "}"


class CommandError(Exception):
    """Invalid command line or configuration; no graph was touched. The exit code is 1."""


def explain_failure(error: OSError) -> str:
    """The failure that the operating system reports, and its file."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    if error.errno == errno.ENOSPC:
        # Files of graphs have names, so this is a stream.
        return f"cannot write the output: {error.strerror}; the operation may have completed"
    return error.strerror or str(error)
