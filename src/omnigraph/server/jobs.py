"""Loads that run in the background: an actor starts, observes and cancels its own jobs.

The number of running jobs and of remembered jobs is bounded; the oldest ended job is forgotten
first. A cancelled job has written nothing, unless it was already done. Jobs end with their process.
Their records are rows of an SQLite database: in memory, or in a file that all worker processes of a
server share, so that each of them shows and cancels the jobs of all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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

IN_MEMORY = ":memory:"
"""The place of the records of a server of one process."""

_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  worker INTEGER NOT NULL,
  graph_id TEXT NOT NULL,
  actor TEXT,
  status TEXT NOT NULL DEFAULT 'waiting',
  stage TEXT,
  done INTEGER NOT NULL DEFAULT 0,
  total INTEGER,
  result BLOB,
  error BLOB,
  is_unwanted INTEGER NOT NULL DEFAULT 0
)
"""
_COLUMNS = "id, graph_id, status, stage, done, total, result, error"
_OLDEST_ENDED = "SELECT min(number) FROM jobs WHERE status NOT IN ('waiting', 'running')"
# `IS` compares as `=` does, but null is equal to null: without tokens there is no actor.
_OWN = "graph_id = ? AND actor IS ?"
_WAIT_S_MAX = 30.0

_LOST: JobError = {
    "status": 503,
    "error": (
        "the worker process of this load ended; the load was applied as a whole or not at all; "
        "check before a retry"
    ),
    "code": "recovery_required",
}


class CancelledJobError(Exception):
    """A job was cancelled before it wrote anything."""


class JobRecords:
    """The state of every job of a server; safe to share between threads and, as a file, processes.

    `worker` is the number of the process whose jobs are added.
    """

    def __init__(self, place: str, *, worker: int) -> None:
        self._worker = worker
        self._lock = Lock()
        self._database = sqlite3.connect(
            place, timeout=_WAIT_S_MAX, isolation_level=None, check_same_thread=False
        )
        # Readers do not wait for writers. The records end with the server, so nothing is flushed.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(_TABLE)

    def add(self, job_id: str, *, graph_id: str, actor: str | None) -> None:
        """Add a waiting job; 429 if all remembered jobs are in progress."""
        with self._writing() as database:
            (count,) = database.execute("SELECT count(*) FROM jobs").fetchone()
            if count >= JOBS_REMEMBERED_MAX:
                (ended,) = database.execute(_OLDEST_ENDED).fetchone()
                if ended is None:
                    raise too_many(f"{JOBS_REMEMBERED_MAX:,} jobs are in progress; try again later")
                database.execute("DELETE FROM jobs WHERE number = ?", (ended,))
            database.execute(
                "INSERT INTO jobs (id, worker, graph_id, actor) VALUES (?, ?, ?, ?)",
                (job_id, self._worker, graph_id, actor),
            )

    def begin(self, job_id: str) -> bool:
        """Record that a job runs; False if it was cancelled while it waited."""
        with self._writing() as database:
            begun = database.execute(
                "UPDATE jobs SET status = 'running' WHERE id = ? AND status = 'waiting'", (job_id,)
            )
            return begun.rowcount == 1

    def note(self, job_id: str, stage: str, done: int, total: int | None) -> bool:
        """Record the progress of a job; False if it was cancelled."""
        with self._writing() as database:
            database.execute(
                "UPDATE jobs SET stage = ?, done = ?, total = ? WHERE id = ?",
                (stage, done, total, job_id),
            )
            (is_unwanted,) = database.execute(
                "SELECT is_unwanted FROM jobs WHERE id = ?", (job_id,)
            ).fetchone()
            return not is_unwanted

    def cancel(self, job_id: str) -> None:
        """Request that a job stop; one that waits ends now, and one that has ended is unchanged."""
        with self._writing() as database:
            database.execute("UPDATE jobs SET is_unwanted = 1 WHERE id = ?", (job_id,))
            database.execute(
                "UPDATE jobs SET status = 'cancelled' WHERE id = ? AND status = 'waiting'",
                (job_id,),
            )

    def end(
        self, job_id: str, status: JobStatus, *, result: IngestOutput | None, error: JobError | None
    ) -> None:
        """Record the end of a job."""
        with self._writing() as database:
            database.execute(
                "UPDATE jobs SET status = ?, result = ?, error = ? WHERE id = ?",
                (status, _encode(result), _encode(error), job_id),
            )
            if status == "done":
                database.execute(
                    "UPDATE jobs SET done = total WHERE id = ? AND total IS NOT NULL", (job_id,)
                )

    def fail_all_of(self, worker: int) -> None:
        """Record that the jobs of a process that has ended have failed."""
        with self._writing() as database:
            database.execute(
                "UPDATE jobs SET status = 'failed', error = ? "
                "WHERE worker = ? AND status IN ('waiting', 'running')",
                (_encode(_LOST), worker),
            )

    def find(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput | None:
        """The state of a job, unless it belongs to another actor or graph."""
        found = self._select(f"id = ? AND {_OWN}", job_id, graph_id, actor)
        return found[0] if found else None

    def find_all(self, *, graph_id: str, actor: str | None) -> list[JobOutput]:
        """The jobs of an actor on a graph, oldest first."""
        return self._select(_OWN, graph_id, actor)

    def _select(self, condition: str, *values: str | None) -> list[JobOutput]:
        query = f"SELECT {_COLUMNS} FROM jobs WHERE {condition} ORDER BY number"
        with self._lock:
            rows = self._database.execute(query, values).fetchall()
        return [
            {
                "job_id": id,
                "graph_id": graph_id,
                "status": status,
                "stage": stage,
                "done": done,
                "total": total,
                "result": None if result is None else orjson.loads(result),
                "error": None if error is None else orjson.loads(error),
            }
            for id, graph_id, status, stage, done, total, result, error in rows
        ]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for the transactions of other threads and processes."""
        with self._lock, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield self._database


def _encode(output: IngestOutput | JobError | None) -> bytes | None:
    return None if output is None else orjson.dumps(output)


class Jobs:
    """The jobs of a server, of which this process runs its own; safe to share between threads."""

    def __init__(self, records: JobRecords, *, new_id: Callable[[], str], log: Log) -> None:
        self._records = records
        self._new_id = new_id
        self._log = log
        self._lock = Lock()
        self._future_by_id: dict[str, Future[IngestOutput]] = {}
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
        job_id = self._new_id()
        self._records.add(job_id, graph_id=graph_id, actor=actor)
        self._log.event("job started", job=job_id, graph=graph_id, actor=actor)
        context = copy_context()
        future = self._pool.submit(context.run, self._run, job_id, work)
        with self._lock:
            self._future_by_id[job_id] = future
        future.add_done_callback(partial(self._finish, job_id, release))
        return self.get(job_id, graph_id=graph_id, actor=actor)

    def find(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput | None:
        """The state of a job, if the caller has such a job on the graph."""
        return self._records.find(job_id, graph_id=graph_id, actor=actor)

    def get(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput:
        """The state of a job; 404 if the caller has no such job on the graph."""
        # A job is visible to its actor only, so for other callers it does not exist.
        found = self.find(job_id, graph_id=graph_id, actor=actor)
        if found is None:
            raise not_found(f"job '{job_id}' not found")
        return found

    def list(self, *, graph_id: str, actor: str | None) -> list[JobOutput]:
        """The caller's jobs on a graph, oldest first."""
        return self._records.find_all(graph_id=graph_id, actor=actor)

    def cancel(self, job_id: str, *, graph_id: str, actor: str | None) -> JobOutput:
        """Request that a job stop and return its state; an ended job is unchanged."""
        self.get(job_id, graph_id=graph_id, actor=actor)
        self._cancel(job_id)
        return self.get(job_id, graph_id=graph_id, actor=actor)

    def close(self) -> None:
        """Request that all jobs of this process stop, and wait until they have."""
        with self._lock:
            job_ids = list(self._future_by_id)
        for each in job_ids:
            self._cancel(each)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _cancel(self, job_id: str) -> None:
        self._records.cancel(job_id)
        with self._lock:
            future = self._future_by_id.get(job_id)
        if future is not None:
            # A queued job ends here; a running job notices at its next progress report.
            future.cancel()

    def _run(self, job_id: str, work: Callable[[Progress], IngestOutput]) -> IngestOutput:
        if not self._records.begin(job_id):
            raise CancelledJobError
        return work(partial(self._note, job_id))

    def _note(self, job_id: str, stage: str, done: int, total: int | None) -> None:
        # No progress is reported after the commit is published, so a job that stops here wrote
        # nothing.
        if not self._records.note(job_id, stage, done, total):
            raise CancelledJobError

    def _finish(
        self, job_id: str, release: Callable[[], None], future: Future[IngestOutput]
    ) -> None:
        release()
        with self._lock:
            self._future_by_id.pop(job_id, None)
        status: JobStatus = "failed"
        result: IngestOutput | None = None
        failure: JobError | None = None
        if future.cancelled():
            status = "cancelled"
        elif (error := future.exception()) is None:
            status, result = "done", future.result()
        elif isinstance(error, CancelledJobError):
            status = "cancelled"
        else:
            failure = self._describe(job_id, error)
        self._records.end(job_id, status, result=result, error=failure)
        self._log.event("job ended", job=job_id, status=status)

    def _describe(self, job_id: str, error: BaseException) -> JobError:
        """The error of a failed job, as a request that waits for the load would get it."""
        if not isinstance(error, GraphError):
            self._log.error("job failed unexpectedly", error=error, job=job_id)
            message = f"internal server error; the server's log has details under job {job_id}"
            return {"status": 500, "error": message, "code": "internal"}
        response = graph_error_response(error)
        if response.status >= 500:
            self._log.error("job failed", error=error, job=job_id)
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
        return failure
