"""A process that runs queries on one graph: `python -m bench.support.query_process`.

Reads one query per line as JSON and writes one line per query: its rows, its duration and the peak
memory of the process so far. A benchmark starts one process per query, so that the first run is
cold and the memory is that of this query alone.
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
class MeasuredResult:
    """The rows of a result, its duration in seconds and the peak memory of the process in bytes."""

    rows: Rows
    seconds: float
    peak_bytes: int


class QueryProcess:
    """A child process that holds one graph open; `engine` is `ours` or `ladybug`."""

    def __init__(self, engine: str, path: Path) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.support.query_process", engine, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._read() == "open", "the process reports that the graph is open"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.communicate(timeout=60)

    def run(self, query: str) -> MeasuredResult:
        """Run a query once and wait for its result."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(query) + "\n")
        self._child.stdin.flush()
        result = self._read()
        assert isinstance(result, dict)
        return MeasuredResult(**result)

    def _read(self) -> object:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, "the query process exited early; its error message is above"
        return json.loads(line)


def main(engine: str, path: str) -> None:
    """Run queries until the input ends."""
    run = _open_ours(path) if engine == "ours" else _open_ladybug(path)
    _write("open")
    for line in sys.stdin:
        query = json.loads(line)
        gc.collect()
        start = perf_counter()
        rows = run(query)
        seconds = perf_counter() - start
        _write({"rows": rows, "seconds": seconds, "peak_bytes": _peak_bytes()})


# Each engine is imported only where it is used: an import uses memory too.


def _open_ours(path: str) -> Callable[[str], Rows]:
    import omnigraph  # noqa: PLC0415

    graph = omnigraph.open(path, read_only=True)
    return lambda query: [list(row.values()) for row in graph.query(query)]


def _open_ladybug(path: str) -> Callable[[str], Rows]:
    import ladybug  # noqa: PLC0415

    connection = ladybug.Connection(ladybug.Database(path, read_only=True))

    def run(query: str) -> Rows:
        result = connection.execute(query)
        assert isinstance(result, ladybug.QueryResult)
        return [list(row) for row in result.get_all()]

    return run


def _write(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _peak_bytes() -> int:
    """The peak memory of this process; the memory of its parent is not included."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
