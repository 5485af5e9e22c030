"""The outcome of a write when another one lands between its preparation and its commit.

The other write runs at an exact point: when the first one, prepared on its captured basis, requests
the id of a new row.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.settings import make_settings
from omnigraph.errors import ExpectedVersionMismatchError, IntegrityError, MovedError
from omnigraph.model.runtime import SystemRuntime
from tests.support.graphs import (
    SOCIAL,
    Contents,
    build_graph,
    contents,
    ends,
    head_versions,
    node,
    pins,
    require_linear,
    rows,
    sidecars,
    social_graph,
    values,
)
from tests.support.queries import query
from tests.support.writes import Write, load, mutate


class InterruptedRuntime:
    """The clock and ids of the machine, with an interruption whenever a new id is requested."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._system = SystemRuntime()
        self._interrupt = interrupt
        self._is_interrupting = False
        self.interruptions = 0

    def now(self) -> datetime:
        """The current time, in UTC."""
        return self._system.now()

    def new_id(self) -> str:
        """A new id, after the interruption."""
        self._let_in()
        return self._system.new_id()

    def new_ids(self, count: int) -> list[str]:
        """New ids, after the interruption."""
        self._let_in()
        return self._system.new_ids(count)

    def _let_in(self) -> None:
        if not self._is_interrupting:
            self._is_interrupting = True
            self.interruptions += 1
            self._interrupt()
            self._is_interrupting = False


def open_interrupted(root: Path, other: Write, *, times: int) -> tuple[Graph, InterruptedRuntime]:
    """A graph whose writes another writer overtakes, so many times."""
    stranger = omnigraph.open(str(root), durability="relaxed")

    def interrupt() -> None:
        if runtime.interruptions <= times:
            other(stranger)

    runtime = InterruptedRuntime(interrupt)
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    graph = open_graph(replace(settings, runtime=runtime), actor=None, is_read_only=False)
    return graph, runtime


def require_full_view(graph: Graph, root: Path) -> None:
    """Fail unless the graph keeps the rules of the write path."""
    require_linear(graph.commits())
    assert head_versions(root) == pins(graph)
    assert sidecars(root) == []


def test_an_edge_whose_endpoint_is_deleted_concurrently_is_refused(tmp_path: Path) -> None:
    build_graph(
        tmp_path,
        "node Person { name: String @key } edge Knows: Person -> Person",
        node("Person", name="a"),
        node("Person", name="b"),
    )
    graph, _ = open_interrupted(tmp_path, mutate('delete Person where name = "b"'), times=1)

    with pytest.raises(IntegrityError, match="'b' not found in Person"):
        graph.mutate(query('insert Knows { from: "a", to: "b" }'))

    assert contents(graph) == {"Person": {"a": {"name": "a"}}}
    require_full_view(graph, tmp_path)


def test_an_edge_whose_endpoint_is_overwritten_concurrently_is_refused(tmp_path: Path) -> None:
    build_graph(
        tmp_path,
        "node Person { name: String @key } edge Knows: Person -> Person",
        node("Person", name="a"),
        node("Person", name="b"),
    )
    graph, _ = open_interrupted(tmp_path, load(node("Person", name="a"), mode="overwrite"), times=1)

    with pytest.raises(IntegrityError, match="'b' not found in Person"):
        graph.mutate(query('insert Knows { from: "a", to: "b" }'))

    require_full_view(graph, tmp_path)


def test_an_edge_beyond_a_maximum_reached_concurrently_is_refused(tmp_path: Path) -> None:
    build_graph(
        tmp_path,
        "node U { n: String @key } edge Sits: U -> U @card(0..1)",
        node("U", n="a"),
        node("U", n="b"),
    )
    graph, _ = open_interrupted(tmp_path, mutate('insert Sits { from: "a", to: "a" }'), times=1)

    with pytest.raises(IntegrityError, match="has 2 edges"):
        graph.mutate(query('insert Sits { from: "a", to: "b" }'))

    assert ends(graph, "Sits") == [("a", "a")]
    require_full_view(graph, tmp_path)


def test_a_unique_value_taken_concurrently_is_refused(tmp_path: Path) -> None:
    build_graph(tmp_path, "node Note { text: String @unique }")
    graph, _ = open_interrupted(tmp_path, mutate('insert Note { text: "t" }'), times=1)

    with pytest.raises(IntegrityError, match="@unique violation"):
        graph.mutate(query('insert Note { text: "t" }'))

    assert [row["text"] for row in rows(graph, "Note").values()] == ["t"]
    require_full_view(graph, tmp_path)


def test_an_insert_that_is_overtaken_is_prepared_again(tmp_path: Path) -> None:
    social_graph(tmp_path)
    other = mutate('insert Knows { from: "Diana", to: "Alice" }')
    graph, runtime = open_interrupted(tmp_path, other, times=1)

    result = graph.mutate(query('insert Knows { from: "Diana", to: "Bob" }'))

    assert result.affected_edges == 1
    added = [pair for pair in ends(graph, "Knows") if pair[0] == "Diana"]
    assert added == [("Diana", "Alice"), ("Diana", "Bob")]
    assert runtime.interruptions >= 2
    require_full_view(graph, tmp_path)


def test_b02_an_update_of_rows_that_moved_is_refused_and_not_repeated(tmp_path: Path) -> None:
    social_graph(tmp_path)
    other = mutate('update Person set { age: 99 } where name = "Alice"')
    graph, runtime = open_interrupted(tmp_path, other, times=1)
    before = pins(graph)["node:Person"]

    with pytest.raises(ExpectedVersionMismatchError, match="refresh and retry") as moved:
        graph.mutate(
            query(
                "update Person set { age: 1 } where age < 50"
                ' insert Knows { from: "Diana", to: "Alice" }'
            )
        )

    error = moved.value
    assert (error.table_key, error.expected, error.actual) == ("node:Person", before, before + 1)
    assert runtime.interruptions == 1
    assert values(graph, "Person", "age") == {"Alice": 99, "Bob": 25, "Charlie": 35, "Diana": 28}
    assert ("Diana", "Alice") not in ends(graph, "Knows")
    require_full_view(graph, tmp_path)


def test_a_write_that_depends_on_nothing_changed_meanwhile_is_rebased(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path)
    other = mutate('insert Company { name: "Initech" }')
    graph, _ = open_interrupted(tmp_path, other, times=1)

    graph.mutate(query('insert Knows { from: "Diana", to: "Bob" }'))

    assert "Initech" in rows(graph, "Company")
    assert ("Diana", "Bob") in ends(graph, "Knows")
    require_full_view(graph, tmp_path)


def test_a_write_with_an_expected_commit_is_refused_after_any_other_write(tmp_path: Path) -> None:
    social_graph(tmp_path)
    other = mutate('insert Company { name: "Initech" }')
    seen: Contents = contents(omnigraph.open(str(tmp_path), read_only=True))
    graph, _ = open_interrupted(tmp_path, other, times=1)

    with pytest.raises(MovedError) as refused:
        graph.mutate(query('insert Knows { from: "Diana", to: "Bob" }'), if_commit=graph.head())

    assert refused.value.code == "precondition_failed"
    assert rows(graph, "Knows") == seen["Knows"]
    require_full_view(graph, tmp_path)


def test_a_write_overtaken_by_a_schema_change_lands_under_the_new_schema(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path)
    wider = f"{SOCIAL}\nnode Pet {{ name: String @key }}"
    graph, _ = open_interrupted(tmp_path, lambda other: other.apply_schema(wider), times=1)

    graph.mutate(query('insert Knows { from: "Diana", to: "Bob" }'))

    *_, before, applied, written = (commit.schema_hash for commit in graph.commits())
    assert before != applied == written
    assert ("Diana", "Bob") in ends(graph, "Knows")
    assert "node:Pet" in omnigraph.open(str(tmp_path)).tables()
    require_full_view(graph, tmp_path)
