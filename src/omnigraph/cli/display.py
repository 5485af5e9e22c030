"""How much room a text takes on a terminal, and texts cut, split and filled up to a room.

Counts what is shown: a wide character takes two places, an accent of its own none. Nothing that a
terminal would obey comes out of `make_harmless`.
"""

from __future__ import annotations

import re
import unicodedata

_CUT = "…"

# Controls, ends of lines, halves of characters, and what turns the direction of writing.
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_HARMFUL_IN_LINES = re.compile(f"(\x1b\\[(?:0|1|2|31|32|33|36)m|[\t\n])|{_HARMFUL.pattern}")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_NO_ROOM = frozenset({"Mn", "Me", "Cf"})
_WIDE = frozenset({"W", "F"})


def make_harmless(text: str) -> str:
    """The text on one line, what a terminal would obey written as an escape."""
    return text if text.isprintable() else _HARMFUL.sub(_escape, text)


def make_lines_harmless(text: str) -> str:
    """Lines of text of which a terminal obeys nothing but the ends, tabs and our own colours."""
    return _HARMFUL_IN_LINES.sub(lambda found: found[1] or _escape(found), text)


def measure(text: str) -> int:
    """How many places of a terminal a harmless text takes."""
    return len(text) if text.isascii() else sum(map(_places, text))


def clip(text: str, room: int) -> str:
    """As much of a text as fits, ended by `…` if something is missing."""
    if measure(text) <= room:
        return text
    return f"{_take(text, room - 1)}{_CUT}"


def split(text: str, room: int) -> list[str]:
    """A text in pieces that fit; a character that is wider than the room stands alone."""
    if measure(text) <= room:
        return [text]
    pieces = []
    while text:
        piece = _take(text, room) or text[0]
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces


def fill(text: str, room: int) -> str:
    """A text with spaces behind it up to the room."""
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
