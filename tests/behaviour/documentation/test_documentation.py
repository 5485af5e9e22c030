"""Every schema and query in the documents compiles, or fails as marked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
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


def test_the_first_page_gives_every_file_that_its_commands_read() -> None:
    page = read_document("README.md")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    named = dict.fromkeys(re.findall(r"(?:--schema|--query) (\S+)", commands))
    # A sentence that begins with its name, or says what it is, and then a block.
    given = [name for name in named if re.search(rf"`{name}` (?:says|asks|is)[^`]*```\w+\n", page)]

    assert list(named) == given


def test_the_new_schema_of_the_first_page_follows_from_its_old_one(tmp_path: Path) -> None:
    old, new = (
        each.text for each in EXAMPLES if each.place[:7] == "README." and each.language == "pg"
    )
    with omnigraph.init(str(tmp_path / "graph"), schema=old) as graph:
        plan = graph.plan_schema(new)

        assert plan.supported
        assert graph.apply_schema(new).applied


def _compile(example: Example) -> None:
    source = Source(example.place, example.text)
    if example.language == "pg":
        compile_schema(source)
    else:
        compile_queries(source, compile_schema(Source("the schema above", example.schema)))
