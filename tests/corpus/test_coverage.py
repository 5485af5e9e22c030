"""The corpus is complete: it uses every production of the grammars and shows every diagnostic."""

import re
from collections.abc import Iterator

import pytest

from omnigraph.compiler.parser import Language
from tests.support.corpus import CorpusFile, corpus_paths, read_corpus_file
from tests.support.diagnostic_codes import CODE, codes_in_source
from tests.support.grammar_use import unused_productions
from tests.support.source_tree import require_none

EXTENSION_BY_LANGUAGE = {Language.SCHEMA: "pg", Language.QUERY: "gq"}
# Without `compiler.compile`: the choice of a query in a file is not a property of the file.
PACKAGES = (
    "omnigraph.compiler.parser",
    "omnigraph.compiler.parser",
    "omnigraph.compiler.schema.",
    "omnigraph.compiler.query.",
    "omnigraph.compiler.migration.",
)

SHOWN_CODE = re.compile(rf"\[({CODE.pattern})\]$", re.MULTILINE)


@pytest.mark.parametrize("language", EXTENSION_BY_LANGUAGE)
def test_every_production_is_used_by_a_corpus_file(language: Language) -> None:
    texts = [text for file in _corpus_files(language) for text in _texts(file)]

    unused = unused_productions(language, texts)

    require_none(unused, rule="a production has a corpus file that uses it")


def test_every_diagnostic_is_shown_by_a_corpus_file() -> None:
    shown = {
        code
        for language in EXTENSION_BY_LANGUAGE
        for file in _corpus_files(language)
        for section in file.sections.values()
        for code in SHOWN_CODE.findall(section)
    }

    unseen = [f"{place}: {code}" for code, place in codes_in_source(*PACKAGES) if code not in shown]

    require_none(unseen, rule="a diagnostic has a corpus file that shows it")


def _corpus_files(language: Language) -> list[CorpusFile]:
    paths = corpus_paths(f"**/*.{EXTENSION_BY_LANGUAGE[language]}")
    return [read_corpus_file(path) for path in paths]


def _texts(file: CorpusFile) -> Iterator[str]:
    yield file.source
    if "desired" in file.sections:
        yield file.sections["desired"]
