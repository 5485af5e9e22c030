"""A driver of bulk loads in a process of its own, and a way to kill it or what it has started.

The driver has a Spark session of its own, loads what it is given, and writes down its progress and
how each load ended. Guarantees that nothing of it is left once it was ended. Does not know what the
loads bring.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import omnigraph
import omnigraph.spark
from omnigraph.errors import GraphError
from tests.support.source_tree import ROOT

WAIT_S_MAX = 180.0
LOOK_S = 0.05
CAUSE_CHARACTERS_MAX = 2_000
NOT_REPORTED = "not reported"

T = TypeVar("T")


# The driver


def drive(root: str, log: str, master: str) -> None:
    """Load what the standard input says, one load a line, and write down how it goes."""
    graph = omnigraph.open(root)
    number, is_last = -1, False

    def report(event: str, *more: object) -> None:
        with Path(log).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps([number, event, *more])}\n")

    while True:
        try:
            line = sys.stdin.readline()
            if not line:
                return
            call = json.loads(line)
            number, is_last = call["number"], call["is_last"]
            spark = omnigraph.spark.session(master)
            report("ready")
            graph.load(
                call["paths"],
                mode=call["mode"],
                branch=call["branch"],
                engine="spark",
                spark=spark,
                progress=report,
            )
            report("done")
        except GraphError as error:
            cause = str(error.__cause__)[:CAUSE_CHARACTERS_MAX]
            report("failed", error.outcome, type(error).__name__, str(error), cause)
        except KeyboardInterrupt:
            report("interrupted")
            if is_last:
                raise


# The killer


class Victim(StrEnum):
    """Who is killed; the last one is interrupted instead."""

    WORKER = "worker"
    JAVA = "Java"
    DRIVER = "driver"
    INTERRUPTED = "Ctrl-C"


class Driver:
    """A process with a Spark session, and with whatever it has started."""

    def __init__(self, root: Path, home: Path, master: str) -> None:
        self._log = home / "events"
        self._log.touch()
        self._errors = home / "errors"
        self.is_spent = False
        module = "tests.support.spark_kills"
        with self._errors.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(root), str(self._log), master],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    def begin(
        self, number: int, paths: Sequence[Path], *, mode: str, branch: str, is_last: bool
    ) -> None:
        """Have a load made; an interrupt ends the driver if it is the last one."""
        call = {
            "number": number,
            "paths": [str(path) for path in paths],
            "mode": mode,
            "branch": branch,
            "is_last": is_last,
        }
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(call)}\n".encode())
        self._process.stdin.flush()

    def events(self, number: int) -> Sequence[Sequence[object]]:
        """What was written down of a load so far."""
        lines = self._log.read_text(encoding="utf-8").splitlines(keepends=True)
        reported = (json.loads(line) for line in lines if line.endswith("\n"))
        return [event for of, *event in reported if of == number]

    def find_ending(self, number: int) -> str | None:
        """How a load ended for its caller, if it has ended; the driver's death is an end too."""
        for event in self.events(number):
            match event:
                case ["done" | "interrupted" as word]:
                    return str(word)
                case ["failed", outcome, kind, message, _]:
                    return f"{outcome}: {kind}: {message}"
                case _:
                    continue
        return NOT_REPORTED if self._process.poll() is not None else None

    def await_ending(self, number: int) -> str:
        """How a load ended."""
        return await_that(lambda: self.find_ending(number))

    def kill(self, victim: Victim, number: int) -> None:
        """Kill one of the processes, as soon as there is one; or none if the load ends before."""
        match victim:
            case Victim.DRIVER:
                self.is_spent = True
                self._process.kill()
                self._process.wait()
            case Victim.INTERRUPTED:
                # As a terminal does: Java gets it as well, and must not care.
                os.killpg(self._process.pid, signal.SIGINT)
            case Victim.JAVA:
                kill_one(self._java())
            case Victim.WORKER:
                await_that(lambda: self._workers() or self.find_ending(number))
                workers = self._workers()
                kill_one(random.sample(workers, len(workers)))

    def await_exit(self) -> int:
        """The exit code of a driver that ends by itself."""
        self.is_spent = True
        return self._process.wait(WAIT_S_MAX)

    def end(self) -> None:
        """Kill all that is left, and wait until it is gone."""
        pids = [self._process.pid, *self._java(), *self._workers()]
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        # Workers are of another group, and go when Java is gone.
        await_that(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

    def _java(self) -> Sequence[int]:
        return [pid for pid in children(self._process.pid) if "java" in name_of(pid)]

    def _workers(self) -> Sequence[int]:
        daemons = [pid for java in self._java() for pid in children(java)]
        return [pid for daemon in daemons for pid in children(daemon)]


def children(pid: int) -> Sequence[int]:
    """The processes that a process has started and that live."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            # After the name, which may hold anything: the state, then the parent.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(entry.name))
    return found


def name_of(pid: int) -> str:
    """What a process is called; nothing if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def kill_one(pids: Sequence[int]) -> None:
    """Kill a process if there is one."""
    for pid in pids[:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_that(find: Callable[[], T | None], *, look_s: float = LOOK_S) -> T:
    """What is found in the end; fails if that takes too long."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := find()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(look_s)
    return found


if __name__ == "__main__":
    drive(*sys.argv[1:])
