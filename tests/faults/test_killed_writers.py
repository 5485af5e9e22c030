"""Writers in processes of their own that are killed during a write lose no data of others."""

import random
from pathlib import Path

from tests.support.run_report import report_story
from tests.support.soak import run_story

KILLS = 5


def test_writers_killed_at_any_time_lose_nothing_and_leave_nothing_partial(
    tmp_path: Path,
) -> None:
    seed = random.randrange(1_000_000)

    report = run_story(tmp_path, seed=seed, kills_min=KILLS, seconds=0)

    report_story(f"killed writers, {report}")
    assert report.flaws == [], f"{report}\n" + "\n".join(report.flaws)
    assert sum(report.kills.values()) >= KILLS, report
    assert report.endings["done"] >= KILLS, report
    assert report.snapshots >= KILLS, report
