"""What a terminal shows while rows are loaded."""

import io

from omnigraph.drawing.progress_bar import ProgressBar, SilentProgress, show_progress


class Clock:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_is_one_line_with_its_share_and_rate() -> None:
    terminal, clock = io.StringIO(), Clock()
    bar = ProgressBar(terminal, width=80, clock=clock)

    bar("stage rows", 0, None)
    clock.now = 2.0
    bar("stage rows", 1_000, 4_000)

    assert terminal.getvalue() == (
        "\rstage rows ...\rstage rows  [######                  ]  25%  1,000 of 4,000  500/s"
    )


def test_how_much_is_done_is_shown_when_the_end_is_unknown() -> None:
    terminal, clock = io.StringIO(), Clock()
    bar = ProgressBar(terminal, width=80, clock=clock)

    bar("read", 0, None)
    clock.now = 1.0
    bar("read", 12, None)

    assert terminal.getvalue().endswith("\rread  12  12/s")


def test_another_stage_begins_another_line() -> None:
    terminal = io.StringIO()
    bar = ProgressBar(terminal, width=80, clock=Clock())

    bar("stage rows", 2, 2)
    bar("check keys", 0, None)

    first, second = terminal.getvalue().split("\n")
    assert "100%" in first
    assert second == "\rcheck keys ..."


def test_it_is_drawn_only_as_often_as_it_can_be_seen() -> None:
    terminal, clock = io.StringIO(), Clock()
    bar = ProgressBar(terminal, width=80, clock=clock)

    for done in range(1_000):
        clock.now = done / 1_000
        bar("stage rows", done, 1_000)

    assert 5 < terminal.getvalue().count("\r") < 15


def test_the_end_of_a_stage_is_always_drawn() -> None:
    terminal = io.StringIO()
    bar = ProgressBar(terminal, width=80, clock=Clock())

    bar("stage rows", 999, 1_000)
    bar("stage rows", 1_000, 1_000)

    assert "100%" in terminal.getvalue()


def test_output_after_a_progress_bar_begins_on_a_new_line() -> None:
    terminal = io.StringIO()

    with ProgressBar(terminal, width=80, clock=Clock()) as bar:
        bar("stage rows", 1, 2)
    terminal.write("stopped\n")

    assert terminal.getvalue().splitlines()[-1] == "stopped"


def test_a_narrow_terminal_is_not_overflowed() -> None:
    terminal = io.StringIO()

    ProgressBar(terminal, width=20, clock=Clock())("stage rows", 1, 2)

    assert len(terminal.getvalue().strip("\r")) == 19


def test_what_is_left_of_a_longer_line_is_blanked_without_any_code() -> None:
    terminal, clock = io.StringIO(), Clock()
    bar = ProgressBar(terminal, width=80, clock=clock)

    bar("read", 100_000, None)
    clock.now = 1.0
    bar("read", 1, None)

    assert terminal.getvalue() == "\rread  100,000\rread  1  1/s "


def test_nothing_is_drawn_where_there_is_no_terminal() -> None:
    assert isinstance(show_progress(), SilentProgress)
