"""Other threads and processes for tests: races, scripts in a child, its disk and its system calls.

Guarantees that a child that was waited for has ended and left no pipe open. Does not know the
product: scripts import it themselves.
"""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.source_tree import ROOT

Outcome = TypeVar("Outcome")


def race(attempt: Callable[[int], Outcome], *, count: int) -> list[Outcome]:
    """What each attempt returned, all of them started at once."""
    ready = threading.Barrier(count)
    outcomes: dict[int, Outcome] = {}

    def run(number: int) -> None:
        ready.wait()
        outcomes[number] = attempt(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(count)]


@contextmanager
def started(
    script: str, *arguments: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs a script, killed at the end of the block if it still runs."""
    command = [*prefix, sys.executable, "-c", script, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def output_of(script: str, *arguments: str, prefix: Sequence[str] = ()) -> str:
    """What a script prints; fails if it fails."""
    with started(script, *arguments, prefix=prefix) as child:
        printed, _ = child.communicate()
        assert child.returncode == 0, printed
    return printed


def small_disk(folder: Path, *, options: str) -> Sequence[str]:
    """The prefix of a command that sees the folder as a small disk of its own."""
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    script = f"mount -t tmpfs -o {options} none '{folder}' && exec \"$@\""
    command = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not permitted here")
    return command


def system_calls(script: str, *arguments: str, names: str, record: Path) -> str:
    """The system calls of these names that a script makes, with the paths of open files."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    strace = ("strace", "-f", "-qq", "-y", "-o", str(record), "-e", f"trace={names}")
    command = [*strace, sys.executable, "-c", script, *arguments]
    traced = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "ptrace" in traced.stderr.lower():
        pytest.skip("tracing is not permitted here")
    assert traced.returncode == 0, traced.stderr
    return record.read_text()
