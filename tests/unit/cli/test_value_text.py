"""Stored values as one line of text."""

import pytest

from omnigraph.cli.value_text import show_name, show_properties, show_value


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
