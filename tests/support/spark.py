"""The Spark session of a test process, and tasks that tests run in it.

Tasks run in Python workers, which import this module from the folder that the tests run in.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import omnigraph.spark
from omnigraph.model.errors import KeyConflictError
from omnigraph.spark.errors import carried_errors

Batches = Iterator[pa.RecordBatch]

_WAIT_SECONDS_MAX = 120


@contextmanager
def warmed_up_session() -> Iterator[SparkSession]:
    """A session with two cores, stopped at the end of the block."""
    running = omnigraph.spark.session("local[2]")
    try:
        yield running
    finally:
        running.stop()


def tasks(spark: SparkSession, work: Callable[[Batches], Batches], *, count: int = 2) -> DataFrame:
    """A frame that so many tasks work out, each of which gets one row."""
    return spark.range(count, numPartitions=count).mapInArrow(work, "id long")


def slowly(batches: Batches) -> Batches:
    """What a task does that can be watched: nothing, for a while."""
    for batch in batches:
        time.sleep(0.4)
        yield batch


def dying(batches: Batches) -> Batches:
    """What a task does that takes its Python worker with it."""
    for batch in batches:
        os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def failing(batches: Batches) -> Batches:
    """What a task does that is not up to it."""
    raise ValueError(f"no row is good enough\nnot even {next(batches).num_rows}")


def refusing(batches: Batches) -> Batches:
    """What a task does that finds a rule of the graph broken."""
    for batch in batches:
        with carried_errors():
            _refuse(batch)
        yield batch


def _refuse(batch: pa.RecordBatch) -> None:
    raise KeyConflictError(type="Person", id=f"Ann {batch.num_rows}")


def waiting_for(path: Path) -> Callable[[Batches], Batches]:
    """What a task does that ends when a file is there."""

    def wait(batches: Batches) -> Batches:
        for batch in batches:
            path.with_suffix(".waiting").touch()
            await_that(path.exists)
            yield batch

    return wait


def beating(folder: Path) -> Callable[[Batches], Batches]:
    """What a task does that has a pulse: it writes to a file, longer than any test waits."""

    def beat(batches: Batches) -> Batches:
        for batch in batches:
            for _ in range(6_000):
                with (folder / f"task-{batch.column(0)[0]}").open("a") as pulse:
                    pulse.write(".")
                time.sleep(0.1)
            yield batch

    return beat


def pulses(folder: Path) -> dict[str, int]:
    """How often each task that began has beaten so far."""
    return {path.name: path.stat().st_size for path in folder.glob("task-*")}


def has_pulse(folder: Path) -> bool:
    """Whether a task still beats."""
    before = pulses(folder)
    time.sleep(1)
    return pulses(folder) != before


def await_that(has_come: Callable[[], bool]) -> None:
    """Wait until something is so; fail if that takes too long."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not has_come():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""
