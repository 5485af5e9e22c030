"""Tables: what is beside what, and how columns share the width that there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cli.display import measure
from omnigraph.cli.formats.table import Look, draw_table, fit_rooms


def look(cap: int = 80, *, is_wrapped: bool = False, width: int | None = None) -> Look:
    return Look(column_width_max=cap, is_wrapped=is_wrapped, terminal_width=width)


def test_columns_stand_below_their_names() -> None:
    lines = list(draw_table(["name", "age"], [["Alice", "Bo"], ["30", "null"]], look=look()))

    assert lines == [
        "name  | age",
        "------+-----",
        "Alice | 30",
        "Bo    | null",
    ]


def test_wide_characters_do_not_push_the_next_column() -> None:
    lines = list(draw_table(["n", "x"], [["漢字", "ab"], ["1", "2"]], look=look()))

    assert lines[2:] == ["漢字 | 1", "ab   | 2"]


def test_a_long_cell_is_cut_at_the_cap() -> None:
    lines = list(draw_table(["n", "x"], [["abcdefghijkl"], ["1"]], look=look(10)))

    assert lines == ["n          | x", "-----------+--", "abcdefghi… | 1"]


def test_no_cap_is_smaller_than_eight() -> None:
    lines = list(draw_table(["n"], [["abcdefghijkl"]], look=look(3)))

    assert lines[2] == "abcdefg…"


def test_a_long_cell_is_wrapped_where_that_is_wanted() -> None:
    lines = list(draw_table(["n", "x"], [["abcdefghijkl"], ["1"]], look=look(8, is_wrapped=True)))

    assert lines[2:] == ["abcdefgh | 1", "ijkl     |"]


def test_a_table_without_rows_still_names_its_columns() -> None:
    assert list(draw_table(["name"], [[]], look=look())) == ["name", "----"]


def test_a_terminal_narrows_the_widest_columns_first() -> None:
    rows = [["Ann"], ["a" * 60], ["b" * 60]]

    lines = list(draw_table(["n", "x", "y"], rows, look=look(width=40)))

    assert lines[2] == f"Ann | {'a' * 15}… | {'b' * 14}…"
    assert max(map(measure, lines)) == 40


def test_a_pipe_narrows_nothing() -> None:
    lines = list(draw_table(["x", "y"], [["a" * 60], ["b" * 60]], look=look()))

    assert lines[2] == f"{'a' * 60} | {'b' * 60}"


@given(wanted=st.lists(st.integers(1, 80), min_size=1, max_size=12), available=st.integers(48, 400))
def test_columns_use_the_width_that_there_is(wanted: list[int], available: int) -> None:
    rooms = fit_rooms(wanted, available)

    assert sum(rooms) == min(sum(wanted), available)
    assert all(0 < room <= each for room, each in zip(rooms, wanted, strict=True))


def test_a_column_keeps_a_few_places_however_narrow_the_terminal_is() -> None:
    assert fit_rooms([30, 30, 2], 5) == [4, 4, 2]
