"""Patterns of `@check`: what is accepted runs everywhere, what is refused says why."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compiler.schema.constraints import find_unsupported_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[A-Z]{2}[0-9]+$",
        r"^\d{3}-\d{4}$",
        r"\A[^@\s]+@[^@\s]+\.[a-z]{2,}\b",
        "(?i)yes|no",
        "(?P<year>[0-9]{4})(?:-[0-9]{2})?",
        r"a{0,3}?b+?c*?",
        r"[\]\[\-\\]",
        "[]a]",
        r"\{\}",
        "ünï→漢",
    ],
)
def test_a_pattern_of_the_common_subset_is_accepted(pattern: str) -> None:
    assert find_unsupported_pattern(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?=a)", "look-around"),
        ("(?!a)", "look-around"),
        ("(?<=a)b", "look-around"),
        ("(?>a)", "not supported"),
        ("(?P=name)", "not supported"),
        ("(?x) a b", "not supported"),
        (r"(a)\1", "back-references"),
        (r"a\Z", r"`\Z` is not supported"),
        (r"\<a\>", r"`\<` is not supported"),
        (r"[\b]", r"`\b` is not supported"),
        (r"\p{L}", r"`\p` is not supported"),
        ("a++", "`++` is not supported"),
        ("a{2}+", "`{2}+` is not supported"),
        ("a{,3}", "read differently"),
        ("a{}", "read differently"),
        ("{name}", r"written `\{`"),
        ("a{1001}", "at most 1000"),
        ("a{1,99999}", "at most 1000"),
        ("[[:alpha:]]", "inside a set"),
        ("[a&&b]", "inside a set"),
        ("[a--b]", "inside a set"),
        ("[a-z", "does not end"),
        ("(a", "not a regular expression"),
        ("a**", "not a regular expression"),
        ("(" * 999, "not a regular expression"),
        ("a" * 1001, "more than 1000 characters"),
    ],
)
def test_a_pattern_that_engines_read_differently_is_explained(pattern: str, problem: str) -> None:
    assert problem in (find_unsupported_pattern(pattern) or "")


@given(st.text(alphabet=r"ab01\[](){}?*+|^$.-,&~<>:P=!dwZ ", max_size=20))
def test_an_accepted_pattern_compiles(pattern: str) -> None:
    if find_unsupported_pattern(pattern) is None:
        re.compile(pattern)
