"""Whatever a text holds, the Python source that is made of it means it, and nothing else."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.codegen.python_texts import LINE_COLUMNS, assign_text, quote, write_docstring
from omnigraph.cli.display import measure

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
    told = ast.get_docstring(function, clean=True)
    assert told is not None
    assert told.split() == [*text.split(), "x"]


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\x1b", "\x00", "\ufeff"])
def test_what_cannot_be_seen_is_written_as_a_number(hidden: str) -> None:
    assert hidden not in quote(f"a{hidden}b")
    assert hidden not in "".join(write_docstring([f"a{hidden}b"], indent=""))


def test_a_short_text_is_one_line() -> None:
    assert list(assign_text("_A", "query a() {}\n")) == ['_A = "query a() {}\\n"']


def test_a_long_text_is_cut_between_words() -> None:
    lines = list(assign_text("_A", f"{'match ' * 20}\n"))

    assert [line[-7:] for line in lines[1:-2]] == ['match "']


def test_a_docstring_of_a_line_stays_on_it() -> None:
    assert write_docstring(["One person."], indent="    ") == ['    """One person."""']
