"""The parser that both languages share: source checks, lexer, LALR(1) automaton, syntax errors.

One linear pass bounds the size, nesting depth and characters of a text before it is parsed, so
every later stage may recurse. The automaton runs tables that the build generates from the
grammars. The lexer tries only the terminals that the current state accepts, so keywords remain
valid property names. The module knows neither language: a builder creates the syntax tree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from omnigraph.compiler.diagnostics import Diagnostics
from omnigraph.model.errors import CompileError
from omnigraph.model.limits import NAME_CHARACTERS_MAX, NESTING_MAX, SOURCE_CHARACTERS_MAX
from omnigraph.model.source import Diagnostic, Severity, Source, Span

_SHAPE = re.compile(
    rf"""
      "(?:[^"\\]|\\.)*+" | //[^\n]*+ | /\*.*?\*/    # a string or a comment, whole
    | (?P<open_string>") | (?P<open_comment>/\*)    # one that does not end
    | (?P<long_name>\b[A-Za-z_][A-Za-z0-9_]{{{NAME_CHARACTERS_MAX},}}+)
    | (?P<opening>[{{(\[]) | (?P<closing>[}})\]])
    """,
    re.DOTALL | re.VERBOSE,
)
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INTEGER_DIGITS_MAX = 20
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def decode_source(encoded: bytes, *, name: str) -> Source:
    """Decode the bytes of a file as UTF-8 text; a byte order mark is dropped."""
    try:
        return Source(name, encoded.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        # The codec removes the byte order mark first, and counts from the byte after it.
        read, start = error.object, len(error.object[: error.start].decode())
        raise syntax_error(
            Source(name, read.decode(errors="replace")),
            "P3",
            f"the file is not UTF-8: byte 0x{read[error.start]:02x} cannot be read",
            Span(start, start + 1),
            "save the file as UTF-8",
        ) from error


def require_parseable(source: Source) -> None:
    """Raise `CompileError` unless a text is safe to parse."""
    text = source.text
    if len(text) > SOURCE_CHARACTERS_MAX:
        message = f"the text has {len(text)} characters; at most {SOURCE_CHARACTERS_MAX} are read"
        raise syntax_error(
            Source(source.name, ""), "P4", message, None, "split it into several files"
        )
    if unreadable := _UNREADABLE.search(text):
        character = ord(unreadable[0])
        message = f"the character U+{character:04X} cannot be part of a text"
        # A terminal would interpret the character or fail to encode it, so the message must not
        # repeat it.
        shown = Source(source.name, _UNREADABLE.sub(_REPLACEMENT, text))
        raise syntax_error(shown, "P3", message, Span(*unreadable.span()), "remove it")
    _require_shape(source)


def decode_literal(token: Token, diagnostics: Diagnostics) -> LiteralValue:
    """The value of a literal."""
    match token.type:
        case "STRING":
            return decode_string(token, diagnostics)
        case "TRUE" | "FALSE":
            return token.type == "TRUE"
        case "NULL":
            return None
        case _:
            return decode_number(token, diagnostics)


def decode_string(token: Token, diagnostics: Diagnostics) -> str:
    """The value of a string literal, with quotes and escapes resolved."""
    body, start = token.text[1:-1], token.start + 1
    if "\\" not in body:
        return body

    def unescape(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPED:
            place = Span(start + escape.start(), start + escape.end())
            advice = r"the escapes are \" \\ \n \r \t; write \\ for a backslash"
            diagnostics.error("P5", f"unsupported escape sequence {escape[0]}", place, advice)
        return _ESCAPED.get(escape[1], "")

    return _ESCAPE.sub(unescape, body)


def decode_number(token: Token, diagnostics: Diagnostics) -> int | float:
    """The value of a number literal; one that does not fit 64 bits is reported."""
    is_float = not token.text.lstrip("-").isdigit()
    if not is_float and fits_integer(token.text):
        return int(token.text)
    if is_float and math.isfinite(number := float(token.text)):
        return number
    what = "float" if is_float else "integer"
    diagnostics.error("P6", f"invalid {what}: the number does not fit 64 bits", span_of(token))
    return 0


def fits_integer(token: str) -> bool:
    """Whether an integer literal fits 64 bits."""
    # Python rejects integers of thousands of digits, so the length is checked before the value.
    return len(token) <= _INTEGER_DIGITS_MAX and -(2**63) <= int(token) < 2**63


def syntax_error(
    source: Source, code: str, message: str, span: Span | None, advice: str | None
) -> CompileError:
    """The error for a text that cannot be parsed beyond this position."""
    fault = Diagnostic(code, message, Severity.ERROR, span, advice)
    return CompileError(diagnostics=(fault,), source=source)


def _require_shape(source: Source) -> None:
    depth = 0
    for part in _SHAPE.finditer(source.text):
        span = Span(*part.span())
        match part.lastgroup:
            case "opening":
                depth += 1
                if depth > NESTING_MAX:
                    message = f"brackets are nested more than {NESTING_MAX} deep"
                    raise syntax_error(source, "P4", message, span, None)
            case "closing":
                depth -= 1
            case "long_name":
                message = f"a name has at most {NAME_CHARACTERS_MAX} characters"
                raise syntax_error(source, "P4", message, span, "choose a shorter one")
            case "open_string":
                advice = 'it starts here; end it with "'
                raise syntax_error(source, "P2", "the string does not end", span, advice)
            case "open_comment":
                advice = "it starts here; end it with */"
                raise syntax_error(source, "P2", "the comment does not end", span, advice)
            case _:
                pass  # the content of a complete string or comment is not counted


GRAMMARS = Path(__file__).parent / "grammar"
END = "END"
ABSENT = -1


class Language(StrEnum):
    """The languages, by the name of their grammar and its start production."""

    SCHEMA = "schema"
    QUERY = "query"

    @property
    def grammar(self) -> Path:
        return GRAMMARS / f"{self}.lark"

    @property
    def tables(self) -> Path:
        return GRAMMARS / f"{self}.tables"


class Token(NamedTuple):
    """A terminal and its position in the text."""

    type: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A bare word: a property, a type, an annotation, an alias or a function."""

    text: str
    span: Span


LiteralValue = None | bool | int | float | str


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, boolean or, in queries, null."""

    value: LiteralValue
    span: Span


class UnexpectedTokenError(Exception):
    """The text violates its grammar at a token; `accepts` are the terminals valid there."""

    def __init__(self, *, found: Token, accepts: frozenset[str]) -> None:
        super().__init__(found)
        self.found, self.accepts = found, accepts


class Production(NamedTuple):
    """A reduction of the last `length` values to one value.

    `recipe` lists the children: the position of a value and whether that value is a list whose
    elements become children, or `ABSENT` for an optional part that is missing. A spliced production
    returns such a list; any other one calls the builder method of its name.
    """

    name: str
    origin: str
    length: int
    recipe: tuple[tuple[int, bool], ...]
    is_spliced: bool


@dataclass(frozen=True, slots=True)
class Tables:
    """The parser tables of a grammar.

    Terminals are in the order in which the lexer tries them. The action of a state on a terminal is
    the state to shift to, or the complement (`~`) of the production to reduce by.
    """

    terminals: dict[str, str]
    ignored: str
    productions: tuple[Production, ...]
    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    start: int
    end: int


Scan = Callable[[str, int], re.Match[str] | None]


@cache
def parser_of(language: Language) -> Parser:
    """The parser of a language, created once per process."""
    return Parser(decode_tables(language.tables.read_text(encoding="utf-8")))


class Parser:
    """The automaton of one language.

    It stores no state of a parse, so threads may share it.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._scan_by_state: list[Scan | None] = [None] * len(tables.actions)
        self._scan_by_terminals: dict[frozenset[str], Scan] = {}

    def run(self, text: str, builder: object) -> object:
        """Parse a text with a builder; raises `UnexpectedTokenError` at a syntax error."""
        actions, gotos = self._tables.actions, self._tables.gotos
        productions, end = self._tables.productions, self._tables.end
        states: list[int] = [self._tables.start]
        values: list[object] = []
        position = 0
        while True:
            token = self._next_token(text, position, states)
            action = actions[states[-1]].get(token.type)
            while action is not None and action < 0:
                production = productions[~action]
                first = len(values) - production.length
                values[first:] = (_make(production, values[first:], builder),)
                del states[first + 1 :]
                states.append(gotos[states[-1]][production.origin])
                if states[-1] == end and token.type == END:
                    return values[-1]
                action = actions[states[-1]].get(token.type)
                if action is None:
                    # The state before the reductions accepted more terminals than the current one,
                    # so a word that was read as a keyword may be a name.
                    token = self._next_token(text, position, states)
                    action = actions[states[-1]].get(token.type)
            if action is None:
                raise UnexpectedTokenError(found=token, accepts=self._accepts(states))
            values.append(token)
            states.append(action)
            position = token.end

    def _next_token(self, text: str, position: int, states: Sequence[int]) -> Token:
        scan = self._scan_by_state[states[-1]]
        if scan is None:
            scan = self._scan_for(frozenset(self._tables.actions[states[-1]]))
            self._scan_by_state[states[-1]] = scan
        found = scan(text, position)
        return self._any_token(text, position) if found is None else _token_of(found)

    def _any_token(self, text: str, position: int) -> Token:
        """The token where no valid terminal matches: another terminal, or a character."""
        found = self._scan_for(frozenset(self._tables.terminals))(text, position)
        if found is not None:
            return _token_of(found)
        skipped = re.compile(self._tables.ignored).match(text, position)
        start = position if skipped is None else skipped.end()
        return Token("", text[start : start + 1], start, start + 1)

    def _scan_for(self, terminals: frozenset[str]) -> Scan:
        """A function that finds the next of some terminals, after ignored text."""
        scan = self._scan_by_terminals.get(terminals)
        if scan is None:
            wanted = [
                f"(?P<{name}>{pattern})"
                for name, pattern in self._tables.terminals.items()
                if name in terminals
            ]
            pattern = rf"{self._tables.ignored}(?:{'|'.join(wanted)}|(?P<{END}>\Z))"
            scan = self._scan_by_terminals[terminals] = re.compile(pattern).match
        return scan

    def _accepts(self, states: Sequence[int]) -> frozenset[str]:
        """The terminals that can be shifted, possibly after reductions."""
        return frozenset(
            terminal
            for terminal in self._tables.actions[states[-1]]
            if self._is_accepted(terminal, list(states))
        )

    def _is_accepted(self, terminal: str, states: list[int]) -> bool:
        while (action := self._tables.actions[states[-1]].get(terminal)) is not None:
            if action >= 0:
                return True
            production = self._tables.productions[~action]
            del states[len(states) - production.length :]
            states.append(self._tables.gotos[states[-1]][production.origin])
            if states[-1] == self._tables.end and terminal == END:
                return True
        return False


def _token_of(found: re.Match[str]) -> Token:
    """The terminal whose group matched; patterns have no groups except those of the terminals."""
    kind, number = found.lastgroup, found.lastindex
    assert kind is not None
    assert number is not None
    return Token(kind, found[number], *found.span(number))


def _make(production: Production, values: Sequence[object], builder: object) -> object:
    children: list[object] = []
    for position, is_list in production.recipe:
        if position == ABSENT:
            children.append(None)
        elif not is_list:
            children.append(values[position])
        else:
            elements = values[position]
            assert isinstance(elements, list)
            if children:
                children += elements
            else:
                # No other reference to the list exists, and a copy at each step would be quadratic.
                children = elements
    if production.is_spliced:
        return children
    return getattr(builder, production.name)(*children)


def encode_tables(tables: Tables) -> str:
    """Encode tables as the text that is stored beside a grammar."""
    return json.dumps([getattr(tables, name) for name in Tables.__slots__])


def decode_tables(text: str) -> Tables:
    """Decode tables; the inverse of `encode_tables`."""
    terminals, ignored, productions, actions, gotos, start, end = json.loads(text)
    return Tables(
        terminals,
        ignored,
        tuple(
            Production(name, origin, length, tuple((at, deep) for at, deep in recipe), is_spliced)
            for name, origin, length, recipe, is_spliced in productions
        ),
        tuple(actions),
        tuple(gotos),
        start,
        end,
    )


_LISTED_MAX = 6
_BEFORE_MAX = 200
_AFTER_MAX = 40
_AT_END = "the end of the text"

_DESCRIPTION_BY_TERMINAL = {
    "NAME": "a name",
    "TYPE_NAME": "a type name",
    "VARIABLE": "a $variable",
    "PROPERTY": "a property ($variable.name)",
    "STRING": "a string",
    "INT": "a number",
    "FLOAT": "a number",
    "TRUE": "true or false",
    "FALSE": "true or false",
    "COMPARATOR": "a comparison (=, !=, <, <=, >, >=)",
    "DIRECTION": "asc or desc",
    "UNDIRECTED": "<edge>",
    "ENUM_VALUE": "an enum value",
    END: _AT_END,
    "a value": "a value",
}
_PUNCTUATION_BY_TERMINAL = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]",
    "COLON": ":", "COMMA": ",", "_COMMA": ",", "AT": "@", "STAR": "*", "NULLABLE": "?",
    "EQUAL": "=", "__ANON_0": "->", "__ANON_1": "..",
}  # fmt: skip

_VALUES = {"STRING", "INT", "TRUE", "NULL"}
_WORDS = {"CONTAINS", "STARTS_WITH", "IN", "IS"}
"""Keywords that are also valid as names, so that a message that lists a name omits them."""

_ADVICE_BY_TEXT = {
    "'": 'strings are written in double quotes: "text"',
    "#": "comments start with //",
    ";": "nothing separates two declarations or clauses; remove the ;",
    "==": "equality is written =",
    "&&": "write `and`",
    "||": "write `or`",
    "<>": "inequality is written !=",
    "!": "inequality is !=; a negated pattern is not { … }",
}


ForeignSyntax = Sequence[tuple[str, str]]
"""Patterns of syntax from other languages, each with advice.

In a pattern ¦ marks the position of the error; case and blanks are ignored.
"""


def parse(
    language: Language, source: Source, builder: object, foreign_syntax: ForeignSyntax
) -> object:
    """Parse a text with a builder; raises `CompileError` if the text violates the grammar."""
    require_parseable(source)
    try:
        return parser_of(language).run(source.text, builder)
    except UnexpectedTokenError as error:
        raise _explain(error.found, set(error.accepts), source, foreign_syntax) from error


def span_of(token: Token) -> Span:
    """The source position of a token."""
    return Span(token.start, token.end)


def name_of(token: Token) -> Name:
    """The word that a token consists of."""
    return Name(token.text, span_of(token))


def _explain(
    token: Token, accepts: set[str], source: Source, foreign_syntax: ForeignSyntax
) -> CompileError:
    if token.type == END:
        end = len(source.text.rstrip())
        span, found = Span(max(0, end - 1), end), _AT_END
    else:
        line = token.text.split("\n", 1)[0]
        span, found = span_of(token), f"`{line}`" if len(line) <= 40 else f"`{line[:40]}…`"
    message = f"expected {_list(accepts)}, found {found}"
    advice = _recognize(token, source.text, foreign_syntax)
    advice = advice or _advise(accepts, span, source.text)
    return syntax_error(source, "P1", message, span, advice)


def _list(terminals: set[str]) -> str:
    if terminals >= _VALUES:
        terminals = terminals - _VALUES - {"NAME", "FLOAT", "FALSE", "LSQB"} | {"a value"}
    elif "NAME" in terminals:
        terminals = terminals - _WORDS
    words = sorted({_describe(each) for each in terminals})
    if len(words) > _LISTED_MAX:
        words = [*words[:_LISTED_MAX], "…"]
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def _describe(terminal: str) -> str:
    if terminal in _DESCRIPTION_BY_TERMINAL:
        return _DESCRIPTION_BY_TERMINAL[terminal]
    if terminal in _PUNCTUATION_BY_TERMINAL:
        return f"`{_PUNCTUATION_BY_TERMINAL[terminal]}`"
    return f"`{terminal.strip('_').lower()}`"


def _advise(terminals: set[str], span: Span, text: str) -> str | None:
    found = text[span.start : span.end]
    before = text[: span.start].rstrip()
    # A doubled operator is detected at its first or at its second character.
    for start, length in ((span.start - 1, 2), (span.start, 2), (span.start, 1)):
        if advice := _ADVICE_BY_TEXT.get(text[max(start, 0) : start + length]):
            return advice
    if found != found.lower() and found.lower() in _words(terminals):
        return f"this word is written in small letters: `{found.lower()}`"
    if found[:1].isupper() and "NAME" in terminals:
        small = found.lower() if found.isupper() else f"{found[:1].lower()}{found[1:]}"
        return f"names start with a small letter here: `{small}`"
    if found[:1].islower() and "TYPE_NAME" in terminals:
        return f"type names start with a capital letter: `{found[:1].upper()}{found[1:]}`"
    if found == ",":
        return "no comma is needed here; remove it"
    if found == "}" and before.endswith("{"):
        return "empty braces mean nothing; remove them or write something between them"
    return None


def _words(terminals: set[str]) -> set[str]:
    words = {terminal.strip("_").lower() for terminal in terminals - {"NAME"}}
    return words | ({"asc", "desc"} if "DIRECTION" in terminals else set())


def _recognize(token: Token, text: str, foreign_syntax: ForeignSyntax) -> str | None:
    if token.type == END and text.count("{") > text.count("}"):
        return "a } is missing"
    start, place = max(0, token.start - _BEFORE_MAX), token.start
    around = f"{'…' if start else ''}{text[start:place]}¦{text[place : place + _AFTER_MAX]}"
    for pattern, advice in foreign_syntax:
        if re.search(pattern, around, re.VERBOSE | re.IGNORECASE):
            return advice
    return None
