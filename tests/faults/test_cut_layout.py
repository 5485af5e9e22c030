"""Maintenance of layout that is cut short anywhere: no result changes, and it can be repeated."""

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from omnigraph import Graph
from omnigraph.errors import GraphError, Outcome
from tests.support.archived_graphs import date64_graph
from tests.support.crashing import Fault, Scope, SimulatedCrash, When
from tests.support.graphs import Record, build_graph, edge, ndjson, node
from tests.support.queries import query
from tests.support.sweeps import (
    Swept,
    copies_of,
    each_fault,
    open_crashing,
    open_plain,
    require_sound,
    require_writable,
    state_of,
)

SCHEMA = """
node Person { name: String @key  age: I64? @index }
edge Knows: Person -> Person
"""

FOUND = query("match { $p: Person { age: 7 } } return { $p.name } order { $p.name }")
CALLED = query('match { $p: Person search($p.name, "ann") } return { count($p) as people }')


def worn_graph(root: Path) -> Graph:
    """A graph of two types in many small files, with indexes that know some of the rows."""
    graph = build_graph(root, SCHEMA)
    graph.load(ndjson(*_people(9)), mode="append")
    graph.ensure_indices()
    for number in range(4):
        rows = [node("Person", name=f"late {number}", age=7), edge("Knows", "ann 1", "ann 2")]
        graph.load(ndjson(*rows), mode="append")
    graph.mutate(query('delete Person where name = "ann 8"'))
    return graph


def _people(count: int) -> list[Record]:
    return [node("Person", name=f"ann {number}", age=number) for number in range(count)]


def test_optimizing_interrupted_anywhere_changes_no_result(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    swept = sweep_layout(tmp_path, lambda graph: graph.optimize(), whens=ways)

    # Two types of two or three steps each, a sidecar written and deleted, one publish.
    assert swept.effects >= 7


def test_converting_timestamps_interrupted_anywhere_changes_no_result(tmp_path: Path) -> None:
    def prepare(root: Path) -> Graph:
        with date64_graph() as archived:
            graph = open_plain(archived)
            for branch in ("draft", "idle"):
                graph.delete_branch(branch)
            graph.apply_schema(f"{graph.schema_source}\n{SCHEMA}")
            graph.load(ndjson(*_people(2)), mode="append")
            graph.ensure_indices()
            shutil.copytree(archived, root)
        return open_plain(root)

    swept = sweep_layout(
        tmp_path, lambda graph: graph.optimize(), whens=[When.BEFORE, When.AFTER], prepare=prepare
    )

    # Three types of two to four steps each, a sidecar written and deleted, one publish.
    assert swept.effects >= 10


def test_optimizing_refused_at_any_storage_call_changes_no_result(tmp_path: Path) -> None:
    swept = sweep_layout(
        tmp_path,
        lambda graph: graph.optimize(),
        whens=[When.ERROR_ONCE],
        scope=Scope.CALLS,
    )

    assert swept.effects >= 14


def test_building_indexes_interrupted_anywhere_changes_no_result(
    tmp_path: Path, ways: Sequence[When]
) -> None:
    def prepare(root: Path) -> Graph:
        graph = build_graph(root, SCHEMA)
        graph.load(ndjson(*_people(9), edge("Knows", "ann 1", "ann 2")), mode="append")
        return graph

    swept = sweep_layout(
        tmp_path, lambda graph: graph.ensure_indices(), whens=ways, prepare=prepare
    )

    assert swept.effects >= 5


def sweep_layout(
    tmp_path: Path,
    operate: Callable[[Graph], object],
    *,
    whens: Sequence[When],
    scope: Scope = Scope.EFFECTS,
    prepare: Callable[[Path], Graph] = worn_graph,
) -> Swept:
    """Cut an operation at each of its effects; query results never change."""
    built = prepare(tmp_path / "built")
    results, rows = _query_results(built), state_of(built)
    copy = copies_of(built)
    folders = count(1)

    def play(fault: Fault) -> None:
        root = tmp_path / str(next(folders))
        copy(root)
        _operate(operate, open_crashing(root, fault))
        reader = open_plain(root, is_read_only=True)
        assert (_query_results(reader), state_of(reader)) == (results, rows)
        graph = open_plain(root)
        assert (_query_results(graph), state_of(graph)) == (results, rows)
        require_sound(graph, rows)
        operate(graph)
        assert (_query_results(graph), state_of(graph)) == (results, rows)
        require_writable(graph, rows)
        shutil.rmtree(root)

    return each_fault(play, whens=whens, scope=scope)


def _operate(operate: Callable[[Graph], object], graph: Graph) -> None:
    try:
        operate(graph)
    except SimulatedCrash:
        return
    except GraphError as error:
        if error.outcome is Outcome.BROKEN:
            raise


def _query_results(graph: Graph) -> object:
    return [list(graph.query(text)) for text in (FOUND, CALLED)]
