"""Indexes: which ones a type gets, when, and that no result depends on them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.read.expand import TraversalMode
from omnigraph.engine.results import IndexReport
from omnigraph.engine.settings import make_settings
from omnigraph.errors import (
    ForbiddenError,
    NotFoundError,
    Outcome,
    RecoveryRequiredError,
    UnavailableError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import (
    Record,
    build_graph,
    contents,
    edge,
    head_versions,
    ndjson,
    node,
    open_with,
    pins,
    row_counts,
    sidecars,
    social_graph,
)
from tests.support.queries import query
from tests.support.sweeps import files_untouched, open_plain

EVERY_KIND = """
node Thing {
  code: String @key
  title: String @index
  plain: String?
  kind: enum(red, green)? @index
  made: Date? @index
  seen: DateTime? @index
  count: I64? @index
  weight: F64? @index
  is_big: Bool? @index
  place: Vector(3)? @index
  tags: [String]?
  picture: Blob?
  @index(kind, count)
}
node Loose { text: String? }
edge Likes: Thing -> Thing { since: I32? }
"""

AFTER_STAGING = Failpoint.ENSURE_INDICES_POST_STAGE_PRE_COMMIT_BTREE
BEFORE_PUBLISH = Failpoint.ENSURE_INDICES_POST_PHASE_B_PRE_MANIFEST_COMMIT

BTREE, INVERTED, VECTOR = "BTREE", "INVERTED", "VECTOR"


def thing(code: str, /, **properties: object) -> Record:
    """A thing with a title."""
    return node("Thing", code=code, **{"title": f"title of {code}", **properties})


def kinds(reports: Sequence[IndexReport]) -> Mapping[str, Mapping[str, str]]:
    """The kind of index of each column, by type."""
    found: dict[str, dict[str, str]] = {}
    for each in reports:
        found.setdefault(each.type, {})[each.column] = str(each.kind)
    return found


def find_report(reports: Sequence[IndexReport], type_name: str, column: str) -> IndexReport:
    """The report about one column."""
    (found,) = [each for each in reports if (each.type, each.column) == (type_name, column)]
    return found


def indexed_columns(graph: Graph) -> set[str]:
    """The columns of any type that have an index, according to the storage."""
    return {
        column
        for table in graph.tables().values()
        for index in lance.dataset(table.path, version=table.version).describe_indices()
        for column in index.field_names
    }


# Which indexes


def test_each_property_gets_the_index_of_its_type(tmp_path: Path) -> None:
    graph = build_graph(
        tmp_path,
        EVERY_KIND,
        thing("a", place=[1, 2, 3], kind="red"),
        thing("b"),
        node("Loose", text="x"),
        edge("Likes", "a", "b", since=3),
    )

    reports = graph.ensure_indices()

    assert kinds(reports) == {
        "Thing": {
            "id": BTREE,
            "code": INVERTED,
            "title": INVERTED,
            "kind": BTREE,
            "made": BTREE,
            "seen": BTREE,
            "count": BTREE,
            "weight": BTREE,
            "is_big": BTREE,
            "place": VECTOR,
        },
        "Loose": {"id": BTREE},
        "Likes": {"id": BTREE, "src": BTREE, "dst": BTREE},
    }
    assert all(each.is_built and each.pending_reason is None for each in reports)
    assert all(each.rows == each.rows_covered > 0 for each in reports)


def test_all_indexes_are_one_commit_that_changes_no_row(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before, commits, pinned = contents(graph), graph.commits(), pins(graph)

    graph.ensure_indices(actor="ann")

    made = graph.commits()[len(commits) :]
    assert [(commit.actor, commit.parent_id) for commit in made] == [("ann", commits[-1].id)]
    assert pins(graph) == {key: version + 1 for key, version in pinned.items()}
    assert pins(graph) == head_versions(tmp_path)
    assert contents(graph) == contents(open_plain(tmp_path)) == before
    assert sidecars(tmp_path) == []


def test_building_indexes_again_does_nothing(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    first = graph.ensure_indices()
    head = graph.head()

    with files_untouched(tmp_path):
        second = graph.ensure_indices()

    assert graph.head() == head
    assert second == [replace(each, is_built=False) for each in first]


def test_writes_build_no_indexes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.mutate(query('insert Person { name: "Eve" }'))

    assert indexed_columns(graph) == set()
    graph.ensure_indices()
    assert indexed_columns(graph) == {"id", "name", "src", "dst"}


def test_only_what_is_missing_is_built(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"))
    graph.ensure_indices()
    graph.load(ndjson(node("Loose", text="x")), mode="append")
    before = pins(graph)

    reports = graph.ensure_indices()

    assert [(each.type, each.column) for each in reports if each.is_built] == [("Loose", "id")]
    moved = {key for key, version in pins(graph).items() if version != before[key]}
    assert moved == {"node:Loose"}


def test_a_type_without_rows_is_not_indexed_until_it_has_some(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND)
    head = graph.head()

    empty = graph.ensure_indices()
    graph.load(ndjson(thing("a", place=[1, 2, 3])), mode="append")
    filled = graph.ensure_indices()

    assert {each.pending_reason for each in empty} == {"the type has no rows"}
    assert not any(each.is_built or each.rows or each.rows_covered for each in empty)
    assert graph.commits()[1].parent_id == head, "nothing was built, so there is no commit of it"
    assert {each.type for each in filled if each.is_built} == {"Thing"}


def test_a_type_whose_rows_were_all_deleted_has_no_rows_to_index(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"))
    graph.ensure_indices()
    graph.mutate(query('delete Thing where code = "a"'))

    reports = graph.ensure_indices()

    assert find_report(reports, "Thing", "id").rows == 0
    assert graph.query(query("match { $t: Thing } return { $t.code }")).rows == []


# Vectors that are not there yet


def test_j10_a_vector_property_without_vectors_is_pending_and_is_built_later(
    tmp_path: Path,
) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"), thing("b"))

    without = graph.ensure_indices()
    graph.load(ndjson(thing("a", place=[1, 0, 0]), thing("c")), mode="merge")
    with_some = graph.ensure_indices()

    pending = find_report(without, "Thing", "place")
    assert (pending.is_built, pending.rows_covered) == (False, 0)
    assert pending.pending_reason == "no row has a value yet"
    assert find_report(without, "Thing", "title").is_built
    built = find_report(with_some, "Thing", "place")
    assert (built.is_built, built.rows, built.rows_covered) == (True, 3, 3)
    assert built.pending_reason is None


def test_a_pending_index_makes_no_repeated_commits(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"))
    graph.ensure_indices()
    head = graph.head()

    graph.ensure_indices()

    assert graph.head() == head


# Rows that came later


def test_rows_added_later_are_reported_as_not_covered(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"), thing("b"))
    graph.ensure_indices()
    head = graph.head()
    graph.load(ndjson(thing("c"), thing("d"), thing("e")), mode="append")

    reports = graph.ensure_indices()

    title = find_report(reports, "Thing", "title")
    assert (title.is_built, title.rows, title.rows_covered) == (False, 5, 2)
    assert graph.commits()[-1].parent_id == head, "an index that exists is not built again"


def test_an_overwritten_type_gets_its_indexes_again(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, EVERY_KIND, thing("a"), thing("b"))
    graph.ensure_indices()
    graph.load(ndjson(thing("c")), mode="overwrite")

    reports = graph.ensure_indices()

    title = find_report(reports, "Thing", "title")
    assert (title.rows, title.rows_covered, title.pending_reason) == (1, 1, None)


# Branches


def test_a_branch_builds_indexes_only_of_what_it_has_written(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("draft")
    untouched = graph.ensure_indices(branch="draft")
    start = graph.head("draft")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")
    on_main = pins(graph)

    reports = graph.ensure_indices(branch="draft")

    assert not any(each.is_built for each in untouched)
    assert start == graph.head(), "nothing was built, so there is no commit of it"
    assert {each.type for each in reports if each.is_built} == {"Person"}
    inherited = find_report(reports, "Company", "id")
    assert inherited.pending_reason is not None
    assert "rows are those of another branch" in inherited.pending_reason
    assert pins(graph) == on_main
    assert len(graph.commits("draft")) == len(graph.commits()) + 2


def test_a_branch_inherits_the_indexes_of_its_base(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    graph.ensure_indices()
    graph.create_branch("draft")
    graph.mutate(query('insert Person { name: "Eve" }'), branch="draft")

    reports = graph.ensure_indices(branch="draft")

    assert not any(each.is_built for each in reports)
    name = find_report(reports, "Person", "name")
    assert (name.rows, name.rows_covered, name.pending_reason) == (5, 4, None)
    company = find_report(reports, "Company", "name")
    assert (company.rows, company.rows_covered) == (2, 2)


# Permissions


def test_indexes_are_not_built_through_a_graph_that_only_reads(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    graph = omnigraph.open(tmp_path, read_only=True)

    with files_untouched(tmp_path), pytest.raises(ForbiddenError):
        graph.ensure_indices()


def test_indexes_of_a_branch_that_is_not_there_are_not_built(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with pytest.raises(NotFoundError):
        graph.ensure_indices(branch="draft")


# Interrupted builds


def test_g35_building_no_index_leaves_nothing_to_recover(tmp_path: Path) -> None:
    social_graph(tmp_path).ensure_indices()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with (
        files_untouched(tmp_path),
        failpoints.activate(BEFORE_PUBLISH, FAIL_ALWAYS),
        pytest.raises(UnavailableError),
    ):
        graph.ensure_indices()

    reopened = open_plain(tmp_path)
    assert reopened.recoveries() == []
    assert not any(each.is_built for each in reopened.ensure_indices())


def test_indexes_that_were_applied_and_not_published_are_finished_by_the_next_writer(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    before, pinned = contents(graph), pins(graph)

    with (
        failpoints.activate(BEFORE_PUBLISH, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.ensure_indices()
    assert (pins(graph), contents(graph)) == (pinned, before)
    graph.refresh()

    assert contents(graph) == before
    assert pins(graph) == head_versions(tmp_path) != pinned
    assert not any(each.is_built for each in graph.ensure_indices())


def test_building_indexes_recovers_a_write_that_died_and_indexes_its_rows(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(query('insert Person { name: "Eve" }'))

    reports = [each for each in graph.ensure_indices() if each.type == "Person"]

    assert [each.kind for each in graph.recoveries()] == ["RolledForward"]
    assert {(each.rows, each.rows_covered) for each in reports} == {(5, 5)}
    assert sidecars(tmp_path) == []


def test_g37_indexes_staged_and_never_applied_block_no_writer(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)
    before, pinned = contents(graph), pins(graph)

    with (
        failpoints.activate(AFTER_STAGING, FAIL_ALWAYS),
        pytest.raises(UnavailableError) as refused,
    ):
        graph.ensure_indices()

    assert refused.value.outcome is Outcome.UNCHANGED
    assert head_versions(tmp_path) == pinned
    assert sidecars(tmp_path) == []
    assert contents(graph) == before
    graph.mutate(query('insert Company { name: "Initech" }'))
    assert row_counts(graph)["node:Company"] == 3
    assert all(each.pending_reason is None for each in open_plain(tmp_path).ensure_indices())


# No result depends on an index

# More rows than a type that is always read whole may have.
MANY = 4_500
LATER = 60
WORDS = ("amber", "birch", "cedar", "dunes", "ember", "fjord", "grove")

READS = {
    "a key": 'match { $t: Thing { code: "t077" } } return { $t.title }',
    "a number": "match { $t: Thing $t.count = 5 } return { $t.code }",
    "one of several numbers": "match { $t: Thing $t.count in [5, 2, 999] } return { $t.code }",
    "a range": "match { $t: Thing $t.weight >= 0.5 $t.weight < 2.5 } return { $t.code }",
    "another number": "match { $t: Thing $t.count != 5 } return { count(*) as n }",
    "an enum": 'match { $t: Thing { kind: "green" } } return { count(*) as n }',
    "a truth value": "match { $t: Thing { is_big: true } } return { count(*) as n }",
    "a date": 'match { $t: Thing $t.made < date("2024-01-03") } return { $t.code }',
    "null": "match { $t: Thing $t.kind is null } return { $t.code }",
    "either": 'match { $t: Thing $t.count = 3 or $t.kind = "red" } return { count(*) as n }',
    "a start": 'match { $t: Thing $t.code starts_with "t12" } return { $t.code }',
    "words": 'match { $t: Thing search($t.title, "amber fjord") } return { $t.code }',
    "no such words": 'match { $t: Thing search($t.title, "amber") = false } return { $t.code }',
    "nearly a word": 'match { $t: Thing fuzzy($t.title, "cedr", 1) } return { $t.code }',
    "relevance": 'match { $t: Thing } return { $t.code, bm25($t.title, "grove ember") as score } '
    'order { bm25($t.title, "grove ember") } limit 20',
    "distance": "match { $t: Thing } return { $t.code } "
    "order { nearest($t.place, [1.0, 2.0, 3.0]) } limit 15",
    "distance among some": "match { $t: Thing $t.count = 5 } return { $t.code } "
    "order { nearest($t.place, [1.0, 2.0, 3.0]) } limit 15",
    "edges out": 'match { $t: Thing { code: "t005" } $t likes $u } return { $u.code }',
    "edges in": 'match { $t: Thing { code: "t005" } $u likes $t } return { $u.code }',
    "edges either way": 'match { $t: Thing { code: "t005" } $t <likes>{1,2} $u } '
    "return { $u.code }",
    "edges themselves": 'match { $t: Thing { code: "t005" } $t $w:likes $u $w.since > 2 } '
    "return { $u.code, $w.since }",
    "all edges": "match { $t: Thing $t $w:likes $u } return { $u.kind, count($w) as n }",
    "all edges either way": "match { $t: Thing $t $w:<likes> $u } "
    "return { $t.kind, count(*) as n }",
    "missing": "match { $t: Thing $t.count = 5 not { $t likes $_ } } return { $t.code }",
}


def numbered_thing(number: int) -> Record:
    """A thing all of whose properties follow from its number."""
    return thing(
        f"t{number:03d}",
        title=f"{WORDS[number % 7]} {WORDS[number % 5]} {number}",
        kind=("red", "green", None)[number % 3],
        made=f"2024-01-{1 + number % 28:02d}",
        count=number % 11,
        weight=number % 8 / 2,
        is_big=number % 2 == 0,
        place=[number % 7, number % 13, number % 5] if number % 4 else None,
    )


def likes(number: int) -> Sequence[Record]:
    """Edges from a thing to two others, the second of them twice."""
    ends = (number * 3 % MANY, number * 7 % MANY, number * 7 % MANY)
    return [
        edge("Likes", f"t{number:03d}", f"t{end:03d}", since=since)
        for since, end in enumerate(ends, start=1)
    ]


def load_things(graph: Graph, numbers: range) -> None:
    """Load the things of some numbers, every tenth with edges."""
    graph.load(
        ndjson(
            *(numbered_thing(number) for number in numbers),
            *(each for number in numbers if number % 10 == 5 for each in likes(number)),
        ),
        mode="append",
    )


def read_all(path: Path, mode: TraversalMode) -> Mapping[str, Sequence[dict[str, object]]]:
    """The result of every read through a newly opened graph, which has empty caches."""
    settings = make_settings(path, storage_options=None, durability="relaxed")
    found = {}
    for name, body in READS.items():
        graph = open_graph(replace(settings, traversal=mode), actor=None, is_read_only=True)
        found[name] = graph.query(query(body)).rows
    return found


def test_results_are_the_same_without_with_and_beside_indexes(tmp_path: Path) -> None:
    bare = build_graph(tmp_path / "bare", EVERY_KIND)
    indexed = build_graph(tmp_path / "indexed", EVERY_KIND)
    ways = list(itertools.product(("bare", "indexed"), (TraversalMode.CSR, TraversalMode.INDEXED)))
    for graph in (bare, indexed):
        load_things(graph, range(MANY))
    indexed.ensure_indices()
    whole = [read_all(tmp_path / name, mode) for name, mode in ways]
    for graph in (bare, indexed):
        load_things(graph, range(MANY, MANY + LATER))
        graph.mutate(query('update Thing set { count: 5, kind: "green" } where code = "t012"'))
        graph.mutate(query('delete Thing where code = "t071"'))
    covered = find_report(indexed.ensure_indices(), "Thing", "count")

    partial = [read_all(tmp_path / name, mode) for name, mode in ways]

    assert 0 < covered.rows_covered < covered.rows
    assert indexed_columns(bare) == set()
    assert whole == [whole[0]] * len(ways)
    assert partial == [partial[0]] * len(ways)
    assert whole[0] != partial[0]
    assert all(whole[0].values()), "a read that finds nothing proves nothing"
