"""The records of jobs that several processes share."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.http.responses import JobOutput
from omnigraph.model.limits import JOBS_REMEMBERED_MAX
from omnigraph.server.jobs import IN_MEMORY, JobRecords
from omnigraph.server.responses import HttpError


@pytest.fixture
def both(tmp_path: Path) -> tuple[JobRecords, JobRecords]:
    """The records as two worker processes open them."""
    place = str(tmp_path / "jobs.db")
    return JobRecords(place, worker=1), JobRecords(place, worker=2)


def find(records: JobRecords, job_id: str) -> JobOutput:
    found = records.find(job_id, graph_id="g", actor="ann")
    assert found is not None
    return found


Both = tuple[JobRecords, JobRecords]


def test_a_job_of_another_process_is_visible_with_its_progress(both: Both) -> None:
    mine, other = both
    mine.add("j", graph_id="g", actor="ann")
    assert mine.begin("j")
    assert mine.note("j", "commit", 3, 7)

    state = find(other, "j")

    assert (state["status"], state["stage"], state["done"], state["total"]) == (
        "running",
        "commit",
        3,
        7,
    )
    assert other.find_all(graph_id="g", actor="ann") == [state]
    mine.end("j", "done", result=None, error=None)
    assert (find(other, "j")["status"], find(other, "j")["done"]) == ("done", 7)


def test_a_job_is_visible_to_its_actor_on_its_graph_only(both: Both) -> None:
    mine, other = both
    mine.add("j", graph_id="g", actor="ann")
    mine.add("anonymous", graph_id="g", actor=None)

    assert other.find("j", graph_id="g", actor="bob") is None
    assert other.find("j", graph_id="g", actor=None) is None
    assert other.find("j", graph_id="h", actor="ann") is None
    assert other.find("anonymous", graph_id="g", actor=None) is not None


def test_a_job_that_another_process_cancels_stops_at_its_next_report(both: Both) -> None:
    mine, other = both
    for each in ("waiting", "running"):
        mine.add(each, graph_id="g", actor="ann")
    mine.begin("running")

    other.cancel("waiting")
    other.cancel("running")

    assert find(mine, "waiting")["status"] == "cancelled"
    assert not mine.begin("waiting")
    assert find(mine, "running")["status"] == "running"
    assert not mine.note("running", "commit", 1, 2)


def test_the_jobs_of_a_process_that_ended_have_failed(both: Both) -> None:
    mine, other = both
    for each in ("ended", "running"):
        mine.add(each, graph_id="g", actor="ann")
    mine.end("ended", "done", result=None, error=None)
    other.add("other", graph_id="g", actor="ann")

    other.fail_all_of(1)

    assert find(other, "ended")["status"] == "done"
    assert find(other, "other")["status"] == "waiting"
    lost = find(other, "running")
    assert lost["status"] == "failed"
    assert lost["error"] is not None
    assert lost["error"]["code"] == "recovery_required"


def test_the_oldest_ended_job_is_forgotten_first() -> None:
    records = JobRecords(IN_MEMORY, worker=0)
    for number in range(JOBS_REMEMBERED_MAX):
        records.add(f"j{number}", graph_id="g", actor="ann")
    with pytest.raises(HttpError, match="in progress"):
        records.add("one more", graph_id="g", actor="ann")
    for number in (5, 3):
        records.end(f"j{number}", "done", result=None, error=None)

    records.add("one more", graph_id="g", actor="ann")

    assert records.find("j3", graph_id="g", actor="ann") is None
    assert find(records, "j5")["status"] == "done"
