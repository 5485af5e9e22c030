"""Differences, the change feed, undoing and picking across changes of schema."""

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidValueError
from tests.support.graphs import contents, ndjson, node, rows, unchanged
from tests.support.queries import query
from tests.support.schema_changes import CHANGES, KEEPING, SchemaChange, office

INSERT = query('insert Company { name: "New", size: 3 }')


def differences(graph: Graph, old: str, new: str) -> list[tuple[str, str, str]]:
    """The changes, as operation, type and id."""
    return [(each.op, each.type, each.id) for each in graph.diff(old, new)]


def in_feed(graph: Graph) -> list[list[tuple[str, str, str]]]:
    """The changes of each commit."""
    return [
        [(each.op, each.type, each.id) for each in commit.changes]
        for commit in graph.changes("beginning")
    ]


@pytest.mark.parametrize("change", KEEPING.values(), ids=KEEPING.keys())
def test_diffs_of_old_commits_do_not_depend_on_later_schemas(
    tmp_path: Path, change: SchemaChange
) -> None:
    graph = office(tmp_path)
    first = graph.head()
    graph.mutate(INSERT)
    second = graph.head()
    seen, fed = list(graph.diff(first, second)), in_feed(graph)

    change.apply(graph)

    assert list(graph.diff(first, second)) == seen
    assert in_feed(graph)[:3] == fed


@pytest.mark.parametrize(
    "name",
    ["a new type", "a new property", "a description", "a renamed type", "a renamed property"],
)
def test_a_schema_change_that_keeps_all_rows_has_an_empty_diff(tmp_path: Path, name: str) -> None:
    graph = office(tmp_path)
    before = graph.head()

    CHANGES[name].apply(graph)

    assert differences(graph, before, "main") == []
    assert in_feed(graph)[-1] == []


def test_rows_of_a_dropped_type_are_in_the_diff(tmp_path: Path) -> None:
    graph = office(tmp_path)
    before = graph.head()

    CHANGES["a dropped type"].apply(graph)

    assert differences(graph, before, "main") == [("delete", "Note", "n1")]
    assert differences(graph, "main", before) == [("insert", "Note", "n1")]
    assert in_feed(graph)[-1] == [("delete", "Note", "n1")]


def test_a_renamed_type_differs_in_what_was_written_to_it(tmp_path: Path) -> None:
    graph = office(tmp_path)
    before = graph.head()
    CHANGES["a renamed type"].apply(graph)
    graph.load(ndjson(node("Firm", name="New")), mode="append")

    assert differences(graph, before, "main") == [("insert", "Firm", "New")]
    only = [(each.op, each.id) for each in graph.diff(before, "main", types=["Firm"])]
    assert only == [("insert", "New")]


# Undoing and picking


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_schema_is_not_reverted_like_rows(tmp_path: Path, change: SchemaChange) -> None:
    graph = office(tmp_path)
    change.apply(graph)

    with unchanged(graph), pytest.raises(InvalidValueError, match="apply_schema"):
        graph.revert(graph.head())


@pytest.mark.parametrize("name", ["a renamed type", "a renamed property", "a dropped property"])
def test_a_commit_of_a_dropped_type_or_property_is_not_reverted(tmp_path: Path, name: str) -> None:
    graph = office(tmp_path)
    graph.mutate(query('update Company set { city: "Rome" } where name = "Acme"'))
    made = graph.head()
    CHANGES[name].apply(graph)

    with unchanged(graph), pytest.raises(InvalidValueError, match="renamed since"):
        graph.revert(made)


@pytest.mark.parametrize(
    "name", ["a new type", "a new property", "a dropped type", "a description"]
)
def test_a_commit_from_before_a_change_of_schema_elsewhere_is_reverted(
    tmp_path: Path, name: str
) -> None:
    graph = office(tmp_path)
    before = contents(graph)["Company"].keys()
    made = str(graph.mutate(INSERT).commit_id)
    CHANGES[name].apply(graph)

    graph.revert(made)

    assert rows(graph, "Company").keys() == before
