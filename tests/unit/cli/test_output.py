"""Stdout and stderr, colours, widths, escaping; `CommandError`."""

from __future__ import annotations

import io
import time
import unicodedata
from contextlib import redirect_stderr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.output import (
    PLAIN,
    Colour,
    Terminal,
    clip,
    describe_terminal,
    escape_control,
    fill,
    measure,
    progress,
    show_name,
    show_properties,
    show_value,
    show_waiting,
    split,
)
from omnigraph.drawing.progress_bar import SilentProgress

TEXTS = st.text().map(escape_control)


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("", 0),
        ("Ann", 3),
        ("Zoë", 3),
        ("e\u0301", 1),
        ("漢字", 4),
        ("ｱ", 1),
        ("\uff21", 2),
        ("🎉", 2),
    ],
)
def test_wide_characters_take_two_places_and_accents_none(text: str, room: int) -> None:
    assert measure(text) == room


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two\\nlines"),
        ("\ttab\r", "\\ttab\\r"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\x9b31m", "\\u009b31m"),
        ("abc\u202edef", "abc\\u202edef"),
        ("C:\\new", "C:\\new"),
        ("ein\u00a0Satz 漢", "ein\u00a0Satz 漢"),
    ],
)
def test_control_sequences_are_escaped(text: str, shown: str) -> None:
    assert escape_control(text) == shown


@given(text=st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert all(unicodedata.category(each) != "Cc" for each in escape_control(text))


@given(text=TEXTS, room=st.integers(1, 20))
def test_a_text_that_is_cut_fits_and_says_so(text: str, room: int) -> None:
    shown = clip(text, room)

    assert measure(shown) <= room
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


@given(text=TEXTS, room=st.integers(2, 20))
def test_a_text_that_is_split_loses_nothing(text: str, room: int) -> None:
    pieces = split(text, room)

    assert "".join(pieces) == text
    assert all(measure(piece) <= room for piece in pieces)


def test_a_character_wider_than_the_column_gets_a_line_of_its_own() -> None:
    assert split("漢字", 1) == ["漢", "字"]


def test_a_text_is_filled_up_by_what_is_shown() -> None:
    assert fill("漢", 4) == "漢  "


class Screen(io.StringIO):
    """A stream that is a terminal and does not know its width."""

    def isatty(self) -> bool:
        return True


def test_a_pipe_has_neither_width_nor_colours() -> None:
    described = describe_terminal(io.StringIO(), {"COLUMNS": "40"})

    assert described == PLAIN
    assert described.paint("text", Colour.RED) == "text"
    assert described.cut("x" * 500) == "x" * 500


def test_a_terminal_has_colours_and_the_width_that_columns_says() -> None:
    described = describe_terminal(Screen(), {"COLUMNS": "40"})

    assert described == Terminal(width=40, has_colours=True)
    assert described.paint("text", Colour.RED) == "\x1b[31mtext\x1b[0m"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_declined(environment: dict[str, str]) -> None:
    assert not describe_terminal(Screen(), environment).has_colours


def test_an_empty_no_color_declines_nothing() -> None:
    assert describe_terminal(Screen(), {"NO_COLOR": ""}).has_colours


@pytest.mark.parametrize("columns", ["", "0", "wide"])
def test_a_terminal_of_unknown_width_is_taken_for_eighty_columns(columns: str) -> None:
    assert describe_terminal(Screen(), {"COLUMNS": columns}).width == 80


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301tude", 5, "e\u0301tude"),
    ],
)
def test_a_line_is_cut_at_the_column_where_it_would_wrap(text: str, width: int, shown: str) -> None:
    assert clip(text, width) == shown
    assert measure(shown) <= width


def test_padding_counts_columns_and_not_characters() -> None:
    assert fill("日本", 6) == "日本  "


def test_a_terminal_shows_a_long_step_until_it_ends() -> None:
    screen = Screen()

    with redirect_stderr(screen), show_waiting("think", {}):
        while not screen.getvalue():
            time.sleep(0.01)

    assert screen.getvalue().startswith("\rthink ... ")
    assert screen.getvalue().rsplit("\r", 2)[1].strip() == ""


def test_a_short_step_is_not_shown() -> None:
    screen = Screen()

    with redirect_stderr(screen), show_waiting("think", {}):
        pass

    assert screen.getvalue() == ""


def test_nothing_is_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress({}) as report, show_waiting("think", {}):
        report("load", 1, 2)

    assert isinstance(report, SilentProgress)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("größe 日本", '"größe 日本"'),
        ([1, "a"], '[1, "a"]'),
        ("a\nb\x1b\x7f\x9b\u202e", '"a\\nb\\u001b\\u007f\\u009b\\u202e"'),
    ],
)
def test_a_value_is_json_that_can_be_printed(value: object, shown: str) -> None:
    assert show_value(value) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Ann", "Ann"), ("a b", "a b"), ("", '""'), (" a", '" a"'), ("a\x1b[2J", '"a\\u001b[2J"')],
)
def test_a_name_is_quoted_only_where_it_could_be_misread(name: str, shown: str) -> None:
    assert show_name(name) == shown


def test_only_properties_with_a_value_are_shown() -> None:
    assert show_properties({"a": 1, "b": None}) == "{a: 1}"
