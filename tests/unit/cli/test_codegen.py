"""Stored queries as a Python module."""

from __future__ import annotations

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.codegen import (
    LINE_COLUMNS,
    assign_text,
    class_name,
    cut_query,
    make_names,
    quote,
    write_docstring,
)
from omnigraph.cli.output import measure
from omnigraph.model.errors import NotFoundError
from omnigraph.model.source import Source

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,4}", fullmatch=True) | st.sampled_from(
    ["class", "class_", "class__", "_x", "query_x", "__init__", "list", "list_", "None"]
)


@given(st.lists(NAMES, unique=True), st.frozensets(NAMES))
def test_names_are_usable_and_their_own(names: list[str], taken: frozenset[str]) -> None:
    made = make_names(names, taken=taken, prefix="query")

    assert list(made) == names
    assert len(set(made.values())) == len(names)
    for each in made.values():
        assert each.isidentifier()
        assert not keyword.iskeyword(each)
        assert not each.startswith("_")
        assert each not in taken


@given(st.lists(NAMES, unique=True))
def test_a_name_that_can_stay_does(names: list[str]) -> None:
    made = make_names(names, taken=(), prefix="query")

    for name in names:
        if not (keyword.iskeyword(name) or name.startswith("_")):
            assert made[name] == name


def test_words_become_a_class() -> None:
    assert [class_name(each) for each in ("find_person", "findPerson", "_x1", "__")] == [
        "FindPerson",
        "FindPerson",
        "X1",
        "Query",
    ]


TEXTS = st.text(st.characters(codec="utf-8")) | st.text("\"'\\\n {}x", max_size=300)
WORDS = st.lists(st.text("ab\"'\\ \n", max_size=60), min_size=1, max_size=3)


@given(TEXTS)
def test_a_literal_is_the_text(text: str) -> None:
    assert ast.literal_eval(quote(text)) == text


@given(TEXTS)
def test_a_named_text_is_the_text_on_lines_that_fit(text: str) -> None:
    lines = list(assign_text("_TEXT", text))

    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    assert names["_TEXT"] == text
    assert all(measure(line) <= LINE_COLUMNS for line in lines)


@given(TEXTS | WORDS.map("\n".join))
def test_a_docstring_ends_where_it_should(text: str) -> None:
    lines = write_docstring([text, "x"], indent="    ")

    [function] = ast.parse("\n".join(["def f() -> None:", *lines, "    return"])).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 2
    docstring = ast.get_docstring(function, clean=True)
    assert docstring is not None
    assert docstring.split() == [*text.split(), "x"]


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x1b", "\x00", "\ufeff"])
def test_invisible_characters_are_escaped(hidden: str) -> None:
    assert hidden not in quote(f"a{hidden}b")
    assert hidden not in "".join(write_docstring([f"a{hidden}b"], indent=""))


def test_a_short_text_is_one_line() -> None:
    assert list(assign_text("_A", "query a() {}\n")) == ['_A = "query a() {}\\n"']


def test_a_long_text_is_cut_between_words() -> None:
    lines = list(assign_text("_A", f"{'match ' * 20}\n"))

    assert [line[-7:] for line in lines[1:-2]] == ['match "']


def test_a_docstring_of_a_line_stays_on_it() -> None:
    assert write_docstring(["One person."], indent="    ") == ['    """One person."""']


FIRST = 'query first() @description("} query second() {") { match { $p: P } return { $p.x } }'
SECOND = "query second($query: String) {\n  // } query first() {\n  insert P { x: $query }\n}"
QUERY = "query query() { match { $query: P not { $query k $p } } return { $query } }"
TEXT = Source("q.gq", f"// query third() {{}}\n{FIRST} /* }} */ {SECOND}\n\n{QUERY}// end\n")


@pytest.mark.parametrize(
    ("name", "text"), [("first", FIRST), ("second", SECOND), ("query", QUERY)], ids=str
)
def test_a_query_is_cut_out_whole(name: str, text: str) -> None:
    assert cut_query(TEXT, name) == text


def test_a_query_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="third"):
        cut_query(TEXT, "third")
