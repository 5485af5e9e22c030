"""Endpoints: no edge is left without its nodes, whoever wrote the edge."""

import pytest

from omnigraph.engine.commit.integrity.evaluate import find_violations
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


def test_all_edges_of_a_write_ask_once_for_each_node_type() -> None:
    committed = committed_tables(CATALOG, COMMITTED)
    write = {
        "Knows": Write([edge("k2", "bob", "ann")]),
        "WorksAt": Write([edge("w2", "ann", "acme")]),
    }

    find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert committed.asked == [("find_ids", "node:Person"), ("find_ids", "node:Company")]


def test_an_overwrite_of_nodes_and_edges_asks_nothing() -> None:
    committed = committed_tables(CATALOG, {"Person": [node("ann")], "Knows": COMMITTED["Knows"]})
    write = {
        "Person": Write([node("eve")], is_overwrite=True),
        "Knows": Write([edge("k2", "eve", "eve"), edge("k3", "ann", "eve")], is_overwrite=True),
    }

    found = find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert [each.id for each in found.found] == ["k3"]
    assert committed.asked == []


def test_putting_nodes_asks_nothing_about_edges() -> None:
    committed = committed_tables(CATALOG, COMMITTED)
    write = {"Person": Write([node("ann"), node("eve")])}

    find_violations(change_set(CATALOG, write), catalog=CATALOG, committed=committed)

    assert committed.asked == []
