"""How counts are said."""

from __future__ import annotations

import re

import pytest

from omnigraph.model.errors import plural
from tests.support.source_tree import ROOT, require_none


@pytest.mark.parametrize(
    ("count", "said"), [(0, "rows"), (1, "row"), (2, "rows"), (1_000, "rows")], ids=str
)
def test_only_one_is_singular(count: int, said: str) -> None:
    assert plural(count, "row") == said


def test_a_plural_may_be_irregular() -> None:
    assert [plural(each, "query", "queries") for each in (1, 2)] == ["query", "queries"]


def test_no_command_prints_a_count_before_a_fixed_plural() -> None:
    fixed = re.compile(r"\{[^{}]+\} (rows|nodes|edges|versions|files|types|conflicts|cases)\b[^=]")

    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "src/omnigraph/cli").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if fixed.search(line)
    ]

    require_none(found, rule="a count is followed by `plural(…)`")
