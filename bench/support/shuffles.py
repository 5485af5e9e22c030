"""How much of a session went through a shuffle, as Spark's own pages count it.

The session needs its web page, which a session of ours has only when it is asked for. A record may
hold many rows, so it is the bytes that tell.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import sleep
from urllib.request import urlopen

from pyspark.sql import SparkSession

PAGE = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""The settings of a session whose shuffles can be measured."""

_PAUSE_S = 0.5
_LOOKS_MAX = 60
_UNFINISHED = ("ACTIVE", "PENDING")


@dataclass(frozen=True, slots=True)
class Shuffled:
    """What was written for shuffles, compressed as Spark does."""

    records: int
    bytes: int

    def __sub__(self, earlier: Shuffled) -> Shuffled:
        return Shuffled(self.records - earlier.records, self.bytes - earlier.bytes)


def measure_shuffles(spark: SparkSession) -> Shuffled:
    """What was shuffled since the session began."""
    told = None
    for _ in range(_LOOKS_MAX):
        # The page hears of what has ended a moment later.
        sleep(_PAUSE_S)
        found = _look(spark)
        if found is not None and found == told:
            return found
        told = found
    raise AssertionError("Spark does not come to rest")


def _look(spark: SparkSession) -> Shuffled | None:
    """What the page tells of; None while something runs."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urlopen(address) as answer:
        stages = json.load(answer)
    if any(stage["status"] in _UNFINISHED for stage in stages):
        return None
    return Shuffled(
        records=sum(int(stage["shuffleWriteRecords"]) for stage in stages),
        bytes=sum(int(stage["shuffleWriteBytes"]) for stage in stages),
    )
