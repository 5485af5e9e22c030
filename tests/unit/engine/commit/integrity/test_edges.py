"""Endpoints, cardinality."""

from collections.abc import Mapping

import pytest

from omnigraph.engine.commit.integrity.check import find_violations
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
        "@card violation on edge Sits: source 'ann' has 1 edge (min 2)"
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
def test_a_deleted_source_needs_no_edges(people: Write, edges: Write) -> None:
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


def test_an_edge_type_without_bounds_reads_no_edges() -> None:
    catalog = compile_text("node Person {} node Desk {} edge Sits: Person -> Desk")
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(
        change_set(catalog, {"Sits": Write([sits("s2", "ann")], removed=["s1"])}),
        catalog=catalog,
        committed=tables,
    )

    assert ("find_rows", "edge:Sits") not in tables.requested


@pytest.mark.parametrize(
    ("bounds", "write", "requested"),
    [
        ("0..1", Write([sits("s2", "bob")]), ["find_rows"]),
        ("0..1", Write(removed=["s1"]), []),
        ("0..1", Write([sits("s2", "ann")], is_overwrite=True), []),
        ("1..1", Write([sits("s2", "ann")], is_overwrite=True), ["scan"]),
        ("1..1", Write(removed=["s1"]), ["find_rows", "find_rows"]),
    ],
)
def test_edges_are_read_only_where_they_can_break_a_bound(
    bounds: str, write: Write, requested: list[str]
) -> None:
    catalog = seating(bounds)
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(change_set(catalog, {"Sits": write}), catalog=catalog, committed=tables)

    assert [call for call, table in tables.requested if table == "edge:Sits"] == requested


def test_a_minimum_that_the_write_reaches_alone_reads_no_other_edges() -> None:
    catalog = seating("1..")
    tables = committed_tables(catalog, committed(sits("s1", "ann")))

    find_violations(
        change_set(catalog, {"Sits": Write([sits("s2", "ann")])}), catalog=catalog, committed=tables
    )

    assert ("find_rows", "edge:Sits") not in tables.requested


CATALOG = compile_text(
    """
    node Person { name: String @key }
    node Company { name: String @key }
    edge Knows: Person -> Person
    edge WorksAt: Person -> Company
    """
)


def node(name: str) -> Row:
    return {"id": name, "name": name}


def edge(id: str, src: str, dst: str) -> Row:
    return {"id": id, "src": src, "dst": dst}


COMMITTED = {
    "Person": [node("ann"), node("bob")],
    "Company": [node("acme")],
    "Knows": [edge("k1", "ann", "bob")],
    "WorksAt": [edge("w1", "bob", "acme")],
}


def test_an_edge_to_a_missing_node_names_the_node_and_its_type() -> None:
    write = {"WorksAt": Write([edge("w2", "ann", "globex")])}

    found = violations_of(CATALOG, write, committed=COMMITTED)

    message = "edge WorksAt 'w2': dst 'globex' not found in Company"
    assert found == (Violation("WorksAt", "w2", "endpoint", "dst", "globex", message),)


def test_both_ends_are_checked() -> None:
    assert messages_of(CATALOG, {"Knows": Write([edge("k2", "x", "y")])}, committed=COMMITTED) == [
        "edge Knows 'k2': src 'x' not found in Person",
        "edge Knows 'k2': dst 'y' not found in Person",
    ]


def test_a_node_of_the_same_write_counts() -> None:
    write = {"Person": Write([node("eve")]), "Knows": Write([edge("k2", "eve", "ann")])}

    assert messages_of(CATALOG, write, committed=COMMITTED) == []


def test_an_id_of_another_type_does_not_count() -> None:
    write = {"WorksAt": Write([edge("w2", "ann", "bob")])}

    assert messages_of(CATALOG, write, committed=COMMITTED) == [
        "edge WorksAt 'w2': dst 'bob' not found in Company"
    ]


def test_an_edge_cannot_point_at_what_the_write_removes() -> None:
    write = {
        "Person": Write(removed=["ann"]),
        "Knows": Write([edge("k2", "bob", "ann")], removed=["k1"]),
    }

    assert messages_of(CATALOG, write, committed=COMMITTED) == [
        "edge Knows 'k2': dst 'ann' not found in Person"
    ]


def test_an_edge_cannot_point_at_what_an_overwrite_drops() -> None:
    write = {
        "Company": Write([node("globex")], is_overwrite=True),
        "WorksAt": Write([edge("w2", "ann", "acme")], is_overwrite=True),
    }

    assert messages_of(CATALOG, write, committed=COMMITTED) == [
        "edge WorksAt 'w2': dst 'acme' not found in Company"
    ]


def test_a_removed_node_takes_no_edge_by_surprise() -> None:
    found = violations_of(CATALOG, {"Person": Write(removed=["bob"])}, committed=COMMITTED)

    assert [(each.type, each.id, each.rule, each.property, each.value) for each in found] == [
        ("Knows", "k1", "endpoint", "dst", "bob"),
        ("WorksAt", "w1", "endpoint", "src", "bob"),
    ]
    assert found[0].message == "the untouched edge Knows 'k1': dst 'bob' not found in Person"


@pytest.mark.parametrize(
    "knows",
    [
        Write(removed=["k1"]),
        Write([edge("k1", "ann", "ann")]),
        Write([], is_overwrite=True),
    ],
)
def test_an_edge_that_the_write_removes_or_moves_is_not_left_behind(knows: Write) -> None:
    write = {"Person": Write(removed=["bob"]), "Knows": knows, "WorksAt": Write(removed=["w1"])}

    assert messages_of(CATALOG, write, committed=COMMITTED) == []


def test_an_overwrite_that_drops_a_node_with_edges_is_refused() -> None:
    write = {"Person": Write([node("ann")], is_overwrite=True)}

    assert messages_of(CATALOG, write, committed=COMMITTED) == [
        "the untouched edge Knows 'k1': dst 'bob' not found in Person",
        "the untouched edge WorksAt 'w1': src 'bob' not found in Person",
    ]


def test_an_overwrite_that_keeps_every_end_is_accepted() -> None:
    write = {"Person": Write([node("bob"), node("ann"), node("eve")], is_overwrite=True)}

    assert messages_of(CATALOG, write, committed=COMMITTED) == []


def test_a_loop_is_reported_at_both_ends() -> None:
    committed = {"Person": [node("ann")], "Knows": [edge("k1", "ann", "ann")]}

    found = violations_of(CATALOG, {"Person": Write(removed=["ann"])}, committed=committed)

    assert [each.property for each in found] == ["src", "dst"]


def test_all_edges_of_a_write_read_each_node_type_once() -> None:
    committed = committed_tables(CATALOG, COMMITTED)
    write = {
        "Knows": Write([edge("k2", "bob", "ann")]),
        "WorksAt": Write([edge("w2", "ann", "acme")]),
    }

    find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert committed.requested == [("find_ids", "node:Person"), ("find_ids", "node:Company")]


def test_an_overwrite_of_nodes_and_edges_reads_nothing() -> None:
    committed = committed_tables(CATALOG, {"Person": [node("ann")], "Knows": COMMITTED["Knows"]})
    write = {
        "Person": Write([node("eve")], is_overwrite=True),
        "Knows": Write([edge("k2", "eve", "eve"), edge("k3", "ann", "eve")], is_overwrite=True),
    }

    found = find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert [each.id for each in found.found] == ["k3"]
    assert committed.requested == []


def test_putting_nodes_reads_no_edges() -> None:
    committed = committed_tables(CATALOG, COMMITTED)
    write = {"Person": Write([node("ann"), node("eve")])}

    find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert committed.requested == []
