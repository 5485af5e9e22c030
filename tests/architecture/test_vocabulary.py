"""Names and prose use the standard terms of the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.vocabulary import find_uses
from tests.support.source_tree import ROOT, require_none

AREAS = ("src/omnigraph", "docs", "tests", "bench", "demo", "deploy", "scripts")
DOCUMENTS = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "INVARIANTS.md",
    "Makefile",
    "README.md",
    "hatch_build.py",
)


def test_names_and_prose_use_the_standard_vocabulary() -> None:
    uses = find_uses(_paths())

    require_none(map(str, uses), rule="tests/architecture/vocabulary.py names the term to use")


def _paths() -> Iterator[Path]:
    yield from (ROOT / name for name in DOCUMENTS)
    for area in AREAS:
        yield from (path for path in (ROOT / area).iterdir() if path.name != "__pycache__")
