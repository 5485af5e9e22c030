"""A server killed while clients write: what was told stays, the rest is whole or absent.

Clients whose answer got lost ask again under their key; each write happens exactly once.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.run_report import report_story
from tests.support.server_stories import run_story


def test_a_server_that_is_killed_loses_no_write_and_does_none_twice(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=3, servers=1, kills=3, requests=None, seconds=2.0)

    report_story(str(report))
    assert report.flaws == []
    assert any(answer.startswith("lost") for answer in report.responses), "no kill was noticed"


def test_a_server_goes_on_while_its_neighbour_is_killed(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=4, servers=2, kills=2, requests=None, seconds=2.0)

    report_story(str(report))
    assert report.flaws == []
    assert any(answer.startswith("lost") for answer in report.responses), "no kill was noticed"
