"""The change feed delivers every commit of a branch once, in order, to the holder of a cursor."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.changes import Change, CommitChanges
from omnigraph.errors import ForbiddenError, InvalidValueError, NotFoundError
from tests.support.graphs import SOCIAL, build_graph, contents, node, rows, social_graph
from tests.support.queries import query


def add(graph: Graph, name: str, branch: str = "main") -> str:
    """The commit that adds a person."""
    done = graph.mutate(query(f'insert Person {{ name: "{name}" }}'), branch=branch)
    return str(done.commit_id)


def added(feed: list[CommitChanges]) -> list[list[str]]:
    """The people that each commit added; it may contain no other change."""
    assert {change.op for each in feed for change in each.changes} <= {"insert"}
    return [[change.id for change in each.changes] for each in feed]


# Starts


def test_a_feed_from_the_beginning_has_every_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(query('update Person set { age: 1 } where name = "Bob"'))

    feed = list(graph.changes("beginning"))

    assert [each.commit for each in feed] == graph.commits()
    assert [each.changes.new_commit_id for each in feed] == [each.id for each in graph.commits()]
    assert [each.changes.old_commit_id for each in feed] == [
        each.parent_id for each in graph.commits()
    ]
    assert [len(each.changes) for each in feed] == [0, 11, 1]


def test_a_feed_from_now_has_later_commits(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    feed = graph.changes("now")

    assert list(feed) == []
    add(graph, "Eve")

    assert added(list(feed)) == [["Eve"]]


def test_a_feed_from_a_commit_has_the_commits_after_it(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    eve = add(graph, "Eve")
    add(graph, "Fay")
    add(graph, "Gus")

    assert added(list(graph.changes(f"after:{eve}"))) == [["Fay"], ["Gus"]]
    assert list(graph.changes(f"after:{graph.head()}")) == []


# Cursors


def test_a_feed_has_each_commit_once(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = graph.changes("now")
    add(graph, "Eve")
    first = list(feed)
    add(graph, "Fay")

    assert added(first) == [["Eve"]]
    assert added(list(feed)) == [["Fay"]]
    assert list(feed) == []


def test_a_stored_cursor_resumes_in_another_process(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = graph.changes("now")
    add(graph, "Eve")
    list(feed)
    add(graph, "Fay")

    other = omnigraph.open(str(tmp_path), read_only=True)

    assert added(list(other.changes(feed.cursor))) == [["Fay"]]


def test_a_commit_that_was_not_finished_is_delivered_again(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = graph.changes("now")
    eve, _ = add(graph, "Eve"), add(graph, "Fay")

    for each in feed:
        if added([each]) == [["Fay"]]:
            break

    assert feed.cursor == f"after:{eve}"
    assert added(list(feed)) == [["Fay"]]


def test_a_commit_has_the_cursor_after_it(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    add(graph, "Eve")
    add(graph, "Fay")

    _, eve, _ = graph.changes("beginning")

    assert added(list(graph.changes(eve.cursor))) == [["Fay"]]


def test_a_feed_sees_what_other_handles_commit(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = omnigraph.open(str(tmp_path), read_only=True).changes("now")

    add(graph, "Eve")

    assert added(list(feed)) == [["Eve"]]


def test_a_feed_replayed_gives_the_graph(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.mutate(query('update Person set { age: 1 } where name = "Bob"'))
    graph.mutate(query('delete Person where name = "Alice"'))
    graph.ensure_indices()
    add(graph, "Alice")
    state: dict[tuple[str, str], Change] = {}

    for each in graph.changes("beginning"):
        for change in each.changes:
            before = state.pop((change.type, change.id), None)
            assert (None if before is None else before.after) == change.before
            if change.after is not None:
                state[change.type, change.id] = change

    found = contents(graph)
    assert set(state) == {(type, id) for type, by_id in found.items() for id in by_id}
    assert {
        id: (change.after or {})["age"] for (type, id), change in state.items() if type == "Person"
    } == {id: row["age"] for id, row in rows(graph, "Person").items()}


# Branches


def test_a_feed_of_a_branch_starts_with_what_it_inherited(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    add(graph, "Eve")
    graph.create_branch("feature")
    add(graph, "Fay", "feature")
    add(graph, "Gus")

    feed = list(graph.changes("beginning", "feature"))

    assert added(feed) == [[], ["Eve"], ["Fay"]]
    assert [each.commit.branch for each in feed] == ["main", "main", "feature"]


def test_a_feed_has_a_merge_as_one_commit(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    graph.create_branch("feature")
    add(graph, "Eve", "feature")
    add(graph, "Fay", "feature")
    add(graph, "Gus")
    feed = graph.changes("now")

    graph.merge("feature")

    assert added(list(feed)) == [["Eve", "Fay"]]


# Invalid cursors


def test_a_cursor_of_another_branch_is_rejected(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    graph.create_branch("feature")
    eve = add(graph, "Eve", "feature")

    with pytest.raises(NotFoundError) as rejected:
        graph.changes(f"after:{eve}")

    assert (rejected.value.kind, rejected.value.name) == ("cursor", eve)


def test_a_merged_commit_is_not_a_cursor_of_the_target(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    graph.create_branch("feature")
    eve = add(graph, "Eve", "feature")
    add(graph, "Gus")
    graph.merge("feature")

    with pytest.raises(NotFoundError):
        graph.changes(f"after:{eve}")


def test_a_cursor_of_a_recreated_branch_is_rejected(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    graph.create_branch("feature")
    add(graph, "Eve", "feature")
    feed = graph.changes("now", "feature")
    graph.delete_branch("feature")
    graph.create_branch("feature")
    add(graph, "Fay", "feature")

    with pytest.raises(NotFoundError) as rejected:
        list(feed)
    with pytest.raises(NotFoundError):
        graph.changes(feed.cursor, "feature")

    assert rejected.value.kind == "cursor"
    assert added(list(graph.changes("beginning", "feature"))) == [[], ["Fay"]]


def half_read_feed(graph: Graph) -> Iterator[CommitChanges]:
    """A feed of a branch with three commits, one of which was read."""
    graph.create_branch("feature")
    start = graph.head()
    for name in ("Eve", "Fay", "Gus"):
        add(graph, name, "feature")
    feed = iter(graph.changes(f"after:{start}", "feature"))
    assert added([next(feed)]) == [["Eve"]]
    return feed


# As many commits as before, fewer, more.
@pytest.mark.parametrize("names", [("Una", "Due", "Tre"), ("Una",), ("Una", "Due", "Tre", "Qua")])
def test_a_feed_has_no_commit_of_a_branch_recreated_meanwhile(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = half_read_feed(graph)
    other = omnigraph.open(tmp_path)
    other.delete_branch("feature")
    other.create_branch("feature")
    for name in names:
        add(other, name, "feature")

    with pytest.raises(NotFoundError) as rejected:
        next(feed)

    assert rejected.value.kind == "cursor"


def test_a_feed_whose_branch_is_deleted_meanwhile_reports_it(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)
    feed = half_read_feed(graph)
    omnigraph.open(tmp_path).delete_branch("feature")

    with pytest.raises(NotFoundError) as rejected:
        next(feed)

    assert (rejected.value.kind, rejected.value.name) == ("branch", "feature")
    assert "__manifest" not in str(rejected.value)


@pytest.mark.parametrize("id", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "it's"])
def test_an_unknown_cursor_is_rejected(tmp_path: Path, id: str) -> None:
    graph = build_graph(tmp_path, SOCIAL)

    with pytest.raises(NotFoundError):
        graph.changes(f"after:{id}")


@pytest.mark.parametrize("start", ["", "yesterday", "After:x", 7, None])
def test_an_invalid_feed_start_is_refused(tmp_path: Path, start: object) -> None:
    graph = build_graph(tmp_path, SOCIAL)

    with pytest.raises(InvalidValueError):
        graph.changes(start)  # type: ignore[arg-type]  # on purpose


def test_a_feed_of_a_missing_branch_is_refused(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL)

    with pytest.raises(NotFoundError) as missing:
        graph.changes("now", "nowhere")

    assert missing.value.kind == "branch"


def test_a_feed_ends_with_its_graph(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, SOCIAL, node("Person", name="Ann"))
    feed = graph.changes("beginning")
    graph.close()

    with pytest.raises(ForbiddenError):
        list(feed)
