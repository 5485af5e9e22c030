"""Optimizing: fewer files, indexes that cover every row, the same results, one commit."""

from pathlib import Path
from threading import Thread

import lance
import pytest

from omnigraph import Graph
from omnigraph.errors import ForbiddenError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import (
    build_graph,
    contents,
    edge,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    social_graph,
)
from tests.support.queries import query
from tests.support.sweeps import files_untouched, open_plain

SCHEMA = """
node Person { name: String @key  age: I64? @index  face: Vector(2)? @index  photo: Blob? }
edge Knows: Person -> Person
"""


def worn_graph(root: Path, *, commits: int = 12) -> Graph:
    """People added one by one, some updated or deleted since."""
    graph = build_graph(root, SCHEMA)
    for number in range(commits):
        rows = [node("Person", name=f"p{number}", age=number, photo="base64:aGk=")]
        rows += [edge("Knows", f"p{number - 1}", f"p{number}")] if number else []
        graph.load(ndjson(*rows), mode="append")
    graph.mutate(query('update Person set { age: 99 } where name = "p1"'))
    graph.mutate(query('delete Person where name = "p2"'))
    return graph


def fragments(graph: Graph, table_key: str) -> int:
    """The number of data files of a type."""
    table = graph.tables()[table_key]
    return len(lance.dataset(table.path, version=table.version).get_fragments())


def test_many_small_files_become_one_by_one_commit(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    rows, commits = contents(graph), len(graph.commits())

    reports = {each.type: each for each in graph.optimize()}

    assert contents(graph) == rows
    assert len(graph.commits()) == commits + 1
    assert graph.commits()[-1].actor == "omnigraph:optimize"
    assert fragments(graph, "node:Person") == fragments(graph, "edge:Knows") == 1
    assert reports["Person"].fragments_removed > 10
    assert (reports["Person"].fragments_added, reports["Person"].committed) == (1, True)
    assert pins(graph) == head_versions(tmp_path / "graph")


def test_a_well_compacted_table_is_not_rewritten(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    graph.optimize()

    with files_untouched(tmp_path / "graph"):
        again = graph.optimize()

    assert not any(each.committed or each.fragments_removed for each in again)


def test_an_empty_graph_is_reported_and_not_changed(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)

    reports = graph.optimize()

    assert [(each.type, each.committed, each.skipped) for each in reports] == [
        ("Person", False, None),
        ("Knows", False, None),
    ]
    assert len(graph.commits()) == 1


def test_indexes_know_every_row_afterwards(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph", commits=3)
    graph.ensure_indices()
    graph.load(ndjson(node("Person", name="late", age=5)), mode="append")
    assert any(
        each.rows_covered < each.rows for each in graph.ensure_indices() if each.type == "Person"
    )

    graph.optimize()

    covered = [each for each in graph.ensure_indices() if each.pending_reason is None]
    assert all(each.rows_covered == each.rows for each in covered)
    assert not any(each.is_built for each in covered)


def test_an_index_of_vectors_waits_for_the_first_vector(tmp_path: Path) -> None:
    graph = build_graph(tmp_path / "graph", SCHEMA)
    graph.load(ndjson(node("Person", name="ann")), mode="append")

    before = {each.type: each.pending_indexes for each in graph.optimize()}["Person"]
    graph.load(ndjson(node("Person", name="bob", face=[1.0, 2.0])), mode="append")
    after = {each.type: each.pending_indexes for each in graph.optimize()}["Person"]

    assert [each.column for each in before] == ["face"]
    assert "value" in before[0].reason
    assert after == ()


@pytest.mark.parametrize(
    "change",
    ['insert Person { name: "eve", age: 1 }', 'delete Person where name = "p3"'],
    ids=["insert", "delete"],
)
def test_a_concurrent_write_and_the_compaction_both_survive(tmp_path: Path, change: str) -> None:
    worn_graph(tmp_path / "graph")
    failpoints = Failpoints()
    graph, other = open_with(tmp_path / "graph", failpoints), open_plain(tmp_path / "graph")

    with failpoints.activate(Failpoint.OPTIMIZE_BEFORE_COMPACT, Park(timeout_s=60)) as parked:
        optimizing = Thread(target=graph.optimize)
        optimizing.start()
        parked.wait_for_arrival()
        other.mutate(query(change))
        rows = contents(other)
        parked.release()
        optimizing.join()

    assert contents(open_plain(tmp_path / "graph")) == rows
    assert fragments(other, "node:Person") == 1
    assert pins(other) == head_versions(tmp_path / "graph")


def test_a_branch_has_its_own_tables_laid_out_and_no_others(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    graph.create_branch("draft")
    for number in range(3):
        graph.load(ndjson(node("Person", name=f"new{number}")), mode="append", branch="draft")
    main, rows = pins(graph), contents(graph, "draft")

    skipped = {each.type: each.skipped for each in graph.optimize(branch="draft")}

    assert skipped == {"Person": None, "Knows": "inherited_from_another_branch"}
    assert contents(graph, "draft") == rows
    assert pins(graph) == main


def test_a_table_that_others_wrote_to_is_left_for_repair(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    path = graph.tables()["node:Person"].path
    lance.dataset(path).delete("name = 'p5'")

    skipped = {each.type: each.skipped for each in graph.optimize()}

    assert skipped == {"Person": "drift_needs_repair", "Knows": None}


def test_differences_and_feeds_over_an_optimization_are_those_of_rows(tmp_path: Path) -> None:
    graph = worn_graph(tmp_path / "graph")
    before = graph.head()

    graph.optimize()
    graph.mutate(query('insert Person { name: "eve" }'))

    assert [(each.op, each.id) for each in graph.diff(before, "main")] == [("insert", "eve")]
    changed = [
        change.id for commit in graph.changes(f"after:{before}") for change in commit.changes
    ]
    assert changed == ["eve"]


def test_a_graph_opened_for_reading_is_not_optimized(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")

    with pytest.raises(ForbiddenError):
        open_plain(tmp_path / "graph", is_read_only=True).optimize()
