"""The grammars are LALR(1) but for the conflicts that are known and resolved as wanted."""

import logging
import re

import pytest

from omnigraph.compiler.parser import Language
from omnigraph.compiler.parser_tables import build_parser

# A name before a parenthesis is a call, and an annotation behind a property belongs to it: lark
# prefers reading on to stopping, which is what both need.
CONFLICTS_BY_LANGUAGE = {
    Language.QUERY: {("LPAR", "_term : NAME")},
    Language.SCHEMA: {
        ("AT", "property : NAME COLON _type"),
        ("AT", "property : NAME COLON _type __property_star"),
    },
}


@pytest.mark.parametrize("language", CONFLICTS_BY_LANGUAGE)
def test_a_grammar_has_no_conflict_but_the_known_ones(
    language: Language, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="lark")

    build_parser(language)

    found = re.findall(r"conflict for terminal (\w+):.*\n.*<(.+?)(?:_\d+)?>", caplog.text)
    assert set(found) == CONFLICTS_BY_LANGUAGE[language]
