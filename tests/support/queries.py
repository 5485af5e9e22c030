"""Queries in tests: the schemas of the conformance cases, and what a query should compile to.

Guarantees that a failed expectation shows the whole IR or every diagnostic. Knows no case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from omnigraph.compiler.compile import compile_query, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.compiler.query.check import CompiledQuery
from omnigraph.errors import CompileError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source
from tests.support.corpus import CORPUS


@dataclass(frozen=True, slots=True)
class Compiles:
    """The query is accepted, and its IR has these lines, whatever their indentation."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The query is refused with one code (its letter is the stage), and the text says why."""

    code: str
    fragment: str


@dataclass(frozen=True, slots=True)
class Case:
    """A numbered case of the language: queries on one schema, each with what becomes of it."""

    number: str
    schema: str
    outcomes: tuple[tuple[str, Compiles | Refused], ...]


def compiles(*lines: str) -> Compiles:
    """The query is accepted, with these lines in its IR."""
    return Compiles(lines)


def refused(code: str, fragment: str = "") -> Refused:
    """The query is refused with a code and a message."""
    return Refused(code, fragment)


def case(number: str, schema: str, *outcomes: tuple[str, Compiles | Refused]) -> Case:
    """A numbered case: queries, each with its outcome."""
    return Case(number, schema, outcomes)


def number_of(each: Case) -> str:
    """What a case's test is called."""
    return each.number


def query(body: str, *, parameters: str = "") -> str:
    """A whole query text around a body."""
    return f"query q({parameters}) {{ {body} }}"


def read_schema(fixture: str) -> str:
    """The schema text of a corpus fixture."""
    return (CORPUS / "query" / fixture / "schema.pg").read_text(encoding="utf-8")


def compile_text(schema: str, text: str) -> CompiledQuery:
    """The only query of a text, compiled against a schema text."""
    return compile_query(Source("case.gq", text), _compile_schema(schema), name=None)


def require_outcomes(each: Case) -> None:
    """Fail unless every text of a case has its outcome."""
    for text, expected in each.outcomes:
        require_outcome(each.schema, text, expected)


def require_outcome(schema: str, text: str, expected: Compiles | Refused) -> None:
    """Fail unless a query becomes what is expected of it."""
    match expected:
        case Compiles(lines=lines):
            found = render_ir(compile_text(schema, text).ir)
            present = {line.strip() for line in found.splitlines()}
            missing = [line for line in lines if line not in present]
            assert not missing, f"{missing} not in\n{found}"
        case Refused(code=code, fragment=fragment):
            with pytest.raises(CompileError) as caught:
                compile_text(schema, text)
            found_codes = {each.code for each in caught.value.diagnostics}
            assert found_codes == {code}, str(caught.value)
            assert fragment in str(caught.value)


@cache
def _compile_schema(text: str) -> Catalog:
    return compile_schema(Source("schema.pg", text))
