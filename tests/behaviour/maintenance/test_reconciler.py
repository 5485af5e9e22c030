"""The reconciler: background maintenance, only after it is started, harmless to other callers."""

import logging
import multiprocessing
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event, Semaphore, Thread
from time import monotonic

import pytest

from omnigraph import Graph
from omnigraph.engine.graph import open_graph
from omnigraph.engine.maintenance.doctor_report import FindingKind, Severity
from omnigraph.engine.settings import make_settings
from omnigraph.errors import ForbiddenError, GraphError, InvalidValueError
from omnigraph.model.runtime import SystemClock
from omnigraph.storage.locks import THIS_PROCESS, Locking
from tests.support.damaging import DAMAGES, stop_half_way, write_past_history
from tests.support.graphs import contents, ndjson, node, social_graph
from tests.support.sweeps import files_untouched, open_plain

LONG_S = 60.0


class TickingClock(SystemClock):
    """A clock whose pauses a test ends one at a time, or which are cut short."""

    def __init__(self) -> None:
        self._ticks = Semaphore(0)
        self._pauses = Semaphore(0)

    def tick(self) -> None:
        """End one pause, and return when the reconciler has paused again."""
        self._ticks.release()
        assert self._pauses.acquire(timeout=LONG_S), "no further pause"

    def begin(self) -> None:
        """Return at the first pause."""
        assert self._pauses.acquire(timeout=LONG_S), "no pause"

    def wait(self, event: Event, *, timeout_s: float) -> bool:
        """Wait for a tick or the event, whatever time that takes."""
        del timeout_s
        self._pauses.release()
        while not event.is_set():
            if self._ticks.acquire(timeout=0.01):
                return event.is_set()
        return True


def open_with_clock(root: Path, clock: SystemClock) -> Graph:
    """The graph of a directory with a clock of the test."""
    settings = make_settings(str(root), storage_options=None, durability="relaxed")
    locking = Locking(THIS_PROCESS, clock, settings.locking.lease_s)
    return open_graph(replace(settings, locking=locking), actor=None, is_read_only=False)


def load_one_by_one(graph: Graph, count: int, *, prefix: str = "n") -> None:
    """People, each in a commit and file of their own."""
    for number in range(count):
        graph.load(ndjson(node("Person", name=f"{prefix}{number}")), mode="append")


def grave(graph: Graph) -> set[FindingKind]:
    """The findings of the doctor, without notes."""
    found = graph.doctor().findings
    return {each.code for each in found if each.severity is not Severity.NOTE}


# One round


def test_a_round_finishes_what_a_dead_writer_left(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    stop_half_way(tmp_path / "graph")
    assert grave(graph) == {FindingKind.WRITE_LEFT}

    done = graph.reconciler().run_once()

    assert [each.actor for each in done.recovered] == ["ann"]
    assert grave(graph) == set()


def test_a_round_compacts_every_fragmented_branch(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    graph.create_branch("draft")
    for number in range(3):
        graph.load(ndjson(node("Person", name=f"d{number}")), mode="append", branch="draft")
    rows = {branch: contents(graph, branch) for branch in graph.branches()}

    done = graph.reconciler().run_once()

    assert {branch: {each.type for each in types} for branch, types in done.optimized.items()} == {
        "main": {"Company", "Person", "Knows", "WorksAt"},
        "draft": {"Person"},
    }
    assert {branch: contents(graph, branch) for branch in graph.branches()} == rows
    assert graph.doctor().findings == ()


def test_a_well_maintained_graph_gets_no_commit(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    reconciler = graph.reconciler()
    reconciler.run_once()

    with files_untouched(tmp_path / "graph"):
        again = reconciler.run_once()

    assert again.is_idle


def test_a_single_new_file_is_not_worth_a_commit_and_many_are(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    many = [node("Person", name=f"m{number}") for number in range(1_000)]
    graph.load(ndjson(*many), mode="append")
    reconciler = graph.reconciler()
    reconciler.run_once()

    load_one_by_one(graph, 1)
    after_one = reconciler.run_once()
    load_one_by_one(graph, 20, prefix="o")
    after_many = reconciler.run_once()

    assert after_one.is_idle
    assert [each.type for each in after_many.optimized["main"]] == ["Person"]


def test_versions_are_deleted_only_with_a_retention_setting(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    load_one_by_one(graph, 5)

    report = graph.reconciler().run_once()
    trimmed = graph.reconciler(keep=1, older_than=0).run_once()

    assert report.trimmed == ()
    assert all(each.error is None for each in trimmed.trimmed)
    assert grave(graph) == set()


def test_a_failed_task_is_recorded_and_logged_and_the_others_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = social_graph(tmp_path / "graph")
    write_past_history(tmp_path / "graph")
    reconciler = graph.reconciler(keep=1)

    with caplog.at_level(logging.WARNING):
        done = reconciler.run_once()

    assert {each.type for each in done.optimized["main"]} == {"Company", "Knows", "WorksAt"}
    assert [type(each).__name__ for each in done.errors] == ["DriftError"]
    assert reconciler.last_error is done.errors[0]
    assert "a maintenance round is incomplete" in caplog.text

    graph.repair(confirm=True, force=True)
    assert reconciler.run_once().errors == ()
    assert reconciler.last_error is None


@pytest.mark.parametrize("interval_s", [0, -1.0, True, "60", float("nan"), float("inf")])
def test_an_interval_is_a_time_above_zero(tmp_path: Path, interval_s: float) -> None:
    graph = social_graph(tmp_path / "graph")

    with pytest.raises(InvalidValueError, match="interval_s"):
        graph.reconciler(interval_s=interval_s)


def test_retention_settings_are_checked_before_the_first_round(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")

    with pytest.raises(InvalidValueError, match="keep"):
        graph.reconciler(keep=0)


def test_a_graph_opened_for_reading_has_no_reconciler(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")

    with pytest.raises(ForbiddenError):
        open_plain(tmp_path / "graph", is_read_only=True).reconciler()


# In the background


def test_no_round_runs_before_the_reconciler_is_started(tmp_path: Path) -> None:
    clock = TickingClock()
    social_graph(tmp_path / "graph")
    graph = open_with_clock(tmp_path / "graph", clock)

    reconciler = graph.reconciler()

    assert not reconciler.is_running
    assert len(graph.commits()) == 2


def test_rounds_happen_at_each_interval_until_it_is_stopped(tmp_path: Path) -> None:
    clock = TickingClock()
    social_graph(tmp_path / "graph")
    graph = open_with_clock(tmp_path / "graph", clock)

    with graph.reconciler() as reconciler:
        clock.begin()
        before = len(graph.commits())
        clock.tick()
        after_one = len(graph.commits())
        clock.tick()
        after_two = len(graph.commits())
        assert reconciler.is_running

    assert (before, after_one, after_two) == (2, 3, 3)
    assert not reconciler.is_running


def test_a_round_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    clock = TickingClock()
    social_graph(tmp_path / "graph")
    graph = open_with_clock(tmp_path / "graph", clock)
    DAMAGES[FindingKind.RECORD_DAMAGED](tmp_path / "graph")

    with graph.reconciler() as reconciler:
        clock.begin()
        clock.tick()
        failed = reconciler.last_error
        for file in (tmp_path / "graph" / "__recovery").glob("*.json"):
            file.unlink()
        clock.tick()
        error = reconciler.last_error

    assert isinstance(failed, GraphError)
    assert error is None


def test_stopping_does_not_wait_for_the_interval(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    reconciler = graph.reconciler(interval_s=3600.0)
    reconciler.start()
    started = monotonic()

    reconciler.stop()
    reconciler.stop()

    assert not reconciler.is_running
    assert monotonic() - started < LONG_S


def test_closing_the_graph_stops_it(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    reconciler = graph.reconciler(interval_s=3600.0)
    reconciler.start()

    graph.close()

    assert not reconciler.is_running
    assert isinstance(reconciler.run_once().errors[0], ForbiddenError)


def test_it_can_be_started_again_after_it_was_stopped(tmp_path: Path) -> None:
    clock = TickingClock()
    social_graph(tmp_path / "graph")
    graph = open_with_clock(tmp_path / "graph", clock)
    reconciler = graph.reconciler()
    reconciler.start()
    clock.begin()
    reconciler.stop()

    with reconciler:
        reconciler.start()
        clock.begin()
        clock.tick()

    assert len(graph.commits()) == 3


def test_a_running_reconciler_does_not_keep_its_program_alive(tmp_path: Path) -> None:
    social_graph(tmp_path / "graph")
    program = (
        "import omnigraph, sys\n"
        "graph = omnigraph.open(sys.argv[1])\n"
        "graph.reconciler(interval_s=0.001).start()\n"
        "graph.head()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "graph")],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert grave(open_plain(tmp_path / "graph")) == set()


# Beside other processes


def keep_up(root: str, rounds: int) -> None:
    """A process that only runs maintenance."""
    reconciler = open_plain(Path(root)).reconciler(keep=1, older_than=3600)
    for _ in range(rounds):
        reconciler.run_once()


def test_two_processes_that_maintain_one_graph_do_not_interfere(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    graph = social_graph(root)
    spawning = multiprocessing.get_context("spawn")
    others = [spawning.Process(target=keep_up, args=(str(root), 6)) for _ in range(2)]
    for each in others:
        each.start()

    written = 0
    while any(each.is_alive() for each in others):
        load_one_by_one(graph, 1, prefix=f"w{written}-")
        written += 1
    for each in others:
        each.join()

    assert [each.exitcode for each in others] == [0, 0]
    assert len(contents(graph)["Person"]) == 4 + written
    assert grave(graph) == set()
    assert graph.reconciler().run_once().errors == ()


def test_two_reconcilers_of_one_process_share_the_work(tmp_path: Path) -> None:
    graph = social_graph(tmp_path / "graph")
    load_one_by_one(graph, 20)
    rows = contents(graph)
    pair = [open_plain(tmp_path / "graph").reconciler() for _ in range(2)]
    rounds = [Thread(target=each.run_once) for each in pair]

    for each in rounds:
        each.start()
    for each in rounds:
        each.join()

    assert [each.last_error for each in pair] == [None, None]
    assert contents(graph) == rows
    assert graph.doctor().findings == ()
