"""Corpus files: text in, text out. A source, then sections that start with a line `--- name`.

Guarantees that rendering a parsed file gives the file back, so that blessing changes nothing but
expectations. Does not know any language: what a section should hold is the tests' business.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

from tests.support.source_tree import ROOT

CORPUS = ROOT / "tests" / "corpus"

_SECTION = re.compile(r"^--- (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A source and its sections by name, each ending in a line break unless it is empty."""

    path: Path
    source: str
    sections: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name that diagnostics show, the same on every machine."""
        return self.path.name


def corpus_paths(pattern: str) -> list[Path]:
    """The corpus files that match a pattern below `tests/corpus`."""
    found = sorted(CORPUS.glob(pattern))
    assert found, f"no corpus file matches {pattern}"
    return found


def paths_with_section(pattern: str, section: str) -> list[Path]:
    """Those of the matching files that have a section of that name."""
    files = map(read_corpus_file, corpus_paths(pattern))
    return [file.path for file in files if section in file.sections]


def corpus_id(path: Path) -> str:
    """What a test of one file is called."""
    return str(path.relative_to(CORPUS).with_suffix(""))


def read_corpus_file(path: Path) -> CorpusFile:
    """Take a file apart."""
    # Read as bytes: a carriage return may be what a case is about.
    source, *parts = _SECTION.split(path.read_bytes().decode("utf-8"))
    return CorpusFile(path, source, dict(zip(parts[::2], parts[1::2], strict=True)))


def require_expected(
    file: CorpusFile, *, given: frozenset[str], produce: Callable[[], Mapping[str, str]]
) -> None:
    """Compare what is produced with the file's sections, or write it there when blessing.

    `given` names the sections that are input; they stay as they are.
    """
    selected = {name: text for name, text in file.sections.items() if name in given}
    found = replace(file, sections={**selected, **produce()})
    if os.environ.get("OMNIGRAPH_BLESS"):
        file.path.write_bytes(_render(found).encode("utf-8"))
        return
    lines = list(unified_diff(_render(file).splitlines(), _render(found).splitlines(), lineterm=""))
    assert not lines, "\n".join(["`make bless` would change the expectation:", *lines])


def _render(file: CorpusFile) -> str:
    return file.source + "".join(f"--- {name}\n{text}" for name, text in file.sections.items())
