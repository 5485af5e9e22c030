"""Clean-ups beside readers and writers, each in a process of its own: none of them misses a row."""

import json
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

from tests.support.cleanup_racers import clock_graph, require_same
from tests.support.later_graphs import open_later, versions
from tests.support.process_meetings import require_all_ended, running, wait_for
from tests.support.sweeps import open_plain

VERSIONS_REMOVED_MIN = 60
ROUNDS_MIN = 10


def test_clean_ups_take_nothing_from_writers_readers_and_branches(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    graph = clock_graph(root)
    actions = ("write", "read", "branch", "clean")

    with running(
        "tests.support.cleanup_racers",
        [(action, root, tmp_path) for action in actions],
        home=tmp_path,
    ) as children:
        wait_for(lambda: is_enough(tmp_path, children), what="enough clean-ups")
        (tmp_path / "stop").touch()
        require_all_ended(children, home=tmp_path)

    # What all of them left is a graph like any other.
    assert require_same(open_plain(root), "main") == require_same(graph, "main") > ROUNDS_MIN
    assert require_same(open_plain(root), "still") == 0
    open_later(root).cleanup(keep=1)
    assert len(versions(graph, "node:Bell")) <= 2
    assert require_same(open_plain(root), "still") == 0
    assert list((root / "__cleanups").glob("*")) == list((root / "__readers").glob("*")) == []


def is_enough(home: Path, children: Sequence[Popen[bytes]]) -> bool:
    """Whether all have done a good deal; or one has ended, which is for others to find out."""
    if any(child.poll() is not None for child in children):
        return True
    done = {action: progress(home, action) for action in ("write", "read", "branch", "clean")}
    return min(done.values()) >= ROUNDS_MIN and done["clean"] >= VERSIONS_REMOVED_MIN


def progress(home: Path, action: str) -> int:
    try:
        return int(json.loads((home / f"{action}.json").read_text())["done"])
    except (FileNotFoundError, json.JSONDecodeError):
        return 0
