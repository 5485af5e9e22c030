"""The time to start a Spark session and run a first job, compared with PySpark's defaults.

Every round runs in fresh processes, alternating between both settings. The job passes two rows to
Python and back through Arrow, so its duration is the warm-up of Spark and Java; the second job
shows the duration afterwards.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.support.tables import milliseconds, print_table

ROUNDS = 3
STEPS = ("session", "first job", "second job", "shuffle", "stop")

OURS = "from omnigraph.spark import session; spark = session()"
DEFAULTS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
"""
MEASURE = """
import json, time
times = [time.perf_counter()]
{start}
times.append(time.perf_counter())
for _ in range(2):
    spark.range(2, numPartitions=2).mapInArrow(lambda batches: batches, "id long").toArrow()
    times.append(time.perf_counter())
spark.range(1_000_000).groupBy("id").count().count()
times.append(time.perf_counter())
spark.stop()
times.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""


def main() -> None:
    """Start both in alternation and compare the medians of each step."""
    ours, defaults = [], []
    for _ in range(ROUNDS):
        ours.append(_run(OURS))
        defaults.append(_run(DEFAULTS))
    print(f"A session with all {os.cpu_count()} cores, {ROUNDS} fresh processes each, median.\n")
    print_table(
        ["step", "omnigraph.spark.session()", "PySpark's defaults"],
        [
            [step, milliseconds(median(own)), milliseconds(median(baseline))]
            for step, own, baseline in zip(
                STEPS, zip(*ours, strict=True), zip(*defaults, strict=True), strict=True
            )
        ],
    )
    total, baseline_total = (median(map(sum, runs)) for runs in (ours, defaults))
    print(f"Total: {total:.1f} s, with PySpark's defaults {baseline_total:.1f} s.\n")


def _run(start: str) -> list[float]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", MEASURE.format(start=start)]
    printed = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ).stdout
    times = json.loads(printed)
    assert len(times) == len(STEPS)
    return [float(seconds) for seconds in times]


if __name__ == "__main__":
    main()
