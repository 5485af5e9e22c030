"""Thirty-two concurrent clients: acknowledged writes remain, and every read is of one commit."""

from __future__ import annotations

from pathlib import Path

from tests.support.run_report import report_story
from tests.support.server_stories import run_story


def test_many_clients_lose_no_write_and_see_no_half_of_one(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=1, servers=1, workers=1, kills=0, requests=700, seconds=0.0)

    report_story(str(report))
    assert report.flaws == []
    assert report.acknowledged >= 40, "the clients hardly wrote"
    assert report.end_bytes, "memory was not measured"


def test_two_servers_of_one_graph_lose_no_write(tmp_path: Path) -> None:
    report = run_story(tmp_path, seed=2, servers=2, workers=1, kills=0, requests=400, seconds=0.0)

    report_story(str(report))
    assert report.flaws == []
    assert report.acknowledged >= 20, "the clients hardly wrote"
    assert report.end_bytes, "memory was not measured"
