"""Upkeep by executors: tasks go out, what they wrote comes back, and the caller stages it.

A task that Spark runs twice leaves files that nobody hears of. Does not know what the work is: it
comes as a function of an importable module. Touches no graph itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from omnigraph.model.limits import SPARK_PART_ROWS_MAX
from omnigraph.spark.jobs import run_silently
from omnigraph.spark.sessions import find_session, is_connect
from omnigraph.spark.spark_errors import carried_errors

T = TypeVar("T")
R = TypeVar("R")

_CORES_OF_SERVER = 8
_OUTCOME = "number long, outcome binary"


def open_workers(spark: object) -> SparkWorkers:
    """The workers of a session: the one that is given, else the one that runs, else a new one."""
    return SparkWorkers(find_session(spark))


class SparkWorkers:
    """Executors that take any work on tables; one job for each call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def share(self, row_count: int) -> int:
        """An equal share for each core, and never more than some seconds of work."""
        return max(1, min(SPARK_PART_ROWS_MAX, -(-row_count // self._count_cores())))

    def run(self, work: Callable[[T], R], tasks: Sequence[T], *, stage: str) -> tuple[R, ...]:
        """What the work makes of each task, in their order; one Spark task each."""
        if not tasks:
            return ()
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        frame = numbers.mapInArrow(partial(_work_on, work, tuple(tasks)), _OUTCOME)
        rows = run_silently(self._spark, frame.collect, stage=stage)
        outcomes = {row["number"]: row["outcome"] for row in rows}
        return tuple(pickle.loads(outcomes[number]) for number in range(len(tasks)))

    def _count_cores(self) -> int:
        # A server does not say how many it has; tasks for a few more do no harm.
        if is_connect(self._spark):
            return _CORES_OF_SERVER
        return self._spark.sparkContext.defaultParallelism


# On executors


def _work_on(
    work: Callable[[T], R], tasks: Sequence[T], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with carried_errors():
        for batch in batches:
            for number in batch.column("id").to_pylist():
                outcome = pickle.dumps(work(tasks[number]))
                yield pa.record_batch({"number": [number], "outcome": [outcome]})
