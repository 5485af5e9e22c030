"""The speed and memory of an export, compared with a bare scan of Lance.

The baseline writes the rows of the same table as lines of JSON with pylance, pyarrow and orjson in
storage order; the export sorts them by id. Every run is a separate process; its memory is the peak
above the level before the first row.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from types import MappingProxyType

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import lance
import numpy as np
import orjson
import pyarrow as pa

import omnigraph
from bench.support.tables import milliseconds, print_table

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String?
  status: enum(active, away, gone)
  score: F64?
  joined: DateTime?
}
"""
ROWS = 1_000_000
MORE_ROWS = 3_000_000
ROUNDS = 3
SPEED_GOAL = 0.5
MEMORY_GOAL = 1.5
RESET_PEAK = "5"


def main() -> None:
    """Export the same graph in every way in alternation, each in a separate process."""
    with TemporaryDirectory() as folder:
        roots = {rows: Path(folder) / str(rows) for rows in (ROWS, MORE_ROWS)}
        for rows, root in roots.items():
            _load(root, rows)
        rounds = [{name: _measure(name, roots[ROWS]) for name in RUNS} for _ in range(ROUNDS)]
        taken = {name: [each[name] for each in rounds] for name in RUNS}
        more = [_measure("files: ndjson", roots[MORE_ROWS]) for _ in range(ROUNDS)]
    print(f"{ROWS:,} rows of 7 columns, wall time, median of {ROUNDS}; memory is the growth.\n")
    print_table(
        ["export", "time", "rows per second", "memory"],
        [[name, *_cells(each)] for name, each in taken.items()],
    )
    ours, bare = (_seconds(taken[name]) for name in ("files: ndjson", BARE))
    speed = bare / ours
    growth = _megabytes(more) / _megabytes(taken["files: ndjson"])
    print(
        f"Goal: at least {SPEED_GOAL} of the bare speed: {speed:.2f} — "
        f"{'met' if speed >= SPEED_GOAL else 'MISSED'}."
    )
    print(
        f"Goal: three times the rows in at most {MEMORY_GOAL} of the memory: {growth:.2f} — "
        f"{'met' if growth <= MEMORY_GOAL else 'MISSED'}.\n"
    )


def _load(root: Path, rows: int) -> None:
    random = np.random.default_rng(7)
    numbers = random.permutation(rows)
    people = pa.table(
        {
            "name": [f"person-{number:07}" for number in numbers],
            "age": pa.array(random.integers(0, 100, rows), pa.int32()),
            "email": [f"p{number}@example.org" for number in numbers],
            "status": np.array(["active", "away", "gone"])[random.integers(0, 3, rows)],
            "score": random.random(rows),
            "joined": random.integers(0, 2**40, rows),
        }
    )
    omnigraph.init(root / "graph", SCHEMA).load({"Person": people}, mode="append")


def _measure(name: str, root: Path) -> Mapping[str, float]:
    command = [sys.executable, __file__, name, str(root)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: Mapping[str, float] = json.loads(printed)
    return measured


def _run(name: str, root: Path) -> None:
    """Run one export in this process and print its time and memory as JSON."""
    graph = omnigraph.open(root / "graph", read_only=True)
    table = root / "graph" / graph.tables()["node:Person"].path
    # Reads one row first, so that one-time initialization is not counted.
    graph.entity("Person", "person-0000001")
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before = _resident_megabytes("VmRSS")
    start = perf_counter()
    with TemporaryDirectory(dir=root) as folder:
        RUNS[name](graph, table, Path(folder))
        seconds = perf_counter() - start
    megabytes = _resident_megabytes("VmHWM") - before
    print(json.dumps({"seconds": seconds, "megabytes": megabytes}))


def _resident_megabytes(name: str) -> float:
    # The peak from the `resource` module includes the memory of the parent process.
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(found.split()[1]) / 1024


def _write_bare(_graph: omnigraph.Graph, table: Path, folder: Path) -> None:
    option = orjson.OPT_APPEND_NEWLINE
    with (folder / "bare.ndjson").open("wb") as file:
        for batch in lance.dataset(str(table)).to_batches():
            joined = batch["joined"].cast(pa.int64())
            position = batch.schema.get_field_index("joined")
            rows = batch.set_column(position, "joined", joined).to_pylist()
            file.writelines(orjson.dumps(row, option=option) for row in rows)


def _write_lines(graph: omnigraph.Graph, _table: Path, folder: Path) -> None:
    with (folder / "lines.ndjson").open("w") as file:
        file.writelines(f"{line}\n" for line in graph.export())


def _write_files(format: str) -> Callable[[omnigraph.Graph, Path, Path], None]:
    def write(graph: omnigraph.Graph, _table: Path, folder: Path) -> None:
        graph.export_files(folder / "files", format=format)

    return write


BARE = "bare pylance and orjson: ndjson, unsorted"
RUNS: Mapping[str, Callable[[omnigraph.Graph, Path, Path], None]] = MappingProxyType(
    {
        "files: ndjson": _write_files("ndjson"),
        "lines, one by one": _write_lines,
        "files: parquet": _write_files("parquet"),
        "files: arrow": _write_files("arrow"),
        BARE: _write_bare,
    }
)


def _seconds(taken: list[Mapping[str, float]]) -> float:
    return median(each["seconds"] for each in taken)


def _megabytes(taken: list[Mapping[str, float]]) -> float:
    return median(each["megabytes"] for each in taken)


def _cells(taken: list[Mapping[str, float]]) -> list[str]:
    seconds = _seconds(taken)
    return [milliseconds(seconds), f"{ROWS / seconds:,.0f}", f"{_megabytes(taken):,.0f} MB"]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        _run(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
