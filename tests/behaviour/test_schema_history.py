"""Commits from before a change of schema are read as they were, in the words of their time."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CompileError, CorruptError, NotFoundError
from tests.support.graphs import contents, ndjson, node, rows
from tests.support.queries import query
from tests.support.schema_changes import (
    CHANGES,
    KEEPING,
    OFFICE,
    RENAMED_BACK,
    SchemaChange,
    office,
)

COMPANIES = query(
    "match { $p: Person  $p worksAt $c } return { $p.name, $c.name, $c.city } order { $p.name asc }"
)
NOTES = query("match { $n: Note } return { $n.title }")


def exported(graph: Graph, commit: str) -> list[str]:
    """The lines of an export of a commit."""
    return list(graph.export(commit=commit))


def write_on(graph: Graph) -> None:
    """Write something to people and to whatever companies are now called."""
    name = "Firm" if "node:Firm" in graph.tables() else "Company"
    added = ndjson(node("Person", name="Eve"), node(name, name="New"))
    graph.load(added, mode="append")


@pytest.mark.parametrize("change", KEEPING.values(), ids=KEEPING.keys())
def test_a_commit_from_before_a_change_of_schema_is_read_as_it_was(
    tmp_path: Path, change: SchemaChange
) -> None:
    graph = office(tmp_path)
    old = graph.head()
    lines, companies = exported(graph, old), graph.query(COMPANIES).rows
    notes, acme = graph.query(NOTES).rows, graph.entity("Company", "Acme")
    batches = graph.export_batches("Company").read_all()

    change.apply(graph)
    write_on(graph)

    for handle in (graph, omnigraph.open(tmp_path), omnigraph.open(tmp_path, read_only=True)):
        assert exported(handle, old) == lines
        assert handle.query(COMPANIES, commit=old).rows == companies
        assert handle.query(NOTES, commit=old).rows == notes
        assert handle.entity("Company", "Acme", commit=old) == acme
        assert handle.export_batches("Company", commit=old).read_all().equals(batches)


def test_a_commit_does_not_know_the_words_of_a_later_schema(tmp_path: Path) -> None:
    graph = office(tmp_path)
    old = graph.head()
    CHANGES["all at once"].apply(graph)
    firms = query("match { $f: Firm } return { $f.name, $f.town }")

    assert len(graph.query(firms).rows) == 2
    with pytest.raises(CompileError):
        graph.query(firms, commit=old)
    with pytest.raises(NotFoundError):
        graph.entity("Firm", "Acme", commit=old)
    with pytest.raises(NotFoundError):
        list(graph.export(types=["Company"]))


def test_every_commit_of_many_changes_of_schema_is_read_under_its_own(tmp_path: Path) -> None:
    graph = office(tmp_path)
    seen = {graph.head(): contents(graph)}
    steps = [
        CHANGES["a new property"],
        CHANGES["a dropped type"],
        CHANGES["a renamed type"],
        RENAMED_BACK,
        CHANGES["a dropped property"],
        SchemaChange(OFFICE, is_final=False),
        replace(CHANGES["all at once"], is_final=False),
    ]

    for step in steps:
        step.apply(graph)
        seen[graph.head()] = contents(graph)
        write_on(graph)
        graph.mutate(query('delete Person where name = "Eve"'))
        name = "Firm" if "node:Firm" in graph.tables() else "Company"
        graph.mutate(query(f'delete {name} where name = "New"'))
        seen[graph.head()] = contents(graph)

    later = omnigraph.open(tmp_path, read_only=True)
    for commit, found in seen.items():
        assert exported(later, commit) == exported(graph, commit)
        assert len(exported(later, commit)) == sum(len(by_id) for by_id in found.values())


def test_a_tag_keeps_the_schema_of_its_commit(tmp_path: Path) -> None:
    graph = office(tmp_path)
    graph.tag("v1", graph.head())
    lines = list(graph.export())

    CHANGES["all at once"].apply(graph)

    assert list(graph.export(commit="v1")) == lines
    assert graph.query(NOTES, commit="v1").rows == [{"n.title": "n1"}]


def test_a_kept_schema_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    graph = office(tmp_path)
    old = graph.head()
    CHANGES["all at once"].apply(graph)
    for path in (tmp_path / "__schemas").iterdir():
        path.write_text("node Person { name: String @key }")

    reader = omnigraph.open(tmp_path, read_only=True)

    assert len(rows(reader, "Firm")) == 2
    with pytest.raises(CorruptError):
        list(reader.export(commit=old))
