"""The overhead of the server, its request rate, and the cost of rows as Arrow and as JSON.

Server, load generator and embedded graph are separate processes on the same two cores. Embedded
calls alternate with calls over HTTP, with the same query text and parameters. JSON is parsed with
orjson, the fastest JSON parser for Python known to us. Goals are checked against medians.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from socket import create_connection
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from urllib.parse import urlsplit

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import orjson
import pyarrow as pa

import omnigraph
from bench.support.tables import milliseconds, print_table
from bench.support.timing import Timing, measure

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String?
  score: F64?
  joined: DateTime?
}
"""
PERSONS = 100_000
ROWS = 10_000
POINT = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
MANY = (
    "query many() { match { $p: Person } "
    f"return {{ $p.name, $p.age, $p.email, $p.score, $p.joined }} limit {ROWS} }}"
)
PARAMS: Mapping[str, object] = {"name": "person-0000007"}

CORES = 2
CONNECTIONS = 16
LOAD_SECONDS = 6.0
GOAL_ADDED_S = 0.003
GOAL_REQUESTS = 1_000
GOAL_ARROW = 5.0

ARROW = "application/vnd.apache.arrow.stream"


def main() -> None:
    """Measure all three on the number of cores that the goals assume."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with TemporaryDirectory() as folder:
        root = Path(folder) / "graph"
        _load(root)
        with _serving(root, Path(folder)) as url, omnigraph.open(root, read_only=True) as graph:
            _compare_point_queries(url, graph)
            _count_requests(url)
            _compare_formats(url, graph)


def _compare_point_queries(url: str, graph: omnigraph.Graph) -> None:
    connection = _Connection(url)
    # A different person each time: the server caches responses, and this measures executed queries.
    numbers = count()

    def next_person() -> dict[str, object]:
        return {"name": f"person-{next(numbers):07}"}

    def query_server() -> object:
        body = {"query": POINT, "params": next_person()}
        return orjson.loads(connection.post(body, "application/json"))

    taken = measure(
        {
            "embedded": lambda: graph.query(POINT, next_person()).rows,
            "over HTTP": query_server,
        },
        rounds=300,
        warmup_rounds=20,
        clock=perf_counter,
    )
    print(f"One person of {PERSONS:,} by key, warm; wall time of 300 alternating calls.\n")
    print_table(
        ["point query", "fastest", "median", "p95"],
        [[name, *_cells(each)] for name, each in taken.items()],
    )
    added = taken["over HTTP"].median - taken["embedded"].median
    print(f"Goal: HTTP adds at most {milliseconds(GOAL_ADDED_S)}: {milliseconds(added)} — ", end="")
    print(f"{_outcome(is_met=added <= GOAL_ADDED_S)}.\n")


def _count_requests(url: str) -> None:
    generator = Path(__file__).parent / "support" / "http_load.py"
    body = json.dumps({"query": POINT, "params": PARAMS})
    arguments = [f"{url}/query", body, str(CONNECTIONS), str(LOAD_SECONDS)]
    done = subprocess.run(
        [sys.executable, str(generator), *arguments], check=True, stdout=subprocess.PIPE
    )
    counted = json.loads(done.stdout)
    rate = counted["requests_a_second"]
    print(
        f"The same query over {CONNECTIONS} connections for {LOAD_SECONDS:g} s, on {CORES} cores.\n"
    )
    print_table(
        ["cached point query", "requests per second", "median", "p99"],
        [
            [
                "over HTTP",
                f"{rate:,.0f}",
                milliseconds(counted["median_s"]),
                milliseconds(counted["p99_s"]),
            ]
        ],
    )
    print(f"Goal: at least {GOAL_REQUESTS:,} per second: {rate:,.0f} — ", end="")
    print(f"{_outcome(is_met=rate >= GOAL_REQUESTS)}.\n")


def _compare_formats(url: str, graph: omnigraph.Graph) -> None:
    connection = _Connection(url)
    body = {"query": MANY}

    def read_arrow() -> pa.Table:
        with pa.ipc.open_stream(connection.post(body, ARROW)) as stream:
            return stream.read_all()

    def read_json() -> object:
        return orjson.loads(connection.post(body, "application/json"))

    taken = measure(
        {
            "embedded, as Arrow": lambda: graph.query(MANY).to_arrow(),
            "embedded, as rows": lambda: graph.query(MANY).rows,
            "Arrow, parsed": read_arrow,
            "JSON, parsed with orjson": read_json,
            "JSON, parsed with Python's json": lambda: json.loads(
                connection.post(body, "application/json")
            ),
        },
        rounds=30,
        warmup_rounds=3,
        clock=perf_counter,
    )
    print(f"{ROWS:,} rows of 5 columns; wall time until they are usable, 30 alternating calls.\n")
    print_table(
        ["rows", "fastest", "median", "p95"],
        [[name, *_cells(each)] for name, each in taken.items()],
    )
    _print_ratio(taken["Arrow, parsed"], taken["JSON, parsed with orjson"])


def _print_ratio(arrow: Timing, as_json: Timing) -> None:
    ratio = as_json.median / arrow.median
    print(f"Goal: Arrow at least {GOAL_ARROW:g} times as fast as JSON: {ratio:.1f} — ", end="")
    print(f"{_outcome(is_met=ratio >= GOAL_ARROW)}.\n")


def _cells(taken: Timing) -> list[str]:
    return [milliseconds(each) for each in (taken.fastest, taken.median, taken.p95)]


class _Connection:
    """A minimal HTTP client with one persistent connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path, self._host = f"{parts.path}/query", parts.netloc
        self._socket = create_connection((parts.hostname, parts.port))
        self._file = self._socket.makefile("rb")

    def post(self, body: object, accept: str) -> bytes:
        """Send a query and return the body of the response."""
        content = orjson.dumps(body)
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: {accept}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + content)
        assert b" 200 " in self._file.readline()
        length = 0
        while (line := self._file.readline().lower()) != b"\r\n":
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return self._file.read(length)


def _load(root: Path) -> None:
    random = np.random.default_rng(7)
    people = pa.table(
        {
            "name": [f"person-{number:07}" for number in range(PERSONS)],
            "age": pa.array(random.integers(0, 100, PERSONS), pa.int32()),
            "email": [f"person-{number:07}@example.com" for number in range(PERSONS)],
            "score": random.random(PERSONS),
            "joined": pa.array(random.integers(0, 10**12, PERSONS)).cast(pa.timestamp("ms", "UTC")),
        }
    )
    with omnigraph.init(root, SCHEMA) as graph:
        graph.load({"Person": people}, mode="append")
        graph.ensure_indices()


@contextmanager
def _serving(root: Path, folder: Path) -> Iterator[str]:
    """Run a server of one graph and return the URL of the graph."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "omnigraph.server", "--store", str(root), "--unauthenticated"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0"], stdout=output, stderr=output
        ) as server,
    ):
        try:
            while not (found := re.search(r'"url":"(http://[^"]+)"', log.read_text("utf-8"))):
                assert server.poll() is None, log.read_text("utf-8")
                sleep(0.05)
            yield f"{found[1]}/graphs/default"
        finally:
            server.terminate()


def _outcome(*, is_met: bool) -> str:
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    main()
