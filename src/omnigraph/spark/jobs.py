"""One Spark action with progress and cancellation; maintenance tasks on executors.

An exception in the calling thread cancels the jobs of its action and no others. In a classic
session the tasks have ended when the exception is raised; a Spark Connect server ends them shortly
after. A task that Spark runs twice leaves only unreferenced files. The module does not know what a
task does and changes no graph itself.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import SparkContext, SparkStageInfo, inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from omnigraph.engine.ops.load import Progress
from omnigraph.model.limits import SPARK_CANCEL_WAIT_S, SPARK_PART_ROWS_MAX, SPARK_POLL_INTERVAL_S
from omnigraph.spark.errors import FOREIGN, carried_errors, spark_errors
from omnigraph.spark.sessions import find_working_session, is_connect

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The completed tasks of an action, and the tasks that Spark has planned so far."""

    done: int
    planned: int


def run_job(spark: SparkSession, action: Callable[[], T], *, stage: str, progress: Progress) -> T:
    """Run a Spark action and return its result; `progress` is called in this thread.

    Progress counts tasks out of those that Spark has planned so far; the total may grow. Any
    exception raised here cancels the action first.
    """
    # `progress` runs outside the translation: its exceptions belong to the caller, of any class.
    translated = partial(
        spark_errors, action=f"finish '{stage}' on Spark, so the graph is unchanged"
    )
    with translated():
        job = _job(spark)
        inherit = inheritable_thread_target(spark)
    # This thread makes no calls to Java: when it is interrupted, PySpark makes one on the
    # connection of this thread, which must not be waiting for another response then.
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


def run_job_quietly(spark: SparkSession, action: Callable[[], T], *, stage: str) -> T:
    """Run a Spark action and return its result, without reporting progress."""
    return run_job(spark, action, stage=stage, progress=lambda _stage, _done, _total: None)


def _report(
    running: Future[T], count: Callable[[], TaskCount], *, stage: str, progress: Progress
) -> None:
    progress(stage, 0, None)
    reported = TaskCount(done=0, planned=0)
    while wait((running,), timeout=SPARK_POLL_INTERVAL_S).not_done:
        found = count()
        if found != reported:
            progress(stage, found.done, found.planned or None)
            reported = found
    if not running.exception():
        # Spark's own task counts lag behind.
        planned = count().planned
        progress(stage, planned, planned or None)


def _end(running: Future[T], job: _Job) -> None:
    """Cancel until the action has returned and none of its tasks runs, or until the time limit.

    Between two jobs of one action there is nothing to cancel, so one call is not enough.
    """
    deadline = time.monotonic() + SPARK_CANCEL_WAIT_S
    with suppress(*FOREIGN):  # if Spark does not respond, there is nothing left to stop
        while time.monotonic() < deadline and not (running.done() and job.is_over()):
            job.cancel()
            time.sleep(SPARK_POLL_INTERVAL_S / 4)


class _ClassicJob:
    """Jobs of a session in this process, identified by a job group.

    Session tags do not work here: another thread cannot cancel by them (PySpark 4.3).
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context, self._group = context, group
        self._tracker = context.statusTracker()
        self._stages_by_job: dict[int, tuple[int, ...]] = {}
        self._ended: dict[int, SparkStageInfo] = {}

    def run(self, action: Callable[[], T], stage: str) -> T:
        """Run the action in this thread, marking its jobs so that they can be identified."""
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
        # Stages that an earlier job has already run are planned again but never started.
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
        # A query takes ten round trips to Java, so results that cannot change are cached.
        if stage_id in self._ended:
            return self._ended[stage_id]
        stage = self._tracker.getStageInfo(stage_id)
        if stage and stage.numCompletedTasks == stage.numTasks:
            self._ended[stage_id] = stage
        return stage


class _ConnectJob:
    """Operations on a Spark Connect server, which reports their progress while they run."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark, self._tag = spark, tag
        self._thread = 0
        self._count_by_operation: dict[str | None, TaskCount] = {}

    def run(self, action: Callable[[], T], stage: str) -> T:  # noqa: ARG002  # a tag has no text
        self._thread = threading.get_ident()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._on_progress)  # type: ignore[arg-type]  # any callable
        try:
            return action()
        finally:
            self._spark.removeProgressHandler(self._on_progress)  # type: ignore[arg-type]  # any callable

    def count(self) -> TaskCount:
        counts = tuple(self._count_by_operation.values())
        return TaskCount(
            done=sum(count.done for count in counts),
            planned=sum(count.planned for count in counts),
        )

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def is_over(self) -> bool:
        # The server does not report tasks after their operation has ended.
        return True

    def _on_progress(
        self,
        *,
        stages: Iterable[StageInfo] | None,
        operation_id: str | None,
        **_more: object,
    ) -> None:
        # Handlers also receive the operations of other users of the session, each in the thread
        # that waits for its operation.
        if threading.get_ident() == self._thread and stages:
            known = tuple(stages)
            self._count_by_operation[operation_id] = TaskCount(
                done=sum(stage.num_completed_tasks for stage in known),
                planned=sum(stage.num_tasks for stage in known),
            )


_Job: TypeAlias = _ClassicJob | _ConnectJob


def _job(spark: SparkSession) -> _Job:
    name = f"omnigraph-{uuid.uuid4()}"
    return _ConnectJob(spark, name) if is_connect(spark) else _ClassicJob(spark.sparkContext, name)


_NUMBER_BYTES = 8


def make_tasks(session: SparkSession, count: int, *, size: int) -> DataFrame:
    """The numbers from 0 up to a count of at least one, each in its own partition.

    `size` is the approximate total number of bytes of rows that the tasks produce.
    """
    share = max(1, -(-size // (_NUMBER_BYTES * count)))
    every = session.range(0, count * share, 1, numPartitions=count)
    # Spark's size estimate assumes that a filter removes no rows and that tasks do not grow their
    # input, so the range is made as large as the output.
    first = every.where(f.col("id") % share == 0)
    return first.select(f.expr(f"id div {share}").alias("id"))


def map_tasks(
    session: SparkSession,
    work: Callable[[T], Iterator[pa.RecordBatch]],
    tasks: Sequence[T],
    schema: str | StructType,
) -> DataFrame:
    """The rows that some work yields for each task; each runs as one Spark task."""
    count = max(len(tasks), 1)
    return session.range(0, count, 1, count).mapInArrow(run_numbered(work, tasks), schema)


def run_numbered(
    work: Callable[[T], Iterator[pa.RecordBatch]], tasks: Sequence[T]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for executors that runs the tasks whose numbers are its input rows."""
    return partial(_run_numbered, work, tuple(tasks))


def _run_numbered(
    work: Callable[[T], Iterator[pa.RecordBatch]],
    tasks: Sequence[T],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                # Without tasks there is still one partition, whose number is 0.
                if number < len(tasks):
                    yield from work(tasks[number])


R = TypeVar("R")

_CORES_OF_SERVER = 8
_OUTCOME = "number long, outcome binary"


def count_cores(spark: SparkSession) -> int:
    """The number of tasks that a session runs at the same time."""
    # A server does not report its cores; a few tasks more than cores do no harm.
    return _CORES_OF_SERVER if is_connect(spark) else spark.sparkContext.defaultParallelism


def open_workers(spark: object) -> SparkWorkers:
    """The workers of a session: the given one, else the running one, else a new one."""
    return SparkWorkers(find_working_session(spark))


class SparkWorkers:
    """Executors that run any work on tables, with one job per call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def share(self, row_count: int) -> int:
        """An equal share of the rows for each core, at most some seconds of work."""
        return max(1, min(SPARK_PART_ROWS_MAX, -(-row_count // count_cores(self._spark))))

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, stage: str) -> tuple[R, ...]:
        """The result of the work for each task, in task order; each runs as one Spark task."""
        if not tasks:
            return ()
        collect = partial(collect_tasks, self._spark, work, tasks)
        return run_job_quietly(self._spark, collect, stage=stage)


def collect_tasks(
    session: SparkSession, work: Callable[[T], R], tasks: Sequence[T]
) -> tuple[R, ...]:
    """The result of the work for each task, in task order; each runs as one Spark task."""
    frame = map_tasks(session, partial(_work_on, work), [*enumerate(tasks)], _OUTCOME)
    outcomes = {row["number"]: row["outcome"] for row in frame.collect()}
    return tuple(pickle.loads(outcomes[number]) for number in range(len(tasks)))


def _work_on(work: Callable[[T], R], task: tuple[int, T]) -> Iterator[pa.RecordBatch]:
    number, one = task
    yield pa.record_batch({"number": [number], "outcome": [pickle.dumps(work(one))]})
