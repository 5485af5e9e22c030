"""A server killed while clients write: acknowledged writes remain, others are whole or absent.

Clients that lost a response retry under their key; each write is applied exactly once.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.run_report import report_story
from tests.support.server_stories import run_story


def test_a_killed_server_loses_no_write_and_applies_none_twice(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=3, servers=1, workers=1, kills=3, requests=None, seconds=2.0)

    report_story(str(report))
    assert report.flaws == []
    assert any(outcome.startswith("lost") for outcome in report.responses), "no kill was noticed"


def test_a_server_continues_while_another_is_killed(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=4, servers=2, workers=1, kills=2, requests=None, seconds=2.0)

    report_story(str(report))
    assert report.flaws == []
    assert any(outcome.startswith("lost") for outcome in report.responses), "no kill was noticed"


def test_killed_workers_of_a_server_lose_no_write_and_are_replaced(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=5, servers=1, workers=2, kills=3, requests=None, seconds=2.0)

    report_story(str(report))
    assert report.flaws == []
    assert any(outcome.startswith("lost") for outcome in report.responses), "no kill was noticed"
