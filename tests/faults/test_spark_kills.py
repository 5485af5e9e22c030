"""Bulk loads that lose a worker, Java or their driver in the midst of it are there or not there."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.run_report import report_story
from tests.support.spark_kills import NOT_REPORTED, Driver, Victim
from tests.support.spark_ordeal import Ending, Kill, KillPoint, Ordeal, require_tidy, sum_up_kills


@pytest.mark.exhaustive
def test_a_load_whose_tasks_are_retried_outlives_its_workers_and_dies_with_its_driver(
    tmp_path: Path,
) -> None:
    ordeal = new_ordeal(tmp_path)
    kills = [
        Kill(Victim.WORKER, KillPoint.READ),
        Kill(Victim.INTERRUPTED, KillPoint.READ),
        Kill(Victim.WORKER, KillPoint.CHECK),
        Kill(Victim.INTERRUPTED, KillPoint.REPLACE),
        Kill(Victim.DRIVER, KillPoint.COMMIT),
    ]

    with ordeal.driver("local[2,3]") as driver:
        endings = suffer(ordeal, driver, kills)

    ordeal.examine()
    reports = [ending.reported for ending in endings]
    assert reports[0] == reports[2] == "done"
    assert reports[4] in (NOT_REPORTED, "done")


@pytest.mark.exhaustive
def test_a_load_whose_tasks_are_tried_once_fails_with_a_worker_or_java_and_can_be_interrupted(
    tmp_path: Path,
) -> None:
    ordeal = new_ordeal(tmp_path)
    kills = [
        Kill(Victim.WORKER, KillPoint.READ),
        Kill(Victim.JAVA, KillPoint.CHECK),
        Kill(Victim.INTERRUPTED, KillPoint.CHECK),
    ]

    with ordeal.driver("local[2]") as driver:
        endings = suffer(ordeal, driver, kills)
        exit_code = driver.await_exit()

    ordeal.examine()
    assert endings[1].reported.startswith("unchanged: UnavailableError"), endings[1].reported
    if endings[2].reported == "interrupted":
        assert exit_code == -signal.SIGINT


def new_ordeal(folder: Path) -> Ordeal:
    """A graph to be loaded into, by a seed that is reported on failure."""
    seed = random.randrange(1_000_000)
    report_story(f"killed loads, seed {seed}")
    return Ordeal(folder, random.Random(seed))


def suffer(ordeal: Ordeal, driver: Driver, kills: Sequence[Kill]) -> Sequence[Ending]:
    """Run loads, kill a process in each, and check after each that the graph is whole."""
    endings: list[Ending] = []
    for number, kill in enumerate(kills, start=1):
        endings.append(ordeal.suffer(kill, driver, is_last=number == len(kills)))
        require_tidy(endings[-1])
        ordeal.write()
    report_story(f"killed loads, {sum_up_kills(endings)}")
    return endings
