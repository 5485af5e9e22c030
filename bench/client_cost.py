"""The overhead of the Python client: compared with the same request by urllib3 alone and with the
embedded graph; the cost of transferring rows; and the cost of idempotency keys.

Server and client are separate processes on the same two cores. All contenders run in alternation.
Each point query is for another person, because the server caches responses.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson
import pyarrow as pa
import urllib3

import omnigraph
from bench.support.tables import milliseconds, print_table
from bench.support.timing import Timing, measure

SCHEMA = "node Person { name: String @key  age: I32?  email: String? }"
PERSONS = 100_000
ROWS = 50_000
POINT = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
MANY = (
    f"query many() {{ match {{ $p: Person }} return {{ $p.name, $p.age, $p.email }} limit {ROWS} }}"
)
ADD = "query add($name: String) { insert Person { name: $name } }"

CORES = 2
GOAL_RATIO = 1.5
ARROW = "application/vnd.apache.arrow.stream"


def main() -> None:
    """Measure on the number of cores that the goal assumes."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with TemporaryDirectory() as folder:
        root = Path(folder) / "graph"
        _load(root)
        with (
            _serving(root, Path(folder)) as url,
            omnigraph.open(root, durability="relaxed") as embedded,
            omnigraph.connect(url) as remote,
        ):
            _compare_point_queries(url, embedded, remote)
            _compare_rows(url, embedded, remote)
            _compare_writes(embedded, remote)


def _compare_point_queries(
    url: str, embedded: omnigraph.Graph, remote: omnigraph.RemoteGraph
) -> None:
    numbers = count()

    def next_person() -> dict[str, object]:
        return {"name": f"person-{next(numbers):07}"}

    bare = _BareClient(url)
    taken = measure(
        {
            "embedded": lambda: embedded.query(POINT, next_person()).rows,
            "urllib3 alone, bytes": lambda: bare.post({"query": POINT, "params": next_person()}),
            "client": lambda: remote.query(POINT, next_person()).rows,
        },
        rounds=300,
        warmup_rounds=20,
        clock=perf_counter,
    )
    _print(f"One person of {PERSONS:,} by key, 300 alternating calls.", "point query", taken)
    ratio = taken["client"].median / taken["urllib3 alone, bytes"].median
    outcome = "met" if ratio <= GOAL_RATIO else "NOT met"
    print(f"Goal: at most {GOAL_RATIO:g} times urllib3 alone: {ratio:.2f} — {outcome}.\n")


def _compare_rows(url: str, embedded: omnigraph.Graph, remote: omnigraph.RemoteGraph) -> None:
    bare = _BareClient(url)

    def read_bare() -> pa.Table:
        with pa.ipc.open_stream(bare.post({"query": MANY})) as stream:
            return stream.read_all()

    taken = measure(
        {
            "embedded": lambda: embedded.query(MANY).to_arrow(),
            "urllib3 alone, as Arrow": read_bare,
            "client": lambda: remote.query(MANY).to_arrow(),
        },
        rounds=30,
        warmup_rounds=3,
        clock=perf_counter,
    )
    _print(f"{ROWS:,} rows of 3 columns as Arrow, 30 alternating calls.", "rows", taken)


def _compare_writes(embedded: omnigraph.Graph, remote: omnigraph.RemoteGraph) -> None:
    numbers = count(PERSONS)

    def next_person() -> dict[str, object]:
        return {"name": f"person-{next(numbers):07}"}

    def with_key() -> object:
        params = next_person()
        return embedded.mutate(ADD, params, idempotency_key=str(params["name"]))

    taken = measure(
        {
            "embedded": lambda: embedded.mutate(ADD, next_person()),
            "embedded, with a key": with_key,
            "client, with its own key": lambda: remote.mutate(ADD, next_person()),
        },
        rounds=40,
        warmup_rounds=3,
        clock=perf_counter,
    )
    _print("One person added, 40 alternating commits.", "mutation", taken)


def _print(title: str, heading: str, taken: dict[str, Timing]) -> None:
    print(f"{title}\n")
    print_table(
        [heading, "fastest", "median", "p95"],
        [
            [name, *(milliseconds(part) for part in (each.fastest, each.median, each.p95))]
            for name, each in taken.items()
        ],
    )


class _BareClient:
    """Sends the same requests with urllib3 alone."""

    def __init__(self, url: str) -> None:
        self._pools = urllib3.PoolManager()
        self._url = f"{url}/graphs/default/query"

    def post(self, body: object) -> bytes:
        """Send a query and return the body of the response."""
        headers = {"Content-Type": "application/json", "Accept": ARROW}
        response = self._pools.request("POST", self._url, body=orjson.dumps(body), headers=headers)
        assert response.status == 200
        return response.data


def _load(root: Path) -> None:
    names = [f"person-{number:07}" for number in range(PERSONS)]
    emails = [f"{name}@example.com" for name in names]
    people = pa.table({"name": names, "age": pa.array(range(PERSONS), pa.int32()), "email": emails})
    with omnigraph.init(root, schema=SCHEMA, durability="relaxed") as graph:
        graph.load({"Person": people}, mode="append")
        graph.ensure_indices()


@contextmanager
def _serving(root: Path, folder: Path) -> Iterator[str]:
    log = folder / "server.log"
    arguments = ["--store", str(root), "--bind", "127.0.0.1:0", "--unauthenticated"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.server", *arguments], stdout=file, stderr=file
        )
    try:
        while (found := re.search(r'"url":"(http://[^"]+)"', log.read_text())) is None:
            assert process.poll() is None, json.dumps(log.read_text())
            sleep(0.02)
        yield found[1]
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
