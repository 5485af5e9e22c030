"""Any text as Python source: as literals that mean the same, and as docstrings that read the same.

Promises that nothing in a text ends its literal or hides from a reader, and that literals are laid
out as a formatter would. A word that is longer than a line stays whole in a docstring. Pure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from omnigraph.cli.display import measure

LINE_COLUMNS = 100
INDENT = "    "

_WORD = re.compile(r"\S*\s*")
_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A text as one literal."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + "".join(_escape(each, mark) for each in text) + mark


def assign_text(name: str, text: str) -> Iterator[str]:
    """The lines that give a name to a text: one if it fits, else one a line of the text or more."""
    whole = f"{name} = {quote(text)}"
    if measure(whole) <= LINE_COLUMNS:
        yield whole
        return
    yield f"{name} = ("
    for line in text.splitlines(keepends=True):
        for piece in _pieces(line, LINE_COLUMNS - len(INDENT)):
            yield f"{INDENT}{quote(piece)}"
    yield ")"


def write_docstring(paragraphs: Iterable[str], *, indent: str) -> list[str]:
    """The lines of a docstring, paragraphs kept apart by an empty line."""
    room = LINE_COLUMNS - len(indent)
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += [""] if lines else []
        for line in paragraph.strip().split("\n"):
            lines += textwrap.wrap(
                _escape_docstring(line),
                width=room - len('"""'),
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
    if lines[-1].endswith('"'):
        lines[-1] = f'{lines[-1][:-1]}\\"'
    if len(lines) == 1 and measure(lines[0]) <= room - 2 * len('"""'):
        return [f'{indent}"""{lines[0]}"""']
    lines[0] = f'"""{lines[0]}'
    return [f"{indent}{line}".rstrip() for line in [*lines, '"""']]


def _pieces(line: str, room: int) -> Iterator[str]:
    """A line in pieces whose literals fit, cut between words where that is possible."""
    piece = ""
    for unit in _units(line, room):
        if piece and measure(quote(piece + unit)) > room:
            yield piece
            piece = ""
        piece += unit
    yield piece


def _units(line: str, room: int) -> Iterator[str]:
    """What is not cut: words with the space behind them, characters of those that are too long."""
    for word in _WORD.findall(line):
        if measure(quote(word)) <= room:
            yield word
        else:
            yield from word


def _escape(character: str, mark: str) -> str:
    if character == mark:
        return f"\\{mark}"
    return _NAMED.get(character) or _show(character)


def _escape_docstring(line: str) -> str:
    shown = "".join(
        _NAMED["\\"] if each == "\\" else " " if each.isspace() else _show(each) for each in line
    )
    return shown.replace('"""', '\\"\\"\\"')


def _show(character: str) -> str:
    """A character itself, or its number if it cannot be seen or turns the direction of writing."""
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
