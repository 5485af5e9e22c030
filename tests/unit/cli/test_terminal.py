"""What a command finds out about the stream that it writes to."""

import io
import time
from contextlib import redirect_stderr

import pytest

from omnigraph.cli.display import clip, fill, measure
from omnigraph.cli.terminal import PLAIN, Colour, Terminal, describe_terminal, progress, waiting
from omnigraph.drawing.progress_bar import SilentProgress


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


def test_a_terminal_is_told_that_something_takes_a_while_until_it_ends() -> None:
    screen = Screen()

    with redirect_stderr(screen), waiting("think", {}):
        while not screen.getvalue():
            time.sleep(0.01)

    assert screen.getvalue().startswith("\rthink ... ")
    assert screen.getvalue().rsplit("\r", 2)[1].strip() == ""


def test_what_is_done_in_a_moment_is_not_announced() -> None:
    screen = Screen()

    with redirect_stderr(screen), waiting("think", {}):
        pass

    assert screen.getvalue() == ""


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress({}) as report, waiting("think", {}):
        report("load", 1, 2)

    assert isinstance(report, SilentProgress)
    assert capsys.readouterr().err == ""
