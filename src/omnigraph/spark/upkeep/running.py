"""Jobs of upkeep, run without a word while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from omnigraph.spark.jobs import run_job

T = TypeVar("T")


def run_silently(spark: SparkSession, action: Callable[[], T], *, stage: str) -> T:
    """Run a Spark action and return what it returns; it is cancelled if the caller is stopped."""
    return run_job(spark, action, stage=stage, progress=_say_nothing)


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""
