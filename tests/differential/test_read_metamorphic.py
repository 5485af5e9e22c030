"""Reads that must agree with each other, whatever the rows, without an oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph import Graph
from omnigraph.compiler.ir import Value
from omnigraph.model.catalog import NodeType
from omnigraph.model.types import FLOATS, PropertyType
from tests.support.generated_graphs import GeneratedRead, graphs, reads
from tests.support.oracle_pipeline import TooManyRowsError
from tests.support.read_comparison import GENERATING, ROWS_MAX
from tests.support.read_graphs import PlainGraph, run_oracle, store, to_arrow

READS_PER_GRAPH = 10
SOME_GRAPHS = settings(GENERATING, max_examples=15)

Rows = Sequence[dict[str, object]]


def test_a_condition_its_opposite_and_null_divide_the_nodes() -> None:
    @SOME_GRAPHS
    @given(graphs(), st.data())
    def divide(graph: PlainGraph, drawn: st.DataObject) -> None:
        with _stored(graph) as stored:
            for node, name, type in _scalar_properties(graph):
                constant = drawn.draw(st.sampled_from(_values_of(graph, node, name)))
                for one, opposite in _opposites(type):
                    parts = [
                        _find(stored, node, f"$x.{name} {one} $c", type, constant),
                        _find(stored, node, f"$x.{name} {opposite} $c", type, constant),
                        _find(stored, node, f"$x.{name} is null", type, constant),
                    ]
                    _require_division(parts, _find(stored, node, "", type, constant))

    divide()


def test_a_search_its_negation_and_null_divide_the_nodes() -> None:
    @SOME_GRAPHS
    @given(graphs(), st.data())
    def divide(graph: PlainGraph, drawn: st.DataObject) -> None:
        with _stored(graph) as stored:
            for node, name, type in _scalar_properties(graph):
                if not type.is_string:
                    continue
                text = drawn.draw(st.sampled_from(_values_of(graph, node, name)))
                for search in (f"search($x.{name}, $c)", f"fuzzy($x.{name}, $c, 1)"):
                    parts = [
                        _find(stored, node, search, type, text),
                        _find(stored, node, f"{search} = false", type, text),
                        _find(stored, node, f"$x.{name} is null", type, text),
                    ]
                    _require_division(parts, _find(stored, node, "", type, text))

    divide()


def test_edges_that_are_looked_up_and_edges_in_memory_lead_to_the_same_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @SOME_GRAPHS
    @given(graphs(), st.data())
    def agree(graph: PlainGraph, drawn: st.DataObject) -> None:
        with TemporaryDirectory() as folder:
            store(Path(folder) / "g", graph).close()
            monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
            opened: dict[str, Graph] = {}
            for mode in ("csr", "indexed"):
                monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
                opened[mode] = omnigraph.open(str(Path(folder) / "g"), read_only=True)

            for read in _draw_reads(graph, drawn):
                looked_up, in_memory = (_run(opened[mode], read) for mode in ("indexed", "csr"))
                assert looked_up == in_memory, read.text

    agree()


def test_a_branch_reads_as_what_it_was_started_from() -> None:
    def start_branch(stored: Graph, _graph: PlainGraph) -> Callable[[GeneratedRead], Rows]:
        stored.create_branch("fork")
        return lambda read: stored.query(read.text, read.params, branch="fork").rows

    _require_same_rows(start_branch)


def test_a_commit_reads_as_the_graph_did_when_it_was_made() -> None:
    def move_on(stored: Graph, graph: PlainGraph) -> Callable[[GeneratedRead], Rows]:
        seen = stored.head()
        emptied = {name: table.slice(0, 0) for name, table in to_arrow(graph).items()}
        stored.load(emptied, mode="overwrite")
        assert not any(table.row_count for table in stored.tables().values())
        return lambda read: stored.query(read.text, read.params, commit=seen).rows

    _require_same_rows(move_on)


def _require_same_rows(
    change: Callable[[Graph, PlainGraph], Callable[[GeneratedRead], Rows]],
) -> None:
    """Fail unless reads give the same rows before a change and, in another way, after it."""

    @SOME_GRAPHS
    @given(graphs(), st.data())
    def agree(graph: PlainGraph, drawn: st.DataObject) -> None:
        with _stored(graph) as stored:
            originals = list(_draw_reads(graph, drawn))
            before = [_run(stored, read) for read in originals]

            run_again = change(stored, graph)

            assert [run_again(read) for read in originals] == before

    agree()


def _draw_reads(graph: PlainGraph, drawn: st.DataObject) -> Iterator[GeneratedRead]:
    """Reads that neither make too many rows nor look at the clock."""
    strategy = reads(graph)
    for _ in range(READS_PER_GRAPH):
        read = drawn.draw(strategy)
        if "now()" in read.text:
            continue
        try:
            run_oracle(graph, read.text, read.params, rows_max=ROWS_MAX)
        except TooManyRowsError:
            continue
        yield read


@contextmanager
def _stored(graph: PlainGraph) -> Iterator[Graph]:
    with TemporaryDirectory() as folder, store(Path(folder) / "g", graph) as stored:
        yield stored


def _run(stored: Graph, read: GeneratedRead) -> Rows:
    return stored.query(read.text, read.params).rows


def _scalar_properties(graph: PlainGraph) -> Iterator[tuple[NodeType, str, PropertyType]]:
    """The properties that some node has a value of."""
    for node in graph.catalog.nodes.values():
        for each in node.properties.values():
            if each.type.is_scalar and _values_of(graph, node, each.name):
                yield node, each.name, each.type


def _values_of(graph: PlainGraph, node: NodeType, name: str) -> list[Value]:
    cells = (row[name] for row in graph.rows_by_type[node.name])
    return [cell for cell in cells if cell is not None]


def _opposites(type: PropertyType) -> Sequence[tuple[str, str]]:
    """Comparators of which one holds for every value; NaN is neither less nor not less."""
    if type.element in FLOATS:
        return [("=", "!=")]
    return [("=", "!="), ("<", ">="), (">", "<=")]


def _find(
    stored: Graph, node: NodeType, condition: str, type: PropertyType, constant: Value
) -> list[object]:
    text = (
        f"query q($c: {type.element}) {{ match {{ $x: {node.name} {condition} }} return {{ $x }} }}"
    )
    return [row["x"] for row in stored.query(text, {"c": constant}).rows]


def _require_division(parts: Sequence[Sequence[object]], whole: Sequence[object]) -> None:
    together = list(itertools.chain.from_iterable(parts))
    assert len(together) == len(set(together))
    assert sorted(together, key=whole.index) == list(whole)
