"""The rows that an update or a delete affects are exactly those for which its condition holds."""

from pathlib import Path

import pytest

from tests.support.graphs import (
    build_graph,
    counts,
    fleet_graph,
    node,
    rows,
    unchanged,
    values,
)
from tests.support.queries import query

PILOTS = ["ada", "ben", "cyd", "dax", "eve"]

# A null is neither equal nor unequal to anything: cyd, who has no hours, is found only by `is`.
WHERE = {
    "G10 >=": ("hours >= 330", ["ada", "ben", "dax"]),
    "G10 !=": ("hours != 330", ["ada", "eve"]),
    "<": ("hours < 330", ["eve"]),
    "<=": ("hours <= 330", ["ben", "dax", "eve"]),
    "is null": ("hours is null", ["cyd"]),
    "is not null": ("hours is not null", ["ada", "ben", "dax", "eve"]),
    "in": ("hours in [410, 120, 7]", ["ada", "eve"]),
    "in nothing": ("hours in []", []),
    "and": ('hours = 330 and handle != "ben"', ["dax"]),
    "or": ('hours > 400 or handle = "cyd"', ["ada", "cyd"]),
    "or with a null": ('handle = "cyd" or hours > 400 or hours < 0', ["ada", "cyd"]),
    "parentheses": ('(hours = 410 or hours = 120) and handle > "b"', ["eve"]),
    "a fraction": ("hours > 329.5", ["ada", "ben", "dax"]),
    "past the type's range": ("hours < 3000000000", ["ada", "ben", "dax", "eve"]),
    "null": ("hours = null", []),
}


@pytest.mark.parametrize(("condition", "expected"), WHERE.values(), ids=WHERE)
def test_an_update_finds_the_rows_that_its_condition_holds_for(
    tmp_path: Path, condition: str, expected: list[str]
) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query(f"update Pilot set {{ hours: 7 }} where {condition}"))

    found = [id for id, hours in values(graph, "Pilot", "hours").items() if hours == 7]
    assert counts(result) == (len(expected), 0)
    assert sorted(found) == expected


@pytest.mark.parametrize(("condition", "expected"), WHERE.values(), ids=WHERE)
def test_a_delete_finds_the_same_rows(tmp_path: Path, condition: str, expected: list[str]) -> None:
    graph = fleet_graph(tmp_path)

    result = graph.mutate(query(f"delete Pilot where {condition}"))

    assert result.affected_nodes == len(expected)
    assert sorted(rows(graph, "Pilot")) == [id for id in PILOTS if id not in expected]


def test_g11_a_null_parameter_in_a_condition_matches_nothing(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)

    with unchanged(graph):
        result = graph.mutate(
            query("delete Pilot where hours = $h", parameters="$h: I32?"), {"h": None}
        )

    assert counts(result) == (0, 0)
    assert result.commit_id is None


def test_edges_are_found_by_their_properties(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    graph.mutate(
        query(
            'insert Mentors { from: "eve", to: "ada", since: date("2024-06-15") }'
            ' insert Mentors { from: "eve", to: "ben", since: date("2020-01-01") }'
        )
    )

    recent = graph.mutate(query('delete Mentors where since > date("2023-01-01")'))
    undated = graph.mutate(query('delete Mentors where since is null and from != "ada"'))

    assert (counts(recent), counts(undated)) == ((0, 1), (0, 2))
    left = [(row["from"], row["to"]) for row in rows(graph, "Mentors").values()]
    assert sorted(left) == [("ada", "ben"), ("ada", "cyd"), ("eve", "ben")]


def test_a_value_full_of_quotes_is_only_a_value(tmp_path: Path) -> None:
    graph = fleet_graph(tmp_path)
    hostile = "x' OR '1'='1\" \\ -- ; `$h` \n %_"

    inserted = graph.mutate(
        query("insert Pilot { handle: $h, hours: 3 }", parameters="$h: String"), {"h": hostile}
    )
    updated = graph.mutate(
        query("update Pilot set { hours: 4 } where handle = $h", parameters="$h: String"),
        {"h": hostile},
    )
    joined = graph.mutate(
        query('insert Mentors { from: $h, to: "ada" }', parameters="$h: String"), {"h": hostile}
    )
    deleted = graph.mutate(
        query("delete Pilot where handle = $h", parameters="$h: String"), {"h": hostile}
    )

    assert [counts(each) for each in (inserted, updated, joined, deleted)] == [
        (1, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert sorted(rows(graph, "Pilot")) == PILOTS


def test_a_property_may_be_called_anything_that_the_schema_allows(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Doc { slug: String @key  repoName: String?  select: I32?  order: I32?  _x: I32? }",
        node("Doc", slug="d1", repoName="acme", select=1, order=1, _x=1),
        node("Doc", slug="d2", repoName="Acme", select=2, order=2, _x=2),
    )

    graph.mutate(query('update Doc set { order: 9 } where repoName = "acme"'))
    graph.mutate(query("update Doc set { _x: 9 } where select = 2"))
    graph.mutate(query("delete Doc where order = 9 and _x != 9"))

    assert rows(graph, "Doc") == {
        "d2": {"slug": "d2", "repoName": "Acme", "select": 2, "order": 2, "_x": 9}
    }
