"""Processes that write, read, branch and clean up one graph at once, until they are stopped.

Every commit on main sets two types to the same number, so a read that sees two states shows it. The
clocks of the clean-ups run ahead by nearly as long as versions are retained for readers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from omnigraph import Graph
from omnigraph.errors import MovedError
from omnigraph.model.limits import READER_GRACE_S
from tests.support.graphs import build_graph, ndjson, node
from tests.support.later_graphs import open_later
from tests.support.queries import query
from tests.support.sweeps import open_plain

SCHEMA = """
node Hand { name: String @key  tick: I64 }
node Bell { name: String @key  tick: I64 }
"""

RETENTION_S = 4.0
"""For how long versions are kept for readers in effect: many times what a read takes."""

TICK = query(
    'update Hand set { tick: $n } where name = "h" update Bell set { tick: $n } where name = "b"',
    parameters="$n: I64",
)
TICKS = query("match { $h: Hand $b: Bell } return { $h.tick, $b.tick }")


def clock_graph(root: Path) -> Graph:
    """A hand and a bell that agree, and a branch on which they do not change."""
    hand, bell = node("Hand", name="h", tick=0), node("Bell", name="b", tick=0)
    graph = build_graph(root, SCHEMA, hand, bell)
    graph.create_branch("still")
    return graph


def write(graph: Graph, number: int) -> int:
    """One commit to both types."""
    until_it_lands(lambda: graph.mutate(TICK, {"n": number}))
    return 1


def read(graph: Graph, number: int) -> int:
    """Look at both branches, and at all rows."""
    del number
    require_same(graph, "main")
    assert require_same(graph, "still") == 0
    assert len(list(graph.export())) >= 2
    return 1


def branch(graph: Graph, number: int) -> int:
    """A branch that lives for a while, is written to, merged and deleted."""
    name = f"b{number}"
    graph.create_branch(name)
    seen = require_same(graph, name)
    graph.load(ndjson(node("Hand", name=f"h{number}", tick=-1)), mode="append", branch=name)
    until_it_lands(lambda: graph.merge(name))
    assert require_same(graph, name) == seen
    graph.delete_branch(name)
    return 1


def clean(graph: Graph, number: int) -> int:
    """One clean-up; how many versions it removed."""
    del number
    reports = graph.cleanup(keep=1)
    assert not any(each.error for each in reports), reports
    return sum(each.old_versions_removed for each in reports)


def require_same(graph: Graph, branch: str) -> int:
    """What the two types agree on."""
    rows = graph.query(TICKS, branch=branch)
    ((hand, bell),) = {(row["h.tick"], row["b.tick"]) for row in rows if row["h.tick"] != -1}
    assert isinstance(hand, int)
    assert hand == bell, rows
    return hand


def until_it_lands(attempt: Callable[[], object]) -> None:
    """Try again for as long as others are first."""
    while True:
        try:
            attempt()
        except MovedError:
            continue
        return


ACTIONS: Mapping[str, Callable[[Graph, int], int]] = {
    "write": write,
    "read": read,
    "branch": branch,
    "clean": clean,
}


def main() -> None:
    """Repeat one kind of action, and write the progress to a file after each."""
    name, root, home = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    is_cleaner = name == "clean"
    graph = (
        open_later(root, ahead_s=READER_GRACE_S - RETENTION_S) if is_cleaner else open_plain(root)
    )
    done = 0
    for number in count(1):
        done += ACTIONS[name](graph, number)
        home.joinpath(f"{name}.json").write_text(json.dumps({"rounds": number, "done": done}))
        if home.joinpath("stop").exists():
            return


if __name__ == "__main__":
    main()
