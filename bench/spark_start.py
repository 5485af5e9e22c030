"""How long a Spark session takes to start and to run its first job, beside PySpark's own defaults.

Every round is a fresh process, ours and the peer's in turns. The job hands two rows to Python and
back by Arrow, so what it takes is Spark's and Java's warming up; the second one shows what is left.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

# A script finds only its own directory.
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
    """Start both in turns and compare the medians, step by step."""
    ours, defaults = [], []
    for _ in range(ROUNDS):
        ours.append(_run(OURS))
        defaults.append(_run(DEFAULTS))
    print(f"A session with all {os.cpu_count()} cores, {ROUNDS} fresh processes each, median.\n")
    print_table(
        ["step", "omnigraph.spark.session()", "PySpark's defaults"],
        [
            [step, milliseconds(median(mine)), milliseconds(median(theirs))]
            for step, mine, theirs in zip(
                STEPS, zip(*ours, strict=True), zip(*defaults, strict=True), strict=True
            )
        ],
    )
    total, peer = (median(map(sum, runs)) for runs in (ours, defaults))
    print(f"In all {total:.1f} s against {peer:.1f} s.\n")


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
