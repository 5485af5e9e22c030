"""Writers that are killed in the midst of it, in processes of their own, cost nobody anything."""

import random
from pathlib import Path

from tests.support.run_report import report_story
from tests.support.soak import run_story

KILLS = 5


def test_writers_killed_at_any_moment_lose_nothing_and_leave_nothing_half_done(
    tmp_path: Path,
) -> None:
    seed = random.randrange(1_000_000)

    report = run_story(tmp_path, seed=seed, kills_min=KILLS, seconds=0)

    report_story(f"killed writers, {report}")
    assert report.flaws == [], f"{report}\n" + "\n".join(report.flaws)
    assert sum(report.kills.values()) >= KILLS, report
    assert report.endings["done"] >= KILLS, report
    assert report.snapshots >= KILLS, report
