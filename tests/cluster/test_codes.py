"""The codes of diagnostics: each is in the reference, and each is shown by a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_tree import ROOT

REPORTERS = frozenset({"error", "warn", "error_finding", "stopped"})
CODE = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")

# Assembled from a word and the problem of a content.
ASSEMBLED = frozenset({"catalog_payload_mismatch"})


def documented() -> set[str]:
    text = (ROOT / "docs/reference/clusters.md").read_text(encoding="utf-8")
    section = text.partition("## Codes\n")[2].partition("\n## ")[0]
    return set(CODE.findall(section.partition("|---|")[2]))


def nodes_of(folder: str) -> Iterator[ast.AST]:
    """What the modules of a folder are made of, but for this one."""
    for path in sorted((ROOT / folder).glob("*.py")):
        if path != Path(__file__):
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def words_of(folder: str) -> set[str]:
    """Every text that the modules of a folder hold."""
    return {
        node.value
        for node in nodes_of(folder)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def reported() -> Iterator[str]:
    """The codes that the control plane reports by literals."""
    for node in nodes_of("src/omnigraph/cluster"):
        match node:
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name),
                args=[ast.Constant(value=str(code)), *_],
            ) if name in REPORTERS:
                yield code
            case _:
                pass


def test_every_reported_code_is_in_the_reference() -> None:
    assert set(reported()) - documented() == set()


def test_every_code_of_the_reference_is_reported_by_some_module() -> None:
    assert documented() - words_of("src/omnigraph/cluster") == ASSEMBLED


def test_every_code_is_shown_by_a_test() -> None:
    assert documented() - words_of("tests/cluster") == set()
