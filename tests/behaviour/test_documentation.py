"""The documents keep their word: every schema and query in them compiles, or fails as announced."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from omnigraph.compiler.compile import compile_queries, compile_schema
from omnigraph.errors import CompileError
from omnigraph.model.source import Source
from tests.support.diagnostic_codes import codes_in_source
from tests.support.source_tree import ROOT, read_document, require_none

FENCED = re.compile(r"^```(pg|gq)( bad)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """A fenced block: its place, its language, and the schema above it that a query is written for.

    One marked `bad` shows what is refused.
    """

    place: str
    language: str
    is_bad: bool
    text: str
    schema: str


def _examples() -> Iterator[Example]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in (str(path.relative_to(ROOT)) for path in pages):
        document, schema = read_document(page), ""
        for block in FENCED.finditer(document):
            language, bad, text = block.groups()
            line_number = document.count("\n", 0, block.start()) + 1
            yield Example(f"{page}:{line_number}", language, bad is not None, text, schema)
            if language == "pg" and not bad:
                schema = text


EXAMPLES = list(_examples())


@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if not each.is_bad], ids=lambda each: each.place
)
def test_an_example_compiles(example: Example) -> None:
    _compile(example)


@pytest.mark.parametrize(
    "example", [each for each in EXAMPLES if each.is_bad], ids=lambda each: each.place
)
def test_an_example_that_is_marked_bad_is_refused(example: Example) -> None:
    with pytest.raises(CompileError):
        _compile(example)


def test_every_code_of_a_diagnostic_is_explained() -> None:
    reference = "".join(
        read_document(f"docs/reference/{page}.md")
        for page in ("schema-language", "query-language", "migrations")
    )

    unexplained = [
        f"{place}: {code}"
        for code, place in codes_in_source("omnigraph.compiler.")
        if f"`{code}`" not in reference
    ]

    require_none(unexplained, rule="docs/reference explains every code")


def _compile(example: Example) -> None:
    source = Source(example.place, example.text)
    if example.language == "pg":
        compile_schema(source)
    else:
        compile_queries(source, compile_schema(Source("the schema above", example.schema)))
