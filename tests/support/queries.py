"""Queries in tests: the schemas of the conformance cases, and what a query should compile to.

Promises that a failed expectation shows the whole IR or every diagnostic. Knows no case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from omnigraph.compiler.compile import compile_query, compile_schema
from omnigraph.compiler.ir_text import render_ir
from omnigraph.compiler.query.check import CompiledQuery
from omnigraph.errors import CompileError
from omnigraph.model.catalog import Catalog
from omnigraph.model.source import Source, summarize_diagnostic
from tests.support.corpus import CORPUS


@dataclass(frozen=True, slots=True)
class Compiles:
    """The query is accepted, and its IR has these lines, whatever their indentation."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The query is refused for one reason: a code, and what the message says."""

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


def require_outcome(schema: str, text: str, expected: Compiles | Refused) -> None:
    """Fail unless a query becomes what is expected of it."""
    try:
        found = render_ir(compile_text(schema, text).ir)
    except CompileError as error:
        assert isinstance(expected, Refused), f"{text}\n{error}"
        _require_refusal(error, expected)
        return
    assert isinstance(expected, Compiles), f"{text}\n{found}"
    lines = [line.strip() for line in found.splitlines()]
    missing = [line for line in expected.lines if line not in lines]
    assert not missing, f"{missing} not in\n{found}"


def _require_refusal(error: CompileError, expected: Refused) -> None:
    assert {each.code for each in error.diagnostics} == {expected.code}, str(error)
    assert any(expected.fragment in summarize_diagnostic(d) for d in error.diagnostics), str(error)


@cache
def _compile_schema(text: str) -> Catalog:
    return compile_schema(Source("schema.pg", text))
