"""Texts on a terminal: the room they take, and what of them a terminal would obey."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.display import clip, fill, make_harmless, measure, split

TEXTS = st.text().map(make_harmless)


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
def test_what_a_terminal_would_obey_is_written_out(text: str, shown: str) -> None:
    assert make_harmless(text) == shown


@given(text=st.text())
def test_no_control_character_is_left(text: str) -> None:
    assert all(unicodedata.category(each) != "Cc" for each in make_harmless(text))


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


def test_a_character_wider_than_the_room_stands_alone() -> None:
    assert split("漢字", 1) == ["漢", "字"]


def test_a_text_is_filled_up_by_what_is_shown() -> None:
    assert fill("漢", 4) == "漢  "
