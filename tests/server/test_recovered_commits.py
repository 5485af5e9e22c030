"""Commits that a recovery published are found by the recovery actor, also if rolled forward.

The same graph is read in Python, by the command line and through a server: one write of it was
rolled forward, one rolled back, one discarded with its branch, and one left nothing to recover.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import omnigraph
from omnigraph.errors import RecoveryRequiredError
from omnigraph.model.names import RECOVERY_ACTOR
from omnigraph.storage.failpoints import Failpoint
from tests.support.commands import invoke_command
from tests.support.failpoints import FAIL_ALWAYS, Failpoints
from tests.support.graphs import open_with, sidecars, social_graph
from tests.support.queries import query
from tests.support.served_graphs import G
from tests.support.servers import open_server

BEFORE_PUBLISH = Failpoint.MUTATION_POST_FINALIZE_PRE_PUBLISHER
EVERY = [
    ("RolledForward", "ann"),
    ("RolledBack", RECOVERY_ACTOR),
    ("OrphanedBranchDiscarded", RECOVERY_ACTOR),
]


def stop(root: Path, text: str, **edits: object) -> None:
    """Stop a write by ann before its publish, and change its sidecar."""
    failpoints = Failpoints()
    with (
        open_with(root, failpoints) as graph,
        failpoints.activate(BEFORE_PUBLISH, FAIL_ALWAYS),
        pytest.raises(RecoveryRequiredError),
    ):
        graph.mutate(query(text), actor="ann")
    (name,) = sidecars(root)
    file = root / "__recovery" / name
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **edits}))


def recover(root: Path) -> None:
    """Open a graph for writing, which recovers it."""
    omnigraph.open(str(root)).close()
    assert sidecars(root) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recovered")
    root = folder / "graph"
    social_graph(root).close()
    stop(root, 'insert Person { name: "Eve" }')
    recover(root)
    # The checks of this write relied on a version that the branch has left.
    stop(root, 'insert Person { name: "Fay" }', relied_on={"node:Person": 1})
    recover(root)
    stop(root, 'insert Company { name: "Initech" }', branch="gone", commit_id="none")
    recover(root)
    with omnigraph.open(str(root)) as graph:
        graph.repair(confirm=True, force=True)
        graph.mutate(query('insert Person { name: "Gus" }'), actor="ann")
    return folder


def test_python_lists_every_commit_that_a_recovery_published(folder: Path) -> None:
    with omnigraph.open(str(folder / "graph"), read_only=True) as graph:
        found = graph.commits(actor=RECOVERY_ACTOR)
        by_ann = graph.commits(actor="ann")
        everything = graph.commits()
        shown = graph.commit(found[0].id)

    recovered = [(each.recovery, each.actor) for each in found if each.recovery is not None]
    assert recovered == EVERY
    assert [each.recovery for each in by_ann] == ["RolledForward", None]
    assert [each for each in everything if each.recovery is not None] == [
        each for each in found if each.recovery is not None
    ]
    assert shown == found[0]


def test_a_command_lists_and_marks_them(folder: Path) -> None:
    flags = ("commit", "list", folder / "graph", "--filter", f"actor={RECOVERY_ACTOR}")
    body = invoke_command(*flags, "--json").fields["commits"]
    lines = invoke_command(*flags).out.splitlines()
    both = invoke_command(*flags, "--filter", "actor=ann").out.splitlines()

    assert isinstance(body, list)
    assert [
        (each["recovery"], each["actor_id"]) for each in body if each["recovery"] is not None
    ] == EVERY
    assert lines[-1].endswith(" actor=ann recovery=RolledForward")
    assert sum("recovery=RolledBack" in line for line in lines) == 1
    assert both == lines[-1:]


def test_a_server_lists_and_marks_them_for_requests_and_for_a_remote_graph(folder: Path) -> None:
    with open_server(folder) as server, server.client(token=None) as client:
        body = client.get(f"{G}/commits", params={"actor": RECOVERY_ACTOR}).json()["commits"]
        none = client.get(f"{G}/commits", params={"actor": "absent"}).json()["commits"]
        with omnigraph.connect(server.url) as remote:
            found = remote.commits(actor=RECOVERY_ACTOR)
    with omnigraph.open(str(folder / "graph"), read_only=True) as graph:
        local = graph.commits(actor=RECOVERY_ACTOR)

    marked = [(each["recovery"], each["actor_id"]) for each in body if each["recovery"] is not None]
    assert marked == EVERY
    assert none == []
    assert [(each.id, each.recovery) for each in found] == [
        (each.id, each.recovery) for each in local
    ]


def test_a_discarded_intent_does_not_mark_the_commit_before_it(tmp_path: Path) -> None:
    social_graph(tmp_path).close()
    failpoints = Failpoints()
    place = Failpoint.RECOVERY_SIDECAR_DELETE
    with open_with(tmp_path, failpoints) as graph, failpoints.activate(place, FAIL_ALWAYS):
        graph.mutate(query('insert Person { name: "Eve" }'), actor="ann")
    (name,) = sidecars(tmp_path)
    file = tmp_path / "__recovery" / name
    stored = orjson.loads(file.read_bytes())
    # The same record for the next version, as a writer leaves it that stops right after it.
    for pin in stored["tables"]:
        pin["expected_version"], pin["post_commit_pin"] = (
            pin["expected_version"] + 1,
            pin["post_commit_pin"] + 1,
        )
    file.write_bytes(orjson.dumps({**stored, "commit_id": "none"}))
    recover(tmp_path)

    with omnigraph.open(str(tmp_path), read_only=True) as graph:
        assert [each.kind for each in graph.recoveries()] == ["EmptyIntentDiscarded"]
        assert graph.commits(actor=RECOVERY_ACTOR) == []
