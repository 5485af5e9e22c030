"""Clients of one graph set to work, some of them killed, and what they saw checked.

The same seed makes a run similar, never the same: who is first depends on the machine.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import omnigraph
from tests.support.graphs import build_graph, node
from tests.support.histories import History, Outcome, is_in_call, read_history
from tests.support.history_clients import LISTS, SCHEMA, Client
from tests.support.isolation_checker import Anomaly, Kind, find_anomalies, find_contradictions
from tests.support.process_meetings import let_go, require_all_ended, running, wait_for

SHOWN_OF_A_KIND_MAX = 3
DELAY_S_MAX = 0.02  # about as long as a write takes
ENDLESS = 1_000_000


@dataclass(frozen=True, slots=True)
class Report:
    """What a run was, and what was wrong: nothing, if all is well."""

    seed: int
    history: History
    anomalies: Sequence[Anomaly]

    def __str__(self) -> str:
        counted = ", ".join(f"{self.count(outcome)} {outcome}" for outcome in Outcome)
        lines = [f"seed {self.seed}: writes: {counted}; {self.snapshots} snapshots"]
        for kind in Kind:
            found = [each for each in self.anomalies if each.kind is kind]
            lines += [f"{len(found)} times {kind}, as in:"] if found else []
            lines += [each.text for each in found[:SHOWN_OF_A_KIND_MAX]]
        return "\n".join(lines)

    @property
    def snapshots(self) -> int:
        """How many times everything was read."""
        return sum(not each.appends for each in self.history)

    def count(self, outcome: Outcome) -> int:
        """How many writes ended so."""
        return sum(each.outcome is outcome for each in self.history if each.appends)


def run_clients(folder: Path, *, seed: int, clients: int, turns: int, kills: int) -> Report:
    """Let clients work on a new graph, kill some of them in a call, and check what all saw."""
    chance = random.Random(seed)
    root, home = folder / "graph", folder / "logs"
    home.mkdir()
    nodes = [node(type_name, name=name, size=0, entries=[]) for type_name, name in LISTS]
    build_graph(root, SCHEMA, *nodes).close()
    logs = [home / f"c{number}.log" for number in range(clients)]
    calls = [
        (root, log, chance.random(), number, ENDLESS if number < kills else turns)
        for number, log in enumerate(logs)
    ]
    with running("tests.support.history_clients", calls, home=home) as children:
        let_go(home, "go", children=children)
        for log, child in zip(logs[:kills], children[:kills], strict=True):
            kill_in_call(log, child, after=chance.randrange(turns), chance=chance)
        require_all_ended(children, home=home)
    return check_run(root, home, seed)


def kill_in_call(
    log: Path, child: subprocess.Popen[bytes], *, after: int, chance: random.Random
) -> None:
    """End a client in the midst of a write, after so many calls."""
    wait_for(
        lambda: child.poll() is not None or log.read_text().count("ended") > after,
        what=f"{after} calls of {log.stem}",
    )
    while child.poll() is None:
        wait_for(lambda: child.poll() is not None or is_in_call(log), what=f"a call of {log.stem}")
        time.sleep(chance.uniform(0, DELAY_S_MAX))
        # A suspended client cannot leave its call between the check and the kill.
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if is_in_call(log):
            child.kill()
            child.wait()
        else:
            child.send_signal(signal.SIGCONT)


def check_run(root: Path, home: Path, seed: int) -> Report:
    """Read the final state, and check everything that was seen."""
    # Opening the graph for writing recovers from the kills.
    with omnigraph.open(str(root)) as graph:
        Client(str(root), home / "last.log", "", 0).look(graph)
        label_by_commit = {commit.id: commit.actor for commit in graph.commits()}
    history = read_history(home)
    found = [*find_anomalies(history), *find_contradictions(history, label_by_commit)]
    return Report(seed, history, found)
