"""Sidecars of graph changes, and their recovery after an interrupted apply.

A sidecar is written before its graph changes and deleted after the state records the change.
Recovery inspects the graph and only rolls forward; it deletes nothing but a partly created graph
without history. A graph that cannot be classified keeps its sidecar and is left unchanged. Safe to
repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.cluster.approvals import Approval, encode_record
from omnigraph.cluster.context import Absent, Broken, Cluster, Live, Observation, UnfinishedGraph
from omnigraph.cluster.resources import (
    ID,
    Finding,
    Findings,
    StoppedError,
    error_finding,
    graph_address,
    schema_address,
    stop_on_storage_error,
)
from omnigraph.cluster.state import (
    APPLIED,
    AppliedResource,
    ClusterState,
    ResourceStatus,
    ShapeError,
    Status,
    VersionError,
    decode_fields,
    encode_tree,
)

if TYPE_CHECKING:
    from omnigraph.storage.ports import ObjectStore

RECOVERIES_PREFIX = "__cluster/recoveries"

_KNOWN = frozenset(
    {
        "operation_id",
        "started_at",
        "actor",
        "kind",
        "graph_id",
        "graph_uri",
        "observed_manifest_version",
        "expected_manifest_version",
        "desired_schema_digest",
        "desired_schema_meaning",
        "state_cas_base",
        "approval_id",
    }
)


class MoveKind(StrEnum):
    """The kind of change of a graph."""

    GRAPH_CREATE = "graph_create"
    SCHEMA_APPLY = "schema_apply"
    GRAPH_DELETE = "graph_delete"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A graph change in progress; `desired_meaning` is the hash of the compiled schema."""

    id: str
    started_at: str
    actor: str | None
    kind: MoveKind
    graph_id: str
    graph_uri: str
    observed_version: int | None
    expected_version: int | None
    desired_digest: str | None
    desired_meaning: str | None
    cas_base: str
    approval_id: str | None

    @property
    def path(self) -> str:
        """The path of the sidecar."""
        return path_of(self.id)


@dataclass(frozen=True, slots=True)
class FoundSidecars:
    """The readable sidecars, in order of time, and the errors of the others."""

    sidecars: tuple[Sidecar, ...]
    faults: tuple[Finding, ...]


def path_of(id: str) -> str:
    """The path of a sidecar with an id."""
    return f"{RECOVERIES_PREFIX}/{id}.json"


def arm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: record that a graph is about to change."""
    with stop_on_storage_error("recovery_sidecar_write_error", sidecar.path):
        objects.put(sidecar.path, _encode(sidecar))


def disarm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: delete the sidecar of a finished change."""
    with stop_on_storage_error("recovery_sidecar_cleanup_failed", sidecar.path):
        objects.delete(sidecar.path)


def list_sidecars(objects: ObjectStore) -> FoundSidecars:
    """All sidecars; raises `StoppedError` if they cannot be listed."""
    with stop_on_storage_error("recovery_sidecar_read_error", RECOVERIES_PREFIX):
        names = sorted(objects.tokens(RECOVERIES_PREFIX))
    found, faults = [], []
    for name in names:
        path = f"{RECOVERIES_PREFIX}/{name}"
        try:
            with stop_on_storage_error("recovery_sidecar_read_error", path):
                stored = objects.find(path)
            if stored is not None:
                found.append(_decode(stored.content, path))
        except VersionError as error:
            faults.append(error_finding("unsupported_recovery_sidecar_version", path, str(error)))
        except ShapeError as error:
            faults.append(error_finding("invalid_recovery_sidecar", path, str(error)))
        except StoppedError as error:
            faults += error.findings
    return FoundSidecars(tuple(found), tuple(faults))


def _encode(sidecar: Sidecar) -> bytes:
    return encode_tree(
        {
            "schema_version": 1,
            "operation_id": sidecar.id,
            "started_at": sidecar.started_at,
            "actor": sidecar.actor,
            "kind": str(sidecar.kind),
            "graph_id": sidecar.graph_id,
            "graph_uri": sidecar.graph_uri,
            "observed_manifest_version": sidecar.observed_version,
            "expected_manifest_version": sidecar.expected_version,
            "desired_schema_digest": sidecar.desired_digest,
            "desired_schema_meaning": sidecar.desired_meaning,
            "state_cas_base": sidecar.cas_base,
            "approval_id": sidecar.approval_id,
        }
    )


def _decode(content: bytes, path: str) -> Sidecar:
    fields = decode_fields(content, version_key="schema_version", known=_KNOWN)
    if path_of(fields.text("operation_id")) != path:
        # A sidecar with another name could not be found again to be deleted.
        raise ShapeError("its operation_id does not match its name")
    kind = fields.text("kind")
    if kind not in tuple(MoveKind):
        raise ShapeError(f"`{kind}` is not a kind of change")
    if ID.fullmatch(fields.text("graph_id")) is None:
        raise ShapeError("its graph_id is not a valid graph id")
    return Sidecar(
        id=fields.text("operation_id"),
        started_at=fields.text("started_at"),
        actor=fields.find_text("actor"),
        kind=MoveKind(kind),
        graph_id=fields.text("graph_id"),
        graph_uri=fields.text("graph_uri"),
        observed_version=fields.find_number("observed_manifest_version"),
        expected_version=fields.find_number("expected_manifest_version"),
        desired_digest=fields.find_text("desired_schema_digest"),
        desired_meaning=fields.find_text("desired_schema_meaning"),
        cas_base=fields.find_text("state_cas_base") or "",
        approval_id=fields.find_text("approval_id"),
    )


@dataclass(frozen=True, slots=True)
class Discard:
    """The change had no effect, or the state already records it."""


@dataclass(frozen=True, slots=True)
class Clear:
    """A creation that stopped half-way; the graph cannot have been used, so it starts again."""


@dataclass(frozen=True, slots=True)
class RollForward:
    """The graph has the desired schema, but the state does not record it."""

    live: Live


@dataclass(frozen=True, slots=True)
class RecordDeletion:
    """The graph is deleted, but the state does not record it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The graph still exists, at least in part."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The outcome is unclear; the graph is left unchanged until an operator has checked it."""

    code: str
    status: Status
    message: str


RecoveryAction: TypeAlias = Discard | Clear | RollForward | RecordDeletion | Retry | Keep


@dataclass(frozen=True, slots=True)
class Swept:
    """The state after recovery, the sidecars to delete once it is written, and pending graphs."""

    ledger: ClusterState
    retired: tuple[Sidecar, ...]
    pending: frozenset[str]


def decide(
    sidecar: Sidecar, found: Observation, ledger: ClusterState, *, is_absent: bool
) -> RecoveryAction:
    """The outcome of a change; `is_absent` means that the location of the graph is empty."""
    if sidecar.kind is MoveKind.GRAPH_DELETE:
        if not is_absent:
            return Retry()
        is_known = ledger.find_digest(graph_address(sidecar.graph_id)) is None
        return Discard() if is_known else RecordDeletion()
    is_create = sidecar.kind is MoveKind.GRAPH_CREATE
    match found:
        case Absent() if is_create and is_absent:
            return Discard()
        case Absent() | UnfinishedGraph() if is_create:
            return Clear()
        case Absent():
            return Keep("cluster_recovery_pending", Status.ERROR, "the graph was deleted")
        case UnfinishedGraph(reason=reason) | Broken(reason=reason):
            code = "graph_create_incomplete" if is_create else "cluster_recovery_pending"
            return Keep(code, Status.ERROR, f"the graph cannot be opened: {reason}")
        case Live():
            return _decide_live(sidecar, found, ledger)


def _decide_live(sidecar: Sidecar, live: Live, ledger: ClusterState) -> RecoveryAction:
    known = ledger.find_digest(schema_address(sidecar.graph_id))
    if live.is_of(sidecar.desired_digest, sidecar.desired_meaning):
        return Discard() if known == sidecar.desired_digest else RollForward(live)
    meaning = ledger.observations.get(graph_address(sidecar.graph_id), {}).get("schema_meaning")
    if live.is_of(known, meaning):
        return Discard()
    return Keep(
        "actual_applied_state_pending",
        Status.DRIFTED,
        "the schema of the graph is neither the previous nor the desired one",
    )


def sweep(
    cluster: Cluster, ledger: ClusterState, approvals: tuple[Approval, ...], findings: Findings
) -> Swept:
    """Recover every sidecar that can be; raises `StoppedError` if one cannot be read."""
    listed = list_sidecars(cluster.objects)
    if listed.faults:
        raise StoppedError(*listed.faults)
    retired: list[Sidecar] = []
    pending: set[str] = set()
    for sidecar in listed.sidecars:
        action = _look(cluster, sidecar, ledger)
        ledger, is_recovered = _recover(cluster, sidecar, action, ledger, approvals, findings)
        if is_recovered:
            retired.append(sidecar)
        else:
            pending.add(sidecar.graph_id)
    return Swept(ledger, tuple(retired), frozenset(pending))


def retire(cluster: Cluster, sidecars: tuple[Sidecar, ...], findings: Findings) -> None:
    """Durable effects: delete the sidecars of changes whose outcome the state records.

    A failure is reported as a warning and has no other effect.
    """
    for each in sidecars:
        try:
            # A crash here leaves a sidecar that the next sweep deletes.
            disarm(each, cluster.objects)
        except StoppedError as error:
            for finding in error.findings:
                findings.warn(finding.code, finding.path, finding.message)


def _look(cluster: Cluster, sidecar: Sidecar, ledger: ClusterState) -> RecoveryAction:
    with stop_on_storage_error("graph_observation_error", graph_address(sidecar.graph_id)):
        is_absent = not cluster.graphs.holds_anything(sidecar.graph_id)
        if is_absent or sidecar.kind is MoveKind.GRAPH_DELETE:
            return decide(sidecar, Absent(), ledger, is_absent=is_absent)
        found = cluster.graphs.observe(sidecar.graph_id)
        return decide(sidecar, found, ledger, is_absent=False)


def _recover(
    cluster: Cluster,
    sidecar: Sidecar,
    action: RecoveryAction,
    ledger: ClusterState,
    approvals: tuple[Approval, ...],
    findings: Findings,
) -> tuple[ClusterState, bool]:
    """The state after a recovery action, and whether the sidecar can be deleted."""
    id, address = sidecar.graph_id, graph_address(sidecar.graph_id)
    match action:
        case Discard():
            return ledger, True
        case Clear():
            with stop_on_storage_error("graph_create_incomplete", address):
                cluster.graphs.clear(id)
            return ledger, True
        case RollForward(live=live):
            findings.warn(
                "cluster_recovery_rolled_forward",
                address,
                f"`{sidecar.kind}` was interrupted before the state was written; the graph is as "
                "desired, and the state was updated",
            )
            done = roll_forward(ledger, id, live, digest=sidecar.desired_digest or live.digest)
            record = _record(sidecar, cluster.now(), outcome="rolled_forward")
            return done.recording_recovery(sidecar.id, record), True
        case RecordDeletion():
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
                "the deletion was interrupted; it is retried while it is approved",
            )
            return ledger, True
        case Keep(code=code, status=status, message=message):
            findings.warn(
                "cluster_recovery_pending",
                address,
                f"`{sidecar.kind}` of {sidecar.started_at} is not recovered ({code}): {message}; "
                "the graph was not changed; check it, then run `omnigraph cluster refresh`",
            )
            return ledger.with_status(address, ResourceStatus(status, (code,), message)), False


def roll_forward(ledger: ClusterState, id: str, live: Live, *, digest: str) -> ClusterState:
    """The state with the current schema of a graph."""
    applied = ledger.resources.get(graph_address(id))
    provider = None if applied is None else applied.embedding_provider
    done = ledger.having(
        schema_address(id), AppliedResource(digest, None, None, None), APPLIED
    ).with_graph_digest(id, provider=provider)
    return done.with_status(graph_address(id), APPLIED).observing(
        graph_address(id), encode_live(live)
    )


def bury(
    cluster: Cluster,
    ledger: ClusterState,
    id: str,
    *,
    approval_id: str | None,
    approvals: tuple[Approval, ...],
    actor: str | None,
) -> ClusterState:
    """The state without a deleted graph, and with the record of its approvals."""
    address, deleted_at = graph_address(id), cluster.now()
    tombstone = {
        "kind": "tombstone",
        "deleted_at": deleted_at,
        "approval_id": approval_id,
        "actor": actor,
    }
    deleted = ledger.without_graph(id).observing(address, tombstone)
    for each in approvals:
        # All approvals are consumed: a second approval must not apply to a later graph that happens
        # to have the same declaration.
        if each.resource == address and each.id not in deleted.approval_records:
            deleted = deleted.recording_approval(
                each.id, encode_record(each, consumed_at=deleted_at)
            )
    return deleted


def encode_live(live: Live) -> dict[str, object]:
    """The fields of an observed graph that the state stores."""
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
