"""Section B of the engine: every commit is one step of one chain, whichever writer makes it."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    MovedError,
    Outcome,
    PreconditionFailedError,
    RecoveryRequiredError,
    UnavailableError,
)
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, fail_times
from tests.support.graphs import (
    build_graph,
    contents,
    counts,
    head_versions,
    manifest,
    ndjson,
    node,
    open_with,
    pins,
    require_linear,
    row_counts,
    rows,
    sidecars,
    social_graph,
    unchanged,
    values,
)
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
WRITERS = 8


def test_b01_a_write_moves_its_type_by_one_version_and_history_by_one_commit(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    before, head, version = pins(graph), graph.head(), manifest(tmp_path).version

    result = graph.mutate(EVE)

    last = graph.commits()[-1]
    assert pins(graph) == {**before, "node:Person": before["node:Person"] + 1}
    assert head_versions(tmp_path) == pins(graph)
    assert (last.id, last.parent_id) == (result.commit_id, head)
    assert last.manifest_version == manifest(tmp_path).version == version + 1
    assert row_counts(graph)["node:Person"] == 5


def test_commits_are_listed_oldest_first_with_their_times(tmp_path: Path) -> None:
    start = datetime.now(UTC) - timedelta(seconds=1)
    graph = social_graph(tmp_path)
    graph.mutate(EVE)

    commits = graph.commits()

    require_linear(commits)
    assert len(commits) == 3
    assert [commit.branch for commit in commits] == ["main"] * 3
    times = [commit.created_at for commit in commits]
    assert times == sorted(times)
    assert start <= times[0] <= times[-1] <= datetime.now(UTC)


def test_b10_many_writers_of_one_branch_make_one_chain(tmp_path: Path) -> None:
    schema = " ".join(f"node T{number} {{ name: String @key }}" for number in range(WRITERS))
    graph = build_graph(tmp_path, schema)
    start = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        with omnigraph.open(str(tmp_path)) as own:
            start.wait()
            insert_until_it_lands(own, f'insert T{number} {{ name: "x" }}')

    run_all([threading.Thread(target=write, args=(number,)) for number in range(WRITERS)])

    commits = graph.commits()
    require_linear(commits)
    assert len(commits) == 1 + WRITERS
    assert set(row_counts(graph).values()) == {1}
    assert head_versions(tmp_path) == pins(graph)
    assert sidecars(tmp_path) == []


def test_b10_many_threads_share_one_graph(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key }")
    start = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        start.wait()
        for turn in range(3):
            insert_until_it_lands(graph, f'insert Person {{ name: "{number}-{turn}" }}')

    run_all([threading.Thread(target=write, args=(number,)) for number in range(WRITERS)])

    require_linear(graph.commits())
    assert len(rows(graph, "Person")) == len(graph.commits()) - 1 == WRITERS * 3
    assert head_versions(tmp_path) == pins(graph)


def test_b10_concurrent_increments_of_one_number_are_not_lost(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node T { name: String @key  n: I32? }", node("T", name="x", n=0))
    start = threading.Barrier(4)

    def write() -> None:
        with omnigraph.open(str(tmp_path)) as own:
            start.wait()
            for _ in range(3):
                increase(own)

    run_all([threading.Thread(target=write) for _ in range(4)])

    assert values(graph, "T", "n") == {"x": 12}


def test_k07_of_two_inserts_of_one_new_key_one_row_remains(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key  age: I32? }")
    start = threading.Barrier(4)

    def write(number: int) -> None:
        with omnigraph.open(str(tmp_path)) as own:
            start.wait()
            insert_until_it_lands(own, f'insert Person {{ name: "x", age: {number} }}')

    run_all([threading.Thread(target=write, args=(number,)) for number in range(4)])

    assert list(rows(graph, "Person")) == ["x"]
    assert row_counts(graph) == {"node:Person": 1}
    require_linear(graph.commits())


def test_b11_a_publish_that_meets_another_writer_is_retried(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    place = Failpoint.PUBLISH_LOAD_STATE_RETRYABLE_CONTENTION
    with failpoints.activate(place, fail_times(1)) as activation:
        graph.mutate(EVE)

    assert activation.arrivals == 2
    assert "Eve" in rows(graph, "Person")
    require_linear(graph.commits())
    assert sidecars(tmp_path) == []


def test_b14_a_write_that_stops_before_its_publish_is_invisible(tmp_path: Path) -> None:
    before = social_graph(tmp_path)
    seen, version, pinned = contents(before), manifest(tmp_path).version, pins(before)
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    place = Failpoint.GRAPH_PUBLISH_BEFORE_COMMIT_APPEND
    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(RecoveryRequiredError) as stopped:
        graph.mutate(EVE)

    assert stopped.value.outcome is Outcome.UNCERTAIN
    assert sidecars(tmp_path) == [f"{stopped.value.operation_id}.json"]
    assert manifest(tmp_path).version == version
    assert head_versions(tmp_path)["node:Person"] == pinned["node:Person"] + 1
    with omnigraph.open(str(tmp_path), read_only=True) as reader:
        assert (contents(reader), pins(reader)) == (seen, pinned)


def test_a_write_whose_record_cannot_be_written_has_not_happened(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with (
        failpoints.activate(Failpoint.RECOVERY_SIDECAR_WRITE, FAIL_ALWAYS),
        unchanged(graph),
        pytest.raises(UnavailableError),
    ):
        graph.mutate(EVE)

    graph.mutate(EVE)
    assert "Eve" in rows(graph, "Person")


def test_b13_a_graph_that_was_overtaken_continues_from_the_newest_commit(tmp_path: Path) -> None:
    first = social_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))
    start = first.head()

    second.mutate(EVE)
    overtaken = second.head()
    first.mutate(query('insert Person { name: "Frank" }'))

    commits = first.commits()
    require_linear(commits)
    assert commits[-1].parent_id == overtaken
    assert [commit.id for commit in commits if commit.parent_id == start] == [overtaken]


def test_b13_an_update_sees_the_last_commit_of_another_writer(tmp_path: Path) -> None:
    first = social_graph(tmp_path)
    second = omnigraph.open(str(tmp_path))

    second.mutate(query('update Person set { age: 60 } where name = "Alice"'))
    result = first.mutate(query("update Person set { age: 61 } where age >= 60"))

    assert counts(result) == (1, 0)
    assert values(first, "Person", "age")["Alice"] == 61


def test_a_write_can_require_its_parent_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    seen = graph.head()
    graph.mutate(EVE, if_commit=seen)

    with unchanged(graph), pytest.raises(PreconditionFailedError) as refused:
        graph.mutate(query('insert Person { name: "Frank" }'), if_commit=seen)

    assert (refused.value.expected, refused.value.actual) == (seen, graph.head())
    assert refused.value.outcome is Outcome.MOVED
    graph.mutate(query('insert Person { name: "Frank" }'), if_commit=graph.head())
    assert {"Eve", "Frank"} < set(rows(graph, "Person"))


def test_b16_a_commit_names_its_actor(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    graph.mutate(EVE, actor="act-andrew")
    graph.load(ndjson(node("Person", name="Frank")), mode="merge", actor="act-berta")
    graph.mutate(query('insert Person { name: "Grace" }'))

    assert [commit.actor for commit in graph.commits()[-3:]] == ["act-andrew", "act-berta", None]


def test_b16_the_actor_of_a_graph_is_that_of_its_writes_unless_one_is_given(
    tmp_path: Path,
) -> None:
    social_graph(tmp_path).close()
    graph = omnigraph.open(str(tmp_path), actor="act-carol")

    graph.mutate(EVE)
    graph.mutate(query('insert Person { name: "Frank" }'), actor="act-dora")

    assert [commit.actor for commit in graph.commits()[-2:]] == ["act-carol", "act-dora"]


def test_b17_an_update_that_matches_no_row_makes_no_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    with unchanged(graph):
        result = graph.mutate(query('update Person set { age: 1 } where name = "Missing"'))

    assert counts(result) == (0, 0)
    assert result.commit_id is None


def test_an_export_reads_the_commit_it_started_at(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    expected = list(graph.export())

    lines = graph.export()
    first = next(lines)
    graph.mutate(query('delete Person where name = "Alice"'))

    assert [first, *lines] == expected


def test_an_old_commit_can_still_be_exported(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    before, lines = graph.head(), list(graph.export())

    graph.mutate(query('delete Person where name = "Alice"'))
    graph.mutate(EVE)

    assert list(graph.export(commit=before)) == lines
    assert list(graph.export()) != lines


def test_commit_cost_is_constant_because_the_manifest_is_compacted(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)

    for number in range(50):
        graph.mutate(query(f'insert Person {{ name: "p{number:02}" }}'))

    assert len(manifest(tmp_path).get_fragments()) < 30
    require_linear(graph.commits())
    with omnigraph.open(str(tmp_path)) as reopened:
        assert reopened.tables() == graph.tables()
        assert contents(reopened) == contents(graph)


def insert_until_it_lands(graph: Graph, body: str) -> None:
    """Write with the retries of an application."""
    for _ in range(50):
        try:
            graph.mutate(query(body))
        except MovedError:
            continue
        return
    raise AssertionError("overtaken fifty times")


def increase(graph: Graph) -> None:
    """Increment the number of the only row, as an application that reads first."""
    for _ in range(200):
        seen = graph.head()
        number = int(str(values(graph, "T", "n")["x"]))
        try:
            graph.mutate(query(f"update T set {{ n: {number + 1} }} where n >= 0"), if_commit=seen)
        except MovedError:
            continue
        return
    raise AssertionError("overtaken two hundred times")


def run_all(threads: list[threading.Thread]) -> None:
    """Start threads and wait for them; an exception in one fails the test by its missing effect."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
