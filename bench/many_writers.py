"""Commits per second of several processes, on one branch and on separate branches.

One process alone is measured in the same run, to show the cost of contention on a branch.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# A script has only its own directory on the import path.
sys.path.insert(0, str(Path(__file__).parents[1]))

import omnigraph
from bench.support.tables import print_table

SCHEMA = "node Person { name: String @key }"
COMMITS = 50

WRITER = """
import sys
import omnigraph

path, branch, name, count = sys.argv[1:]
insert = "query add($name: String) { insert Person { name: $name } }"
with omnigraph.open(path) as graph:
    sys.stdin.readline()
    for number in range(int(count)):
        graph.mutate(insert, {"name": f"{name}-{number}"}, branch=branch)
"""


def main() -> None:
    """Run every combination of writers and branches once."""
    rows = []
    for label, branches in (
        ("one process", ["main"]),
        ("four processes, one branch", ["main"] * 4),
        ("four processes, four branches", ["main", "a", "b", "c"]),
    ):
        seconds, total = _run(branches)
        rows.append([label, str(total), f"{total / seconds:.0f}"])
    print("Durable commits of one node each, wall time.\n")
    print_table(["writers", "commits", "commits per second"], rows)


def _run(branches: list[str]) -> tuple[float, int]:
    with TemporaryDirectory() as folder:
        with omnigraph.init(folder, SCHEMA) as graph:
            for branch in sorted(set(branches) - {"main"}):
                graph.create_branch(branch)
        writers = [_start(folder, branch, f"w{n}") for n, branch in enumerate(branches)]
        start = perf_counter()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.close()
        failed = [writer.wait() for writer in writers]
        seconds = perf_counter() - start
        assert not any(failed), "a writer failed"
        with omnigraph.open(folder) as graph:
            written = sum(len(graph.commits(branch)) - 1 for branch in set(branches))
    assert written == COMMITS * len(branches), "a commit is missing"
    return seconds, written


def _start(folder: str, branch: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, folder, branch, name, str(COMMITS)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
