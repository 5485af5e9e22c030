"""Old spellings of commands become today's, wherever the flags stand."""

import pytest

from omnigraph.cli.main import replace_deprecated


@pytest.mark.parametrize(
    ("old", "modern", "spelling"),
    [
        ("read -e q", "query -e q", "read"),
        ("change -e q", "mutate -e q", "change"),
        ("check --query f", "lint --query f", "check"),
        ("query lint --query f", "lint --query f", "query lint"),
        ("query check --query f", "lint --query f", "query check"),
        ("--store read read -e q", "--store read query -e q", "read"),
        ("--store=g --quiet change m", "--store=g --quiet mutate m", "change"),
    ],
)
def test_a_deprecated_spelling_is_replaced_with_a_warning(
    old: str, modern: str, spelling: str
) -> None:
    arguments, warning = replace_deprecated(old.split())

    assert arguments == modern.split()
    assert warning is not None
    assert f"`omnigraph {spelling}` is deprecated" in warning


@pytest.mark.parametrize(
    "today", ["query find", "query --query lint", "lint --query check", "load read", "", "--store"]
)
def test_current_spellings_are_unchanged(today: str) -> None:
    assert replace_deprecated(today.split()) == (today.split(), None)
