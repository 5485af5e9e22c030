"""Queries return what the oracle computes before and after every commit, whatever is cached.

One handle stays open while rows are inserted, replaced and deleted, tables are compacted and
indexed, branches are merged and the schema changes. After each commit the handle, with everything
that earlier queries left in its caches, is compared with the oracle on the rows that a new handle
exports. Earlier commits are queried again with their own rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph import Graph
from omnigraph.compiler.ir import Value
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.errors import IntegrityError, MergeConflictError
from omnigraph.model.catalog import NodeType
from tests.support.generated_graphs import graphs, other_rows, reads
from tests.support.oracle_pipeline import TooManyRowsError
from tests.support.read_comparison import GENERATING, ROWS_MAX, find_fault, show
from tests.support.read_graphs import PlainGraph, run_oracle, store, to_arrow, types_of
from tests.support.schemas import compile_text

COMMITS = 6
READS_PER_COMMIT = 4
EXAMPLES_MAX = max(settings().max_examples // 5, 1)
READS_MIN = 15 * EXAMPLES_MAX


class Step(StrEnum):
    """A way to change the tables of a graph."""

    UPSERT = "insert and replace rows"
    OVERWRITE = "replace all rows"
    DELETE = "delete nodes by a property"
    OPTIMIZE = "compact files and extend indexes"
    MERGE = "change a branch and merge it"
    ADD_PROPERTY = "add a property to every node type"


STEPS = [*[Step.UPSERT] * 6, *[Step.DELETE] * 3, *Step]


@dataclass(frozen=True, slots=True)
class State:
    """A commit and the rows that a new handle exported at it."""

    commit_id: str
    graph: PlainGraph


def test_queries_between_commits_return_what_the_oracle_computes() -> None:
    counts: list[int] = []

    @settings(GENERATING, max_examples=EXAMPLES_MAX)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        counts.append(_run_sequence(data))

    agree()

    assert sum(counts) >= READS_MIN, "the oracle gave up too many queries"


def _run_sequence(data: st.DataObject) -> int:
    """Commit and query in turn, and return the number of compared queries."""
    graph, traversal = data.draw(graphs()), data.draw(st.sampled_from(TraversalMode))
    count = 0
    with TemporaryDirectory(prefix="omnigraph-commits-") as folder:
        path = Path(folder) / "g"
        stored = store(path, graph, traversal=traversal)
        states = [_export(path)]
        history = ["load"]
        for number in range(COMMITS):
            step = data.draw(st.sampled_from(STEPS))
            history.append(step)
            # A rejected step leaves the graph as it is, which the queries confirm.
            with suppress(IntegrityError, MergeConflictError):
                _commit(step, stored, states[-1].graph, data, number)
            states.append(_export(path))
            count += _compare(data, stored, states, history)
        stored.close()
    return count


def _compare(data: st.DataObject, stored: Graph, states: list[State], history: list[str]) -> int:
    """Query the newest state and one earlier state on the handle that stays open."""
    count = 0
    earlier = data.draw(st.sampled_from(states))
    for state in [states[-1]] * READS_PER_COMMIT + [earlier]:
        read = data.draw(reads(state.graph))
        try:
            expected = run_oracle(state.graph, read.text, read.params, rows_max=ROWS_MAX)
        except TooManyRowsError:
            continue
        commit = None if state is states[-1] else state.commit_id
        fault = find_fault(stored, read, expected, commit=commit)
        assert fault is None, (
            f"after {', '.join(history)}: {read.text}\n{read.params}\n"
            f"engine: {fault}\nreferee: {show(expected)}\nrows: {state.graph.rows_by_type}"
        )
        count += 1
    return count


def _commit(step: Step, stored: Graph, graph: PlainGraph, data: st.DataObject, number: int) -> None:
    """Take a step, which may change nothing."""
    match step:
        case Step.UPSERT:
            _load(stored, data.draw(other_rows(graph)), mode="merge", branch="main")
        case Step.OVERWRITE:
            _load(stored, data.draw(other_rows(graph)), mode="overwrite", branch="main")
        case Step.DELETE:
            _delete_nodes(stored, graph, data)
        case Step.OPTIMIZE:
            stored.ensure_indices()
            stored.optimize()
        case Step.MERGE:
            branch = f"side-{number}"
            stored.create_branch(branch)
            _load(stored, data.draw(other_rows(graph)), mode="merge", branch=branch)
            if data.draw(st.booleans()):
                _delete_nodes(stored, graph, data)
            stored.merge(branch, into="main")
        case Step.ADD_PROPERTY:
            changed = graph.schema
            for name in graph.catalog.nodes:
                heading = f"node {name} {{"
                changed = changed.replace(heading, f"{heading} added_{number}: I64? ")
            stored.apply_schema(changed)


def _load(stored: Graph, rows: PlainGraph, *, mode: str, branch: str) -> None:
    tables = {name: table for name, table in to_arrow(rows).items() if table.num_rows}
    if tables:
        stored.load(tables, mode=mode, branch=branch)


def _delete_nodes(stored: Graph, graph: PlainGraph, data: st.DataObject) -> None:
    """Delete the nodes that share a scalar value with one of them, and their edges."""
    candidates = [
        (declared, each)
        for name, declared in types_of(graph.catalog).items()
        if isinstance(declared, NodeType) and graph.rows_by_type[name]
        for each in declared.properties.values()
        if each.type.is_scalar
    ]
    if not candidates:
        return
    declared, each = data.draw(st.sampled_from(candidates))
    value = data.draw(st.sampled_from(graph.rows_by_type[declared.name]))[each.name]
    if value is None:
        return
    condition = f"delete {declared.name} where {each.name} = $value"
    stored.mutate(f"query q($value: {each.type.element}) {{ {condition} }}", {"value": value})


def _export(path: Path) -> State:
    """The newest state of a graph, as a handle without caches reads it."""
    with omnigraph.open(str(path)) as fresh:
        schema, head = fresh.schema_source, fresh.head()
        catalog = compile_text(schema)
        rows = {
            name: [
                {column: _plain(cell) for column, cell in row.items()}
                for row in fresh.export_batches(name).read_all().to_pylist()
            ]
            for name in types_of(catalog)
        }
    return State(head, PlainGraph(schema, catalog, rows))


def _plain(cell: Value | list[Value]) -> Value:
    return tuple(cell) if isinstance(cell, list) else cell
