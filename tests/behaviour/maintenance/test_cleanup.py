"""Cleanup deletes old versions, and none that a branch, tag or reader needs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import lance
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.engine.state.manifest import Entry, Snapshot
from omnigraph.engine.state.readers import Readers
from omnigraph.errors import (
    DriftError,
    ForbiddenError,
    GraphError,
    InvalidValueError,
    NotFoundError,
    UnavailableError,
)
from omnigraph.model.limits import READER_GRACE_S
from omnigraph.model.names import MAIN
from omnigraph.model.runtime import Clock, SystemClock
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import Stores
from tests.support.clocks import HandClock
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, fail_times
from tests.support.graphs import (
    build_graph,
    contents,
    edge,
    ndjson,
    node,
    open_with,
    pins,
    root_of,
    social_graph,
    unchanged,
)
from tests.support.later_graphs import A_DAY_S, clean_later, open_later, versions
from tests.support.queries import query
from tests.support.s3_server import S3Server
from tests.support.sweeps import files_untouched, open_plain

SCHEMA = """
node Person { name: String @key  age: I64? @index }
edge Knows: Person -> Person
"""


def grown_graph(root: Path, *, years: int = 5) -> Graph:
    """Ann, with one commit per year of age, and Bob, whom she knows."""
    people = (node("Person", name="ann", age=0), node("Person", name="bob", age=0))
    graph = build_graph(root, SCHEMA, *people, edge("Knows", "ann", "bob"))
    for year in range(1, years + 1):
        set_age(graph, year)
    return graph


def set_age(graph: Graph, age: int, *, branch: str = "main") -> str:
    text = query(f'update Person set {{ age: {age} }} where name = "ann"')
    return str(graph.mutate(text, branch=branch).commit_id)


def age(graph: Graph, *, branch: str | None = None, commit: str | None = None) -> object:
    row = graph.entity("Person", "ann", branch=branch, commit=commit)
    assert row is not None
    return row["age"]


def person_versions(graph: Graph) -> list[int]:
    return versions(graph, "node:Person")


# Deleted


def test_j14_the_retained_versions_are_the_newest_and_can_be_read_and_written(
    tmp_path: Path,
) -> None:
    graph = grown_graph(tmp_path / "graph")
    before = contents(graph)

    reports = clean_later(graph, keep=1)

    assert person_versions(graph) == [pins(graph)["node:Person"]]
    assert reports["Person"].old_versions_removed == 6
    assert reports["Person"].bytes_removed > 0
    assert reports["Person"].error is None
    assert contents(open_plain(root_of(graph))) == contents(graph) == before
    set_age(graph, 99)
    assert age(graph) == 99


def test_versions_are_counted_as_they_are_and_not_by_their_numbers(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    clean_later(graph, keep=2)
    set_age(graph, 50)
    set_age(graph, 51)

    clean_later(graph, keep=3)

    newest = pins(graph)["node:Person"]
    assert person_versions(graph) == [newest - 2, newest - 1, newest]


def test_a_second_clean_up_finds_nothing_to_do(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    clean_later(graph)

    with files_untouched(root_of(graph)):
        again = clean_later(graph)

    assert {each.old_versions_removed for each in again.values()} == {0}


def test_a_preview_reports_what_would_be_deleted_and_deletes_nothing(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    later = open_later(root_of(graph))

    with files_untouched(root_of(graph)):
        preview = later.cleanup(keep=1, preview=True)

    assert later.cleanup(keep=1) == preview
    assert any(each.old_versions_removed for each in preview)


def test_only_older_versions_are_deleted(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    later = open_later(root_of(graph))

    young = later.cleanup(older_than=timedelta(days=2))
    assert {each.old_versions_removed for each in young} == {0}
    old = later.cleanup(older_than=3600)

    assert {each.type: each.old_versions_removed for each in old} == {"Knows": 1, "Person": 6}


def test_with_both_limits_only_versions_beyond_both_are_deleted(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    later = open_later(root_of(graph))

    young = later.cleanup(keep=1, older_than=2 * A_DAY_S)
    few = later.cleanup(keep=100, older_than=3600)
    both = later.cleanup(keep=2, older_than=3600)

    removed = [
        {each.type: each.old_versions_removed for each in reports}["Person"]
        for reports in (young, few, both)
    ]
    assert removed == [0, 0, 5]


def test_every_type_is_reported_with_its_deleted_versions(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.mutate(query('update Person set { age: 31 } where name = "Alice"'))

    reports = open_later(root_of(graph)).cleanup(keep=1)

    assert [(each.table_key, each.type) for each in reports] == [
        ("edge:Knows", "Knows"),
        ("edge:WorksAt", "WorksAt"),
        ("node:Company", "Company"),
        ("node:Person", "Person"),
    ]
    assert reports[-1].old_versions_removed > reports[0].old_versions_removed


def test_a_commit_whose_rows_were_cleaned_up_is_listed_and_cannot_be_read(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    commits = [commit.id for commit in graph.commits()]

    clean_later(graph)

    assert [commit.id for commit in graph.commits()] == commits
    with pytest.raises(NotFoundError, match="cleaned up"):
        age(open_plain(root_of(graph)), commit=commits[2])


def test_a_cleanup_on_an_object_store_deletes_the_same(server: S3Server) -> None:
    uri, options = f"s3://{server.create_bucket()}/graph", server.lance_options()
    graph = omnigraph.init(uri, schema=SCHEMA, storage_options=options)
    graph.load(ndjson(node("Person", name="ann", age=0)), mode="append")
    set_age(graph, 1)
    graph.create_branch("old")
    for number in (2, 3):
        set_age(graph, number)
    later = open_later(uri, storage_options=options)

    preview = later.cleanup(keep=1, preview=True)
    reports = later.cleanup(keep=1)

    assert reports == preview
    assert {each.type: each.old_versions_removed for each in reports} == {"Knows": 0, "Person": 3}
    afresh = omnigraph.open(uri, storage_options=options)
    assert (age(afresh), age(afresh, branch="old")) == (3, 1)
    assert set_age(afresh, 4, branch="old")


# Retained


def test_a_recently_replaced_version_is_retained_for_its_readers(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    start = next(iter(open_plain(root_of(graph)).export_batches("Person")))
    reader = open_plain(root_of(graph)).export_batches("Person")
    set_age(graph, 99)

    open_later(root_of(graph), ahead_s=READER_GRACE_S / 2).cleanup(keep=1)

    assert next(iter(reader)).equals(start)


def test_j17_versions_that_a_branch_inherits_are_retained_at_any_age(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph", years=2)
    graph.create_branch("old")
    for year in range(3, 6):
        set_age(graph, year)

    clean_later(graph)

    assert age(graph, branch="old") == age(open_plain(root_of(graph)), branch="old") == 2
    assert len(person_versions(graph)) == 2
    set_age(graph, 77, branch="old")
    assert (age(graph, branch="old"), age(graph)) == (77, 5)


def test_fork_points_are_retained_for_merges(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph", years=1)
    graph.create_branch("left")
    graph.create_branch("right")
    graph.load(ndjson(node("Person", name="cyd", age=1)), mode="append", branch="left")
    graph.load(ndjson(node("Person", name="dan", age=1)), mode="append", branch="right")
    set_age(graph, 9)
    set_age(graph, 10)

    clean_later(graph)
    afresh = open_plain(root_of(graph))
    afresh.merge("left", into="right")
    afresh.merge("right")

    assert set(contents(graph)["Person"]) == {"ann", "bob", "cyd", "dan"}
    assert age(graph) == 10


def test_the_last_merge_base_is_retained_and_earlier_ones_are_deleted(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph", years=1)
    graph.create_branch("work")
    for number in range(3):
        graph.load(ndjson(node("Person", name=f"w{number}", age=1)), mode="append", branch="work")
        graph.merge("work")
    before = len(versions(graph, "node:Person", branch="work"))
    graph.load(ndjson(node("Person", name="late", age=1)), mode="append", branch="work")

    clean_later(graph)
    open_plain(root_of(graph)).merge("work")

    assert len(versions(graph, "node:Person", branch="work")) < before
    assert {"w0", "w1", "w2", "late"} <= set(contents(graph)["Person"])


def test_branches_that_merged_a_deleted_branch_can_be_merged(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph", years=1)
    for name in ("left", "right", "gone"):
        graph.create_branch(name)
    graph.load(ndjson(node("Person", name="cyd", age=1)), mode="append", branch="gone")
    graph.merge("gone", into="left")
    graph.merge("gone", into="right")
    graph.delete_branch("gone")
    graph.mutate(query('delete Person where name = "cyd"'), branch="right")
    set_age(graph, 8, branch="left")

    clean_later(graph)
    open_plain(root_of(graph)).merge("left", into="right")

    assert set(contents(graph, "right")["Person"]) == {"ann", "bob"}
    assert age(graph, branch="right") == 8


def test_a_tagged_commit_is_retained(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    tagged = set_age(graph, 6)
    set_age(graph, 7)
    set_age(graph, 8)
    graph.tag("then", tagged)

    clean_later(graph)
    assert age(open_plain(root_of(graph)), commit="then") == 6
    graph.delete_tag("then")
    clean_later(graph)

    with pytest.raises(NotFoundError, match="cleaned up"):
        age(open_plain(root_of(graph)), commit=tagged)


def test_the_start_of_an_open_transaction_is_retained(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")

    with graph.transaction() as inside:
        graph.load(ndjson(node("Person", name="cyd")), mode="append")
        graph.load(ndjson(node("Person", name="dan")), mode="append")
        clean_later(graph)
        assert inside.entity("Person", "ann") == {"id": "ann", "name": "ann", "age": 5}
        inside.mutate(query('update Person set { age: 60 } where name = "ann"'))

    assert age(graph) == 60
    assert set(contents(graph)["Person"]) == {"ann", "bob", "cyd", "dan"}


def test_a_branch_that_is_older_than_a_type_reads_it_afterwards(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    graph.create_branch("old")
    graph.apply_schema(SCHEMA + "node City { name: String @key }\n")
    for name in ("oslo", "rome"):
        graph.load(ndjson(node("City", name=name)), mode="append")

    clean_later(graph)

    afresh = open_plain(root_of(graph))
    assert "City" not in contents(afresh, "old")
    assert afresh.entity("City", "oslo", branch="old") is None


# Readers


def test_a_clock_far_ahead_of_the_newest_commit_deletes_nothing(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    before = versions(graph, "node:Person")
    ten_years = open_later(root_of(graph), ahead_s=3650 * A_DAY_S)

    with pytest.raises(InvalidValueError, match=r"3,650 days after the newest commit"):
        ten_years.cleanup(keep=1)

    assert versions(graph, "node:Person") == before


def test_a_clock_far_ahead_is_trusted_on_request(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    ten_years = open_later(root_of(graph), ahead_s=3650 * A_DAY_S)

    reports = ten_years.cleanup(keep=1, trust_clock=True)

    assert sum(each.old_versions_removed for each in reports) > 0
    assert age(graph) == 5


def test_a_version_that_a_reader_claims_is_retained_until_released(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    read, commit = present_of(graph), graph.head()
    set_age(graph, 6)
    set_age(graph, 7)

    with readers_of(graph).reading(read, id="r1", is_past=True):
        during = clean_later(graph)
        found = age(open_plain(root_of(graph)), commit=commit)
    after = clean_later(graph)

    assert found == 5
    assert (during["Person"].old_versions_removed, after["Person"].old_versions_removed) == (7, 1)
    with pytest.raises(NotFoundError, match="cleaned up"):
        age(open_plain(root_of(graph)), commit=commit)


def test_an_open_export_of_an_old_commit_is_read_to_its_end(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    then = graph.commits()[1].id
    expected = list(graph.export(commit=then))
    lines = graph.export(commit=then)
    taken = [next(lines)]

    clean_later(graph)

    assert [*taken, *lines] == expected
    assert list((root_of(graph) / "__readers").glob("*")) == []
    clean_later(graph)
    with pytest.raises(NotFoundError):
        list(open_plain(root_of(graph)).export(commit=then))


def test_a_commit_whose_rows_were_cleaned_up_cannot_be_tagged(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    then = graph.commits()[1].id
    clean_later(graph)

    with pytest.raises(NotFoundError, match="cleaned up"):
        open_plain(root_of(graph)).tag("then", then)

    assert graph.tags() == {}


def test_a_dead_readers_claim_and_its_versions_are_deleted(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    long_ago = HandClock()
    reading = readers_of(graph, clock=long_ago).reading(present_of(graph), id="r1", is_past=True)
    reading.__enter__()
    set_age(graph, 6)

    removed = clean_later(graph)

    assert removed["Person"].old_versions_removed == 7
    assert list((root_of(graph) / "__readers").glob("*")) == []


def test_a_reader_of_versions_about_to_be_deleted_is_refused(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    read = present_of(graph)
    readers = readers_of(graph)

    with (
        readers.cleaning([entry.at for entry in read], id="c1"),
        pytest.raises(NotFoundError, match="being cleaned up"),
        readers.reading(read, id="r1", is_past=True),
    ):
        raise AssertionError("it was let in")

    assert readers.find_read() == readers.find_doomed() == frozenset()


def test_a_read_of_the_head_writes_no_claim_unless_it_takes_long(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    read = present_of(graph)

    with (
        files_untouched(root_of(graph)),
        readers_of(graph, clock=HandClock()).reading(read, id="r1", is_past=False),
    ):
        pass


def test_a_long_read_claims_its_versions(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    read = present_of(graph)
    clock = HurriedClock()

    with readers_of(graph, clock=clock).reading(read, id="r1", is_past=False):
        clock.has_beaten.wait(10)
        claimed = readers_of(graph).find_read()

    assert claimed == {entry.at for entry in read}
    assert readers_of(graph).find_read() == frozenset()


class HurriedClock:
    """The clock of the machine, except that the first wait ends at once."""

    def __init__(self) -> None:
        self.has_beaten = Event()
        self._waits = 0

    def now(self) -> datetime:
        """The current time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Not used."""
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Not used."""

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        """Return at once, the second time only with the event."""
        del timeout_s
        self._waits += 1
        if self._waits == 1:
            return False
        self.has_beaten.set()
        return event.wait()


def readers_of(graph: Graph, *, clock: Clock | None = None) -> Readers:
    return Readers(stores_of(graph).objects, clock or SystemClock())


def stores_of(graph: Graph) -> Stores:
    settings = make_settings(str(root_of(graph)), storage_options=None, durability="relaxed")
    return open_stores(settings)


def present_of(graph: Graph) -> Snapshot:
    """The versions that main names now."""
    root = root_of(graph)
    entries = {
        key: Entry(key, str(Path(table.path).relative_to(root)), table.version, None, 0)
        for key, table in graph.tables().items()
    }
    return Snapshot(MAIN, 1, entries)


# Table branches that deleted branches left


def test_j16_only_table_branches_that_no_branch_names_are_deleted(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    graph.create_branch("feature")
    set_age(graph, 50, branch="feature")
    tables, line = stores_of(graph).tables, present_of(graph).get("node:Person").at
    for name in ("left", "left/over", "feature/x"):
        tables.fork(line, branch=name)
    knows = present_of(graph).get("edge:Knows").at
    tables.fork(knows, branch="feature")

    reports = clean_later(graph)

    assert {each.error for each in reports.values()} == {None}
    assert tables.branches(line.ref.path) == {"feature"}
    assert tables.branches(knows.ref.path) == frozenset()
    assert age(graph, branch="feature") == 50


def test_a_table_branch_that_a_child_branch_inherits_is_retained(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    graph.create_branch("first")
    set_age(graph, 50, branch="first")
    graph.create_branch("second", base="first")
    set_age(graph, 51, branch="first")
    set_age(graph, 52, branch="first")

    clean_later(graph)

    afresh = open_plain(root_of(graph))
    assert (age(afresh, branch="second"), age(afresh, branch="first")) == (50, 52)
    set_age(afresh, 60, branch="second")
    assert age(graph, branch="second") == 60


# Failures


@pytest.mark.parametrize("call", [lambda graph: graph.cleanup(), lambda graph: graph.cleanup(None)])
def test_j13_without_a_limit_it_is_refused_and_both_are_named(
    tmp_path: Path, call: Callable[[Graph], object]
) -> None:
    graph = grown_graph(tmp_path / "graph")

    with unchanged(graph), pytest.raises(InvalidValueError, match=r"keep.*older_than"):
        call(graph)


@pytest.mark.parametrize(
    ("keep", "older_than"), [(0, None), (-1, None), (True, None), (None, -1), (None, "7d")]
)
def test_limits_that_mean_nothing_are_refused(
    tmp_path: Path, keep: int | None, older_than: object
) -> None:
    graph = grown_graph(tmp_path / "graph")

    with unchanged(graph), pytest.raises(InvalidValueError):
        graph.cleanup(keep=keep, older_than=older_than)  # type: ignore[arg-type]  # wrong on purpose


def test_a_graph_opened_for_reading_is_not_cleaned_up(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")

    with pytest.raises(ForbiddenError):
        open_plain(root_of(graph), is_read_only=True).cleanup(keep=1)


def test_a_type_written_outside_omnigraph_prevents_any_deletion(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    lance.dataset(graph.tables()["node:Person"].path).delete("id = 'bob'")

    with pytest.raises(DriftError, match="repair"):
        clean_later(graph)

    assert len(person_versions(graph)) == 8


def test_a_failure_of_one_type_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    failpoints = Failpoints()
    later = open_later(root_of(graph), failpoints=failpoints)

    with failpoints.activate(Failpoint.CLEANUP_TABLE_GC, fail_times(1)):
        reports = later.cleanup(keep=1)

    assert [(each.type, each.error is None) for each in reports] == [
        ("Knows", False),
        ("Person", True),
    ]
    assert reports[1].old_versions_removed == 6
    assert {each.error for each in later.cleanup(keep=1)} == {None}


def test_a_table_branch_that_cannot_be_deleted_is_reported_and_retried(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    tables, line = stores_of(graph).tables, present_of(graph).get("node:Person").at
    tables.fork(line, branch="left")
    failpoints = Failpoints()
    later = open_later(root_of(graph), failpoints=failpoints)

    with failpoints.activate(Failpoint.CLEANUP_RECONCILE_FORK, FAIL_ALWAYS):
        reports = {each.type: each for each in later.cleanup(keep=1)}
    assert reports["Person"].error is not None
    assert tables.branches(line.ref.path) == {"left"}
    later.cleanup(keep=1)

    assert tables.branches(line.ref.path) == frozenset()


def test_an_unreadable_branch_prevents_any_deletion(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    failpoints = Failpoints()
    later = open_later(root_of(graph), failpoints=failpoints)

    with (
        failpoints.activate(Failpoint.CLEANUP_RESOLVE_BRANCH_SNAPSHOT, FAIL_ALWAYS),
        pytest.raises(UnavailableError),
    ):
        later.cleanup(keep=1)

    assert len(person_versions(graph)) == 7


def test_a_write_that_stopped_half_way_is_finished_first(tmp_path: Path) -> None:
    graph = grown_graph(tmp_path / "graph")
    failpoints = Failpoints()
    stopped = open_with(root_of(graph), failpoints)
    with (
        failpoints.activate(Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER, FAIL_ALWAYS),
        pytest.raises(GraphError),
    ):
        set_age(stopped, 42)

    clean_later(graph)

    assert age(graph) == 42
    assert person_versions(graph) == [pins(graph)["node:Person"]]
