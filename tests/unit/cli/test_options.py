"""Lengths of time on a command line."""

from datetime import timedelta

import click
import pytest

from omnigraph.cli.options import Duration


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90", timedelta(seconds=90)),
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        (" 2w ", timedelta(weeks=2)),
        ("0", timedelta(0)),
    ],
)
def test_a_number_and_a_unit_are_a_length_of_time(text: str, meant: timedelta) -> None:
    assert Duration().convert(text, None, None) == meant


@pytest.mark.parametrize("text", ["", "7 d", "1.5h", "-3d", "3y", "d", "7D", "999999999999w"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)
