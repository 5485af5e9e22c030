"""Processes that start together: each reports that it is ready and waits for the others.

A meeting is a file for each process that is ready and one that releases all. Guarantees that a
process that waits in vain fails after a while. Does not know what the processes do afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.source_tree import ROOT

WAIT_S_MAX = 300.0  # far beyond what a crowded machine needs to start a few processes
GLANCE_S = 0.001


def wait_for(is_so: Callable[[], bool], *, what: str) -> None:
    """Return once something is so; fail if it never is."""
    end = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {WAIT_S_MAX} s"
        time.sleep(GLANCE_S)


def meet(home: Path, name: str, meeting: str) -> None:
    """Come to a meeting and wait until all may go."""
    (home / f"{name}.{meeting}.here").touch()
    wait_for((home / f"{meeting}.start").exists, what=f"the start of {meeting}")


def let_go(home: Path, meeting: str, *, children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all processes have come to a meeting, then let them go; if one ended, at once."""

    def is_ready() -> bool:
        came = list(home.glob(f"*.{meeting}.here"))
        return len(came) == len(children) or any(child.poll() is not None for child in children)

    wait_for(is_ready, what=f"{len(children)} at {meeting}")
    (home / f"{meeting}.start").touch()


@contextmanager
def running(
    module: str, calls: Sequence[Sequence[object]], *, home: Path
) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Processes that run a module with these arguments, all of them gone at the block's end."""
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number, arguments in enumerate(calls):
            command = [sys.executable, "-m", module, *map(str, arguments)]
            with (home / f"{number}.err").open("wb") as stream:
                children.append(subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream))
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()


def require_all_ended(children: Sequence[subprocess.Popen[bytes]], *, home: Path) -> None:
    """Wait for processes; fail with the output of one of them if it failed and was not killed."""
    for number, child in enumerate(children):
        said = home / f"{number}.err"
        assert child.wait(WAIT_S_MAX) <= 0, said.read_text()
