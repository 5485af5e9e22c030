"""Parsing with messages for people: what was found, what could stand there, what to write instead.

Turns the machine's refusal into a `CompileError`. Knows the words of both grammars by their
terminals' names, and nothing of meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from omnigraph.compiler.machine import (
    END,
    Language,
    Token,
    UnexpectedTokenError,
    machine_of,
)
from omnigraph.compiler.text import refusal, require_parseable
from omnigraph.model.errors import CompileError
from omnigraph.model.source import Diagnostic, Source, Span

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
"""Words that are also names where names may stand, so that a message need not list them."""

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


def parse(language: Language, source: Source, builder: object) -> object:
    """What a builder makes of a text that obeys its grammar."""
    require_parseable(source)
    try:
        return machine_of(language).run(source.text, builder)
    except UnexpectedTokenError as error:
        raise _explain(error.found, set(error.accepts), source) from error


Habits = Sequence[tuple[str, str]]
"""Patterns of what people write who think in another language, each with the advice for them.

In a pattern ¦ marks the place of the fault; case and blanks mean nothing.
"""


def advise_on_habits(error: CompileError, habits: Habits) -> CompileError:
    """The same refusal, with better advice where a habit is recognised."""
    text = error.source.text
    faults = [
        replace(each, suggestion=_recognize(each, text, habits) or each.suggestion)
        for each in error.diagnostics
    ]
    return CompileError(diagnostics=faults, source=error.source)


def span_of(token: Token) -> Span:
    """Where a token stands."""
    return Span(token.start, token.end)


def _explain(token: Token, accepts: set[str], source: Source) -> CompileError:
    if token.type == END:
        end = len(source.text.rstrip())
        span, found = Span(max(0, end - 1), end), _AT_END
    else:
        span, found = span_of(token), f"`{_shorten(token.text)}`"
    message = f"expected {_list(accepts)}, found {found}"
    return refusal(source, "P1", message, span, _advise(accepts, span, source.text))


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
    # A doubled sign is noticed at its first or at its second character.
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


def _recognize(fault: Diagnostic, text: str, habits: Habits) -> str | None:
    if fault.code != "P1" or fault.span is None:
        return None
    place = fault.span.start
    if fault.message.endswith(_AT_END):
        if text.count("{") > text.count("}"):
            return "a } is missing"
        place = len(text)
    start = max(0, place - _BEFORE_MAX)
    around = f"{'…' if start else ''}{text[start:place]}¦{text[place : place + _AFTER_MAX]}"
    for pattern, advice in habits:
        if re.search(pattern, around, re.VERBOSE | re.IGNORECASE):
            return advice
    return None


def _shorten(text: str) -> str:
    first_line = text.split("\n", 1)[0]
    return first_line if len(first_line) <= 40 else f"{first_line[:40]}…"
