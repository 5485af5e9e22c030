"""A process that asks one graph questions, for whoever started it: `python -m bench.support.asker`.

Reads a query a line, as JSON, and answers with a line: its rows, how long it took, and the most
memory that the process has taken so far. One process for each question, so that the first answer is
a cold one and the memory is that question's own.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Self

ROOT = Path(__file__).parents[2]

Rows = list[list[object]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of an answer, the seconds it took and the process's peak of memory in bytes."""

    rows: Rows
    seconds: float
    peak_bytes: int


class Asker:
    """A child process that holds one graph open; `engine` is `ours` or `ladybug`."""

    def __init__(self, engine: str, path: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.support.asker", engine, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._read() == "open", "it says so once the graph is open"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.communicate(timeout=60)

    def ask(self, query: str) -> Answer:
        """Ask once and wait for the answer."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(query) + "\n")
        self._child.stdin.flush()
        answer = self._read()
        assert isinstance(answer, dict)
        return Answer(**answer)

    def _read(self) -> object:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, "the asking process ended early; its complaint is above"
        return json.loads(line)


def main(engine: str, path: str) -> None:
    """Answer until there are no more questions."""
    ask = _open_ours(path) if engine == "ours" else _open_ladybug(path)
    _reply("open")
    for line in sys.stdin:
        query = json.loads(line)
        gc.collect()
        start = perf_counter()
        rows = ask(query)
        seconds = perf_counter() - start
        _reply({"rows": rows, "seconds": seconds, "peak_bytes": _peak_bytes()})


# Each engine is imported only where it is used: an import takes memory too.


def _open_ours(path: str) -> Callable[[str], Rows]:
    import omnigraph  # noqa: PLC0415

    graph = omnigraph.open(path, read_only=True)
    return lambda query: [list(row.values()) for row in graph.query(query)]


def _open_ladybug(path: str) -> Callable[[str], Rows]:
    import ladybug  # noqa: PLC0415

    connection = ladybug.Connection(ladybug.Database(path, read_only=True))

    def ask(query: str) -> Rows:
        result = connection.execute(query)
        assert isinstance(result, ladybug.QueryResult)
        return [list(row) for row in result.get_all()]

    return ask


def _reply(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _peak_bytes() -> int:
    """The most memory that this process has taken; what its parent took does not count."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
