"""Words, signs and texts of a `.gq` text that may not be finished yet.

Promises to take any text apart, whatever it is; whether it means something is for the compiler to
say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class TokenKind(StrEnum):
    """What a token is to the shell."""

    TEXT = "text"
    COMMENT = "comment"
    SPACE = "space"
    VARIABLE = "variable"
    WORD = "word"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text, and where it begins."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def is_open(self) -> bool:
        """Whether it is a text or a comment whose end is still to come."""
        if self.kind is TokenKind.TEXT:
            return not _CLOSED_TEXT.fullmatch(self.text)
        return self.text.startswith("/*") and not _CLOSED_COMMENT.fullmatch(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether it says nothing to the compiler."""
        return self.kind in (TokenKind.SPACE, TokenKind.COMMENT)


def scan(text: str) -> Iterator[Token]:
    """The tokens of a text, in order and without gaps."""
    for found in _TOKEN.finditer(text):
        assert found.lastgroup is not None, "every alternative has a name"
        yield Token(TokenKind(found.lastgroup), found[0], found.start())


def significant(text: str) -> list[Token]:
    """The tokens that the compiler would see."""
    return [token for token in scan(text) if not token.is_blank]


_CLOSED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CLOSED_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))
    |(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<space>\s+)
    |(?P<variable>\$[A-Za-z_0-9]*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+(?:\.[0-9]+)?)
    |(?P<sign>.)
    """,
    re.DOTALL | re.VERBOSE,
)
