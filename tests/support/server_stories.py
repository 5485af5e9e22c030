"""Servers under many clients, killed now and then, and what must be true afterwards.

The clients run in a process of their own. A server that is killed comes back at the same address
on the same graph. In the end all servers shut down in peace, and the graph is looked at without
them. A seed makes a run similar, never the same: what is killed when depends on the machine.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import omnigraph
from tests.support.graphs import build_graph, sidecars
from tests.support.server_clients import SCHEMA, Plan, find_row_flaws, first_rows
from tests.support.server_workers import kill_worker
from tests.support.servers import Server, serving
from tests.support.source_tree import ROOT

CLIENTS = 32
RECOVERY_ACTOR = "omnigraph:recovery"
WARMUP_TURNS = 300
GROWTH_MAX = 1.5
# Caches fill and rows come to stay; a leak of some kilobytes a request would be more by the end.
KILL_WAIT_S_MAX = 5.0
# From seeing a record of a write to the kill: about as long as the record lasts.
ARMED_S_MAX = 0.015
CLIENTS_END_WITHIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was, and what was wrong: nothing, if all is well."""

    seed: int
    kills: int
    acts: int
    acknowledged: int
    responses: Mapping[str, int]
    baseline_bytes: Sequence[int]
    end_bytes: Sequence[int]
    recoveries: int
    flaws: Sequence[str]

    def __str__(self) -> str:
        memory = " ".join(f"{size >> 20} MiB" for size in (*self.baseline_bytes, *self.end_bytes))
        return (
            f"servers, seed {self.seed}: {self.acts} turns, {self.acknowledged} writes, "
            f"{self.kills} kills, {self.recoveries} recoveries, memory {memory}, "
            f"responses {dict(self.responses)}, {len(self.flaws)} flaws"
        )


class Fleet:
    """The servers of one graph; each keeps its address through every life."""

    def __init__(self, root: Path, folder: Path, stack: ExitStack, *, workers: int) -> None:
        self._root, self._folder, self._stack = root, folder, stack
        self._workers = workers
        self._kills = 0
        self._lives = 0
        self.servers: list[Server] = []

    def start(self, bind: str) -> Server:
        """One more life of a server, at an address."""
        self._lives += 1
        home = self._folder / f"life{self._lives}"
        home.mkdir()
        arguments = ("--store", str(self._root), "--unauthenticated", "--bind", bind)
        workers = ("--workers", str(self._workers))
        return self._stack.enter_context(serving(home, *arguments, *workers))

    def kill(self, number: int) -> None:
        """End a server, or one of its workers, at once, and start it again where it was."""
        server = self.servers[number]
        self._kills += 1
        if self._workers > 1:
            kill_worker(server, 1 + self._kills % self._workers)
            return
        server.end(signal.SIGKILL)
        self.servers[number] = self.start(server.url.removeprefix("http://"))

    def shut_down(self) -> Iterator[str]:
        """End all servers in peace; what was wrong with that."""
        for server in self.servers:
            code = server.end(signal.SIGTERM)
            if code != 0:
                yield f"a server that was asked to stop exited with {code}"

    def find_log_flaws(self) -> Iterator[str]:
        """What no log may say, in all logs of all lives."""
        for log in sorted(self._folder.glob("life*/server.log")):
            for line in log.read_text(encoding="utf-8").splitlines():
                if '"trace"' in line or '"level":"error"' in line or not line.startswith("{"):
                    yield f"{log.parent.name} logged {line}"


@contextmanager
def started_clients(plan: Plan, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The running clients; stopped at the end of the block."""
    plan_path = folder / "plan.json"
    plan_path.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.server_clients", str(plan_path)]
    with (folder / "clients.err").open("wb") as errors:
        clients = subprocess.Popen(
            [*command, str(folder / "report.json")], cwd=ROOT, stdout=errors, stderr=errors
        )
    try:
        yield clients
    finally:
        clients.kill()
        clients.wait()


def run_story(
    folder: Path,
    *,
    seed: int,
    servers: int,
    workers: int,
    kills: int,
    requests: int | None,
    seconds: float,
) -> Report:
    """Ask for so many requests, or for so long; kill servers so often meanwhile; then look."""
    root, stop, chance = folder / "graph", folder / "stop", random.Random(seed)
    build_graph(root, SCHEMA, *first_rows(CLIENTS)).close()
    with ExitStack() as stack:
        fleet = Fleet(root, folder, stack, workers=workers)
        fleet.servers.extend(fleet.start("127.0.0.1:0") for _ in range(servers))
        plan = Plan(
            urls=[server.url for server in fleet.servers],
            clients=CLIENTS,
            seed=seed,
            requests=None if kills else requests,
            stop=str(stop),
            # Of a server that is killed there is no memory to compare.
            pids=[] if kills else [server.process.pid for server in fleet.servers],
            warmup=WARMUP_TURNS if requests is None else requests // 3,
            tokens=[],
        )
        clients = stack.enter_context(started_clients(plan, folder))
        for number in range(kills):
            wait_for_kill_time(root, chance)
            fleet.kill(number % servers)
        if kills or requests is None:
            time.sleep(seconds)
            stop.touch()
        assert clients.wait(CLIENTS_END_WITHIN_S) == 0, (folder / "clients.err").read_text()
        flaws = [*fleet.shut_down(), *fleet.find_log_flaws()]
    return sum_up(folder, seed=seed, kills=kills, flaws=flaws)


def wait_for_kill_time(root: Path, chance: random.Random) -> None:
    """Return at any time, or while a write's record is on disk."""
    time.sleep(chance.uniform(0.5, 2.0))
    if chance.random() < 0.3:
        return
    end = time.monotonic() + KILL_WAIT_S_MAX
    while not sidecars(root) and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, ARMED_S_MAX))


def sum_up(folder: Path, *, seed: int, kills: int, flaws: Sequence[str]) -> Report:
    """What the clients reported, and what the graph contains without any server."""
    reported = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    floors = {
        f"c{number}": reported["acknowledged"].get(f"c{number}", 0) for number in range(CLIENTS)
    }
    with omnigraph.open(str(folder / "graph")) as graph:
        records = [json.loads(line) for line in graph.export()]
        found = [
            *find_row_flaws(records, floors=floors),
            *find_history_flaws(graph, reported["commits"]),
        ]
        if not (health := graph.doctor()).is_healthy:
            found.append(f"the doctor says: {health}")
        recoveries = len(graph.recoveries())
    return Report(
        seed=seed,
        kills=kills,
        acts=reported["acts"],
        acknowledged=len(reported["commits"]),
        responses=dict(sorted(reported["responses"].items())),
        baseline_bytes=reported["baseline_bytes"],
        end_bytes=reported["end_bytes"],
        recoveries=recoveries,
        flaws=[
            *flaws,
            *reported["flaws"],
            *found,
            *find_growth(reported["baseline_bytes"], reported["end_bytes"]),
        ],
    )


def find_growth(baseline_bytes: Sequence[int], end_bytes: Sequence[int]) -> Iterator[str]:
    """Servers whose memory did not stay where it was when they had warmed up."""
    for warmup, end in zip(baseline_bytes, end_bytes, strict=False):
        if end > warmup * GROWTH_MAX:
            yield f"memory grew from {warmup:,} to {end:,} bytes"


def find_history_flaws(graph: omnigraph.Graph, reported: Sequence[str]) -> Iterator[str]:
    """What is wrong with the history, by the commits that the clients received."""
    # Recovery of a killed server's write is a commit as well, without a request.
    listed = [each.id for each in graph.commits() if each.actor != RECOVERY_ACTOR]
    if len(set(reported)) != len(reported):
        yield "two writes received the same commit"
    if missing := set(reported) - set(listed):
        yield f"acknowledged and not in the history: {sorted(missing)}"
    # Two of them came before the clients: the graph itself, and the rows that it began with.
    if len(listed) != len(reported) + 2:
        yield f"{len(listed)} commits for {len(reported)} writes"
