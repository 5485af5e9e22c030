"""Thirty-two clients at once: every write that was told is kept, and every read is one state."""

from __future__ import annotations

from pathlib import Path

from tests.support.run_report import report_story
from tests.support.server_stories import run_story


def test_many_clients_lose_no_write_and_see_no_half_of_one(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=1, servers=1, kills=0, requests=700, seconds=0.0)

    report_story(str(report))
    assert report.flaws == []
    assert report.acknowledged >= 40, "the clients hardly wrote"
    assert report.end_bytes, "nobody looked at the memory"


def test_two_servers_of_one_graph_are_as_good_as_one(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=2, servers=2, kills=0, requests=400, seconds=0.0)

    report_story(str(report))
    assert report.flaws == []
    assert report.acknowledged >= 20, "the clients hardly wrote"
    assert report.end_bytes, "nobody looked at the memory"
