"""How many rows of a session went through a shuffle, as Spark's own pages count them.

The session needs its web page, which a session of ours has only when it is asked for.
"""

from __future__ import annotations

import json
from time import sleep
from urllib.request import urlopen

from pyspark.sql import SparkSession

PAGE = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""The settings of a session whose shuffles can be counted."""

_PAUSE_S = 0.5
_LOOKS_MAX = 60
_UNFINISHED = ("ACTIVE", "PENDING")


def count_shuffled_rows(spark: SparkSession) -> int:
    """The rows that were written for a shuffle since the session began."""
    told = None
    for _ in range(_LOOKS_MAX):
        # The page hears of what has ended a moment later.
        sleep(_PAUSE_S)
        found = _look(spark)
        if found is not None and found == told:
            return found
        told = found
    raise AssertionError("Spark does not come to rest")


def _look(spark: SparkSession) -> int | None:
    """The rows that the page tells of; None while something runs."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urlopen(address) as answer:
        stages = json.load(answer)
    if any(stage["status"] in _UNFINISHED for stage in stages):
        return None
    return sum(int(stage["shuffleWriteRecords"]) for stage in stages)
