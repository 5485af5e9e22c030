"""Export over HTTP: a stream that can be loaded, and never the whole graph in memory."""

from __future__ import annotations

from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import omnigraph
from tests.support.graphs import build_graph, node
from tests.support.served_graphs import G, add_person, fork, head_of, lines, require_refused
from tests.support.servers import Server, open_server


def memory_of(server: Server) -> int:
    """How many bytes a server has in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (line,) = (each for each in status.splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def test_an_export_is_what_the_graph_itself_exports(server: Server, client: httpx.Client) -> None:
    response = client.post(f"{G}/export", json={})

    with omnigraph.open(server.store, read_only=True) as graph:
        expected = list(graph.export())
    assert response.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.text.splitlines() == expected
    assert response.text.endswith("\n")


def test_an_export_without_a_body_is_of_main(client: httpx.Client) -> None:
    assert client.post(f"{G}/export").text == client.post(f"{G}/export", json={}).text


def test_an_export_loads_into_another_graph(
    client: httpx.Client, tmp_path: Path, server: Server
) -> None:
    exported = client.post(f"{G}/export", json={"branch": "main"}).content
    schema = client.get(f"{G}/schema").json()["schema_source"]
    with (tmp_path / "exported.ndjson").open("wb") as file:
        file.write(exported)

    with omnigraph.init(tmp_path / "copy", schema=schema) as copy:
        copy.load(str(tmp_path / "exported.ndjson"), mode="append")
        again = list(copy.export())

    assert again == exported.decode().splitlines()
    assert server.process.poll() is None


@pytest.mark.parametrize(
    ("body", "openings"),
    [
        ({"type_names": ["Company"]}, {'{"type":"Company"'}),
        ({"table_keys": ["edge:Knows"]}, {'{"edge":"Knows"'}),
        (
            {"type_names": ["Company"], "table_keys": ["edge:Knows"]},
            {'{"type":"Company"', '{"edge":"Knows"'},
        ),
    ],
    ids=["by-name", "by-key", "both"],
)
def test_an_export_may_be_of_some_types(
    client: httpx.Client, body: dict[str, object], openings: set[str]
) -> None:
    exported = client.post(f"{G}/export", json=body).text.splitlines()

    assert {line.partition(",")[0] for line in exported} == openings


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"type_names": ["Nope"]}, 400, "Nope"),
        ({"table_keys": ["node:Nope"]}, 400, "Nope"),
        ({"table_keys": ["Person"]}, 400, "node:Name"),
        ({"table_keys": ["edge:Company"]}, 400, "edge:Company"),
        ({"branch": "nowhere"}, 404, "nowhere"),
        ({"branch": "main", "snapshot": "x"}, 400, "not both"),
    ],
)
def test_an_export_of_nothing_that_exists_is_refused_before_it_begins(
    client: httpx.Client, body: dict[str, object], status: int, says: str
) -> None:
    code = {400: "bad_request", 404: "not_found"}[status]

    require_refused(client.post(f"{G}/export", json=body), status, code=code, says=says)


def test_an_export_at_a_commit_contains_no_later_rows(client: httpx.Client) -> None:
    branch = fork(client, "exported")
    before = head_of(client, branch)
    add_person(client, "Later", branch=branch)

    exported = client.post(f"{G}/export", json={"snapshot": before}).text

    assert '"Later"' not in exported
    assert '"Later"' in client.post(f"{G}/export", json={"branch": branch}).text


def test_a_long_export_is_not_held_in_memory(tmp_path: Path) -> None:
    with build_graph(tmp_path / "graph", "node Note { slug: String @key  text: String }") as graph:
        for start in range(0, 100_000, 20_000):
            slugs = [f"n{number:06}" for number in range(start, start + 20_000)]
            texts = pa.array(["x" * 4_000]).take(pa.array([0] * len(slugs)))
            graph.load({"Note": pa.table({"slug": slugs, "text": texts})}, mode="append")

    with open_server(tmp_path) as server, server.client(token=None) as client:
        before = memory_of(server)
        size, most = 0, 0
        with client.stream("POST", f"{G}/export") as response:
            for piece in response.iter_raw():
                size += len(piece)
                most = max(most, memory_of(server))

    assert size > 400_000_000
    assert most - before < size


def test_a_client_that_disconnects_leaves_no_claim(server: Server, client: httpx.Client) -> None:
    branch = fork(client, "left-early")
    crowd = [node("Person", name=f"p{number:05}-{'y' * 500}") for number in range(20_000)]
    client.post(f"{G}/load", json={"data": lines(*crowd), "branch": branch})

    with (
        server.client(token=None) as leaving,
        leaving.stream("POST", f"{G}/export", json={"branch": branch}) as response,
    ):
        next(response.iter_raw())

    # The claim of a running export would prevent the cleanup of the branch's rows.
    claims = server.store / "__readers"
    deadline = 200
    while deadline and claims.exists() and any(claims.iterdir()):
        client.get("/healthz")
        deadline -= 1
    assert not claims.exists() or not any(claims.iterdir())
