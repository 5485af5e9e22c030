"""Running one Spark action: progress while it runs, and nothing left of it when it is given up.

Promises that an exception in the caller's thread cancels the jobs of this action and no others
before it is raised on, and that nothing is reported afterwards. (On Ctrl-C PySpark cancels all that
a process runs, by itself.) In a session of this process the tasks have ended by then; a Spark
Connect server kills them in the seconds that follow and tells nobody when they are gone. Does not
touch the graph.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyspark import SparkContext, SparkStageInfo, inheritable_thread_target
from pyspark.sql import SparkSession

from omnigraph.engine.loads import Progress
from omnigraph.model.limits import SPARK_CANCEL_WAIT_S, SPARK_POLL_INTERVAL_S
from omnigraph.spark.sessions import is_connect
from omnigraph.spark.spark_errors import FOREIGN, spark_errors

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskCount:
    """How many tasks of an action are done, of those that Spark has planned so far."""

    done: int
    planned: int


def run_job(spark: SparkSession, action: Callable[[], T], *, stage: str, progress: Progress) -> T:
    """Run a Spark action and return what it returns; `progress` is called in this thread.

    What it reports are tasks, of those that Spark has begun to plan; there may come more. Whatever
    is raised here cancels the action first.
    """
    # Not around `progress`: what that raises is the caller's, whatever its class.
    translated = partial(
        spark_errors, action=f"finish '{stage}' on Spark, so the graph is unchanged"
    )
    with translated():
        job = _job(spark)
        inherit = inheritable_thread_target(spark)
    # This thread asks Java nothing: when it is interrupted PySpark does, on the connection of
    # this thread, which must not be waiting for another answer then.
    workers = ThreadPoolExecutor(max_workers=2)
    running = workers.submit(inherit(job.run), action, stage)

    def count() -> TaskCount:
        with translated():
            return workers.submit(job.count).result()

    try:
        _report(running, count, stage=stage, progress=progress)
        with translated():
            outcome: T = running.result()
    finally:
        if not running.done() or running.exception():
            workers.submit(_end, running, job).result()
        workers.shutdown(wait=False)
    return outcome


def run_silently(spark: SparkSession, action: Callable[[], T], *, stage: str) -> T:
    """Run a Spark action and return what it returns, without a word while it runs."""
    return run_job(spark, action, stage=stage, progress=_say_nothing)


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""


def _report(
    running: Future[T], count: Callable[[], TaskCount], *, stage: str, progress: Progress
) -> None:
    progress(stage, 0, None)
    told = TaskCount(done=0, planned=0)
    while wait((running,), timeout=SPARK_POLL_INTERVAL_S).not_done:
        found = count()
        if found != told:
            progress(stage, found.done, found.planned or None)
            told = found
    if not running.exception():
        # Spark's own count comes late.
        planned = count().planned
        progress(stage, planned, planned or None)


def _end(running: Future[T], job: _Job) -> None:
    """Cancel until the action has returned and none of its tasks runs, or for as long as allowed.

    Between two jobs of one action there is nothing to cancel, so once is not enough.
    """
    deadline = time.monotonic() + SPARK_CANCEL_WAIT_S
    with suppress(*FOREIGN):  # a Spark that does not answer runs nothing that we could stop
        while time.monotonic() < deadline and not (running.done() and job.is_over()):
            job.cancel()
            time.sleep(SPARK_POLL_INTERVAL_S / 4)


class _Job(Protocol):
    """What one action runs, as far as one can see and stop it."""

    def run(self, action: Callable[[], T], stage: str, /) -> T:
        """Run the action in this thread, so that what it starts can be told from the rest."""

    def count(self) -> TaskCount:
        """The tasks that the action has started so far."""

    def cancel(self) -> None:
        """Stop what the action runs at the moment."""

    def is_over(self) -> bool:
        """Whether no task runs any more, as far as can be known."""


class _ClassicJob:
    """Jobs of a session in this process, held together by a group.

    A session's own tags would not do: another thread cannot cancel by them (PySpark 4.3).
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context, self._group = context, group
        self._tracker = context.statusTracker()
        self._stages_by_job: dict[int, tuple[int, ...]] = {}
        self._ended: dict[int, SparkStageInfo] = {}

    def run(self, action: Callable[[], T], stage: str, /) -> T:
        self._context.setJobGroup(self._group, stage)
        return action()

    def count(self) -> TaskCount:
        stages = tuple(self._started_stages())
        return TaskCount(
            done=sum(stage.numCompletedTasks for stage in stages),
            planned=sum(stage.numTasks for stage in stages),
        )

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def is_over(self) -> bool:
        return not any(stage.numActiveTasks for stage in self._started_stages())

    def _started_stages(self) -> Iterator[SparkStageInfo]:
        # Stages that an earlier job has run already are planned again, and never started.
        for stage in map(self._find_stage, self._stage_ids()):
            if stage and (stage.numCompletedTasks or stage.numActiveTasks or stage.numFailedTasks):
                yield stage

    def _stage_ids(self) -> Iterator[int]:
        for job_id in self._tracker.getJobIdsForGroup(self._group):
            if job_id not in self._stages_by_job:
                job = self._tracker.getJobInfo(job_id)
                self._stages_by_job[job_id] = tuple(job.stageIds) if job else ()
            yield from self._stages_by_job[job_id]

    def _find_stage(self, stage_id: int) -> SparkStageInfo | None:
        # A question takes ten trips to Java, so what cannot change is asked once.
        if stage_id in self._ended:
            return self._ended[stage_id]
        stage = self._tracker.getStageInfo(stage_id)
        if stage and stage.numCompletedTasks == stage.numTasks:
            self._ended[stage_id] = stage
        return stage


class _ConnectJob:
    """Operations on a Spark Connect server, which tells of them while they run."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark, self._tag = spark, tag
        self._thread = 0
        self._count_by_operation: dict[str | None, TaskCount] = {}

    def run(self, action: Callable[[], T], stage: str, /) -> T:  # noqa: ARG002  # a tag has no text
        self._thread = threading.get_ident()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._hear)  # type: ignore[arg-type]  # any callable does
        try:
            return action()
        finally:
            self._spark.removeProgressHandler(self._hear)  # type: ignore[arg-type]  # any callable does

    def count(self) -> TaskCount:
        counts = tuple(self._count_by_operation.values())
        return TaskCount(
            done=sum(count.done for count in counts),
            planned=sum(count.planned for count in counts),
        )

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def is_over(self) -> bool:
        # The server says nothing of tasks once their operation has ended.
        return True

    def _hear(
        self,
        *,
        stages: Iterable[StageInfo] | None,
        operation_id: str | None,
        **_more: object,
    ) -> None:
        # Whoever shares the session is heard as well, from the thread that waits for the operation.
        if threading.get_ident() == self._thread and stages:
            known = tuple(stages)
            self._count_by_operation[operation_id] = TaskCount(
                done=sum(stage.num_completed_tasks for stage in known),
                planned=sum(stage.num_tasks for stage in known),
            )


def _job(spark: SparkSession) -> _Job:
    name = f"omnigraph-{uuid.uuid4()}"
    return _ConnectJob(spark, name) if is_connect(spark) else _ClassicJob(spark.sparkContext, name)
