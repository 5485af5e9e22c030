"""What a command line says about a query, and what it must not say twice."""

from __future__ import annotations

import click
import pytest

from omnigraph.cli.inputs import (
    find_params,
    find_text,
    require_one,
    require_one_reader_of_input,
    require_stored,
)
from omnigraph.cli.output import CommandError
from omnigraph.cli.targets import ServedTarget, StoreTarget

SERVED = ServedTarget(base_url="http://h", graph_id="g", token=None)


def test_one_flag_of_two_is_fine() -> None:
    require_one({"--a": None, "--b": "", "--c": False})


def test_two_flags_that_exclude_each_other_are_named() -> None:
    with pytest.raises(click.UsageError, match="--a and --c"):
        require_one({"--a": "x", "--b": None, "--c": True})


def test_only_one_thing_comes_from_the_standard_input() -> None:
    require_one_reader_of_input("-", "values.json", None)

    with pytest.raises(click.UsageError):
        require_one_reader_of_input("-", "-")


def test_a_text_on_the_command_line_is_taken_as_it_is() -> None:
    assert find_text(None, "query q() {}") == "query q() {}"
    assert find_text(None, None) is None


def test_numbers_of_any_length_stay_what_they_are() -> None:
    assert find_params('{"n": 18446744073709551615, "x": 0.1}', None) == {
        "n": 18446744073709551615,
        "x": 0.1,
    }


def test_no_values_are_not_an_empty_object() -> None:
    assert find_params(None, None) is None
    assert find_params("{}", None) == {}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"x": 1e999}',
        '{"x": NaN}',
        '{"x": 1, "x": 2}',
        '{"x": {"y": 1, "y": 1}}',
        "[]",
    ],
    ids=lambda text: text[:20],
)
def test_values_that_are_not_plain_json_are_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--params"):
        find_params(text, None)


def test_a_stored_query_is_a_servers() -> None:
    assert require_stored("find", SERVED) == ("find", SERVED)

    with pytest.raises(CommandError, match="needs a server"):
        require_stored("find", StoreTarget("g"))
    with pytest.raises(CommandError, match="no query given"):
        require_stored(None, SERVED)
