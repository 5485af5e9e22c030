"""Interactive statements: where a statement ends, its kind, and the query that it represents.

A statement is a shell command, a complete `query`, or only the body of a query, which becomes a
query here. The scanner accepts any text, complete or not, and loses no character of it. String
literals and comments never end a statement. The module compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

from omnigraph.compiler.ir import parts_of, parts_within
from omnigraph.compiler.query import ast
from omnigraph.compiler.query.parser import parse_queries
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Source
from omnigraph.model.types import Scalar


class TokenKind(StrEnum):
    """The kind of a token in interactive input."""

    TEXT = "text"
    COMMENT = "comment"
    SPACE = "space"
    VARIABLE = "variable"
    WORD = "word"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text, and its start position."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """The end position."""
        return self.start + len(self.text)

    @property
    def is_open(self) -> bool:
        """Whether the token is a string or a comment that is not closed yet."""
        if self.kind is TokenKind.TEXT:
            return not _CLOSED_TEXT.fullmatch(self.text)
        return self.text.startswith("/*") and not _CLOSED_COMMENT.fullmatch(self.text)

    @property
    def is_blank(self) -> bool:
        """Whether the compiler ignores the token."""
        return self.kind in (TokenKind.SPACE, TokenKind.COMMENT)


def scan(text: str) -> Iterator[Token]:
    """Scan a text into tokens, in order and without gaps."""
    for found in _TOKEN.finditer(text):
        assert found.lastgroup is not None, "every alternative has a name"
        yield Token(TokenKind(found.lastgroup), found[0], found.start())


def significant_tokens(text: str) -> list[Token]:
    """The tokens that the compiler does not ignore."""
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


_UNNAMED = "q"
_MUTATING = frozenset({"insert", "update", "delete"})
_GOING_ON = frozenset({"return", "order", "limit", "offset"})
_OPENING, _CLOSING = frozenset("{(["), frozenset("})]")
_BARE_COMMANDS = frozenset({"help", "quit", "exit", "?"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value of a parameter, and its type for statements that do not declare it."""

    type: str
    value: object


@dataclass(frozen=True, slots=True)
class Query:
    """A `.gq` text of one query, its name, and the values of its parameters."""

    source: str
    name: str
    params: Mapping[str, object]
    is_mutation: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command, with or without a backslash, and its argument."""

    name: str
    argument: str


Statement: TypeAlias = Query | Command


def is_command(text: str) -> bool:
    """Whether a text is a shell command and not a query."""
    return text.lstrip().startswith("\\") or _without_end(text) in _BARE_COMMANDS


def is_finished(text: str) -> bool:
    """Whether a text is complete when the user presses Enter after it.

    Only a complete `query` and a command end by themselves. Any other statement continues until a
    `;` or an empty line.
    """
    if not text.strip() or is_command(text):
        return True
    tokens = list(scan(text))
    last = tokens[-1]
    if last.is_open:
        return False
    read = _Reading()
    for token in tokens:
        read.add(token)
    is_ended = last.text == ";" or (last.kind is TokenKind.SPACE and "\n" in last.text)
    return read.ends_by_itself or (read.is_whole and is_ended)


def split_statements(text: str) -> list[str]:
    """The statements of a text, in order, without their terminators."""
    return [each for each in map(_strip, _split(text)) if each]


def parse_statement(text: str, parameters: Mapping[str, Parameter]) -> Statement:
    """Parse a statement; a bare body becomes a query that declares the parameters that it uses."""
    if is_command(text):
        name, _, argument = text.strip().removeprefix("\\").partition(" ")
        return Command(_without_end(name), argument.strip())
    tokens = significant_tokens(text)
    first = tokens[0].text if tokens else ""
    if first == "query":
        named = _declared(tokens)
        values = {name: each.value for name, each in parameters.items() if name in named}
        name = tokens[1].text if len(tokens) > 1 else ""
        return Query(text, name, values, is_mutation=_first_in_body(tokens) in _MUTATING)
    needed = frozenset(find_used(text))
    used = [name for name in parameters if name in needed]
    head = ", ".join(f"${name}: {parameters[name].type}" for name in used)
    # The header is on the first line, so that error positions count from what was typed.
    source = f"query {_UNNAMED}({head}) {{ {text}\n}}"
    values = {name: parameters[name].value for name in used}
    return Query(source, _UNNAMED, values, is_mutation=first in _MUTATING)


def find_type(value: object) -> str | None:
    """The type of a parameter, derived from its value; None if the value does not determine it."""
    match value:
        case bool():
            return str(Scalar.BOOL)
        case int():
            return str(Scalar.I64)
        case float():
            return str(Scalar.F64)
        case str():
            return str(Scalar.STRING)
        case datetime():
            return str(Scalar.DATETIME)
        case date():
            return str(Scalar.DATE)
        case [first, *_] if not isinstance(first, list | tuple):
            element = find_type(first)
            return None if element is None else f"[{element}]"
        case _:
            return None


def find_used(text: str) -> list[str]:
    """The names of the parameters that a statement needs.

    For a query they are those that it declares; for a bare body, the variables that it does not
    bind.
    """
    tokens = significant_tokens(text)
    if tokens and tokens[0].text == "query":
        return sorted(_declared(tokens))
    try:
        parts = list(parts_within(parse_queries(Source("", f"query {_UNNAMED}() {{ {text}\n}}"))))
    except CompileError:
        # Whatever is declared, the text is rejected.
        named = {token.text[1:] for token in tokens if token.kind is TokenKind.VARIABLE}
        return sorted(filter(None, named))
    bound = {
        each.name
        for part in parts
        if isinstance(part, ast.Binding | ast.Traversal)
        for each in parts_of(part)
        if isinstance(each, ast.Variable)
    }
    used = {part.name for part in parts if isinstance(part, ast.Variable)}
    return sorted(used - bound)


class _Reading:
    """The state of a statement after the tokens read so far."""

    def __init__(self) -> None:
        self._first = self._last = ""
        self._depth = 0
        self._has_body = False
        self._outside: set[str] = set()

    def add(self, token: Token) -> None:
        """Read one more token."""
        if token.is_blank or (token.text == ";" and self._depth == 0):
            return
        self._first = self._first or token.text
        self._last = token.text
        if token.kind is TokenKind.SIGN:
            # An extra closing bracket is ignored here; the compiler reports it.
            step = (token.text in _OPENING) - (token.text in _CLOSING)
            self._depth = max(0, self._depth + step)
            self._has_body |= token.text == "{"
        if self._depth == 0:
            self._outside.add(token.text)

    @property
    def is_empty(self) -> bool:
        """Whether no token was read yet."""
        return not self._first

    @property
    def is_balanced(self) -> bool:
        """Whether every bracket is closed."""
        return self._depth == 0

    @property
    def ends_by_itself(self) -> bool:
        """Whether no further token can belong to the statement."""
        is_closed = self._depth == 0 and self._has_body and self._last == "}"
        return is_closed and self._first == "query"

    @property
    def is_whole(self) -> bool:
        """Whether all required parts of the statement are present."""
        if self._depth or self._last in _GOING_ON:
            return False
        match self._first:
            case "match":
                return "return" in self._outside
            case "query":
                return self._has_body
            case "update" | "delete":
                return "where" in self._outside and self._last != "where"
            case _:
                return True


def _split(text: str) -> Iterator[str]:
    tokens = list(scan(text))
    following = _following(tokens)
    begun = place = 0
    read = _Reading()
    while place < len(tokens):
        token = tokens[place]
        place += 1
        if read.is_empty and _begins_command(text, token):
            start = token.start
            while place < len(tokens) and "\n" not in tokens[place].text:
                place += 1
            stop = tokens[place].start if place < len(tokens) else len(text)
            yield text[start:stop]
        else:
            read.add(token)
            is_end = token.text == ";" and read.is_balanced
            if not (is_end or read.ends_by_itself or _parts(token, following[place - 1], read)):
                continue
            yield text[tokens[begun].start : token.end]
        begun, read = place, _Reading()
    if begun < len(tokens):
        yield text[tokens[begun].start :]


def _begins_command(text: str, token: Token) -> bool:
    """Whether a token at the start of a statement makes the rest of its line a command."""
    if token.text == "\\":
        return True
    line, _, _ = text[token.start :].partition("\n")
    return token.text in _BARE_COMMANDS and is_command(line)


def _following(tokens: list[Token]) -> list[str]:
    """For each token, the text of the next one that is not blank."""
    texts, next_text = [], ""
    for token in reversed(tokens):
        texts.append(next_text)
        next_text = next_text if token.is_blank else token.text
    return texts[::-1]


def _parts(token: Token, following: str, read: _Reading) -> bool:
    """Whether an empty line, or a newline before a command, ends the preceding statement."""
    if token.kind is not TokenKind.SPACE or "\n" not in token.text or not read.is_whole:
        return False
    return following == "\\" or (token.text.count("\n") > 1 and following not in _GOING_ON)


def _strip(statement: str) -> str:
    retained = statement.strip()
    if is_command(retained):
        return retained
    retained = _without_end(retained)
    return retained if significant_tokens(retained) else ""


def _without_end(text: str) -> str:
    return text.strip().removesuffix(";").rstrip()


def _declared(tokens: list[Token]) -> set[str]:
    """The parameters of a `query`: the variables before its body."""
    head = []
    for token in tokens:
        if token.text == "{":
            break
        head.append(token)
    return {token.text[1:] for token in head if token.kind is TokenKind.VARIABLE}


def _first_in_body(tokens: list[Token]) -> str:
    for token, following in pairwise(tokens):
        if token.text == "{":
            return following.text
    return ""
