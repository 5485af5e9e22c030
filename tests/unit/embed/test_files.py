"""The texts that vectors are made of, and the rows that a command line selects."""

import pytest

from omnigraph.embed.files import EmbeddedType, Selector, parse_selector, text_of
from omnigraph.model.errors import InvalidValueError


def test_a_text_has_a_line_for_each_field_that_holds_something() -> None:
    declared = EmbeddedType("v", ("a", "b", "c", "d", "e"))

    text = text_of("T", {"a": "x", "b": "", "c": 4, "d": [], "e": ["p", None, "q"]}, declared)

    assert text == "type: T\na: x\nc: 4\ne: p, q"


@pytest.mark.parametrize("text", ["slug", "=a", ":slug=a", "Decision:=a"])
def test_a_selection_without_rows_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="is not a valid selector"):
        parse_selector(text)


def test_a_value_may_hold_colons_and_equals_signs() -> None:
    assert parse_selector("url=http://x?a=b") == Selector(None, "url", "http://x?a=b")
