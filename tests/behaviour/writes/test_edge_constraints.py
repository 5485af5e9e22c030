"""Rules of edges: both ends exist, the cardinality of a source holds, and no edge is left dangling.

The rules apply to the result of a write: mutations, loads of every mode and cascades alike.
"""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import IntegrityError, KeyConflictError
from tests.support.graphs import (
    HUB,
    SOCIAL,
    build_graph,
    edge,
    ends,
    hub_graph,
    node,
    rows,
    social_graph,
    unchanged,
)
from tests.support.writes import (
    Case,
    Refusal,
    load,
    mutate,
    name_of,
    require_accepted,
    require_refused,
)


def sits(cardinality: str) -> str:
    return f"node U {{ n: String @key }} edge Sits: U -> U @card({cardinality})"


A, B, C, D = (node("U", n=name) for name in "abcd")
A_SITS_AT_B = (A, B, edge("Sits", "a", "b", id="e"))
ANN = node("User", name="ann", role="admin")
D1, D2 = node("Desk", tag="d1"), node("Desk", tag="d2")
AT_D1 = edge("Sits", "ann", "d1", id="e1")
ONCE = "node U { n: String @key } edge E: U -> U { k: enum(a, b)?  @unique(src, dst) }"
TWO_SEATS = Refusal("@card violation on edge Sits: source 'ann' has 2 edges (max 1)", "Sits", None)


def too_few(count: int, minimum: int) -> Refusal:
    edges = "1 edge" if count == 1 else f"{count} edges"
    problem = f"@card violation on edge Sits: source 'a' has {edges} (min {minimum})"
    return Refusal(problem, "Sits", None)


REFUSED = [
    (
        Case("H13 load", HUB, (ANN, D1, D2), load(AT_D1, edge("Sits", "ann", "d2"))),
        TWO_SEATS,
    ),
    (
        Case("H13 D08 second load", HUB, (ANN, D1, D2, AT_D1), load(edge("Sits", "ann", "d2"))),
        TWO_SEATS,
    ),
    (
        Case(
            "H13 insert",
            HUB,
            (ANN, D1, D2, AT_D1),
            mutate('insert Sits { from: "ann", to: "d2" }'),
        ),
        TWO_SEATS,
    ),
    (
        Case(
            "H13 two inserts",
            HUB,
            (ANN, D1),
            mutate('insert Sits { from: "ann", to: "d1" } insert Sits { from: "ann", to: "d1" }'),
        ),
        TWO_SEATS,
    ),
    (
        Case("H16 alone", sits("2.."), (A, B), mutate('insert Sits { from: "a", to: "b" }')),
        too_few(1, 2),
    ),
    (Case("H17", sits("1.."), A_SITS_AT_B, mutate('delete Sits where from = "a"')), too_few(0, 1)),
    (
        Case("H17 cascade", sits("1.."), A_SITS_AT_B, mutate('delete U where n = "b"')),
        too_few(0, 1),
    ),
    (
        Case(
            "H17 overwrite",
            sits("1.."),
            A_SITS_AT_B,
            load(edge("Sits", "b", "a"), mode="overwrite"),
        ),
        too_few(0, 1),
    ),
    (
        Case(
            "H17 an edge that moves",
            sits("1.."),
            A_SITS_AT_B,
            load(edge("Sits", "b", "a", id="e"), mode="merge"),
        ),
        too_few(0, 1),
    ),
    (
        Case(
            "one of two",
            sits("2..3"),
            (A, B, C, edge("Sits", "a", "b"), edge("Sits", "a", "c")),
            mutate('delete U where n = "c"'),
        ),
        too_few(1, 2),
    ),
    (
        Case("enum", ONCE, (A, B), load(edge("E", "a", "b", k="c"))),
        Refusal("invalid enum value 'c' for E.k", "E", "k"),
    ),
    (
        Case(
            "unique ends",
            ONCE,
            (A, B, edge("E", "a", "b")),
            mutate('insert E { from: "a", to: "b" }'),
        ),
        Refusal("@unique violation on E.(dst, src)", "E", None),
    ),
    (
        Case(
            "load without its end",
            SOCIAL,
            (node("Person", name="a"),),
            load(edge("Knows", "a", "b")),
        ),
        Refusal("dst 'b' not found in Person", "Knows", "dst"),
    ),
    (
        Case(
            "D05 overwrite leaves an end behind",
            SOCIAL,
            (node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b")),
            load(node("Person", name="a"), mode="overwrite"),
        ),
        Refusal("dst 'b' not found in Person", "Knows", "dst"),
    ),
]

ACCEPTED = [
    Case("H14", sits("1.."), (), load(A)),
    Case(
        "H16",
        sits("2.."),
        (A, B, C),
        mutate('insert Sits { from: "a", to: "b" } insert Sits { from: "a", to: "c" }'),
    ),
    Case("H17 the source goes", sits("1.."), A_SITS_AT_B, mutate('delete U where n = "a"')),
    Case(
        "H17 both go",
        sits("1.."),
        A_SITS_AT_B,
        mutate('delete U where n = "b" delete U where n = "a"'),
    ),
    Case(
        "H17 the edge that goes is replaced",
        sits("1.."),
        A_SITS_AT_B,
        load(edge("Sits", "a", "a"), mode="overwrite"),
    ),
    Case(
        "D07 an edge that replaces itself",
        HUB,
        (ANN, D1, D2, AT_D1),
        load(edge("Sits", "ann", "d2", id="e1"), mode="merge"),
    ),
    Case(
        "an overwrite counts what it brings",
        HUB,
        (ANN, D1, D2, AT_D1),
        load(edge("Sits", "ann", "d2"), mode="overwrite"),
    ),
    Case(
        "edges that differ at one end",
        ONCE,
        (A, B, C),
        load(edge("E", "a", "b"), edge("E", "a", "c"), edge("E", "b", "a")),
    ),
    Case(
        "a load brings an edge before its ends",
        SOCIAL,
        (),
        load(edge("Knows", "a", "b"), node("Person", name="b"), node("Person", name="a")),
    ),
    Case(
        "an overwrite of both ends and edges",
        SOCIAL,
        (node("Person", name="a"), edge("Knows", "a", "a")),
        load(node("Person", name="b"), edge("Knows", "b", "b"), mode="overwrite"),
    ),
]


@pytest.mark.parametrize(("case", "refusal"), REFUSED, ids=name_of)
def test_a_write_that_breaks_a_rule_of_edges_is_refused_and_changes_nothing(
    tmp_path: Path, case: Case, refusal: Refusal
) -> None:
    require_refused(tmp_path, case, refusal)


@pytest.mark.parametrize("case", ACCEPTED, ids=name_of)
def test_a_write_that_keeps_the_rules_of_edges_lands(tmp_path: Path, case: Case) -> None:
    require_accepted(tmp_path, case)


def test_h13_after_a_refused_write_the_next_one_works(tmp_path: Path) -> None:
    graph = hub_graph(tmp_path)
    with pytest.raises(IntegrityError, match="@card violation"):
        load(edge("Sits", "ann", "d1"), edge("Sits", "ann", "d2"))(graph)

    load(edge("Sits", "ann", "d2"))(graph)

    assert ends(graph, "Sits") == [("ann", "d2")]


def test_a_source_node_that_no_write_names_is_not_checked(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, sits("1.."), A, B, C, D)

    mutate('insert Sits { from: "a", to: "b" }')(graph)

    assert sorted(rows(graph, "U")) == ["a", "b", "c", "d"]


def test_d10_cardinality_counts_what_another_graph_just_wrote(tmp_path: Path) -> None:
    first = hub_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))
    mutate('insert Sits { from: "ann", to: "d1" }')(second)

    with unchanged(first), pytest.raises(IntegrityError, match="@card violation"):
        mutate('insert Sits { from: "ann", to: "d2" }')(first)


def test_d16_uniqueness_counts_what_another_graph_just_wrote(tmp_path: Path) -> None:
    first = hub_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))
    mutate('insert User { name: "x", role: "guest", email: "x@x" }')(second)

    with unchanged(first), pytest.raises(IntegrityError, match="@unique violation"):
        mutate('insert User { name: "y", role: "guest", email: "x@x" }')(first)


def test_an_endpoint_deleted_by_another_graph_is_missing(tmp_path: Path) -> None:
    first = social_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))
    mutate('delete Person where name = "Diana"')(second)

    with unchanged(first), pytest.raises(IntegrityError, match="'Diana' not found in Person"):
        mutate('insert Knows { from: "Alice", to: "Diana" }')(first)


def test_a_graph_with_cached_ids_drops_deleted_ones(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    for name in ("Eve", "Frank", "Grace"):
        mutate(f'insert Person {{ name: "{name}" }}')(graph)

    mutate('delete Person where name = "Frank"')(graph)
    load(*(node("Company", name=name) for name in ("Acme", "Globex", "Initech")), mode="merge")(
        graph
    )
    load(node("Company", name="Acme"), node("Company", name="Globex"), mode="overwrite")(graph)

    with pytest.raises(IntegrityError, match="'Frank' not found"):
        mutate('insert Knows { from: "Alice", to: "Frank" }')(graph)
    with pytest.raises(IntegrityError, match="'Initech' not found"):
        mutate('insert WorksAt { from: "Alice", to: "Initech" }')(graph)
    load(node("Person", name="Frank"))(graph)
    with pytest.raises(KeyConflictError):
        load(node("Person", name="Frank"))(graph)
    assert ends(graph, "Knows") == [("Alice", "Bob"), ("Alice", "Charlie"), ("Bob", "Diana")]


def test_a_graph_with_cached_ids_sees_writes_of_other_handles(tmp_path: Path) -> None:
    first = social_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))
    for name in ("Eve", "Frank"):
        mutate(f'insert Person {{ name: "{name}" }}')(first)

    mutate('delete Person where name = "Eve"')(second)
    mutate('insert Person { name: "Grace" }')(second)

    with pytest.raises(IntegrityError, match="'Eve' not found"):
        mutate('insert Knows { from: "Alice", to: "Eve" }')(first)
    with pytest.raises(KeyConflictError):
        load(node("Person", name="Grace"))(first)
    mutate('insert Knows { from: "Alice", to: "Grace" }')(first)
    load(node("Person", name="Eve"))(first)
    assert ("Alice", "Grace") in ends(second, "Knows")
