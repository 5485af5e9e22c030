"""The sweep: what becomes of changes of graphs that stopped on their way.

Decides by looking at the graph, and rolls forward only: what a graph has become is written into the
ledger, never undone. A graph that cannot be understood keeps its sidecar and is left alone. The one
thing that is taken away is a graph without any history that somebody had begun to create.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.cluster.addresses import graph_address, schema_address
from omnigraph.cluster.approvals import Approval, encode_record
from omnigraph.cluster.findings import Findings, StoppedError, telling
from omnigraph.cluster.graphs import Absent, Broken, Live, Observation, Remains
from omnigraph.cluster.ledger import APPLIED, AppliedResource, Ledger, ResourceStatus, Status
from omnigraph.cluster.recoveries import MoveKind, Sidecar, disarm, list_sidecars
from omnigraph.cluster.world import Cluster


@dataclass(frozen=True, slots=True)
class Retire:
    """Nothing came of it, or the ledger knows already."""


@dataclass(frozen=True, slots=True)
class Clear:
    """A creation that stopped half-way: nobody can have used it, so it is begun anew."""


@dataclass(frozen=True, slots=True)
class RollForward:
    """The graph has become what was wanted, and the ledger does not know."""

    live: Live


@dataclass(frozen=True, slots=True)
class Bury:
    """The graph is gone, and the ledger does not know."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The graph is still there, in part at least."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Nobody can tell; the graph is left alone until a person has looked."""

    code: str
    status: Status
    message: str


Verdict: TypeAlias = Retire | Clear | RollForward | Bury | Retry | Keep


@dataclass(frozen=True, slots=True)
class Swept:
    """The ledger after a sweep, which sidecars go once it is written, and which graphs wait."""

    ledger: Ledger
    retired: tuple[Sidecar, ...]
    pending: frozenset[str]


def decide(sidecar: Sidecar, found: Observation, ledger: Ledger, *, is_gone: bool) -> Verdict:
    """What became of a change; `is_gone` says that nothing at all is stored there."""
    if sidecar.kind is MoveKind.GRAPH_DELETE:
        if not is_gone:
            return Retry()
        is_known = ledger.find_digest(graph_address(sidecar.graph_id)) is None
        return Retire() if is_known else Bury()
    is_create = sidecar.kind is MoveKind.GRAPH_CREATE
    match found:
        case Absent() if is_create and is_gone:
            return Retire()
        case Absent() | Remains() if is_create:
            return Clear()
        case Absent():
            return Keep("cluster_recovery_pending", Status.ERROR, "the graph is gone")
        case Remains(reason=reason) | Broken(reason=reason):
            code = "graph_create_incomplete" if is_create else "cluster_recovery_pending"
            return Keep(code, Status.ERROR, f"the graph cannot be opened: {reason}")
        case Live():
            return _decide_live(sidecar, found, ledger)


def _decide_live(sidecar: Sidecar, live: Live, ledger: Ledger) -> Verdict:
    known = ledger.find_digest(schema_address(sidecar.graph_id))
    if live.is_of(sidecar.desired_digest, sidecar.desired_meaning):
        return Retire() if known == sidecar.desired_digest else RollForward(live)
    meaning = ledger.observations.get(graph_address(sidecar.graph_id), {}).get("schema_meaning")
    if live.is_of(known, meaning):
        return Retire()
    return Keep(
        "actual_applied_state_pending",
        Status.DRIFTED,
        "the graph's schema is neither the one from before nor the desired one",
    )


def sweep(
    cluster: Cluster, ledger: Ledger, approvals: tuple[Approval, ...], findings: Findings
) -> Swept:
    """Settle every sidecar that can be; stops if one cannot even be read."""
    listed = list_sidecars(cluster.objects)
    if listed.faults:
        raise StoppedError(*listed.faults)
    retired: list[Sidecar] = []
    pending: set[str] = set()
    for sidecar in listed.sidecars:
        verdict = _look(cluster, sidecar, ledger)
        ledger, is_settled = _settle(cluster, sidecar, verdict, ledger, approvals, findings)
        if is_settled:
            retired.append(sidecar)
        else:
            pending.add(sidecar.graph_id)
    return Swept(ledger, tuple(retired), frozenset(pending))


def retire(cluster: Cluster, sidecars: tuple[Sidecar, ...], findings: Findings) -> None:
    """Durable effects: forget changes that the ledger knows the end of; failing costs nothing."""
    for each in sidecars:
        try:
            # A crash here leaves a sidecar that the next sweep retires.
            disarm(each, cluster.objects)
        except StoppedError as error:
            for finding in error.findings:
                findings.warn(finding.code, finding.path, finding.message)


def _look(cluster: Cluster, sidecar: Sidecar, ledger: Ledger) -> Verdict:
    with telling("graph_observation_error", graph_address(sidecar.graph_id)):
        is_gone = not cluster.graphs.holds_anything(sidecar.graph_id)
        if is_gone or sidecar.kind is MoveKind.GRAPH_DELETE:
            return decide(sidecar, Absent(), ledger, is_gone=is_gone)
        found = cluster.graphs.observe(sidecar.graph_id)
        return decide(sidecar, found, ledger, is_gone=False)


def _settle(
    cluster: Cluster,
    sidecar: Sidecar,
    verdict: Verdict,
    ledger: Ledger,
    approvals: tuple[Approval, ...],
    findings: Findings,
) -> tuple[Ledger, bool]:
    """The ledger after a verdict, and whether the sidecar can go."""
    id, address = sidecar.graph_id, graph_address(sidecar.graph_id)
    match verdict:
        case Retire():
            return ledger, True
        case Clear():
            with telling("graph_create_incomplete", address):
                cluster.graphs.clear(id)
            return ledger, True
        case RollForward(live=live):
            findings.warn(
                "cluster_recovery_rolled_forward",
                address,
                f"`{sidecar.kind}` had stopped before it was written down; the graph is as "
                "desired, and now the state says so",
            )
            done = roll_forward(ledger, id, live, digest=sidecar.desired_digest or live.digest)
            record = _record(sidecar, cluster.now(), outcome="rolled_forward")
            return done.recording_recovery(sidecar.id, record), True
        case Bury():
            buried = bury(
                cluster,
                ledger,
                id,
                approval_id=sidecar.approval_id,
                approvals=approvals,
                actor=sidecar.actor,
            )
            record = _record(sidecar, cluster.now(), outcome="rolled_forward")
            return buried.recording_recovery(sidecar.id, record), True
        case Retry():
            findings.warn(
                "graph_delete_incomplete",
                address,
                "the deletion had stopped on its way; it is tried again while it is approved",
            )
            return ledger, True
        case Keep(code=code, status=status, message=message):
            findings.warn(
                "cluster_recovery_pending",
                address,
                f"`{sidecar.kind}` of {sidecar.started_at} is not settled ({code}): {message}; "
                "the graph is left alone; look at it, then run `omnigraph cluster refresh`",
            )
            return ledger.telling(address, ResourceStatus(status, (code,), message)), False


def roll_forward(ledger: Ledger, id: str, live: Live, *, digest: str) -> Ledger:
    """The ledger with what a graph has become."""
    applied = ledger.resources.get(graph_address(id))
    provider = None if applied is None else applied.embedding_provider
    done = ledger.having(
        schema_address(id), AppliedResource(digest, None, None, None), APPLIED
    ).with_graph_digest(id, provider=provider)
    return done.telling(graph_address(id), APPLIED).observing(graph_address(id), encode_live(live))


def bury(
    cluster: Cluster,
    ledger: Ledger,
    id: str,
    *,
    approval_id: str | None,
    approvals: tuple[Approval, ...],
    actor: str | None,
) -> Ledger:
    """The ledger without a graph that was deleted, and with who had agreed to it."""
    address, deleted_at = graph_address(id), cluster.now()
    tombstone = {
        "kind": "tombstone",
        "deleted_at": deleted_at,
        "approval_id": approval_id,
        "actor": actor,
    }
    gone = ledger.without_graph(id).observing(address, tombstone)
    for each in approvals:
        # All of them: what a second person agreed to must not be the end of a later graph that
        # happens to be declared alike.
        if each.resource == address and each.id not in gone.approval_records:
            gone = gone.recording_approval(each.id, encode_record(each, consumed_at=deleted_at))
    return gone


def encode_live(live: Live) -> dict[str, object]:
    """What the ledger keeps of a look at a graph."""
    return {
        "kind": "graph",
        "exists": True,
        "schema_digest": live.digest,
        "schema_meaning": live.meaning,
        "manifest_version": live.manifest_version,
    }


def _record(sidecar: Sidecar, now: str, *, outcome: str) -> Mapping[str, object]:
    return {
        "kind": str(sidecar.kind),
        "graph_id": sidecar.graph_id,
        "actor": sidecar.actor,
        "started_at": sidecar.started_at,
        "settled_at": now,
        "outcome": outcome,
    }
