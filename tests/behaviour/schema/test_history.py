"""Commits from before a schema change are read as they were, under the names of their time."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import CompileError, CorruptError, NotFoundError, RecoveryRequiredError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import contents, ndjson, node, open_with, rows
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
    """Write to people and to companies under their current name."""
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


def test_a_commit_does_not_know_what_was_added_later(tmp_path: Path) -> None:
    graph = office(tmp_path)
    old = graph.head()
    CHANGES["all at once"].apply(graph)

    for text in ("match { $f: Firm } return { $f.web }", "match { $p: Pet } return { $p.name }"):
        assert graph.query(query(text)).rows is not None
        with pytest.raises(CompileError):
            graph.query(query(text), commit=old)
    with pytest.raises(NotFoundError):
        graph.entity("Pet", "Rex", commit=old)
    with pytest.raises(NotFoundError):
        list(graph.export(types=["Company"]))


# Current names at earlier commits


FIRMS = query(
    "match { $p: Person  $p serves $f  $f: Firm { town: $town } } "
    "return { $p.name, $f.name, $f.town, count($f.town) as n } order { $f.town }",
    parameters="$town: String",
)


def test_a_query_in_names_of_the_present_reads_a_commit_from_before_the_renames(
    tmp_path: Path,
) -> None:
    graph = office(tmp_path)
    old = graph.head()
    KEEPING["all at once"].apply(graph)
    graph.tag("v1", old)

    for handle in (graph, omnigraph.open(tmp_path, read_only=True)):
        for commit in (old, "v1"):
            found = handle.query(FIRMS, {"town": "Bern"}, commit=commit)
            assert found.columns == ["p.name", "f.name", "f.town", "n"]
            assert found.rows == [{"p.name": "Alice", "f.name": "Acme", "f.town": "Bern", "n": 1}]
        assert handle.query(COMPANIES, commit=old).columns == ["p.name", "c.name", "c.city"]


def test_every_call_at_a_commit_takes_types_by_names_of_the_present(tmp_path: Path) -> None:
    graph = office(tmp_path)
    old = graph.head()
    KEEPING["all at once"].apply(graph)

    assert graph.entity("Firm", "Acme", commit=old) == graph.entity("Company", "Acme", commit=old)
    assert list(graph.export(types=["Firm", "Serves"], commit=old)) == list(
        graph.export(types=["Company", "WorksAt"], commit=old)
    )
    batches = graph.export_batches("Firm", commit=old).read_all()
    assert batches.equals(graph.export_batches("Company", commit=old).read_all())
    assert len(list(graph.export(commit=old))) == 8
    hits = graph.retrieve("Bern", types="Firm", edges="serves", commit=old)
    assert "Acme" in {each.id for each in hits.passages}
    degrees = graph.algorithms("serves", commit=old).degrees()
    assert degrees.rows == graph.algorithms("worksAt", commit=old).degrees().rows
    assert next(each for each in degrees.rows if each["id"] == "Acme")["degree"] == 1


def test_names_of_the_present_reach_back_over_several_renames(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path, "node A { k: String @key  x: I32? }")
    graph.load(ndjson(node("A", k="one", x=1)), mode="append")
    commits = [graph.head()]
    for schema in (
        'node B @rename_from("A") { k: String @key  y: I32? @rename_from("x") }',
        "node B { k: String @key  y: I32?  other: String? }",
        'node C @rename_from("B") { k: String @key  z: I32? @rename_from("y")  other: String? }',
        'node D @rename_from("C") { id2: String @key @rename_from("k")  z: I32?  other: String? }',
    ):
        graph.apply_schema(schema)
        commits.append(graph.head())

    text = query('match { $d: D { id2: "one" } } return { $d.id2, $d.z }')

    for handle in (graph, omnigraph.open(tmp_path)):
        for commit in commits:
            assert handle.query(text, commit=commit).rows == [{"d.id2": "one", "d.z": 1}]
    with pytest.raises(CompileError):
        graph.query(query("match { $b: B } return { $b.k }"))
    with pytest.raises(CompileError):
        # Between the two it was called B: neither then nor now.
        graph.query(query("match { $b: B } return { $b.k }"), commit=commits[0])


def test_in_a_swap_of_names_those_of_the_commit_take_precedence(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path, "node T { k: String @key  a: I32?  c: I32? }")
    graph.load(ndjson(node("T", k="one", a=1, c=3)), mode="append")
    old = graph.head()
    graph.apply_schema('node T { k: String @key  b: I32? @rename_from("a")  c: I32? }')
    graph.apply_schema('node T { k: String @key  b: I32?  a: I32? @rename_from("c") }')

    text = query("match { $t: T } return { $t.a, $t.b }")

    assert graph.query(text).rows == [{"t.a": 3, "t.b": 1}]
    assert graph.query(text, commit=old).rows == [{"t.a": 1, "t.b": 1}]
    assert graph.query(query("match { $t: T } return { $t.c }"), commit=old).rows == [{"t.c": 3}]


def test_a_swap_of_types_keeps_their_rows_apart(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path, "node A { k: String @key }\nnode C { k: String @key }")
    graph.load(ndjson(node("A", k="a"), node("C", k="c")), mode="append")
    old = graph.head()
    for schema in (
        'node B @rename_from("A") { k: String @key }\nnode C { k: String @key }',
        'node B { k: String @key }\nnode A @rename_from("C") { k: String @key }',
        'node B { k: String @key }\nnode D @rename_from("A") { k: String @key }',
    ):
        graph.apply_schema(schema)

    for name, key in (("A", "a"), ("B", "a"), ("C", "c"), ("D", "c")):
        found = graph.query(query(f"match {{ $x: {name} }} return {{ $x.k }}"), commit=old)
        assert found.rows == [{"x.k": key}], name


def test_a_type_declared_again_is_distinct_from_the_dropped_one(
    tmp_path: Path,
) -> None:
    graph = omnigraph.init(tmp_path, "node A { k: String @key  x: I32? }")
    graph.load(ndjson(node("A", k="one", x=1)), mode="append")
    graph.apply_schema('node B @rename_from("A") { k: String @key  y: I32? @rename_from("x") }')
    as_b = graph.head()
    graph.apply_schema("node Other { k: String @key }")
    # The new type takes the place of the earlier one of its name, which B had at last.
    graph.apply_schema("node Other { k: String @key }\nnode A { k: String @key  x: I32? }")

    with pytest.raises(CompileError):
        graph.query(query("match { $a: A } return { $a.k }"), commit=as_b)
    with pytest.raises(CompileError):
        graph.query(query("match { $b: B } return { $b.x }"), commit=as_b)
    assert graph.query(query("match { $b: B } return { $b.y }"), commit=as_b).rows == [{"b.y": 1}]


def test_a_property_that_was_dropped_and_added_again_is_another(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path, "node T { k: String @key  x: I32? }")
    graph.load(ndjson(node("T", k="one", x=1)), mode="append")
    old = graph.head()
    graph.apply_schema("node T { k: String @key }")
    graph.apply_schema("node T { k: String @key  x: I32? }")
    graph.apply_schema('node T { k: String @key  y: I32? @rename_from("x") }')

    with pytest.raises(CompileError):
        graph.query(query("match { $t: T } return { $t.y }"), commit=old)


def test_names_of_the_present_are_known_at_a_tag_after_a_clean_up(tmp_path: Path) -> None:
    graph = office(tmp_path)
    graph.tag("v1", graph.head())
    KEEPING["all at once"].apply(graph)
    for name in ("Eve", "Finn", "Gus"):
        graph.load(ndjson(node("Person", name=name), node("Firm", name=name)), mode="append")
    graph.optimize()
    graph.cleanup(keep=1)

    found = graph.query(FIRMS, {"town": "Bern"}, commit="v1")

    assert found.rows == [{"p.name": "Alice", "f.name": "Acme", "f.town": "Bern", "n": 1}]


def test_a_rename_that_was_recovered_is_recorded_too(tmp_path: Path) -> None:
    office(tmp_path)
    failpoints = Failpoints()
    with open_with(tmp_path, failpoints) as stopped:
        old = stopped.head()
        with (
            failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
            pytest.raises(RecoveryRequiredError),
        ):
            KEEPING["all at once"].apply(stopped)

    with omnigraph.open(tmp_path) as graph:
        if "node:Firm" not in graph.tables():
            KEEPING["all at once"].apply(graph)

        assert len(graph.query(FIRMS, {"town": "Bern"}, commit=old).rows) == 1


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


def test_an_edited_stored_schema_is_refused(tmp_path: Path) -> None:
    graph = office(tmp_path)
    old = graph.head()
    CHANGES["all at once"].apply(graph)
    for path in (tmp_path / "__schemas").iterdir():
        path.write_text("node Person { name: String @key }")

    reader = omnigraph.open(tmp_path, read_only=True)

    assert len(rows(reader, "Firm")) == 2
    with pytest.raises(CorruptError):
        list(reader.export(commit=old))
