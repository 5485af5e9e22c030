"""A reload of several processes is one: all of them switch, or none of them does."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from omnigraph.http.responses import ReloadOutput
from omnigraph.server.peers import Confirm, Membership, WorkerGroup
from omnigraph.server.settings import StartupError

METRICS = b"# HELP up Up.\n# TYPE up gauge\nup 1.0\n"


@dataclass
class Revisions:
    """The revision that a worker serves, and the next one; None if it cannot be prepared."""

    following: int | None
    graphs: list[str]
    served: int = 1
    requested: list[int | None] = field(default_factory=list)

    def reload(self, confirm: Confirm) -> None:
        self.requested.append(self.following)
        if self.following is None:
            raise StartupError("the policy is invalid")
        confirm({"revision": self.following, "graphs": self.graphs, "quarantined": []})
        self.served = self.following


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., WorkerGroup]:
    """Starts to answer for workers."""

    def listen(*workers: Revisions) -> WorkerGroup:
        group = WorkerGroup(tmp_path, len(workers))
        for number, each in enumerate(workers, 1):
            unused = socket.socket()
            unused.close()
            Membership(group, number, unused, unused).listen(lambda: METRICS, each.reload)
        return group

    return listen


Start = Callable[..., WorkerGroup]


def test_all_workers_switch_to_the_revision_that_all_have_prepared(start: Start) -> None:
    workers = [Revisions(2, ["a", "b"]), Revisions(2, ["b"])]

    output = start(*workers).reload()

    assert output == ReloadOutput(revision=2, graphs=["b"], quarantined=[])
    assert [each.served for each in workers] == [2, 2]


@pytest.mark.parametrize(
    ("nexts", "reason"),
    [
        ((2, None), "the policy is invalid"),
        ((None, 2), "the policy is invalid"),
        ((2, 3), "changed meanwhile"),
    ],
)
def test_no_worker_switches_if_one_cannot(
    start: Start, nexts: tuple[int | None, int | None], reason: str
) -> None:
    workers = [Revisions(each, []) for each in nexts]

    with pytest.raises(StartupError, match=reason):
        start(*workers).reload()

    assert [each.served for each in workers] == [1, 1]


def test_a_worker_that_does_not_respond_prevents_a_reload(start: Start) -> None:
    worker = Revisions(2, [])
    group = WorkerGroup(start(worker).folder, 2)

    with pytest.raises(StartupError, match="worker process 2 does not respond"):
        group.reload()

    assert worker.served == 1


def test_concurrent_reloads_all_succeed(start: Start) -> None:
    workers = [Revisions(2, []), Revisions(2, [])]
    group = start(*workers)
    outputs: list[ReloadOutput] = []

    threads = [Thread(target=lambda: outputs.append(group.reload())) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(outputs) == 8
    assert [len(each.requested) for each in workers] == [8, 8]


def test_metrics_are_those_of_the_workers_that_respond(start: Start) -> None:
    group = WorkerGroup(start(Revisions(2, []), Revisions(2, [])).folder, 3)

    assert group.read_metrics() == (
        b'# HELP up Up.\n# TYPE up gauge\nup{worker="1"} 1.0\nup{worker="2"} 1.0\n'
    )
