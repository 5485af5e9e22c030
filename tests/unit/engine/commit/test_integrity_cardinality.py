"""`@card`: sources that a write mentions end up within their bounds."""

from collections.abc import Mapping

import pytest

from omnigraph.engine.commit.integrity.evaluate import find_violations
from omnigraph.model.catalog import Catalog
from omnigraph.model.errors import Violation
from tests.support.committed_rows import (
    Row,
    Write,
    change_set,
    committed_tables,
    messages_of,
    violations_of,
)
from tests.support.schemas import compile_text

PEOPLE: list[Row] = [{"id": name} for name in ("ann", "bob")]
DESKS: list[Row] = [{"id": name} for name in ("d1", "d2", "d3")]


def seating(bounds: str) -> Catalog:
    return compile_text(
        f"node Person {{}} node Desk {{}} edge Sits: Person -> Desk @card({bounds})"
    )


def sits(id: str, src: str, dst: str = "d1") -> Row:
    return {"id": id, "src": src, "dst": dst}


def committed(*edges: Row) -> Mapping[str, list[Row]]:
    return {"Person": PEOPLE, "Desk": DESKS, "Sits": list(edges)}


def test_too_many_edges_of_a_source_are_refused() -> None:
    write = {"Sits": Write([sits("s1", "ann"), sits("s2", "ann", "d2")])}

    found = violations_of(seating("0..1"), write, committed=committed())

    message = "@card violation on edge Sits: source 'ann' has 2 edges (max 1)"
    assert found == (Violation("Sits", "ann", "cardinality", None, 2, message),)


def test_committed_edges_count() -> None:
    write = {"Sits": Write([sits("s2", "ann", "d2")])}

    assert messages_of(seating("0..1"), write, committed=committed(sits("s1", "ann"))) == [
        "@card violation on edge Sits: source 'ann' has 2 edges (max 1)"
    ]


@pytest.mark.parametrize(
    "write",
    [
        Write([sits("s1", "ann", "d2")]),
        Write([sits("s2", "ann")], removed=["s1"]),
        Write([sits("s2", "ann"), sits("s1", "bob")]),
        Write([sits("s2", "ann")], is_overwrite=True),
    ],
)
def test_an_edge_that_is_replaced_removed_or_moved_no_longer_counts(write: Write) -> None:
    before = committed(sits("s1", "ann"))

    assert messages_of(seating("0..1"), {"Sits": write}, committed=before) == []


def test_a_minimum_is_reached_by_the_whole_write() -> None:
    one = Write([sits("s1", "ann")])
    two = Write([sits("s1", "ann"), sits("s2", "ann", "d2")])

    assert messages_of(seating("2.."), {"Sits": one}, committed=committed()) == [
        "@card violation on edge Sits: source 'ann' has 1 edges (min 2)"
    ]
    assert messages_of(seating("2.."), {"Sits": two}, committed=committed()) == []
    assert messages_of(seating("2.."), {"Sits": one}, committed=committed(sits("s0", "ann"))) == []


def test_a_source_that_is_never_mentioned_is_not_checked() -> None:
    write = {"Person": Write([{"id": "eve"}]), "Sits": Write([sits("s1", "ann")])}

    assert messages_of(seating("1.."), write, committed=committed()) == []


@pytest.mark.parametrize(
    "write",
    [
        Write(removed=["s1"]),
        Write([sits("s1", "bob")]),
        Write([], is_overwrite=True),
        Write([sits("s2", "bob")], is_overwrite=True),
    ],
)
def test_a_source_that_lost_its_edges_is_held_to_the_minimum(write: Write) -> None:
    before = committed(sits("s1", "ann"))

    assert messages_of(seating("1.."), {"Sits": write}, committed=before) == [
        "@card violation on edge Sits: source 'ann' has 0 edges (min 1)"
    ]


@pytest.mark.parametrize(
    ("people", "edges"),
    [
        (Write(removed=["ann"]), Write(removed=["s1"])),
        (Write([{"id": "bob"}], is_overwrite=True), Write([], is_overwrite=True)),
        (Write(removed=["ann"]), Write([sits("s1", "bob")])),
    ],
)
def test_a_source_that_goes_itself_owes_nothing(people: Write, edges: Write) -> None:
    before = committed(sits("s1", "ann"))

    assert messages_of(seating("1.."), {"Person": people, "Sits": edges}, committed=before) == []


def test_a_node_that_is_removed_at_the_other_end_counts_for_the_source() -> None:
    write = {"Desk": Write(removed=["d1"]), "Sits": Write(removed=["s1"])}

    assert messages_of(seating("1.."), write, committed=committed(sits("s1", "ann"))) == [
        "@card violation on edge Sits: source 'ann' has 0 edges (min 1)"
    ]


def test_a_source_above_its_maximum_may_lose_edges() -> None:
    before = committed(*(sits(f"s{number}", "ann") for number in range(5)))

    assert messages_of(seating("1..2"), {"Sits": Write(removed=["s0"])}, committed=before) == []


def test_sources_are_reported_in_the_order_of_their_ids() -> None:
    write = {"Sits": Write([sits("s1", "bob"), sits("s2", "ann")])}

    found = violations_of(seating("2..3"), write, committed=committed())

    assert [each.id for each in found] == ["ann", "bob"]


def test_an_edge_type_without_bounds_asks_for_no_edges() -> None:
    catalog = compile_text("node Person {} node Desk {} edge Sits: Person -> Desk")
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(
        change_set(catalog, {"Sits": Write([sits("s2", "ann")], removed=["s1"])}),
        catalog=catalog,
        committed=tables,
    )

    assert ("find_rows", "edge:Sits") not in tables.asked


@pytest.mark.parametrize(
    ("bounds", "write", "asked"),
    [
        ("0..1", Write([sits("s2", "bob")]), ["find_rows"]),
        ("0..1", Write(removed=["s1"]), []),
        ("0..1", Write([sits("s2", "ann")], is_overwrite=True), []),
        ("1..1", Write([sits("s2", "ann")], is_overwrite=True), ["scan"]),
        ("1..1", Write(removed=["s1"]), ["find_rows", "find_rows"]),
    ],
)
def test_edges_are_asked_for_only_where_they_can_break_a_bound(
    bounds: str, write: Write, asked: list[str]
) -> None:
    catalog = seating(bounds)
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(change_set(catalog, {"Sits": write}), catalog=catalog, committed=tables)

    assert [call for call, table in tables.asked if table == "edge:Sits"] == asked


def test_a_minimum_that_the_write_reaches_alone_asks_for_no_other_edges() -> None:
    catalog = seating("1..")
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(
        change_set(catalog, {"Sits": Write([sits("s2", "ann")])}), catalog=catalog, committed=tables
    )

    assert ("find_rows", "edge:Sits") not in tables.asked
