"""Point queries per second of a server with one worker process and with two, on the same two cores.

Each query is for another person, so no response comes from a cache of responses. The load generator
shares the cores, so its CPU time is shown as well: two workers can be faster by at most
`2 * server / (server + generator)`. Both servers run during the whole benchmark and are measured
in alternation, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep
from urllib.parse import urlsplit

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = "node Person { name: String @key  age: I32? }"
POINT = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
PERSONS = 100_000
CORES = 2
CONNECTIONS = 32
ROUNDS = 5
ROUND_SECONDS = 5.0
GOAL = 1.7
GENERATOR = Path(__file__).parent / "support" / "light_load.py"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server and the processes that serve its requests."""

    url: str
    pids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Round:
    """Responses per second, and the CPU time in seconds per response."""

    rate: float
    server_s: float
    generator_s: float


def main() -> None:
    """Measure both servers in alternation."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with TemporaryDirectory() as folder:
        folder_path = Path(folder)
        with omnigraph.init(folder_path / "graph", SCHEMA) as graph:
            people = [{"name": f"person-{n:07}", "age": n % 100} for n in range(PERSONS)]
            graph.load({"Person": people}, mode="append")
            graph.ensure_indices()
        bodies = folder_path / "bodies"
        bodies.write_text(
            "".join(
                json.dumps({"query": POINT, "params": {"name": f"person-{n:07}"}}) + "\n"
                for n in range(PERSONS)
            ),
            encoding="utf-8",
        )
        rounds_by_workers: dict[int, list[Round]] = {1: [], 2: []}
        with _serving(folder_path, 1) as one, _serving(folder_path, 2) as two:
            for round_number in range(ROUNDS + 1):
                # Other persons in each round: the responses of earlier rounds are cached.
                first = round_number * PERSONS // (ROUNDS + 1)
                measured = [_measure(each, bodies, first=first) for each in (one, two)]
                # The first round is a warm-up of both servers.
                if round_number:
                    for rounds, each in zip(rounds_by_workers.values(), measured, strict=True):
                        rounds.append(each)
    _report(rounds_by_workers)


def _report(rounds_by_workers: dict[int, list[Round]]) -> None:
    print(f"One person of {PERSONS:,} by key over {CONNECTIONS} connections; {ROUNDS} rounds of")
    print(f"{ROUND_SECONDS:g} s, alternating, medians; CPU time per request.\n")
    print_table(
        ["workers", "requests per second", "CPU of the server", "CPU of the generator"],
        [
            [
                str(workers),
                f"{median(each.rate for each in rounds):,.0f}",
                milliseconds(median(each.server_s for each in rounds)),
                milliseconds(median(each.generator_s for each in rounds)),
            ]
            for workers, rounds in rounds_by_workers.items()
        ],
    )
    one, two = rounds_by_workers[1], rounds_by_workers[2]
    ratio = median(b.rate / a.rate for a, b in zip(one, two, strict=True))
    outcome = "met" if ratio >= GOAL else "MISSED"
    print(f"Goal: two workers at least {GOAL} times the rate of one: {ratio:.2f} — {outcome}.\n")


def _measure(server: RunningServer, bodies: Path, *, first: int) -> Round:
    parts = urlsplit(server.url)
    before = sum(map(_cpu_seconds, server.pids))
    done = subprocess.run(
        [
            *(sys.executable, str(GENERATOR), str(parts.hostname), str(parts.port)),
            *(f"{parts.path}/query", str(CONNECTIONS), str(ROUND_SECONDS)),
            *(str(bodies), str(first)),
        ],
        check=True,
        stdout=subprocess.PIPE,
    )
    counted = json.loads(done.stdout)
    requests = counted["requests"]
    return Round(
        rate=requests / counted["seconds"],
        server_s=(sum(map(_cpu_seconds, server.pids)) - before) / requests,
        generator_s=counted["cpu_seconds"] / requests,
    )


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _serving(folder: Path, workers: int) -> Iterator[RunningServer]:
    log = folder / f"server-{workers}.log"
    command = [sys.executable, "-m", "omnigraph.server", "--store", str(folder / "graph")]
    flags = ["--unauthenticated", "--bind", "127.0.0.1:0", "--workers", str(workers)]
    with log.open("wb") as output, subprocess.Popen([*command, *flags], stdout=output) as server:
        try:
            while not (found := re.search(r'"url":"(http://[^"]+)"', log.read_text("utf-8"))):
                assert server.poll() is None, log.read_text("utf-8")
                sleep(0.05)
            lines = map(json.loads, log.read_text("utf-8").splitlines())
            pids = [line["pid"] for line in lines if line["event"] == "worker started"]
            yield RunningServer(f"{found[1]}/graphs/default", pids or [server.pid])
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
