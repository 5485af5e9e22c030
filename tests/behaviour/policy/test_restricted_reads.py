"""A restricted caller learns nothing of hidden rows by any read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import CompileError, ForbiddenError, NotFoundError
from omnigraph.model.ports import TypeView
from tests.support.graphs import build_graph, contents, edge, node
from tests.support.restricted_graphs import RED, SCHEMA, UNPAID, read_rows, team_graph
from tests.support.views import TypeViews, see_as, see_as_reader


def test_an_aggregate_covers_only_visible_rows(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted, "match { $p: Person } return { count($p) as n, sum($p.pay) as total }"
    )

    assert found == [[2, 40]]


def test_a_path_does_not_pass_through_a_hidden_node(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted,
        'match { $p: Person { name: "ann" } $p knows{1,3} $q } return { $q.name as name }',
    )

    assert found == [["ann"]]


def test_the_number_of_neighbours_counts_visible_nodes(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted, "match { $p: Person $p knows $_ } return { $p.name as name, count(*) as n }"
    )

    assert found == [["ann", 1]]


def test_an_edge_to_a_hidden_node_does_not_fail_a_not_block(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted, "match { $d: Desk not { $p: Person $p sits $d } } return { $d.tag as tag }"
    )

    assert found == [["d1"]]


def test_an_optional_block_finds_no_hidden_row(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted,
        "match { $d: Desk optional { $p: Person $p sits $d } } "
        "return { $d.tag as tag, $p.name as name }",
    )

    assert found == [["d1", None]]


def test_a_search_finds_no_hidden_row(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted, 'match { $p: Person search($p.bio, "fox") } return { $p.name as name }'
    )

    assert found == [["ann"]]


def test_a_score_does_not_reveal_word_frequencies_of_hidden_rows(tmp_path: Path) -> None:
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


def test_the_nearest_rows_are_the_nearest_visible_rows(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = read_rows(
        restricted,
        "match { $p: Person } return { $p.name as name } "
        "order { nearest($p.face, [0.0, 1.0]) } limit 2",
    )

    assert found == [["ann"], ["cat"]]


def test_an_index_returns_only_visible_rows(tmp_path: Path) -> None:
    rows = [node("Person", name=f"p{n:05d}", team="red" if n % 3 else "blue") for n in range(9_000)]
    graph = build_graph(tmp_path, SCHEMA, *rows)
    graph.ensure_indices()
    restricted = see_as_reader(graph, RED)

    seen, unseen = (
        read_rows(
            restricted, f'match {{ $p: Person {{ name: "{name}" }} }} return {{ $p.name as name }}'
        )
        for name in ("p04000", "p03000")
    )

    assert (seen, unseen) == ([["p04000"]], [])
    assert restricted.tables()["node:Person"].row_count == 6_000


def test_few_visible_rows_of_many_are_found_by_index(tmp_path: Path) -> None:
    rows = [node("Person", name=f"p{n:05d}", pay=n, bio=f"fox {n % 7}") for n in range(6_000)]
    graph = build_graph(tmp_path, SCHEMA, *rows, edge("Knows", "p03000", "p05999", since=1))
    graph.mutate("query m() { delete Person where pay in [2, 2999] }")
    restricted = see_as_reader(
        graph, {"Person": TypeView(("pay in [1, 2, 3000, 5999]",), frozenset())}
    )

    found = read_rows(restricted, "match { $p: Person } return { $p.name as name, $p.bio as bio }")
    walked = read_rows(restricted, "match { $p: Person $p knows $q } return { $q.pay as pay }")
    scored = read_rows(
        restricted, 'match { $p: Person search($p.bio, "4") } return { $p.pay as pay }'
    )

    assert found == [["p00001", "fox 1"], ["p03000", "fox 4"], ["p05999", "fox 0"]]
    assert (walked, scored) == ([[5999]], [[3000]])


def test_a_hidden_property_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, UNPAID)
    text = "match { $p: Person } return { $p.%s as x }"

    with pytest.raises(CompileError) as hidden:
        read_rows(restricted, text % "pay")
    with pytest.raises(CompileError) as unknown:
        read_rows(restricted, text % "pax")

    assert str(hidden.value) == str(unknown.value).replace("pax", "pay")
    assert "pay" not in restricted.schema_source
    assert "pay" in graph.schema_source


def test_a_hidden_property_is_in_no_row(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), UNPAID)

    (exported,) = (line for line in restricted.export() if '"ann"' in line and '"type"' in line)

    assert "pay" not in exported
    assert "pay" not in (restricted.entity("Person", "ann") or {})
    assert "pay" not in restricted.export_batches("Person").schema.names


def test_the_visible_rows_depend_on_the_actor(tmp_path: Path) -> None:
    own: TypeViews = {"Person": TypeView(("name = $actor",), frozenset())}
    graph = team_graph(tmp_path)
    ann = see_as(graph, {"ann": own, "cat": own}, actor="ann")

    names = "match { $p: Person } return { $p.name as name }"

    assert read_rows(ann, names) == [["ann"]]
    assert read_rows(ann.for_actor("cat"), names) == [["cat"]]
    assert read_rows(ann, names) == [["ann"]]
    assert len(read_rows(ann.for_actor("boss"), names)) == 4


def test_a_row_is_visible_while_a_condition_holds(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)
    before = graph.head()
    graph.mutate('query m() { update Person set { team: "red" } where name = "bob" }')
    graph.mutate('query m() { update Person set { team: "blue" } where name = "cat" }')

    found = [(each.type, each.id, each.op) for each in restricted.diff(before, "main")]

    edges = {id: row["since"] for id, row in contents(graph)["Knows"].items()}
    (first,) = (id for id, since in edges.items() if since == 1)
    sits = next(iter(contents(graph)["Sits"]))
    assert found == [
        ("Person", "bob", "insert"),
        ("Person", "cat", "delete"),
        ("Knows", first, "insert"),
        ("Sits", sits, "insert"),
    ]


def test_the_feed_contains_only_changes_to_visible_rows(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)
    feed = restricted.changes("now")
    graph.mutate('query m() { update Person set { pay: 1 } where name = "bob" }')
    graph.mutate('query m() { update Person set { pay: 1 } where name = "cat" }')

    changes = [[(each.id, each.op) for each in commit.changes] for commit in feed]

    assert changes == [[], [("cat", "update")]]


def test_an_old_commit_is_read_under_the_same_row_filters(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    restricted = see_as_reader(graph, RED)
    past = graph.head()
    graph.mutate('query m() { delete Person where name = "ann" }')

    assert restricted.entity("Person", "bob", commit=past) is None
    assert restricted.entity("Person", "ann", commit=past) is not None


def test_a_renamed_type_is_restricted_in_old_commits_as_well(tmp_path: Path) -> None:
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
    restricted = see_as_reader(graph, {"Person": TypeView(('name = "ann"',), frozenset({"wage"}))})

    assert restricted.entity("Human", "bob", commit=past) is None
    assert restricted.entity("Human", "ann", commit=past) == {"id": "ann", "name": "ann"}


def test_a_filtered_property_is_null_in_commits_before_it_was_added(tmp_path: Path) -> None:
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


def test_a_filter_on_a_renamed_property_does_not_reveal_old_commits(
    tmp_path: Path,
) -> None:
    graph = build_graph(
        tmp_path, "node Note { tag: String @key  rank: I32? }", node("Note", tag="a", rank=9)
    )
    past = graph.head()
    graph.apply_schema('node Note { tag: String @key  level: I32? @rename_from("rank") }')
    restricted = see_as_reader(graph, {"Note": TypeView(("level is null",), frozenset())})

    with pytest.raises(ForbiddenError):
        restricted.entity("Note", "a", commit=past)


def test_a_blob_of_a_hidden_row_is_not_found(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    with pytest.raises(NotFoundError):
        restricted.read_blob("Person", "bob", "photo")

    assert restricted.read_blob("Person", "ann", "photo").content == b"\0\0\0"


def test_an_algorithm_runs_on_visible_rows(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    found = restricted.algorithms("Knows").degrees().rows

    assert [(row["id"], row["degree"]) for row in found] == [("ann", 2), ("cat", 0)]


def test_an_explanation_counts_visible_rows(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)

    steps = restricted.explain("query q() { match { $p: Person } return { $p.name } }")

    assert "of 2 nodes" in steps


def test_a_prepared_query_reads_visible_rows(tmp_path: Path) -> None:
    graph = team_graph(tmp_path)
    text = "query q() { match { $p: Person } return { count(*) as n } }"
    everyone, restricted = graph.prepare(text), see_as_reader(graph, RED).prepare(text)

    assert (everyone().rows, restricted().rows) == ([{"n": 4}], [{"n": 2}])


def test_an_analyzed_plan_shows_visible_rows_and_no_reads(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), RED)
    text = "query q() { match { $p: Person $p $w:knows $q } return { $p.name, $q.name } }"

    steps = restricted.explain(text, analyze=True)

    took = [line.strip() for line in steps.splitlines() if " ms" in line]
    assert [re.sub(r"[\d.]+ ms", "", each) for each in took] == [
        "actual: 2 rows in ",
        "actual: 1 row in ",
        "result: 1 row in ",
        "planning: ",
    ]


def test_exported_files_contain_only_visible_rows(tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path / "g"), RED)

    report = restricted.export_files(tmp_path / "out", format="ndjson")

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
def test_a_filter_that_cannot_be_applied_hides_all_rows(types: TypeViews, tmp_path: Path) -> None:
    restricted = see_as_reader(team_graph(tmp_path), types)

    with pytest.raises(ForbiddenError):
        read_rows(restricted, "match { $d: Desk } return { $d.tag }")


def test_every_call_of_a_graph_is_restricted_or_refused_or_returns_no_row() -> None:
    restricted = {
        "algorithms", "changes", "diff", "entity", "explain", "export", "export_batches",
        "export_files", "prepare", "query", "read_blob", "replay", "retrieve", "retrieve_by",
        "schema_source", "snapshot", "tables", "transaction",
    }  # fmt: skip
    refused = {
        "apply_schema", "bulk", "cherry_pick", "doctor", "embed", "ensure_indices", "load", "merge",
        "mutate", "optimize", "plan_schema", "revert", "spark_views",
    }  # fmt: skip
    rowless = {
        "actor", "branches", "cleanup", "close", "commit", "commits", "create_branch",
        "delete_branch", "delete_tag", "for_actor", "head", "reconciler", "recoveries", "refresh",
        "repair", "stats", "tag", "tags", "uri",
    }  # fmt: skip

    public = {name for name in dir(Graph) if not name.startswith("_")}

    assert public == restricted | refused | rowless
