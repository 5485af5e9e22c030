"""Section G of the language: what a mutation writes, which rows it affects and what it counts."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import CompileError, IntegrityError, InvalidValueError, NotFoundError
from omnigraph.model.types import parse_datetime
from tests.support.graphs import (
    GAUGE,
    build_graph,
    contents,
    counts,
    edge,
    ends,
    fleet_graph,
    node,
    rows,
    unchanged,
    values,
)
from tests.support.queries import query

PILOTS = ["ada", "ben", "cyd", "dax", "eve"]


def test_g01_an_insert_adds_a_row(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query('insert Pilot { handle: "fay", hours: 5 }'))

    assert counts(result) == (1, 0)
    assert result.commit_id == graph.head()
    assert rows(graph, "Pilot")["fay"] == {"handle": "fay", "hours": 5}
    assert sorted(rows(graph, "Pilot")) == [*PILOTS, "fay"]


def test_g02_inserting_a_key_again_replaces_the_whole_row(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query('insert Pilot { handle: "ada" }'))

    assert counts(result) == (1, 0)
    assert values(graph, "Pilot", "hours") == {
        "ada": None,
        "ben": 330,
        "cyd": None,
        "dax": 330,
        "eve": 120,
    }


def test_g04_an_edge_is_inserted_with_its_properties(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query('insert Mentors { from: "eve", to: "ada", since: $d }', parameters="$d: Date"),
        {"d": "2024-06-15"},
    )

    assert counts(result) == (0, 1)
    (added,) = (row for row in rows(graph, "Mentors").values() if row["from"] == "eve")
    assert added == {"from": "eve", "to": "ada", "since": "2024-06-15"}


def test_the_same_edge_twice_is_two_edges(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    graph.mutate(query('insert Flies { from: "ada", to: "S1" }'))

    assert ends(graph, "Flies") == [("ada", "S1"), ("ada", "S1"), ("ben", "S2"), ("dax", "S2")]


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("ada", "zzz", "dst 'zzz' not found in Pilot"),
        ("zzz", "ada", "src 'zzz' not found in Pilot"),
    ],
)
def test_g05_an_edge_needs_both_of_its_nodes(
    tmp_path: Path, source: str, target: str, problem: str
) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError, match=problem) as refused:
        graph.mutate(query(f'insert Mentors {{ from: "{source}", to: "{target}" }}'))

    (violation,) = refused.value.violations
    assert violation.type == "Mentors"
    assert violation.value == "zzz"


def test_g05_the_node_must_be_of_the_type_that_the_edge_ends_at(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError, match="'ben' not found in Ship"):
        graph.mutate(query('insert Flies { from: "ada", to: "ben" }'))


def test_g07_a_mutation_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(IntegrityError):
        graph.mutate(
            query('insert Pilot { handle: "fay" } insert Mentors { from: "fay", to: "zzz" }')
        )

    graph.mutate(query('insert Pilot { handle: "fay", hours: 1 }'))
    assert values(graph, "Pilot", "hours")["fay"] == 1


def test_g08_an_update_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Pilot { handle: String @key  hours: I32?  rank: String? }",
        node("Pilot", handle="eve", hours=120, rank="captain"),
        node("Pilot", handle="fay", hours=5),
    )

    result = graph.mutate(query('update Pilot set { hours: 9 } where handle = "eve"'))

    assert counts(result) == (1, 0)
    assert rows(graph, "Pilot") == {
        "eve": {"handle": "eve", "hours": 9, "rank": "captain"},
        "fay": {"handle": "fay", "hours": 5, "rank": None},
    }


def test_g11_a_null_parameter_clears_a_property(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query('update Pilot set { hours: $h } where handle = "ada"', parameters="$h: I32?"),
        {"h": None},
    )

    assert counts(result) == (1, 0)
    assert values(graph, "Pilot", "hours")["ada"] is None


def test_g14_deleting_a_node_deletes_its_edges(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query('delete Pilot where handle = "ada"'))

    assert counts(result) == (1, 3)
    assert ends(graph, "Mentors") == [("ben", "dax"), ("dax", "eve")]
    assert ends(graph, "Flies") == [("ben", "S2"), ("dax", "S2")]


def test_g14_deleting_a_node_deletes_only_edges_of_its_own_type(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Person { name: String @key } node Town { name: String @key } "
        "edge Lives: Person -> Town  edge Twin: Town -> Town",
        node("Person", name="paris"),
        node("Town", name="paris"),
        node("Town", name="rome"),
        edge("Lives", "paris", "rome"),
        edge("Twin", "paris", "rome"),
    )

    result = graph.mutate(query('delete Person where name = "paris"'))

    assert counts(result) == (1, 1)
    assert ends(graph, "Lives") == []
    assert ends(graph, "Twin") == [("paris", "rome")]


@pytest.mark.parametrize(
    ("body", "type_name", "left"),
    [
        ('delete Mentors where from = "ada"', "Mentors", [("ben", "dax"), ("dax", "eve")]),
        ('delete Flies where to = "S2"', "Flies", [("ada", "S1")]),
    ],
)
def test_g16_edges_are_deleted_by_where_they_start_or_end(
    tmp_path: Path, body: str, type_name: str, left: list[tuple[str, str]]
) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query(body))

    assert counts(result) == (0, 2)
    assert ends(graph, type_name) == left
    assert sorted(rows(graph, "Pilot")) == PILOTS


def test_g19_a_null_in_one_condition_does_not_shield_a_row_from_the_next(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query('delete Pilot where hours > 300 delete Pilot where handle = "cyd"'))

    assert counts(result) == (4, 7)
    assert list(rows(graph, "Pilot")) == ["eve"]
    assert "Mentors" not in contents(graph)


def test_g20_an_edge_that_two_statements_delete_counts_once(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query('delete Pilot where handle = "ada" delete Mentors where from = "ben"')
    )

    assert counts(result) == (1, 4)


def test_a_row_that_two_statements_delete_counts_once(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query('delete Pilot where hours >= 330 delete Pilot where handle < "c"'))

    assert result.affected_nodes == 3
    assert sorted(rows(graph, "Pilot")) == ["cyd", "eve"]


def test_g22_an_update_sees_what_the_same_mutation_inserted(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    before = graph.commits()

    result = graph.mutate(
        query(
            'insert Pilot { handle: "z", hours: 1 }'
            ' update Pilot set { hours: 99 } where handle = "z"'
        )
    )

    assert counts(result) == (2, 0)
    assert values(graph, "Pilot", "hours")["z"] == 99
    assert len(graph.commits()) == len(before) + 1


def test_g23_an_update_sees_what_an_earlier_update_wrote(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query(
            'update Pilot set { hours: 999 } where handle = "ada"'
            " update Pilot set { hours: 5 } where hours > 500"
        )
    )

    assert counts(result) == (2, 0)
    assert values(graph, "Pilot", "hours")["ada"] == 5


def test_g23_an_update_no_longer_finds_what_an_earlier_one_replaced(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query(
            "update Pilot set { hours: 1 } where hours = 330"
            " update Pilot set { hours: 2 } where hours = 330"
        )
    )

    assert counts(result) == (2, 0)
    assert values(graph, "Pilot", "hours")["ben"] == 1


def test_g23_a_row_written_three_times_has_one_version(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node User { name: String @key  email: String? @unique }",
        node("User", name="ann", email="a@x"),
    )

    result = graph.mutate(
        query(
            'insert User { name: "bob", email: "b@x" }'
            ' update User set { email: "c@x" } where name = "bob"'
            ' update User set { email: "b@x" } where email = "c@x"'
        )
    )

    assert counts(result) == (3, 0)
    assert values(graph, "User", "email") == {"ann": "a@x", "bob": "b@x"}


def test_g28_now_is_one_timestamp_in_a_whole_mutation(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, GAUGE)

    graph.mutate(
        query('insert Gauge { code: "a", at: now() } insert Gauge { code: "b", at: now() }')
    )

    times = values(graph, "Gauge", "at")
    assert parse_datetime(str(times["a"]))
    assert times["a"] == times["b"]


def test_g31_a_whole_number_fits_a_fractional_property(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(
        query(
            'insert Ship { reg: "S8", tons: $t } insert Ship { reg: "S9", tons: 5 }',
            parameters="$t: I64",
        ),
        {"t": 7},
    )

    assert counts(result) == (2, 0)
    tons = values(graph, "Ship", "tons")
    assert (tons["S8"], tons["S9"]) == (7.0, 5.0)


def test_g32_a_vector_is_never_invented_from_its_text(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node D { s: String @key  b: String?  e: Vector(2) @embed(b) }")

    with unchanged(graph), pytest.raises(IntegrityError, match="missing required property"):
        graph.mutate(query('insert D { s: "x", b: "y" }'))


@pytest.mark.parametrize(
    "statement",
    [
        'update T set { n: $n } where name = "a"',
        'update T set { n: $n } where name = "no such row"',
        "update T set { m: 1 } where n = 1 update T set { n: $n } where n = 2",
        'insert T { name: "b", n: $n }',
        'insert Near { from: "a", to: "a", weight: $n }',
    ],
)
@pytest.mark.parametrize("params", [{"n": None}, {}])
def test_a_null_parameter_is_refused_for_a_required_property_whatever_matches(
    tmp_path: Path, statement: str, params: dict[str, object]
) -> None:
    schema = "node T { name: String @key  n: I32  m: I32? } edge Near: T -> T { weight: I32 }"
    graph = build_graph(tmp_path, schema, node("T", name="a", n=1))

    with (
        unchanged(graph),
        pytest.raises(InvalidValueError, match="param 'n': null is not accepted, because"),
    ):
        graph.mutate(query(statement, parameters="$n: I32?"), params)


@pytest.mark.parametrize("ends", ['from: $end, to: "ada"', 'from: "ada", to: $end'])
def test_a_null_parameter_is_refused_for_an_end_of_an_edge(tmp_path: Path, ends: str) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match=r"Mentors\..* is required"):
        graph.mutate(query(f"insert Mentors {{ {ends} }}", parameters="$end: String?"))


def test_a_parameter_that_its_property_cannot_hold_is_refused_whatever_matches(
    tmp_path: Path,
) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph), pytest.raises(InvalidValueError, match="exceeds I32"):
        graph.mutate(
            query('update Pilot set { hours: $h } where handle = "zoe"', parameters="$h: I64"),
            {"h": 2**31},
        )


def test_g34_a_text_that_does_not_compile_changes_nothing(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph):
        with pytest.raises(CompileError, match="is a read query"):
            graph.mutate(query("match { $p: Pilot } return { $p.handle }"))
        with pytest.raises(CompileError, match="mixes inserts/updates and deletes"):
            graph.mutate(query('insert Pilot { handle: "x" } delete Pilot where handle = "ada"'))
        with pytest.raises(CompileError, match="cannot update @key property"):
            graph.mutate(query('update Pilot set { handle: "x" } where hours = 1'))


def test_a_mutation_is_picked_by_its_name(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    source = """
    query hire($handle: String) { insert Pilot { handle: $handle } }
    query fire($handle: String) { delete Pilot where handle = $handle }
    """

    graph.mutate(source, {"handle": "fay"}, name="hire")
    graph.mutate(source, {"handle": "eve"}, name="fire")

    assert sorted(rows(graph, "Pilot")) == ["ada", "ben", "cyd", "dax", "fay"]
    with pytest.raises(NotFoundError, match="'promote' not found"):
        graph.mutate(source, {"handle": "ada"}, name="promote")


def test_a_graph_is_mutated_through_the_package(tmp_path: Path) -> None:
    fleet_graph(tmp_path).close()

    with omnigraph.open(str(tmp_path)) as graph:
        graph.mutate(query("delete Ship where tons < 100.0"))
        assert sorted(rows(graph, "Ship")) == ["S1", "S3"]
