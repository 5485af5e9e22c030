"""Whoever sees a part of a graph learns nothing of the rest by any read."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CompileError, ForbiddenError, NotFoundError
from omnigraph.model.ports import TypeView
from tests.support.graphs import build_graph, contents, edge, node
from tests.support.restricted_graphs import RED, SCHEMA, UNPAID, read_rows, team_graph
from tests.support.views import TypeViews, see_as, see_as_reader


def test_an_aggregate_counts_and_adds_up_only_what_is_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited, "match { $p: Person } return { count($p) as n, sum($p.pay) as total }"
    )

    assert found == [[2, 40]]


def test_a_path_does_not_lead_through_a_node_that_is_not_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited, 'match { $p: Person { name: "ann" } $p knows{1,3} $q } return { $q.name as name }'
    )

    assert found == [["ann"]]


def test_the_number_of_neighbours_is_that_of_those_who_are_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited, "match { $p: Person $p knows $_ } return { $p.name as name, count(*) as n }"
    )

    assert found == [["ann", 1]]


def test_an_edge_to_what_is_not_seen_does_not_make_a_not_block_fail(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited, "match { $d: Desk not { $p: Person $p sits $d } } return { $d.tag as tag }"
    )

    assert found == [["d1"]]


def test_an_optional_block_finds_nothing_in_what_is_not_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited,
        "match { $d: Desk optional { $p: Person $p sits $d } } "
        "return { $d.tag as tag, $p.name as name }",
    )

    assert found == [["d1", None]]


def test_a_text_is_not_found_in_what_is_not_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited, 'match { $p: Person search($p.bio, "fox") } return { $p.name as name }'
    )

    assert found == [["ann"]]


def test_a_score_does_not_tell_how_common_a_word_is_in_what_is_not_seen(tmp_path: Path) -> None:
    graph = team_graph(tmp_path / "whole")
    alone = build_graph(
        tmp_path / "part",
        SCHEMA,
        node("Person", name="ann", bio="fox"),
        node("Person", name="cat", bio="a red dog and a cat"),
    )
    score = 'match { $p: Person } return { $p.name as name, bm25($p.bio, "fox") as score }'

    found = read_rows(see_as_reader(graph, RED), score)

    assert found == read_rows(alone, score)
    assert found != read_rows(graph, score)[::2]


def test_the_nearest_are_the_nearest_of_those_who_are_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        limited,
        "match { $p: Person } return { $p.name as name } "
        "order { nearest($p.face, [0.0, 1.0]) } limit 2",
    )

    assert found == [["ann"], ["cat"]]


def test_an_index_answers_with_what_is_seen(tmp_path: Path) -> None:
    rows = [node("Person", name=f"p{n:05d}", team="red" if n % 3 else "blue") for n in range(9_000)]
    graph = build_graph(tmp_path, SCHEMA, *rows)
    graph.ensure_indices()
    limited = see_as_reader(graph, RED)

    seen, unseen = (
        read_rows(
            limited, f'match {{ $p: Person {{ name: "{name}" }} }} return {{ $p.name as name }}'
        )
        for name in ("p04000", "p03000")
    )

    assert (seen, unseen) == ([["p04000"]], [])
    assert limited.tables()["node:Person"].row_count == 6_000


def test_few_rows_of_many_are_found_where_they_lie(tmp_path: Path) -> None:
    rows = [node("Person", name=f"p{n:05d}", pay=n, bio=f"fox {n % 7}") for n in range(6_000)]
    graph = build_graph(tmp_path, SCHEMA, *rows, edge("Knows", "p03000", "p05999", since=1))
    graph.mutate("query m() { delete Person where pay in [2, 2999] }")
    limited = see_as_reader(
        graph, {"Person": TypeView(("pay in [1, 2, 3000, 5999]",), frozenset())}
    )

    found = read_rows(limited, "match { $p: Person } return { $p.name as name, $p.bio as bio }")
    walked = read_rows(limited, "match { $p: Person $p knows $q } return { $q.pay as pay }")
    scored = read_rows(limited, 'match { $p: Person search($p.bio, "4") } return { $p.pay as pay }')

    assert found == [["p00001", "fox 1"], ["p03000", "fox 4"], ["p05999", "fox 0"]]
    assert (walked, scored) == ([[5999]], [[3000]])


def test_a_hidden_property_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    limited = see_as_reader(graph, UNPAID)
    text = "match { $p: Person } return { $p.%s as x }"

    with pytest.raises(CompileError) as hidden:
        read_rows(limited, text % "pay")
    with pytest.raises(CompileError) as unknown:
        read_rows(limited, text % "pax")

    assert str(hidden.value) == str(unknown.value).replace("pax", "pay")
    assert "pay" not in limited.schema_source
    assert "pay" in graph.schema_source


def test_a_hidden_property_is_in_no_row(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), UNPAID)

    (exported,) = (line for line in limited.export() if '"ann"' in line and '"type"' in line)

    assert "pay" not in exported
    assert "pay" not in (limited.entity("Person", "ann") or {})
    assert "pay" not in limited.export_batches("Person").schema.names


def test_who_is_asking_decides_what_is_seen(tmp_path: Path) -> None:
    own: TypeViews = {"Person": TypeView(("name = $actor",), frozenset())}
    graph = team_graph(tmp_path)
    ann = see_as(graph, {"ann": own, "cat": own}, actor="ann")

    names = "match { $p: Person } return { $p.name as name }"

    assert read_rows(ann, names) == [["ann"]]
    assert read_rows(ann.for_actor("cat"), names) == [["cat"]]
    assert read_rows(ann, names) == [["ann"]]
    assert len(read_rows(ann.for_actor("boss"), names)) == 4


def test_a_row_is_seen_as_soon_as_a_condition_holds_and_no_longer(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    limited = see_as_reader(graph, RED)
    before = graph.head()
    graph.mutate('query m() { update Person set { team: "red" } where name = "bob" }')
    graph.mutate('query m() { update Person set { team: "blue" } where name = "cat" }')

    found = [(each.type, each.id, each.op) for each in limited.diff(before, "main")]

    edges = {id: row["since"] for id, row in contents(graph)["Knows"].items()}
    (first,) = (id for id, since in edges.items() if since == 1)
    sits = next(iter(contents(graph)["Sits"]))
    assert found == [
        ("Person", "bob", "insert"),
        ("Person", "cat", "delete"),
        ("Knows", first, "insert"),
        ("Sits", sits, "insert"),
    ]


def test_the_feed_tells_of_changes_to_what_is_seen(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    limited = see_as_reader(graph, RED)
    feed = limited.changes("now")
    graph.mutate('query m() { update Person set { pay: 1 } where name = "bob" }')
    graph.mutate('query m() { update Person set { pay: 1 } where name = "cat" }')

    told = [[(each.id, each.op) for each in commit.changes] for commit in feed]

    assert told == [[], [("cat", "update")]]


def test_a_commit_of_the_past_is_seen_through_the_same_limits(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    limited = see_as_reader(graph, RED)
    past = graph.head()
    graph.mutate('query m() { delete Person where name = "ann" }')

    assert limited.entity("Person", "bob", commit=past) is None
    assert limited.entity("Person", "ann", commit=past) is not None


def test_a_type_that_was_renamed_is_limited_in_the_past_as_well(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        "node Human { name: String @key  pay: I32? }",
        node("Human", name="ann", pay=10),
        node("Human", name="bob", pay=90),
    )
    past = graph.head()
    graph.apply_schema(
        'node Person @rename_from("Human") { name: String @key  wage: I32? @rename_from("pay") }'
    )
    limited = see_as_reader(graph, {"Person": TypeView(('name = "ann"',), frozenset({"wage"}))})

    assert limited.entity("Human", "bob", commit=past) is None
    assert limited.entity("Human", "ann", commit=past) == {"id": "ann", "name": "ann"}


def test_a_state_older_than_the_property_of_a_limit_has_none_of_its_values(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path, "node Note { tag: String @key }", node("Note", tag="a"), node("Note", tag="b")
    )
    past = graph.head()
    graph.apply_schema("node Note { tag: String @key  level: I32? }")
    graph.mutate('query m() { update Note set { level: 9 } where tag = "a" }')
    plain = see_as_reader(graph, {"Note": TypeView(("level is null",), frozenset())})
    raised = see_as_reader(graph, {"Note": TypeView(("level > 1",), frozenset())})

    assert plain.entity("Note", "a", commit=past) is not None
    assert [(each.id, each.op) for each in plain.diff(past, "main")] == [("a", "delete")]
    assert raised.entity("Note", "a", commit=past) is None
    assert [(each.id, each.op) for each in raised.diff(past, "main")] == [("a", "insert")]


def test_a_limit_by_a_property_that_had_another_name_does_not_show_the_past(
    tmp_path: Path,
) -> None:
    graph = build_graph(
        tmp_path, "node Note { tag: String @key  rank: I32? }", node("Note", tag="a", rank=9)
    )
    past = graph.head()
    graph.apply_schema('node Note { tag: String @key  level: I32? @rename_from("rank") }')
    limited = see_as_reader(graph, {"Note": TypeView(("level is null",), frozenset())})

    with pytest.raises(ForbiddenError):
        limited.entity("Note", "a", commit=past)


def test_a_blob_of_what_is_not_seen_is_not_found(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    with pytest.raises(NotFoundError):
        limited.read_blob("Person", "bob", "photo")

    assert limited.read_blob("Person", "ann", "photo").content == b"\0\0\0"


def test_an_algorithm_walks_over_what_is_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    found = limited.algorithms("Knows").degrees().rows

    assert [(row["id"], row["degree"]) for row in found] == [("ann", 2), ("cat", 0)]


def test_an_explanation_counts_what_is_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), RED)

    steps = limited.explain("query q() { match { $p: Person } return { $p.name } }")

    assert "of 2 nodes" in steps


def test_files_hold_what_is_seen(tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path / "g"), RED)

    report = limited.export_files(tmp_path / "out", format="ndjson")

    assert {each.type: each.rows for each in report.types} == {
        "Desk": 1,
        "Knows": 1,
        "Person": 2,
        "Sits": 0,
    }
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert "bob" not in written


@pytest.mark.parametrize(
    "types",
    [
        {"Person": TypeView(("rank = 1",), frozenset())},
        {"Person": TypeView(("team = ",), frozenset())},
        {"Person": TypeView(('team = "red" delete Desk where tag = "d1"',), frozenset())},
        {"Person": TypeView(None, frozenset({"name"}))},
    ],
    ids=["unknown property", "no condition", "two statements", "hidden key"],
)
def test_a_limit_that_cannot_be_applied_shows_nothing(types: TypeViews, tmp_path: Path) -> None:
    limited = see_as_reader(team_graph(tmp_path), types)

    with pytest.raises(ForbiddenError):
        read_rows(limited, "match { $d: Desk } return { $d.tag }")


def test_every_call_of_a_graph_is_limited_or_refused_or_tells_of_no_row() -> None:
    limited = {
        "algorithms", "changes", "diff", "entity", "explain", "export", "export_batches",
        "export_files", "query", "read_blob", "replay", "retrieve", "retrieve_by", "schema_source",
        "snapshot", "tables", "transaction",
    }  # fmt: skip
    refused = {
        "apply_schema", "bulk", "cherry_pick", "doctor", "embed", "ensure_indices", "load", "merge",
        "mutate", "optimize", "plan_schema", "revert", "spark_views",
    }  # fmt: skip
    rowless = {
        "actor", "branches", "cleanup", "close", "commit", "commits", "create_branch",
        "delete_branch", "delete_tag", "for_actor", "head", "reconciler", "recoveries", "refresh",
        "repair", "tag", "tags", "uri",
    }  # fmt: skip

    public = {name for name in dir(Graph) if not name.startswith("_")}

    assert public == limited | refused | rowless
