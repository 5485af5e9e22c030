"""A restricted caller may add rows, and learns nothing of hidden rows by writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    CompileError,
    ForbiddenError,
    IntegrityError,
    KeyConflictError,
    MergeConflictError,
)
from omnigraph.model.ports import TypeView
from tests.support.graphs import build_graph, contents, edge, ndjson, node
from tests.support.restricted_graphs import RED, SCHEMA, UNPAID, team_graph
from tests.support.views import TypeViews, see_as_reader

REFUSED: tuple[Callable[[Graph], object], ...] = (
    lambda graph: graph.mutate('query m() { update Person set { team: "x" } where name = "ann" }'),
    lambda graph: graph.mutate('query m() { delete Person where name = "bob" }'),
    lambda graph: graph.load(ndjson(node("Desk", tag="d2")), mode="merge"),
    lambda graph: graph.load(ndjson(node("Desk", tag="d2")), mode="overwrite"),
    lambda graph: graph.load(ndjson(node("Desk", tag="d2")), mode="merge", branch="n", base="main"),
    lambda graph: graph.bulk(mode="merge"),
    lambda graph: graph.bulk(mode="append", on_error="quarantine", quarantine="/nowhere"),
    lambda graph: graph.merge("main", into="other"),
    lambda graph: graph.merge("main", into="other", dry_run=True),
    lambda graph: graph.revert(graph.head()),
    lambda graph: graph.cherry_pick(graph.head(), onto="other"),
    lambda graph: graph.embed("Person"),
    lambda graph: graph.algorithms("Knows").degrees().write_property("pay"),
    lambda graph: graph.apply_schema(SCHEMA),
    lambda graph: graph.plan_schema(SCHEMA),
    lambda graph: graph.doctor(),
    lambda graph: graph.optimize(),
    lambda graph: graph.ensure_indices(),
    lambda graph: graph.explain(
        "query q() { match { $d: Desk } return { $d } }", params={}, engine="spark"
    ),
    lambda graph: graph.diff("main", "other", engine="spark"),
    lambda graph: graph.export_files("/nowhere", engine="spark"),
    lambda graph: graph.spark_views(),
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
@pytest.mark.parametrize("types", [RED, UNPAID], ids=["rows", "properties"])
def test_a_call_that_would_read_hidden_rows_is_refused(
    number: int, types: TypeViews, tmp_path: Path
) -> None:
    graph = team_graph(tmp_path)
    graph.create_branch("other")
    restricted = see_as_reader(graph, types)
    before = contents(graph)

    with pytest.raises(ForbiddenError):
        REFUSED[number](restricted)

    assert contents(graph) == before


def test_new_rows_may_be_inserted_and_loaded(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)

    restricted.mutate('query m() { insert Person { name: "eve", team: "blue" } }')
    restricted.load(ndjson(node("Desk", tag="d2")), mode="append")

    assert restricted.entity("Person", "eve") is None
    assert graph.entity("Person", "eve") is not None
    assert restricted.entity("Desk", "d2") is not None


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_an_insert_does_not_replace_a_hidden_row(name: str, tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)
    before = contents(graph)

    with pytest.raises(KeyConflictError):
        restricted.mutate(f'query m() {{ insert Person {{ name: "{name}", pay: 1 }} }}')
    with pytest.raises(KeyConflictError):
        restricted.load(ndjson(node("Person", name=name)), mode="append")

    assert contents(graph) == before


def test_an_insert_that_names_a_hidden_property_does_not_compile(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), UNPAID)

    with pytest.raises(CompileError):
        restricted.mutate('query m() { insert Person { name: "eve", pay: 1 } }')


def test_a_transaction_sees_what_its_branch_shows(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)

    with restricted.transaction() as tx:
        tx.mutate('query m() { insert Person { name: "eve", team: "red" } }')
        found = tx.query("query q() { match { $p: Person } return { $p.name as name } }").rows

    assert [row["name"] for row in found] == ["ann", "cat", "eve"]
    assert graph.entity("Person", "eve") is not None


def test_a_conflict_at_the_end_of_a_transaction_shows_no_row_of_others(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)

    def meet() -> None:
        with restricted.transaction() as tx:
            tx.mutate('query m() { insert Person { name: "eve", pay: 1 } }')
            graph.mutate('query m() { insert Person { name: "eve", pay: 2 } }')

    with pytest.raises(MergeConflictError) as found:
        meet()

    (conflict,) = found.value.conflicts
    assert (conflict.id, conflict.base, conflict.target) == ("eve", None, None)


def test_a_violation_does_not_reveal_hidden_rows(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Person { name: String @key  mail: String? @unique } "
        "edge Leads: Person -> Person @card(0..1)",
        node("Person", name="ann", mail="a@x"),
        node("Person", name="bob", mail="b@x"),
        edge("Leads", "ann", "bob"),
    )
    restricted = see_as_reader(graph, {"Person": TypeView(('name = "ann"',), frozenset())})
    again = node("Person", name="eve", mail="b@x")

    with pytest.raises(IntegrityError) as shared:
        restricted.load(ndjson(again), mode="append")
    with pytest.raises(IntegrityError) as counted:
        restricted.mutate('query m() { insert Leads { from: "ann", to: "ann" } }')

    assert "bob" not in str(shared.value)
    assert "2" not in str(counted.value)
    assert counted.value.violations[0].value is None


def test_the_history_does_not_reveal_resolved_hidden_rows(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    graph.create_branch("other")
    graph.mutate('query m() { update Person set { pay: 1 } where name = "bob" }')
    graph.mutate('query m() { update Person set { pay: 2 } where name = "bob" }', branch="other")
    merged = graph.merge("other", resolve={("Person", "bob"): "source"}).commit_id
    assert merged is not None
    restricted = see_as_reader(graph, RED)

    (fed,) = (each.commit for each in restricted.changes("beginning") if each.commit.id == merged)
    (listed,) = (each for each in restricted.commits() if each.id == merged)

    assert graph.commit(merged).notes.resolutions
    for commit in (fed, listed, restricted.commit(merged)):
        assert not commit.notes.resolutions
