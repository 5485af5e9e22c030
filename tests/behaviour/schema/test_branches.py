"""A schema belongs to the whole graph: additions while branches exist, and how branches follow."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import IntegrityError, PreconditionFailedError
from tests.support.graphs import contents, edge, ndjson, node, pins, rows, values
from tests.support.queries import query
from tests.support.schema_changes import OFFICE, office, require_files
from tests.support.sweeps import require_sound, state_of

WIDER = (
    OFFICE.replace("size: I32?", "size: I32?  web: String?  about: String? @index  v: Vector(2)?")
    + "\nnode Pet { name: String @key  kind: enum(cat, dog)? }\nedge Owns: Person -> Pet"
    + "\nedge Trades: Company -> Company"
)
"""The schema with properties, a type and edges that come while there is a branch."""


def behind(path: Path) -> Graph:
    """A branch with its own company, and a wider schema that it does not follow yet."""
    graph = office(path)
    graph.create_branch("draft")
    graph.load(ndjson(node("Company", name="Own", size=1)), mode="append", branch="draft")
    graph.apply_schema(WIDER)
    return graph


def run_query(graph: Graph, body: str, branch: str = "draft") -> Sequence[object]:
    """The values of a query's rows on a branch."""
    found = graph.query(query(body), branch=branch)
    return [tuple(row[name] for name in found.columns) for row in found]


# Reading before the branch follows

READS = {
    "a value": ("match { $c: Company } return { $c.name, $c.web } order { $c.name asc }",
        [("Acme", None), ("Globex", None), ("Own", None)]),
    "a condition": ('match { $c: Company  $c.web = "x" } return { $c.name }', []),
    "is null": ("match { $c: Company  $c.web is null } return { count($c) as n }", [(3,)]),
    "is not null": ("match { $c: Company  $c.web is not null } return { $c.name }", []),
    "an order": ("match { $c: Company } return { $c.name } order { $c.web desc, $c.name asc }",
        [("Acme",), ("Globex",), ("Own",)]),
    "a sum": ("match { $c: Company } return { count($c.web) as n, max($c.web) as most }",
        [(0, None)]),
    "groups": ("match { $c: Company } return { $c.web, count($c) as n }", [(None, 3)]),
    "words": ('match { $c: Company  search($c.about, "x") } return { $c.name }', []),
    "neighbours": (
        "match { $c: Company } return { $c.name } order { nearest($c.v, [0.0, 1.0]) } limit 2", []),
    "a new type": ("match { $p: Pet } return { $p.name }", []),
    "how many of it": ("match { $p: Pet } return { count($p) as n }", [(0,)]),
    "along new edges": ("match { $p: Person  $p owns $x } return { $p.name, $x.name }", []),
    "along new edges of old types": (
        "match { $a: Company  $a trades $b } return { $a.name, $b.name }", []),
    "no new edge": ("match { $p: Person  not { $p owns $_ } } return { $p.name }",
        [("Alice",), ("Bob",)]),
    "optional new edges": (
        "match { $p: Person  optional { $p owns $x } } return { $p.name, $x.name }",
        [("Alice", None), ("Bob", None)]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "found"), READS.values(), ids=READS.keys())
def test_a_branch_that_is_behind_reads_missing_properties_as_null(
    tmp_path: Path, body: str, found: Sequence[object]
) -> None:
    graph = behind(tmp_path)
    head = graph.head("draft")

    assert run_query(graph, body) == found
    assert run_query(omnigraph.open(tmp_path, read_only=True), body) == found
    assert graph.head("draft") == head, "reading wrote something"


def test_a_branch_that_is_behind_is_exported_with_all_properties(tmp_path: Path) -> None:
    graph = behind(tmp_path)

    assert rows(graph, "Company", "draft")["Own"] == {
        "name": "Own", "city": None, "size": 1, "web": None, "about": None, "v": None,
    }  # fmt: skip
    assert graph.entity("Company", "Own", branch="draft") is not None
    assert graph.entity("Pet", "Rex", branch="draft") is None
    assert graph.export_batches("Pet", branch="draft").read_all().num_rows == 0
    assert list(graph.export(branch="draft", types=["Pet"])) == []


# Writing


def test_the_first_write_on_a_branch_that_is_behind_follows_the_schema(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    before = len(graph.commits("draft"))

    graph.mutate(
        query(
            'insert Company { name: "New", web: "w" } insert Pet { name: "Rex", kind: "dog" } '
            'insert Owns { from: "Alice", to: "Rex" } insert Trades { from: "New", to: "Own" }'
        ),
        branch="draft",
        actor="ann",
    )

    assert [each.actor for each in graph.commits("draft")[before:]] == ["omnigraph:schema", "ann"]
    assert values(graph, "Company", "web", "draft")["New"] == "w"
    assert run_query(graph, "match { $p: Person  $p owns $x } return { $x.name }") == [("Rex",)]
    assert contents(graph).keys().isdisjoint({"Pet", "Owns", "Trades"})
    require_sound(graph, state_of(graph))


def test_a_branch_follows_a_schema_once(tmp_path: Path) -> None:
    graph = behind(tmp_path)

    for number in range(3):
        graph.mutate(query(f'insert Pet {{ name: "p{number}" }}'), branch="draft")

    actors = [each.actor for each in graph.commits("draft")]
    assert actors.count("omnigraph:schema") == 1


def test_a_branch_that_lacks_nothing_follows_without_a_commit(tmp_path: Path) -> None:
    graph = office(tmp_path)
    graph.create_branch("draft")
    graph.apply_schema(OFFICE.replace("node Note {", 'node Note @description("n") {'))

    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")

    assert [each.actor for each in graph.commits("draft")][2:] == [None]


def test_rules_of_new_properties_hold_on_a_branch_that_was_behind(tmp_path: Path) -> None:
    graph = behind(tmp_path)

    with pytest.raises(IntegrityError):
        graph.load(ndjson(node("Pet", name="x", kind="fish")), mode="append", branch="draft")
    with pytest.raises(IntegrityError):
        graph.load(ndjson(edge("Owns", "Alice", "Absent")), mode="append", branch="draft")
    assert "Pet" not in contents(graph, "draft")


def test_a_branch_that_is_behind_may_be_written_at_a_commit_that_the_caller_names(
    tmp_path: Path,
) -> None:
    graph = behind(tmp_path)
    insert = query('insert Person { name: "Eve" }')

    with pytest.raises(PreconditionFailedError):
        graph.mutate(insert, branch="draft", if_commit=graph.head())
    graph.mutate(insert, branch="draft", if_commit=graph.head("draft"))

    assert "Eve" in rows(graph, "Person", "draft")


def test_indexes_of_a_branch_that_is_behind_can_be_built(tmp_path: Path) -> None:
    graph = behind(tmp_path)

    graph.ensure_indices(branch="draft")

    assert run_query(graph, 'match { $c: Company  search($c.about, "x") } return { $c.name }') == []
    require_sound(graph, state_of(graph))


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_of_any_mode_reaches_a_branch_that_is_behind(tmp_path: Path, mode: str) -> None:
    graph = behind(tmp_path)
    names = ["Acme", "Globex", "New"] if mode == "overwrite" else ["New"]
    companies = [node("Company", name=name, web="w") for name in names]

    graph.load(ndjson(*companies, node("Pet", name="Rex")), mode=mode, branch="draft")

    assert values(graph, "Company", "web", "draft")["New"] == "w"
    assert list(rows(graph, "Pet", "draft")) == ["Rex"]
    require_sound(graph, state_of(graph))


# Merging


def test_a_branch_that_is_behind_merges_into_main(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    graph.mutate(query('update Company set { web: "acme" } where name = "Acme"'))
    graph.mutate(query('insert Pet { name: "Rex" }'))

    graph.merge("draft")

    assert values(graph, "Company", "web") == {"Acme": "acme", "Globex": None, "Own": None}
    assert list(rows(graph, "Pet")) == ["Rex"]
    require_sound(graph, state_of(graph))


def test_main_merges_into_a_branch_that_is_behind(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    graph.mutate(query('update Company set { web: "acme" } where name = "Acme"'))
    graph.load(ndjson(node("Pet", name="Rex"), edge("Owns", "Alice", "Rex")), mode="append")

    graph.merge("main", into="draft")

    assert values(graph, "Company", "web", "draft") == {"Acme": "acme", "Globex": None, "Own": None}
    assert run_query(graph, "match { $p: Person  $p owns $x } return { $x.name }") == [("Rex",)]
    require_sound(graph, state_of(graph))


def test_both_sides_fill_a_new_type_and_merge(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    graph.load(ndjson(node("Pet", name="Rex")), mode="append")
    graph.load(ndjson(node("Pet", name="Tom")), mode="append", branch="draft")

    graph.merge("draft")
    graph.merge("main", into="draft")

    assert sorted(rows(graph, "Pet")) == ["Rex", "Tom"]
    assert contents(graph) == contents(graph, "draft")
    require_sound(graph, state_of(graph))


def test_a_dry_run_of_a_merge_changes_no_branch_that_is_behind(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    heads = graph.head(), graph.head("draft")

    assert graph.merge("draft", dry_run=True).outcome == "merged"
    assert graph.merge("main", into="draft", dry_run=True).conflicts == ()

    assert (graph.head(), graph.head("draft")) == heads


def test_a_commit_is_picked_onto_a_branch_that_is_behind_and_from_it(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    own = graph.head("draft")
    made = graph.mutate(query('insert Pet { name: "Rex" }')).commit_id

    graph.cherry_pick(str(made), onto="draft")
    graph.cherry_pick(own)

    assert list(rows(graph, "Pet", "draft")) == ["Rex"]
    assert "Own" in rows(graph, "Company")
    require_sound(graph, state_of(graph))


def test_a_commit_of_a_branch_before_a_wider_schema_can_be_reverted_after_it(
    tmp_path: Path,
) -> None:
    graph = behind(tmp_path)

    graph.revert(graph.head("draft"), branch="draft")

    assert sorted(rows(graph, "Company", "draft")) == ["Acme", "Globex"]


def test_a_branch_of_a_branch_follows_too(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    graph.create_branch("child", base="draft")
    graph.load(ndjson(node("Pet", name="Rex")), mode="append", branch="child")

    graph.merge("child", into="draft")
    graph.merge("draft")

    assert list(rows(graph, "Pet")) == ["Rex"]
    assert "Own" in rows(graph, "Company")
    require_sound(graph, state_of(graph))


def test_several_additions_reach_a_branch_together(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    graph.apply_schema(WIDER.replace("web: String?", "web: String?  mail: String?"))
    graph.apply_schema(
        WIDER.replace("web: String?", "web: String?  mail: String?").replace(
            "enum(cat, dog)", "enum(cat, dog, fish)"
        )
    )

    added = ndjson(node("Pet", name="Nemo", kind="fish"), node("Company", name="C", mail="m"))
    graph.load(added, mode="append", branch="draft")

    assert values(graph, "Company", "mail", "draft")["C"] == "m"
    assert values(graph, "Pet", "kind", "draft") == {"Nemo": "fish"}
    require_sound(graph, state_of(graph))
    require_files(graph)


def test_a_deleted_branch_that_was_behind_leaves_a_graph_that_can_change_freely(
    tmp_path: Path,
) -> None:
    graph = behind(tmp_path)
    graph.load(ndjson(node("Pet", name="Rex")), mode="append", branch="draft")
    graph.delete_branch("draft")

    graph.apply_schema(WIDER.partition("\nnode Pet")[0])
    graph.apply_schema(WIDER)
    graph.create_branch("draft")
    graph.load(ndjson(node("Pet", name="Tom")), mode="append", branch="draft")

    assert list(rows(graph, "Pet", "draft")) == ["Tom"]
    assert "Pet" not in contents(graph)
    require_sound(graph, state_of(graph))


def test_old_commits_of_a_branch_are_read_under_the_schema_of_their_time(tmp_path: Path) -> None:
    graph = behind(tmp_path)
    old = graph.head("draft")
    lines = list(graph.export(commit=old))
    graph.load(ndjson(node("Pet", name="Rex")), mode="append", branch="draft")

    assert list(graph.export(commit=old)) == lines
    assert not any("web" in line or "Pet" in line for line in lines)


# Transactions


def test_a_transaction_continues_under_a_wider_schema(tmp_path: Path) -> None:
    graph = office(tmp_path)

    with graph.transaction() as tx:
        tx.mutate(query('insert Company { name: "T" }'))
        graph.apply_schema(WIDER)
        without = query("match { $c: Company  $c.web is null } return { count($c) as n }")
        assert tx.query(without).rows == [{"n": 3}]
        tx.mutate(query('insert Company { name: "U", web: "w" } insert Pet { name: "Rex" }'))

    assert values(graph, "Company", "web") == {"Acme": None, "Globex": None, "T": None, "U": "w"}
    assert list(rows(graph, "Pet")) == ["Rex"]
    assert [each.actor for each in graph.commits()].count("omnigraph:schema") == 0
    assert pins(graph).keys() == pins(omnigraph.open(tmp_path)).keys()
    require_sound(graph, state_of(graph))
