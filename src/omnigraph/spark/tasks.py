"""Frames of numbers, from which tasks begin: one number a task.

Promises that Spark takes what tasks make of them to be as large as it will be: it chooses joins by
that, and what looks like a handful of rows would be sent to every executor.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def make_tasks(session: SparkSession, count: int, *, rows: int) -> DataFrame:
    """The numbers from 0 up to a count, each in a partition of its own.

    `rows` is about how many rows the tasks will make of them, all together.
    """
    share = max(1, -(-rows // max(count, 1)))
    every = session.range(0, count * share, 1, numPartitions=max(count, 1))
    # Spark does not guess what a condition leaves out, and sizes what follows by what came in.
    first = every.where(f.col("id") % share == 0)
    return first.select(f.expr(f"id div {share}").alias("id"))
