"""Frames of numbers, from which tasks begin: one number a task.

Promises that Spark takes what tasks make of them to be as large as it will be: it chooses joins by
that, and what looks like a handful of rows would be sent to every executor.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

_NUMBER_BYTES = 8


def make_tasks(session: SparkSession, count: int, *, size: int) -> DataFrame:
    """The numbers from 0 up to a count, at least one, each in a partition of its own.

    `size` is about how many bytes of rows the tasks will make of them, all together.
    """
    share = max(1, -(-size // (_NUMBER_BYTES * count)))
    every = session.range(0, count * share, 1, numPartitions=count)
    # Spark takes a condition to leave out nothing, and tasks to make no more than they are given.
    first = every.where(f.col("id") % share == 0)
    return first.select(f.expr(f"id div {share}").alias("id"))
