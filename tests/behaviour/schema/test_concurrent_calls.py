"""During a schema change readers see the old graph or the new one, and writers wait."""

import itertools
import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.engine.settings import make_settings, open_stores
from omnigraph.errors import CompileError, MovedError
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import contents, ndjson, node, open_with, rows
from tests.support.parking import Parking, Stop, stopping
from tests.support.processes import started
from tests.support.queries import query
from tests.support.schema_changes import CHANGES, OFFICE, SchemaChange, office, require_files
from tests.support.sweeps import require_sound, state_of

PARK = Park(timeout_s=60)
EVE = query('insert Person { name: "Eve" }')


@pytest.mark.parametrize("name", ["a new property", "all at once"])
def test_a_reader_during_a_schema_change_sees_the_old_graph_or_the_new_one(
    tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    seen: list[str] = []

    for at in itertools.count(1):
        root = tmp_path / str(at)
        graph = office(root)
        before = contents(graph)
        cached = omnigraph.open(root, read_only=True)
        assert contents(cached) == before
        parking = Parking(timeout_s=60)
        stop = Stop(at=at, is_after=True, stand_still=parking.stand_still)
        thread = threading.Thread(target=change.apply, args=(stopping_graph(root, stop),))
        thread.start()
        if not parking.has_arrived(thread):
            break
        for reader in (cached, omnigraph.open(root, read_only=True)):
            seen.append(require_old_or_new(reader, change, before=before))
        parking.release()
        thread.join()
        assert require_old_or_new(cached, change, before=before) == "new"

    # Concurrent readers agree, and no reader goes back to the old graph.
    assert seen[::2] == seen[1::2]
    assert seen == sorted(seen, reverse=True)
    assert {"new", "old"} == set(seen)


def stopping_graph(root: Path, stop: Stop) -> Graph:
    """A handle whose operation pauses after an effect."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    graph = Graph(settings, stopping(open_stores(settings), stop), actor=None, is_read_only=False)
    stop.arm()
    return graph


def require_old_or_new(reader: Graph, change: SchemaChange, *, before: object) -> str:
    """Which of the two a reader finds."""
    if reader.schema_source == OFFICE:
        assert contents(reader) == before
        return "old"
    assert reader.schema_source == change.schema
    assert contents(reader) != before
    assert reader.query(query("match { $p: Person } return { count($p) as n }")).rows == [{"n": 2}]
    return "new"


def test_h16_a_write_waits_for_a_change_of_schema_and_never_finishes_it(tmp_path: Path) -> None:
    office(tmp_path)
    failpoints = Failpoints()
    applier, writer = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)
    done: list[object] = []

    with failpoints.activate(Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE, PARK) as parked:
        applying = threading.Thread(target=CHANGES["a new property"].apply, args=(applier,))
        applying.start()
        parked.wait_for_arrival()
        row = ndjson(node("Company", name="New"))
        loading = threading.Thread(target=lambda: done.append(writer.load(row, mode="append")))
        loading.start()
        loading.join(0.5)
        was_waiting, seen = loading.is_alive(), writer.schema_source
        parked.release()
        applying.join()
        loading.join()

    assert was_waiting
    assert seen == OFFICE
    assert len(done) == 1
    assert writer.recoveries() == []
    assert rows(writer, "Company")["New"]["web"] is None
    require_sound(writer, state_of(writer))
    require_files(writer)


def test_h17_a_schema_changed_concurrently_is_not_overwritten(tmp_path: Path) -> None:
    office(tmp_path)
    failpoints = Failpoints()
    first, second = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)
    failures: list[MovedError] = []

    def apply_another() -> None:
        try:
            CHANGES["a new type"].apply(second)
        except MovedError as error:
            failures.append(error)

    with failpoints.activate(Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE, PARK) as parked:
        applying = threading.Thread(target=CHANGES["a new property"].apply, args=(first,))
        applying.start()
        parked.wait_for_arrival()
        waiting = threading.Thread(target=apply_another)
        waiting.start()
        waiting.join(0.3)
        parked.release()
        applying.join()
        waiting.join()

    assert len(failures) == 1
    assert "the schema" in str(failures[0])
    assert second.schema_source == CHANGES["a new property"].schema
    require_files(second)


def test_two_concurrent_applies_of_one_schema_both_succeed(tmp_path: Path) -> None:
    office(tmp_path)
    failpoints = Failpoints()
    first, second = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)
    applied: list[bool] = []

    with failpoints.activate(Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE, PARK) as parked:
        schema = CHANGES["a new property"].schema

        def apply(graph: Graph) -> None:
            applied.append(graph.apply_schema(schema).applied)

        threads = [threading.Thread(target=apply, args=(each,)) for each in (first, second)]
        threads[0].start()
        parked.wait_for_arrival()
        threads[1].start()
        threads[1].join(0.3)
        parked.release()
        for thread in threads:
            thread.join()

    assert sorted(applied) == [False, True]
    assert len(second.commits()) == 3


def test_a_write_prepared_under_the_old_schema_is_prepared_again_or_refused(tmp_path: Path) -> None:
    graph = office(tmp_path)
    failpoints = Failpoints()
    writer = open_with(tmp_path, failpoints)
    errors: list[Exception] = []

    def insert() -> None:
        try:
            writer.mutate(query('insert Company { name: "Late" }'))
        except CompileError as error:
            errors.append(error)

    with failpoints.activate(Failpoint.RECOVERY_SIDECAR_WRITE, PARK) as parked:
        # It holds the lock of its type here, so the change waits for it; then it is let go.
        writing = threading.Thread(target=insert)
        writing.start()
        parked.wait_for_arrival()
        applying = threading.Thread(target=CHANGES["a renamed type"].apply, args=(graph,))
        applying.start()
        applying.join(0.3)
        assert applying.is_alive(), "the schema changed under a writer"
        parked.release()
        writing.join()
        applying.join()

    assert errors == []
    assert sorted(rows(graph, "Firm")) == ["Acme", "Globex", "Late"]
    with pytest.raises(CompileError):
        writer.mutate(query('insert Company { name: "Later" }'))


def test_a_branch_is_created_before_a_schema_change_or_after_it(tmp_path: Path) -> None:
    office(tmp_path)
    failpoints = Failpoints()
    applier, other = open_with(tmp_path, failpoints), omnigraph.open(tmp_path)

    with failpoints.activate(Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE, PARK) as parked:
        applying = threading.Thread(target=CHANGES["a renamed type"].apply, args=(applier,))
        applying.start()
        parked.wait_for_arrival()
        branching = threading.Thread(target=other.create_branch, args=("dev",))
        branching.start()
        branching.join(0.3)
        was_waiting = branching.is_alive()
        parked.release()
        applying.join()
        branching.join()

    assert was_waiting
    assert contents(other, "dev") == contents(other)
    other.load(ndjson(node("Firm", name="New")), mode="append", branch="dev")


KILLED = """
import sys, threading
from pathlib import Path
from omnigraph.storage.failpoints import Failpoint
from tests.support.failpoints import Failpoints, Park
from tests.support.graphs import open_with
from tests.support.schema_changes import CHANGES

failpoints = Failpoints()
graph = open_with(Path(sys.argv[1]), failpoints)
with failpoints.activate(Failpoint(sys.argv[2]), Park(timeout_s=60)) as parked:
    threading.Thread(target=CHANGES["all at once"].apply, args=(graph,), daemon=True).start()
    parked.wait_for_arrival()
    print("paused", flush=True)
    input()
"""


@pytest.mark.parametrize(
    ("point", "is_new"),
    [
        (Failpoint.SCHEMA_APPLY_BEFORE_STAGING_WRITE, False),
        (Failpoint.SCHEMA_APPLY_AFTER_STAGING_WRITE, True),
    ],
)
def test_h19_a_process_killed_during_a_schema_change_blocks_no_process(
    tmp_path: Path, point: Failpoint, *, is_new: bool
) -> None:
    graph = office(tmp_path)

    with started(KILLED, str(tmp_path), point.value) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "paused\n"
        child.kill()
        child.wait()
    graph.mutate(EVE)

    assert "Eve" in rows(graph, "Person")
    assert graph.schema_source == (CHANGES["all at once"].schema if is_new else OFFICE)
    require_sound(graph, state_of(graph))
    require_files(graph)
