"""Diffs and feeds across merged branches, over compacted history, and to deleted ends."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.changes import CommitChanges
from omnigraph.errors import FeedGapError, InvalidValueError, NotFoundError
from omnigraph.model.limits import MANIFEST_FRAGMENTS_MAX
from tests.support.graphs import (
    SOCIAL,
    build_graph,
    contents,
    edge,
    manifest,
    ndjson,
    node,
    rows,
    social_graph,
    values,
)
from tests.support.later_graphs import clean_later
from tests.support.queries import query
from tests.support.sweeps import open_plain
from tests.support.teams import does, merges, team


def changes_between(graph: Graph, old: str, new: str) -> list[tuple[str, str, str]]:
    """Each change of a diff as its operation, type and id."""
    return [(change.op, change.type, change.id) for change in graph.diff(old, new)]


def ids_of(feed: list[CommitChanges]) -> list[list[str]]:
    """The ids that each commit of a feed changes."""
    return [[change.id for change in each.changes] for each in feed]


# Merged branches


def test_i08_a_row_rewritten_unchanged_on_a_branch_is_not_in_a_diff(tmp_path: Path) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    merges(node("Person", name="Bob", age=25), edge("Knows", "Bob", "Carol", id=id))(
        graph, "feature"
    )

    assert changes_between(graph, "main", "feature") == []
    assert changes_between(graph, "feature", "main") == []


def test_a_row_deleted_and_inserted_with_another_value_is_one_update(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('delete Person where name = "Alice"')(graph, "feature")
    does('insert Person { name: "Alice", age: 31 }')(graph, "feature")

    (change,) = graph.diff("main", "feature")

    assert (change.op, change.type, change.id) == ("update", "Person", "Alice")
    assert change.before == {"id": "Alice", "name": "Alice", "age": 30, "note": None}
    assert change.after == {"id": "Alice", "name": "Alice", "age": 31, "note": None}


def test_a_moved_edge_is_one_update_with_its_old_and_new_endpoints(tmp_path: Path) -> None:
    graph = team(tmp_path)
    (id,) = rows(graph, "Knows")
    merges(edge("Knows", "Alice", "Dan", id=id))(graph, "feature")

    (change,) = graph.diff("main", "feature")

    assert (change.kind, change.type, change.op) == ("edge", "Knows", "update")
    assert change.before == {"id": id, "src": "Bob", "dst": "Carol", "since": None}
    assert change.after == {"id": id, "src": "Alice", "dst": "Dan", "since": None}


def test_branches_merged_in_both_directions_have_an_empty_diff(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('insert Person { name: "Eve" }')(graph, "feature")
    does('delete Person where name = "Bob"')(graph, "feature")
    does('update Person set { age: 31 } where name = "Alice"')(graph, "main")

    graph.merge("feature")
    graph.merge("main", into="feature")

    assert (
        changes_between(graph, "main", "feature") == changes_between(graph, "feature", "main") == []
    )


def test_a_merge_that_changes_nothing_is_in_the_feed_without_changes(tmp_path: Path) -> None:
    graph = team(tmp_path)
    for branch in ("feature", "main"):
        does('insert Person { name: "Eve", age: 1 }')(graph, branch)
    feed = graph.changes("now")

    merged = graph.merge("feature")

    assert [(each.commit.id, len(each.changes)) for each in feed] == [(merged.commit_id, 0)]


# Feeds of several branches


def test_a_cursor_before_a_fork_is_valid_on_both_branches(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    does('insert Person { name: "Eve" }')(graph, "main")
    cursor = graph.changes("now").cursor
    does('insert Person { name: "Fay" }')(graph, "main")
    graph.create_branch("feature")
    does('insert Person { name: "Gus" }')(graph, "feature")
    does('insert Person { name: "Hal" }')(graph, "main")

    assert ids_of(list(graph.changes(cursor, "feature"))) == [["Fay"], ["Gus"]]
    assert ids_of(list(graph.changes(cursor))) == [["Fay"], ["Hal"]]


def test_a_feed_continues_across_an_undone_write(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    feed = graph.changes("now")
    made = graph.mutate(query('delete Person where name = "Alice"'))

    reverted = graph.revert(str(made.commit_id))

    there, back = list(feed)
    assert [each.commit.id for each in (there, back)] == [made.commit_id, reverted.commit_id]
    assert {change.op for change in there.changes} == {"delete"}
    assert [(each.type, each.id, each.before) for each in there.changes] == [
        (each.type, each.id, each.after) for each in back.changes
    ]


def test_i17_a_feed_that_reaches_cleaned_up_rows_says_where_to_resume(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    for number in range(3):
        graph.mutate(query(f'insert Person {{ name: "p{number}" }}'))
    first = graph.commits()[0].id
    clean_later(graph)

    with pytest.raises(FeedGapError) as gap:
        list(open_plain(tmp_path).changes(f"after:{first}"))

    assert gap.value.resume == f"after:{graph.head()}"
    graph.mutate(query('insert Person { name: "new" }'))
    changes_between = [
        each.id for commit in graph.changes(gap.value.resume) for each in commit.changes
    ]
    assert changes_between == ["new"]


def test_i17_an_export_of_a_commit_and_the_feed_after_it_give_the_graph(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    commit = graph.head()
    does('update Person set { age: 1 } where name = "Bob"')(graph, "main")
    does('insert Person { name: "Eve", age: 2 }')(graph, "main")
    does('delete Person where name = "Alice"')(graph, "main")
    lines = [json.loads(line) for line in graph.export(commit=commit, types=["Person"])]
    known: dict[str, object] = {line["data"]["id"]: line["data"]["age"] for line in lines}

    for each in graph.changes(f"after:{commit}"):
        for change in each.changes:
            if change.type == "Person":
                known.pop(change.id, None)
                known |= {change.id: change.after["age"]} if change.after else {}

    assert known == values(graph, "Person", "age")


def test_a_feed_of_a_branch_that_was_deleted_says_so(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('insert Person { name: "Eve" }')(graph, "feature")
    feed = graph.changes("beginning", "feature")
    graph.delete_branch("feature")

    for look in (lambda: list(feed), lambda: graph.changes("beginning", "feature")):
        with pytest.raises(NotFoundError, match="branch 'feature' not found") as deleted:
            look()
        assert deleted.value.kind == "branch"


# Compacted history


def test_diffs_and_feeds_go_through_history_whose_files_were_joined(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed, first = graph.changes("now"), graph.head()
    heads, count = [], MANIFEST_FRAGMENTS_MAX + 8
    for number in range(count):
        graph.load(ndjson(node("Person", name=f"p{number:03}")), mode="append")
        heads.append(graph.head())
        if number == 3:
            graph.create_branch("feature")
            assert len(list(feed)) == 4
    does('insert Person { name: "Eve" }')(graph, "feature")
    assert len(manifest(tmp_path).get_fragments()) < count, "history was never compacted"

    people = [f"p{number:03}" for number in range(count)]
    assert ids_of(list(feed)) == [[name] for name in people[4:]]
    assert ids_of(list(graph.changes(f"after:{heads[9]}"))) == [[name] for name in people[10:]]
    assert [id for _, _, id in changes_between(graph, first, "main")] == people
    assert [id for _, _, id in changes_between(graph, heads[9], heads[19])] == people[10:20]
    assert [id for _, _, id in changes_between(graph, "main", "feature")] == ["Eve", *people[4:]]
    graph.merge("feature")
    assert contents(graph)["Person"].keys() == {*people, "Eve"}


# Pages and Arrow


def test_a_page_token_is_valid_in_the_same_diff_of_fewer_types(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    first = graph.head()
    names = ("Ann", "Ben", "Cyd")
    people = [node("Person", name=name) for name in names]
    graph.load(ndjson(*people, edge("Knows", "Ann", "Ben", id="e")), mode="append")

    page = graph.diff(first, "main").page(limit=2)
    rest = graph.diff(first, "main", types=["Knows", "Person"]).page(page.next_token)
    edges = graph.diff(first, "main", types=["Knows"]).page(page.next_token)

    assert [each.id for each in page.changes] == ["Ann", "Ben"]
    assert [each.id for each in rest.changes] == ["Cyd", "e"]
    assert [each.id for each in edges.changes] == ["e"]
    assert rest.next_token is edges.next_token is None


@pytest.mark.parametrize("token", [b"x", 3, "\ud800"])
def test_a_page_token_that_is_not_text_is_refused(tmp_path: Path, token: object) -> None:
    found = team(tmp_path).diff("main", "feature")

    with pytest.raises(InvalidValueError, match=r"^token"):
        found.page(token)  # type: ignore[arg-type]  # what a caller may do


@pytest.mark.parametrize("limit", [1.5, "3", None])
def test_a_limit_that_is_not_a_number_is_refused(tmp_path: Path, limit: object) -> None:
    found = team(tmp_path).diff("main", "feature")

    with pytest.raises(InvalidValueError, match=r"^limit"):
        found.page(limit=limit)  # type: ignore[arg-type]  # what a caller may do


def test_a_diff_accepts_the_type_names_of_loads_and_decisions(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Tie { name: String @key }  edge Tie: Tie -> Tie")
    start = graph.head()
    records = (node("Tie", name="x"), edge("Tie", "x", "x", id="y"))
    graph.load(ndjson(*records), mode="append")

    found = {
        name: [each.id for each in graph.diff(start, "main", types=[name])]
        for name in ("node:Tie", "edge:Tie", "Tie")
    }

    assert found == {"node:Tie": ["x"], "edge:Tie": ["y"], "Tie": ["x", "y"]}
    with pytest.raises(NotFoundError, match="edge:Tye"):
        graph.diff(start, "main", types=["edge:Tye"])


def test_a_page_and_a_commit_of_a_feed_are_arrow_streams_too(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    (everything,) = graph.changes(f"after:{graph.commits()[0].id}")

    page = everything.changes.page(limit=5)

    columns = ["kind", "type", "id", "op", "before", "after"]
    assert pa.table(everything.changes).num_rows == len(everything.changes) == 11
    assert pa.table(page.changes).schema.names == columns
    assert pa.table(page.changes)["id"].to_pylist() == [each.id for each in page.changes]


def test_a_diff_is_the_same_through_a_read_only_graph(tmp_path: Path) -> None:
    graph = team(tmp_path)
    does('insert Person { name: "Eve" }')(graph, "feature")

    reader = omnigraph.open(tmp_path, read_only=True)

    assert list(reader.diff("main", "feature")) == list(graph.diff("main", "feature"))
    assert ids_of(list(reader.changes("beginning", "feature")))[-1] == ["Eve"]
