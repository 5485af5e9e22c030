"""Spark behind HTTP: the same results, from one session that starts on first use."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.graphs import node
from tests.support.served_graphs import ALL_PEOPLE, G, lines
from tests.support.servers import open_server


def test_queries_and_loads_share_one_spark_session(tmp_path: Path) -> None:
    with open_server(tmp_path) as server, server.client(token=None) as client:
        # Java is slow to start, more so on a busy machine.
        client.timeout = httpx.Timeout(300.0)
        here = client.post(f"{G}/query", json={"query": ALL_PEOPLE}).json()
        before = java_processes(server.process.pid)
        there = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "engine": "spark"})
        loaded = client.post(
            f"{G}/load",
            json={"data": lines(node("Person", name="Zoe")), "engine": "spark", "mode": "append"},
        )
        again = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "engine": "spark"})
        after = java_processes(server.process.pid)

    assert there.json() == here
    assert loaded.json()["engine"] == "spark"
    assert again.json()["row_count"] == here["row_count"] + 1
    assert (len(before), len(after)) == (0, 1)


def java_processes(parent: int) -> list[int]:
    """The Java processes below a process."""
    found, below = list[int](), {parent}
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda each: int(each.parent.name)):
        try:
            number, _, rest = path.read_text().partition(" (")
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, _, fields = rest.rpartition(") ")
        if int(fields.split()[1]) in below:
            below.add(int(number))
            if name == "java":
                found.append(int(number))
    return found


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    with open_server(tmp_path) as server, server.client(token=None) as client:
        read = client.post(f"{G}/query", json={"query": ALL_PEOPLE, "engine": "steam"})
        load = client.post(f"{G}/load", json={"data": "", "engine": "steam"})

    assert (read.status_code, load.status_code) == (400, 400)
    assert "steam" in read.json()["error"]
