"""Four servers of one cluster: all of them read and write, and nothing is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx

import omnigraph
from tests.support.served_clusters import TOKENS, policed_cluster
from tests.support.servers import Server, serving

SERVERS = 4
WRITES_EACH = 12
PEOPLE = "query people() { match { $p: Person } return { $p.name } }"
PATH = "/graphs/knowledge"


def write_and_read(server: Server, number: int) -> list[httpx.Response]:
    """Write to one server, and read after each write what it has to show."""
    responses = []
    with server.client(token="t-ann") as client:
        for turn in range(WRITES_EACH):
            params = {"name": f"s{number}-{turn}"}
            responses.append(client.post(f"{PATH}/queries/add_person", json={"params": params}))
            responses.append(client.post(f"{PATH}/queries/find_person", json={"params": params}))
    return responses


def names_on(server: Server) -> set[str]:
    response = server.request("POST", f"{PATH}/query", token="t-rob", json={"query": PEOPLE})
    return {row["p.name"] for row in response.json()["rows"]}


def test_four_servers_write_at_once_and_each_shows_what_all_wrote(tmp_path: Path) -> None:
    folder = policed_cluster(tmp_path / "cluster")
    with ExitStack() as stack, ThreadPoolExecutor(SERVERS) as pool:
        servers = []
        for number in range(SERVERS):
            place = tmp_path / f"server-{number}"
            place.mkdir()
            running = serving(place, "--cluster", str(folder), environment=TOKENS)
            servers.append(stack.enter_context(running))

        responses = [
            each
            for responded in pool.map(write_and_read, servers, range(SERVERS))
            for each in responded
        ]
        seen = [names_on(each) for each in servers]

    assert {each.status_code for each in responses} == {200}
    # A caller finds an acknowledged write on the server that acknowledged it.
    assert all(each.json()["row_count"] == 1 for each in responses[1::2])
    expected = {f"s{number}-{turn}" for number in range(SERVERS) for turn in range(WRITES_EACH)}
    assert seen == [expected] * SERVERS
    with omnigraph.open(folder / "graphs/knowledge.omni", read_only=True) as graph:
        written = [each for each in graph.commits() if each.actor == "ann"]
        assert len(written) == SERVERS * WRITES_EACH
        assert graph.recoveries() == []
