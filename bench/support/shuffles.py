"""The shuffle volume of a Spark session, read from its web UI.

The session must have its web UI enabled, which `omnigraph.spark.session` disables by default. A
shuffle record may hold many rows, so bytes are the meaningful measure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import sleep
from urllib.request import urlopen

from pyspark.sql import SparkSession

UI_SETTINGS = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""The settings of a session whose shuffle volume can be measured."""

_PAUSE_S = 0.5
_POLLS_MAX = 60
_UNFINISHED = ("ACTIVE", "PENDING")


@dataclass(frozen=True, slots=True)
class ShuffleVolume:
    """The records and compressed bytes written to shuffle files."""

    records: int
    bytes: int

    def __sub__(self, earlier: ShuffleVolume) -> ShuffleVolume:
        return ShuffleVolume(self.records - earlier.records, self.bytes - earlier.bytes)


def measure_shuffles(spark: SparkSession) -> ShuffleVolume:
    """The shuffle volume since the session started."""
    previous = None
    for _ in range(_POLLS_MAX):
        # The web UI is updated shortly after a stage ends.
        sleep(_PAUSE_S)
        found = _read_volume(spark)
        if found is not None and found == previous:
            return found
        previous = found
    raise AssertionError("Spark did not become idle")


def _read_volume(spark: SparkSession) -> ShuffleVolume | None:
    """The volume that the web UI reports; `None` while a stage is running."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urlopen(address) as response:
        stages = json.load(response)
    if any(stage["status"] in _UNFINISHED for stage in stages):
        return None
    return ShuffleVolume(
        records=sum(int(stage["shuffleWriteRecords"]) for stage in stages),
        bytes=sum(int(stage["shuffleWriteBytes"]) for stage in stages),
    )
