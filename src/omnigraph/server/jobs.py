"""Loads that run in the background: an actor starts, observes and cancels its own jobs.

The number of running jobs and of remembered jobs is bounded; the oldest ended job is forgotten
first. A cancelled job has written nothing, unless it was already done. Jobs end with the process.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock

import orjson

from omnigraph.engine.ops.load import Progress
from omnigraph.http.responses import ErrorOutput, IngestOutput, JobError, JobOutput, JobStatus
from omnigraph.model.errors import GraphError
from omnigraph.model.limits import JOBS_REMEMBERED_MAX, JOBS_RUNNING_MAX
from omnigraph.server.responses import graph_error_response, not_found, too_many
from omnigraph.server.telemetry import Log


class CancelledJobError(Exception):
    """A job was cancelled before it wrote anything."""


class Jobs:
    """The jobs of a server; safe to share between threads."""

    def __init__(self, *, new_id: Callable[[], str], log: Log) -> None:
        self._new_id = new_id
        self._log = log
        self._lock = Lock()
        self._job_by_id: dict[str, _Job] = {}
        self._pool = ThreadPoolExecutor(max_workers=JOBS_RUNNING_MAX, thread_name_prefix="job")

    def start(
        self,
        work: Callable[[Progress], IngestOutput],
        *,
        graph_id: str,
        actor: str | None,
        release: Callable[[], None],
    ) -> JobOutput:
        """Start a load in the background; `release` is called when it ends in any way."""
        job = _Job(self._new_id(), graph_id, actor)
        self._remember(job)
        self._log.event("job started", job=job.id, graph=graph_id, actor=actor)
        context = copy_context()
        future = self._pool.submit(context.run, job.run, work)
        job.future = future
        future.add_done_callback(partial(self._finish, job, release))
        return job.state()

    def get(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput:
        """The state of a job; 404 if the caller has no such job on the graph."""
        return self._get(job_id, graph_id, actor).state()

    def list(self, *, graph_id: str, actor: str | None) -> list[JobOutput]:
        """The caller's jobs on a graph, oldest first."""
        with self._lock:
            jobs = list(self._job_by_id.values())
        return [each.state() for each in jobs if (each.graph_id, each.actor) == (graph_id, actor)]

    def cancel(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput:
        """Request that a job stop and return its state; an ended job is unchanged."""
        job = self._get(job_id, graph_id, actor)
        job.cancel()
        return job.state()

    def close(self) -> None:
        """Request that all jobs stop, and wait until they have."""
        with self._lock:
            jobs = list(self._job_by_id.values())
        for each in jobs:
            each.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _get(self, job_id: str, graph_id: str, actor: str | None) -> _Job:
        job = self._job_by_id.get(job_id)
        # A job is visible to its actor only, so for other callers it does not exist.
        if job is None or (job.graph_id, job.actor) != (graph_id, actor):
            raise not_found(f"job '{job_id}' not found")
        return job

    def _remember(self, job: _Job) -> None:
        with self._lock:
            if len(self._job_by_id) >= JOBS_REMEMBERED_MAX:
                ended = next((each for each in self._job_by_id.values() if each.has_ended), None)
                if ended is None:
                    raise too_many(f"{JOBS_REMEMBERED_MAX:,} jobs are in progress; try again later")
                del self._job_by_id[ended.id]
            self._job_by_id[job.id] = job

    def _finish(self, job: _Job, release: Callable[[], None], future: Future[IngestOutput]) -> None:
        release()
        if future.cancelled():
            job.end("cancelled")
        elif (error := future.exception()) is None:
            job.end("done", result=future.result())
        elif isinstance(error, CancelledJobError):
            job.end("cancelled")
        elif isinstance(error, GraphError):
            response = graph_error_response(error)
            if response.status >= 500:
                self._log.error("job failed", error=error, job=job.id)
            body: ErrorOutput = orjson.loads(response.body)
            failure: JobError = {
                "status": response.status,
                "error": body["error"],
                "code": body["code"],
            }
            if "error_type" in body:
                failure["error_type"] = body["error_type"]
            if "details" in body:
                failure["details"] = body["details"]
            job.end("failed", error=failure)
        else:
            self._log.error("job failed unexpectedly", error=error, job=job.id)
            message = f"internal server error; the server's log has details under job {job.id}"
            job.end("failed", error={"status": 500, "error": message, "code": "internal"})
        self._log.event("job ended", job=job.id, status=job.state()["status"])


class _Job:
    """One job; its lock guards all fields."""

    def __init__(self, id: str, graph_id: str, actor: str | None) -> None:
        self.id, self.graph_id, self.actor = id, graph_id, actor
        self.future: Future[IngestOutput] | None = None
        self._lock = Lock()
        self._is_unwanted = False
        self._state: JobOutput = {
            "job_id": id,
            "graph_id": graph_id,
            "status": "waiting",
            "stage": None,
            "done": 0,
            "total": None,
            "result": None,
            "error": None,
        }

    @property
    def has_ended(self) -> bool:
        return self._state["status"] not in ("waiting", "running")

    def run(self, work: Callable[[Progress], IngestOutput]) -> IngestOutput:
        with self._lock:
            self._state["status"] = "running"
        return work(self._note)

    def state(self) -> JobOutput:
        with self._lock:
            return self._state.copy()

    def cancel(self) -> None:
        self._is_unwanted = True
        if self.future is not None:
            # A queued job ends here; a running job notices at its next progress report.
            self.future.cancel()

    def end(
        self,
        status: JobStatus,
        *,
        result: IngestOutput | None = None,
        error: JobError | None = None,
    ) -> None:
        with self._lock:
            state: JobOutput = {**self._state, "status": status, "result": result, "error": error}
            if status == "done" and state["total"] is not None:
                state["done"] = state["total"]
            self._state = state

    def _note(self, stage: str, done: int, total: int | None) -> None:
        with self._lock:
            self._state = {**self._state, "stage": stage, "done": done, "total": total}
        # No progress is reported after the commit is published, so a job that stops here wrote
        # nothing.
        if self._is_unwanted:
            raise CancelledJobError
