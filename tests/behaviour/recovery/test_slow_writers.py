"""Writers that are slow, paused or killed, and those beside them: a living writer is not taken for
dead, no writer waits for a dead one, and unpublished rows are invisible.
"""

import signal
import threading
from pathlib import Path
from subprocess import Popen

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import DriftError, UnavailableError
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import TableRef, TableVersion
from tests.support.failpoints import FAIL_ALWAYS, Failpoints, Park
from tests.support.graphs import (
    build_graph,
    contents,
    head_versions,
    open_with,
    pins,
    require_linear,
    row_counts,
    rows,
    sidecars,
    social_graph,
    table_paths,
)
from tests.support.processes import started
from tests.support.queries import query

EVE = query('insert Person { name: "Eve" }')
FRANK = query('insert Person { name: "Frank" }')
INITECH = query('insert Company { name: "Initech" }')
BEFORE_PUBLISH = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
PARK = Park(timeout_s=60)

PAUSED_WRITER = """
import sys, threading
from pathlib import Path
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import open_with

failpoints = Failpoints()
graph = open_with(Path(sys.argv[1]), failpoints)
place = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
with failpoints.activate(place, Park(timeout_s=60)) as parked:
    writer = threading.Thread(target=graph.mutate, args=(sys.argv[2],))
    writer.start()
    parked.wait_for_arrival()
    print("paused", flush=True)
    input()
    parked.release()
    writer.join()
"""

INSERT_SAME = """
import sys
import omnigraph
from omnigraph.errors import MovedError

graph = omnigraph.open(sys.argv[1], durability="relaxed")
print("ready", flush=True)
input()
for number in range(20):
    while True:
        try:
            graph.mutate(f'query q() {{ insert Person {{ name: "x{number}", age: 1 }} }}')
        except MovedError:
            continue
        break
"""


def wait_for_line(child: Popen[str], line: str) -> None:
    """Return once a child has printed a line."""
    assert child.stdout is not None
    assert child.stdout.readline().strip() == line


def let_go(child: Popen[str]) -> None:
    """Let a child that waits for a line go on."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


# Processes


def test_g41_a_paused_writer_is_not_taken_for_dead_and_lands_when_it_wakes(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    with started(PAUSED_WRITER, str(tmp_path), EVE) as writer:
        wait_for_line(writer, "paused")
        writer.send_signal(signal.SIGSTOP)

        with omnigraph.open(tmp_path) as other:
            other.mutate(INITECH)
            assert "Eve" not in rows(other, "Person")
            assert other.recoveries() == []
        assert len(sidecars(tmp_path)) == 1

        writer.send_signal(signal.SIGCONT)
        let_go(writer)
        assert writer.wait() == 0

    assert "Eve" in rows(graph, "Person")
    assert graph.recoveries() == []
    assert head_versions(tmp_path) == pins(graph)
    require_linear(graph.commits())


def test_a_write_killed_before_its_publish_is_finished_at_once(tmp_path: Path) -> None:
    graph = social_graph(tmp_path)
    with started(PAUSED_WRITER, str(tmp_path), EVE) as writer:
        wait_for_line(writer, "paused")
        writer.kill()
        writer.wait()

    graph.mutate(FRANK)

    assert {"Eve", "Frank"} <= rows(graph, "Person").keys()
    assert [each.kind for each in graph.recoveries()] == ["RolledForward"]
    assert head_versions(tmp_path) == pins(graph)
    require_linear(graph.commits())


def test_k07_processes_that_insert_the_same_new_keys_leave_one_row_each(tmp_path: Path) -> None:
    graph = build_graph(tmp_path, "node Person { name: String @key  age: I32? }")

    with (
        started(INSERT_SAME, str(tmp_path)) as one,
        started(INSERT_SAME, str(tmp_path)) as two,
    ):
        for child in (one, two):
            wait_for_line(child, "ready")
        for child in (one, two):
            let_go(child)
        codes = [child.wait() for child in (one, two)]

    assert codes == [0, 0]
    assert sorted(rows(graph, "Person")) == sorted(f"x{number}" for number in range(20))
    assert row_counts(graph) == {"node:Person": 20}
    require_linear(graph.commits())


def test_k05_refreshing_reads_a_changed_schema_during_another_write(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    failpoints = Failpoints()
    slow = open_with(tmp_path, failpoints)
    with failpoints.activate(BEFORE_PUBLISH, PARK) as parked:
        writing = threading.Thread(target=slow.mutate, args=(EVE,))
        writing.start()
        parked.wait_for_arrival()
        commented = f"{graph.schema_source}\n// people and where they work\n"
        (tmp_path / "_schema.pg").write_text(commented, encoding="utf-8")

        graph.refresh()

        assert graph.schema_source == commented
        parked.release()
        writing.join()

    assert "Eve" in rows(graph, "Person")
    assert sidecars(tmp_path) == []


# Branches


def test_g22_a_write_under_way_on_a_branch_does_not_explain_rows_from_outside_on_main(
    tmp_path: Path,
) -> None:
    graph = social_graph(tmp_path)
    graph.create_branch("feature")
    failpoints = Failpoints()
    slow = open_with(tmp_path, failpoints)
    with failpoints.activate(BEFORE_PUBLISH, PARK) as parked:
        writing = threading.Thread(target=slow.mutate, args=(EVE,), kwargs={"branch": "feature"})
        writing.start()
        parked.wait_for_arrival()
        people = lance.dataset(str(table_paths(tmp_path)["node:Person"]))
        stranger = pa.table({"id": ["X"], "age": pa.array([1], pa.int32()), "name": ["X"]})
        lance.write_dataset(stranger.cast(people.schema), people.uri, mode="append")

        with pytest.raises(DriftError, match="omnigraph repair") as refused:
            graph.mutate(FRANK)

        parked.release()
        writing.join()

    assert "reopen" not in str(refused.value)
    assert "Eve" in rows(graph, "Person", "feature")
    assert "X" not in rows(graph, "Person")


@pytest.mark.parametrize("place", [Failpoint.FORK_BEFORE_CLASSIFY, Failpoint.FORK_BEFORE_RECLAIM])
def test_a_first_write_on_a_branch_that_fails_before_its_fork_changes_nothing(
    tmp_path: Path, place: Failpoint
) -> None:
    built = social_graph(tmp_path)
    built.create_branch("feature")
    leave_line(tmp_path, branch="feature")
    before = contents(built, "feature"), built.head("feature"), pins(built, "feature")
    failpoints = Failpoints()
    graph = open_with(tmp_path, failpoints)

    with failpoints.activate(place, FAIL_ALWAYS), pytest.raises(UnavailableError):
        graph.mutate(EVE, branch="feature")

    assert (contents(graph, "feature"), graph.head("feature"), pins(graph, "feature")) == before
    assert sidecars(tmp_path) == []
    graph.mutate(EVE, branch="feature")
    added = rows(graph, "Person", "feature").keys() - rows(graph, "Person").keys()
    assert added == {"Eve"}, "unpublished rows of a table branch are visible"


@pytest.mark.parametrize("place", [Failpoint.FORK_BEFORE_CLASSIFY, Failpoint.FORK_BEFORE_RECLAIM])
def test_two_first_writes_on_a_branch_at_once_both_land(tmp_path: Path, place: Failpoint) -> None:
    built = social_graph(tmp_path)
    built.create_branch("feature")
    leave_line(tmp_path, branch="feature")
    failpoints = Failpoints()
    slow, quick = open_with(tmp_path, failpoints), omnigraph.open(tmp_path, durability="relaxed")
    write = {"branch": "feature"}

    with failpoints.activate(place, PARK) as parked:
        first = threading.Thread(target=slow.mutate, args=(EVE,), kwargs=write)
        first.start()
        parked.wait_for_arrival()
        second = threading.Thread(target=quick.mutate, args=(FRANK,), kwargs=write)
        second.start()
        parked.release()
        first.join()
        second.join()

    added = rows(built, "Person", "feature").keys() - rows(built, "Person").keys()
    assert added == {"Eve", "Frank"}
    require_linear(built.commits("feature"))
    assert sidecars(tmp_path) == []


def leave_line(root: Path, *, branch: str) -> None:
    """Give a branch a table branch of its people that no commit names, with a row."""
    tables = open_stores(make_settings(root, storage_options=None, durability="relaxed")).tables
    with omnigraph.open(root, read_only=True) as graph:
        people = graph.tables()["node:Person"]
    path = str(Path(people.path).relative_to(root))
    ref = tables.fork(TableVersion(TableRef(path, None), people.version), branch=branch)
    at = TableVersion(ref, people.version)
    ghost = pa.table({"id": ["Ghost"], "age": pa.array([1], pa.int32()), "name": ["Ghost"]})
    tables.apply(tables.stage_append(ghost.cast(tables.schema(at)), onto=at))
