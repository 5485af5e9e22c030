"""Sections A to F of the language: what each read of the cases returns, and in which order."""

from collections.abc import Callable

import pytest

from omnigraph import Graph
from tests.support.read_cases import CASES, ReadCase, number_of
from tests.support.read_graphs import PlainGraph, store

Stored = Callable[[PlainGraph], Graph]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """The graphs of the cases on a disk; no case changes one, so each is stored once."""
    by_identity: dict[int, Graph] = {}

    def find(graph: PlainGraph) -> Graph:
        if id(graph) not in by_identity:
            by_identity[id(graph)] = store(tmp_path_factory.mktemp("graph") / "g", graph)
        return by_identity[id(graph)]

    return find


@pytest.mark.parametrize("case", CASES, ids=number_of)
def test_a_read_returns_the_rows_of_its_case(stored: Stored, case: ReadCase) -> None:
    graph = stored(case.graph)

    found = graph.query(case.text, case.params)

    rows = [[row[name] for name in found.columns] for row in found.rows]
    assert rows == case.cells
    assert case.columns is None or found.columns == case.columns
