"""Writes as values, so that a table of cases can say what is done to a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from omnigraph import Graph
from omnigraph.errors import IntegrityError, Outcome
from tests.support.graphs import Record, build_graph, ndjson, unchanged
from tests.support.queries import query

Write = Callable[[Graph], object]
Mode = Literal["append", "merge", "overwrite"]

_PARAMETER_TYPES = {str: "String", int: "I32", float: "F64"}


def mutate(body: str, **given: object) -> Write:
    """A mutation of these statements; its parameters are declared by the values given."""
    declared = ", ".join(f"${name}: {_PARAMETER_TYPES[type(it)]}" for name, it in given.items())
    return lambda graph: graph.mutate(query(body, parameters=declared), given)


def load(*records: Record, mode: Mode = "append") -> Write:
    """A load of these records."""
    return lambda graph: graph.load(ndjson(*records), mode=mode)


@dataclass(frozen=True, slots=True)
class Case:
    """Rows that are there, and a write to them."""

    name: str
    schema: str
    given: tuple[Record, ...]
    write: Write


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a refused write says about its first violation: the words, and where."""

    fragment: str
    type: str
    property: str | None


def name_of(case: Case | Refusal) -> str:
    """What a case's test is called; its refusal adds nothing."""
    return case.name if isinstance(case, Case) else ""


def require_refused(path: Path, case: Case, refusal: Refusal) -> None:
    """Fail unless the write is refused for that reason and the graph is as it was."""
    graph = build_graph(path, case.schema, *case.given)

    with unchanged(graph), pytest.raises(IntegrityError) as refused:
        case.write(graph)

    assert refusal.fragment in str(refused.value)
    assert "the graph is unchanged" in str(refused.value)
    assert refused.value.outcome is Outcome.UNCHANGED
    violation = refused.value.violations[0]
    assert (violation.type, violation.property) == (refusal.type, refusal.property)


def require_accepted(path: Path, case: Case) -> None:
    """Fail unless the write is a commit."""
    graph = build_graph(path, case.schema, *case.given)
    before = graph.head()

    case.write(graph)

    assert graph.head() != before
