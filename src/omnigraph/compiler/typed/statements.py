"""Where a statement that somebody types ends, what kind it is, and the query that it stands for.

A statement is a command, `\\` and a word; a whole `query … { … }`; or only the inside of one,
which becomes a query here. Promises that a text or a comment never ends a statement, and that no
character of a statement is lost. Nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import TypeAlias

from omnigraph.compiler.typed.words import Token, TokenKind, scan, significant
from omnigraph.model.types import Scalar

_UNNAMED = "q"
_MUTATING = frozenset({"insert", "update", "delete"})
_GOING_ON = frozenset({"return", "order", "limit", "offset"})
_NO_EDGES = _GOING_ON | {
    *("match", "not", "optional", "and", "or", "is", "in", "contains", "starts_with", "as", "asc"),
    *("desc", "distinct", "null", "true", "false", "where", "set"),
}
# `< knows > { 1 , 20 }`, whose last parts say how often.
_EDGE_TOKENS_MAX = 8
_OPENING, _CLOSING = frozenset("{(["), frozenset("})]")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value for queries, and the type that it has in one that does not say."""

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
    """A word after a backslash, and what follows it."""

    name: str
    argument: str


Statement: TypeAlias = Query | Command


def is_command(text: str) -> bool:
    """Whether a text is one for the shell and not for the graph."""
    return text.lstrip().startswith("\\")


def is_finished(text: str) -> bool:
    """Whether somebody who pressed Enter behind this text has said all of it.

    Nothing but a whole `query` and a command ends by itself; what could go on does until a `;` or
    an empty line.
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
    """The statements of a text, in order, without what ends them."""
    return [each for each in map(_strip, _split(text)) if each]


def parse_statement(text: str, parameters: Mapping[str, Parameter]) -> Statement:
    """What a statement asks for; a bare body becomes a query that declares what it uses."""
    if is_command(text):
        name, _, argument = text.strip().removeprefix("\\").partition(" ")
        return Command(name, argument.strip())
    tokens = significant(text)
    first = tokens[0].text if tokens else ""
    if first == "query":
        named = _declared(tokens)
        values = {name: each.value for name, each in parameters.items() if name in named}
        name = tokens[1].text if len(tokens) > 1 else ""
        return Query(text, name, values, is_mutation=_first_in_body(tokens) in _MUTATING)
    needed = frozenset(find_used(text))
    used = [name for name in parameters if name in needed]
    head = ", ".join(f"${name}: {parameters[name].type}" for name in used)
    # On the first line, so that the places of errors count from what was typed.
    source = f"query {_UNNAMED}({head}) {{ {text}\n}}"
    values = {name: parameters[name].value for name in used}
    return Query(source, _UNNAMED, values, is_mutation=first in _MUTATING)


def find_type(value: object) -> str | None:
    """The type of a parameter by its value; None where the value does not tell."""
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
    """The parameters that a statement needs, by name: those that a query declares, or variables of
    a bare body that it does not bind."""
    tokens = significant(text)
    if tokens and tokens[0].text == "query":
        return sorted(_declared(tokens))
    bound = {token.text for place, token in enumerate(tokens) if _is_bound(tokens, place)}
    used = {token.text for token in tokens if token.kind is TokenKind.VARIABLE}
    return sorted(name[1:] for name in used - bound if len(name) > 1)


class _Reading:
    """What the tokens of a statement that were read so far say about its end."""

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
            # A bracket too many is an error for the compiler to tell, and does not count here.
            step = (token.text in _OPENING) - (token.text in _CLOSING)
            self._depth = max(0, self._depth + step)
            self._has_body |= token.text == "{"
        if self._depth == 0:
            self._outside.add(token.text)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said yet."""
        return not self._first

    @property
    def is_balanced(self) -> bool:
        """Whether every bracket is closed."""
        return self._depth == 0

    @property
    def ends_by_itself(self) -> bool:
        """Whether nothing can follow."""
        is_closed = self._depth == 0 and self._has_body and self._last == "}"
        return is_closed and self._first == "query"

    @property
    def is_whole(self) -> bool:
        """Whether the parts are there that a statement cannot do without."""
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
        if token.text == "\\" and read.is_empty:
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


def _following(tokens: list[Token]) -> list[str]:
    """For each token the text of the next one that says something."""
    texts, next_text = [], ""
    for token in reversed(tokens):
        texts.append(next_text)
        next_text = next_text if token.is_blank else token.text
    return texts[::-1]


def _parts(token: Token, following: str, read: _Reading) -> bool:
    """Whether an empty line, or a line with a command behind it, ends what stands before it."""
    if token.kind is not TokenKind.SPACE or "\n" not in token.text or not read.is_whole:
        return False
    return following == "\\" or (token.text.count("\n") > 1 and following not in _GOING_ON)


def _strip(statement: str) -> str:
    kept = statement.strip()
    if is_command(kept):
        return kept
    kept = kept.removesuffix(";").rstrip()
    return kept if significant(kept) else ""


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


def _is_bound(tokens: list[Token], place: int) -> bool:
    """Whether a token is a variable that a pattern gives its meaning: `$p: Type`, or the end of an
    edge such as `$p knows{1,2} $q`."""
    if tokens[place].kind is not TokenKind.VARIABLE:
        return False
    if place + 1 < len(tokens) and tokens[place + 1].text == ":":
        return True
    before = [token.text for token in tokens[max(place - _EDGE_TOKENS_MAX, 0) : place]]
    if before[-1:] == ["}"] and "{" in before:
        before = before[: len(before) - 1 - before[::-1].index("{")]
    match before:
        case [*_, "<", _, ">"]:
            return True
        case [*_, ".", _]:
            return False
        case [*_, word]:
            # A type has a capital letter.
            return word[:1].islower() and word not in _NO_EDGES
        case _:
            return False
