"""Parsers for the two languages, from the grammar files beside this module.

Working out parser tables takes longer than most compilations, so the build stores them next to
the grammars. Tables that do not belong to exactly this grammar and this lark are ignored and
worked out again: the `.lark` file is the only truth. Knows no node of either language.
"""

from __future__ import annotations

import hashlib
import io
from enum import StrEnum
from functools import cache
from pathlib import Path

import lark

_GRAMMARS = Path(__file__).parent / "grammar"


class Language(StrEnum):
    """The languages there are, by the name of their grammar and its start production."""

    SCHEMA = "schema"
    QUERY = "query"


@cache
def parser_of(language: Language) -> lark.Lark:
    """The parser of a language, ready to use; made once in a process."""
    grammar = _grammar_path(language).read_text(encoding="utf-8")
    tables = _tables_path(language)
    if tables.exists():
        stored = tables.read_bytes()
        fingerprint = _fingerprint(grammar)
        if stored.startswith(fingerprint):
            return lark.Lark.load(io.BytesIO(stored[len(fingerprint) :]))
    return build_parser(language)


def build_parser(language: Language) -> lark.Lark:
    """The parser worked out from its grammar file."""
    grammar = _grammar_path(language).read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", start=language.value, maybe_placeholders=True)


def write_tables() -> None:
    """Store every language's tables beside its grammar; called when the package is built."""
    for language in Language:
        tables = io.BytesIO()
        build_parser(language).save(tables)
        fingerprint = _fingerprint(_grammar_path(language).read_text(encoding="utf-8"))
        _tables_path(language).write_bytes(fingerprint + tables.getvalue())


def _grammar_path(language: Language) -> Path:
    return _GRAMMARS / f"{language}.lark"


def _tables_path(language: Language) -> Path:
    return _GRAMMARS / f"{language}.tables"


def _fingerprint(grammar: str) -> bytes:
    return hashlib.sha256(f"{lark.__version__}\n{grammar}".encode()).digest()
