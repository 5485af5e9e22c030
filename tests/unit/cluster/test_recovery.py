"""What becomes of a change that stopped on its way, decided by what the graph has become."""

from __future__ import annotations

import pytest

from omnigraph.cluster.context import Absent, Broken, Live, Observation, UnfinishedGraph
from omnigraph.cluster.recovery import (
    Clear,
    Discard,
    Keep,
    MoveKind,
    RecordDeletion,
    RecoveryAction,
    Retry,
    RollForward,
    Sidecar,
    decide,
    with_live,
)
from omnigraph.cluster.state import APPLIED, EMPTY, AppliedResource, ClusterState

OLD, NEW = "digest-old", "digest-new"
CREATE, SCHEMA, DELETE = MoveKind.GRAPH_CREATE, MoveKind.SCHEMA_APPLY, MoveKind.GRAPH_DELETE


def live(digest: str, *, meaning: str | None = None) -> Live:
    return Live("node …", digest, meaning or f"meaning of {digest}", 1)


def sidecar(kind: MoveKind) -> Sidecar:
    return Sidecar(
        id="01",
        started_at="2026-01-01T00:00:00Z",
        actor="ann",
        kind=kind,
        graph_id="a",
        graph_uri="somewhere/a.omni",
        observed_version=1,
        expected_version=2,
        desired_digest=None if kind is DELETE else NEW,
        desired_meaning=None if kind is DELETE else f"meaning of {NEW}",
        cas_base="sha256:0",
        approval_id=None,
    )


def knowing(digest: str | None) -> ClusterState:
    if digest is None:
        return EMPTY
    return with_live(EMPTY, "a", live(digest), digest=digest, status=APPLIED)


@pytest.mark.parametrize(
    ("kind", "found", "known", "outcome"),
    [
        (CREATE, Absent(), None, Clear()),
        (CREATE, UnfinishedGraph("no manifest"), None, Clear()),
        (CREATE, Broken("odd"), None, "graph_create_incomplete"),
        (CREATE, live(NEW), None, RollForward(live(NEW))),
        (CREATE, live(NEW), NEW, Discard()),
        (CREATE, live("third"), None, "actual_applied_state_pending"),
        (SCHEMA, live(OLD), OLD, Discard()),
        (SCHEMA, live(NEW), OLD, RollForward(live(NEW))),
        (SCHEMA, live(NEW), NEW, Discard()),
        (SCHEMA, live("third"), OLD, "actual_applied_state_pending"),
        (SCHEMA, Broken("odd"), OLD, "cluster_recovery_pending"),
        (SCHEMA, UnfinishedGraph("no manifest"), OLD, "cluster_recovery_pending"),
        (SCHEMA, Absent(), OLD, "cluster_recovery_pending"),
    ],
)
def test_the_stored_schema_decides_how_a_creation_or_migration_is_recovered(
    kind: MoveKind, found: Observation, known: str | None, outcome: RecoveryAction | str
) -> None:
    decided = decide(sidecar(kind), found, knowing(known), is_absent=False)

    if isinstance(outcome, str):
        assert isinstance(decided, Keep)
        assert decided.code == outcome
    else:
        assert decided == outcome


def test_the_record_of_a_creation_that_left_nothing_is_deleted() -> None:
    assert decide(sidecar(CREATE), Absent(), EMPTY, is_absent=True) == Discard()


@pytest.mark.parametrize(
    ("is_deleted", "known", "outcome"),
    [(False, OLD, Retry()), (True, OLD, RecordDeletion()), (True, None, Discard())],
)
def test_what_is_left_of_a_graph_decides_how_its_deletion_is_recovered(
    *, is_deleted: bool, known: str | None, outcome: RecoveryAction
) -> None:
    decided = decide(sidecar(DELETE), Absent(), knowing(known), is_absent=is_deleted)

    assert decided == outcome


def test_an_equivalent_schema_is_the_desired_one() -> None:
    in_other_words = live("other", meaning=f"meaning of {NEW}")

    decided = decide(sidecar(SCHEMA), in_other_words, knowing(OLD), is_absent=False)

    assert decided == RollForward(in_other_words)


def test_rolling_forward_keeps_what_a_graph_is_bound_to() -> None:
    bound = EMPTY.having(
        "graph.a", AppliedResource("x", None, "provider.embedding.p", None), APPLIED
    )

    rolled = with_live(bound, "a", live(NEW), digest=NEW, status=APPLIED)

    assert rolled.resources["graph.a"].embedding_provider == "provider.embedding.p"
    assert rolled.find_digest("schema.a") == NEW
    assert rolled.observations["graph.a"]["schema_meaning"] == f"meaning of {NEW}"
