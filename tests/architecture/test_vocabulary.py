"""Names and prose use the standard terms of the field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.vocabulary import find_uses
from tests.support.source_tree import ROOT, require_none

AREAS = ("src/omnigraph", "docs", "tests")
DOCUMENTS = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "INVARIANTS.md", "README.md")

# These still use listed words. Remove a path from the list when it no longer does.
PENDING = frozenset(
    {
        "INVARIANTS.md",
        *(
            f"tests/{name}"
            for name in (
                "architecture",
                "cli",
                "cluster",
                "corpus",
                "differential",
                "faults",
                "fuzz",
                "mutants",
                "support",
                "surface",
                "unit",
            )
        ),
    }
)


def test_names_and_prose_use_the_standard_vocabulary() -> None:
    uses = find_uses(path for path in _paths() if str(path.relative_to(ROOT)) not in PENDING)

    require_none(map(str, uses), rule="tests/architecture/vocabulary.py names the term to use")


def test_every_pending_path_exists() -> None:
    missing = PENDING - {str(path.relative_to(ROOT)) for path in _paths()}

    require_none(missing, rule="a path that is pending exists")


def _paths() -> Iterator[Path]:
    yield from (ROOT / name for name in DOCUMENTS)
    for area in AREAS:
        yield from (path for path in (ROOT / area).iterdir() if path.name != "__pycache__")
