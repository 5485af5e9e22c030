"""Texts to feed the compiler: words of both languages, odd characters, and edits of good texts.

Knows how the languages are spelled, not what they mean.
"""

import re
from collections.abc import Callable
from functools import cache, partial

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.support.choices import Choices
from tests.support.corpus import CORPUS, read_corpus_file

SCHEMA_WORDS = (
    "node", "edge", "interface", "implements", "enum", "Vector", "String", "I32", "Date", "Person",
    "Knows", "name", "age", "src", "true", "{", "}", "(", ")", "[", "]", ":", ",", "->", "..", "?",
    "@", "@key", "@unique(name)", "@index", "@range(age, 0..1)", "@card(0..1)",
    '@check(name, "a+")', '@embed("name")', '@description("x")', '@rename_from("Old")', '"text"',
    "-1", "2.5", "//", "\n", "/*", "*/", "enum(a, b)", "Vector(3)", "[String]?",
)  # fmt: skip
QUERY_WORDS = (
    "query", "match", "return", "order", "limit", "offset", "not", "optional", "insert", "update",
    "delete", "set", "where", "and", "or", "as", "asc", "desc", "is", "in", "null", "contains",
    "starts_with", "distinct", "true", "now()", "count(*)", "sum(", "avg", 'date("2024-06-01")',
    "search", "fuzzy(", "bm25", "nearest(", "rrf(", "{", "}", "(", ")", "[", "]", ":", ",", ".",
    "=", "!=", "<=", ">", "*", "$p", "$f", "$_", "$p.name", "$p.age", "<knows>", "knows", "name",
    "age", "Person", "Knows", '"text"', "1", "-2", "1.5e3", "1e999", "@description", "$q: String?",
    "//", "\n", "/*", "*/",
)  # fmt: skip
# By number where a reader or a linter would take a character for another one.
ODD_CHARACTERS = (
    "\x00", "\x1b", "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200f", "\u202e", "\u2028",
    "\ufeff", "\ufffd", "\ud800", "\udfff", "\uff04", "\u2018", "\u0301", "é", "İ", "ß", "ﬁ", "漢",
    "🦜", '"', "'", "`", "\\", "\r", "\t", "#", ";", "%",
)  # fmt: skip
HUGE_NUMBERS = ("9" * 400, "-" + "9" * 5000, "0." + "1" * 500, "1e400", "18446744073709551616")
DEEP_OPENINGS = ("(" * 300, "[" * 300, "{" * 300, "not { " * 300, "count(" * 300, "optional {" * 99)

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|\$?\w+|\s+|->|\.\.|[<>!]=|.', re.DOTALL)
_EDITS_MAX = 4
_REPEATS = (2, 20, 200)


def token_soups(words: tuple[str, ...]) -> SearchStrategy[str]:
    """Words of a language in no order at all."""
    return st.lists(st.sampled_from(words), max_size=40).map(" ".join)


@st.composite
def edited_texts(draw: DrawFn, texts: SearchStrategy[str], words: tuple[str, ...]) -> str:
    """A good text after a few careless or malicious edits."""
    text = draw(texts)
    choices = Choices(draw)
    for _ in range(1 + choices.count(_EDITS_MAX - 1)):
        if choices.seldom():
            text = _splice(choices, text, draw(texts))
        else:
            text = choices.one(_edits(words))(choices, text)
    return text


@st.composite
def spread_texts(draw: DrawFn, texts: SearchStrategy[str]) -> str:
    """The same text with comments and white space wherever they may stand."""
    gap = Choices(draw).one(["  ", "\r\n", "\t", " // x.y \n", " /* } */ ", "/***/", "\n/*\n*/\n"])
    return "".join(gap if token.isspace() else token for token in _TOKEN.findall(draw(texts)))


@cache
def corpus_sources(suffix: str) -> tuple[str, ...]:
    """The sources of the corpus in one language."""
    paths = sorted(CORPUS.rglob(f"*.{suffix}"))
    return tuple(read_corpus_file(path).source for path in paths)


def texts_like(generated: SearchStrategy[str], *, suffix: str) -> SearchStrategy[str]:
    """Generated texts and those of the corpus."""
    found = corpus_sources(suffix)
    return generated | st.sampled_from(found) if found else generated


_Edit = Callable[[Choices, str], str]


def _edits(words: tuple[str, ...]) -> tuple[_Edit, ...]:
    return (
        _delete_token,
        _double_token,
        _swap_tokens,
        _change_case,
        _truncate,
        _repeat_part,
        partial(_insert, parts=words),
        partial(_replace_token, parts=words),
        partial(_insert, parts=ODD_CHARACTERS),
        partial(_insert, parts=DEEP_OPENINGS),
        partial(_replace_number, parts=HUGE_NUMBERS),
    )


def _delete_token(choices: Choices, text: str) -> str:
    tokens, place = _take_apart(choices, text)
    return "".join(tokens[:place] + tokens[place + 1 :])


def _double_token(choices: Choices, text: str) -> str:
    tokens, place = _take_apart(choices, text)
    return "".join(tokens[: place + 1] + tokens[place:])


def _swap_tokens(choices: Choices, text: str) -> str:
    tokens, place = _take_apart(choices, text)
    other = choices.count(len(tokens) - 1)
    tokens[place], tokens[other] = tokens[other], tokens[place]
    return "".join(tokens)


def _change_case(choices: Choices, text: str) -> str:
    tokens, place = _take_apart(choices, text)
    change = choices.one([str.swapcase, str.upper, str.capitalize])
    return "".join([*tokens[:place], change(tokens[place]), *tokens[place + 1 :]])


def _replace_token(choices: Choices, text: str, *, parts: tuple[str, ...]) -> str:
    tokens, place = _take_apart(choices, text)
    return "".join([*tokens[:place], choices.one(parts), *tokens[place + 1 :]])


def _replace_number(choices: Choices, text: str, *, parts: tuple[str, ...]) -> str:
    numbers = list(re.finditer(r"\d+", text))
    if not numbers:
        return _insert(choices, text, parts=parts)
    found = choices.one(numbers)
    return text[: found.start()] + choices.one(parts) + text[found.end() :]


def _insert(choices: Choices, text: str, *, parts: tuple[str, ...]) -> str:
    place = choices.count(len(text))
    return text[:place] + choices.one(parts) + text[place:]


def _truncate(choices: Choices, text: str) -> str:
    return text[: choices.count(len(text))]


def _repeat_part(choices: Choices, text: str) -> str:
    start, end = sorted((choices.count(len(text)), choices.count(len(text))))
    return text[:start] + text[start:end] * choices.one(_REPEATS) + text[end:]


def _splice(choices: Choices, text: str, other: str) -> str:
    return text[: choices.count(len(text))] + other[choices.count(len(other)) :]


def _take_apart(choices: Choices, text: str) -> tuple[list[str], int]:
    """The tokens of a text, white space included, and the place of one of them."""
    tokens = _TOKEN.findall(text) or [""]
    return tokens, choices.count(len(tokens) - 1)
