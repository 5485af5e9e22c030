"""Schemas that change while several processes read, write and branch: nothing acknowledged is lost.

A process that loses a race gets an error and retries; any other error ends it and fails the test.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from tests.support.graphs import contents, require_linear
from tests.support.schema_changes import require_files
from tests.support.schema_racers import Role, run_races
from tests.support.sweeps import require_sound, state_of

ROUNDS = 6

MEETINGS = {
    "two who widen it": (Role.WIDEN, Role.WIDEN_TOO, Role.READ),
    "writers": (Role.WIDEN, Role.INSERT, Role.LOAD),
    "writers and renames": (Role.RENAME, Role.INSERT, Role.READ),
    "branches": (Role.WIDEN, Role.RENAME, Role.BRANCH),
}


@pytest.mark.parametrize("roles", MEETINGS.values(), ids=MEETINGS.keys())
def test_a_schema_that_changes_among_processes_loses_nothing(
    tmp_path: Path, roles: Sequence[Role]
) -> None:
    reports = run_races(tmp_path, roles, rounds=ROUNDS)

    graph = omnigraph.open(tmp_path / "graph", durability="relaxed")
    for kind, name in reports:
        require_retained(graph, kind, name)
    assert reports
    require_linear(graph.commits())
    require_sound(graph, state_of(graph))
    require_files(graph)
    # A commit under one schema is never followed by one under an earlier one.
    hashes = [each.schema_hash for each in graph.commits()]
    changes = [new for old, new in itertools.pairwise(hashes) if old != new]
    applied = [each for each in reports if each[0] in ("property", "renamed")]
    assert len(changes) == len(applied)


def require_retained(graph: Graph, kind: str, name: str) -> None:
    """Fail unless what was acknowledged is there."""
    found = contents(graph)
    match kind:
        case "property":
            assert f" {name}: String?" in graph.schema_source
            assert f"node Type_{name} " in graph.schema_source
        case "renamed":
            assert "node Note" in graph.schema_source or "node Memo" in graph.schema_source
        case "note":
            assert name in found.get("Note", found.get("Memo", {}))
        case _:
            assert name in found[kind]
