"""Sidecars of graph changes, and their recovery after an interrupted apply.

A sidecar is written before its graph changes and deleted after the state records the change.
Recovery inspects the graph and only rolls forward; it deletes nothing but a partly created graph
without history. A graph that cannot be classified keeps its sidecar and is left unchanged. Safe to
repeat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.cluster.approvals import Approval, encode_record
from omnigraph.cluster.context import Absent, Broken, Cluster, Live, Observation, UnfinishedGraph
from omnigraph.cluster.resources import (
    ID,
    Finding,
    Findings,
    StoppedError,
    graph_address,
    schema_address,
    stop_on_storage_error,
)
from omnigraph.cluster.state import (
    APPLIED,
    AppliedResource,
    ClusterState,
    ReadErrors,
    RecordFormat,
    ResourceStatus,
    ShapeError,
    Status,
    StoredFields,
)

if TYPE_CHECKING:
    from omnigraph.storage.ports import ObjectStore

RECOVERIES_PREFIX = "__cluster/recoveries"


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
        return f"{RECOVERIES_PREFIX}/{self.id}.json"


def _read_kind(stored: StoredFields, name: str) -> MoveKind:
    kind = stored.text(name)
    if kind not in tuple(MoveKind):
        raise ShapeError(f"`{kind}` is not a kind of change")
    return MoveKind(kind)


def _read_graph_id(stored: StoredFields, name: str) -> str:
    id = stored.text(name)
    if ID.fullmatch(id) is None:
        raise ShapeError(f"its {name} is not a valid graph id")
    return id


_FORMAT = RecordFormat(
    Sidecar,
    version_key="schema_version",
    fields={
        "operation_id": ("id", StoredFields.text),
        "started_at": ("started_at", StoredFields.text),
        "actor": ("actor", StoredFields.find_text),
        "kind": ("kind", _read_kind),
        "graph_id": ("graph_id", _read_graph_id),
        "graph_uri": ("graph_uri", StoredFields.text),
        "observed_manifest_version": ("observed_version", StoredFields.find_number),
        "expected_manifest_version": ("expected_version", StoredFields.find_number),
        "desired_schema_digest": ("desired_digest", StoredFields.find_text),
        "desired_schema_meaning": ("desired_meaning", StoredFields.find_text),
        "state_cas_base": ("cas_base", lambda stored, name: stored.find_text(name) or ""),
        "approval_id": ("approval_id", StoredFields.find_text),
    },
    codes=ReadErrors(
        "recovery_sidecar_read_error",
        "unsupported_recovery_sidecar_version",
        "invalid_recovery_sidecar",
    ),
)


def arm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: record that a graph is about to change."""
    with stop_on_storage_error("recovery_sidecar_write_error", sidecar.path):
        objects.put(sidecar.path, _FORMAT.encode(sidecar))


def disarm(sidecar: Sidecar, objects: ObjectStore) -> None:
    """Durable effect: delete the sidecar of a finished change."""
    with stop_on_storage_error("recovery_sidecar_cleanup_failed", sidecar.path):
        objects.delete(sidecar.path)


def list_sidecars(objects: ObjectStore) -> tuple[tuple[Sidecar, ...], tuple[Finding, ...]]:
    """The readable sidecars, in order of time, and the errors of the others.

    Raises `StoppedError` if they cannot be listed.
    """
    return _FORMAT.list(RECOVERIES_PREFIX, objects)


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
    sidecars, faults = list_sidecars(cluster.objects)
    if faults:
        raise StoppedError(*faults)
    retired: list[Sidecar] = []
    pending: set[str] = set()
    for sidecar in sidecars:
        with stop_on_storage_error("graph_observation_error", graph_address(sidecar.graph_id)):
            found: Observation = Absent()
            is_absent = not cluster.graphs.holds_anything(sidecar.graph_id)
            if not is_absent and sidecar.kind is not MoveKind.GRAPH_DELETE:
                found = cluster.graphs.observe(sidecar.graph_id)
        action = decide(sidecar, found, ledger, is_absent=is_absent)
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
            findings.add_as_warnings(error.findings)


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
            digest = sidecar.desired_digest or live.digest
            done = with_live(ledger, id, live, digest=digest, status=APPLIED)
            return _record(done, sidecar, cluster.now()), True
        case RecordDeletion():
            buried = bury(cluster, ledger, sidecar, approvals)
            return _record(buried, sidecar, cluster.now()), True
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


def with_live(
    ledger: ClusterState, id: str, live: Live, *, digest: str, status: ResourceStatus
) -> ClusterState:
    """The state with an observed graph, and with the digest and status of its schema."""
    address, schema = graph_address(id), schema_address(id)
    applied = ledger.resources.get(address)
    observation = {
        "kind": "graph",
        "exists": True,
        "schema_digest": live.digest,
        "schema_meaning": live.meaning,
        "manifest_version": live.manifest_version,
    }
    return (
        ledger.having(schema, AppliedResource(digest), status)
        .with_graph_digest(id, provider=None if applied is None else applied.embedding_provider)
        .with_status(address, status)
        .observing(address, observation)
    )


def bury(
    cluster: Cluster, ledger: ClusterState, sidecar: Sidecar, approvals: tuple[Approval, ...]
) -> ClusterState:
    """The state without a deleted graph, and with the record of its approvals."""
    address, deleted_at = graph_address(sidecar.graph_id), cluster.now()
    tombstone = {
        "kind": "tombstone",
        "deleted_at": deleted_at,
        "approval_id": sidecar.approval_id,
        "actor": sidecar.actor,
    }
    # All approvals are consumed: a second approval must not apply to a later graph that happens to
    # have the same declaration.
    consumed = {
        each.id: encode_record(each, consumed_at=deleted_at)
        for each in approvals
        if each.resource == address
    }
    deleted = ledger.without_graph(sidecar.graph_id).observing(address, tombstone)
    return replace(deleted, approval_records={**consumed, **ledger.approval_records})


def _record(ledger: ClusterState, sidecar: Sidecar, now: str) -> ClusterState:
    """The state with the record that an interrupted change was rolled forward."""
    record = {
        "kind": str(sidecar.kind),
        "graph_id": sidecar.graph_id,
        "actor": sidecar.actor,
        "started_at": sidecar.started_at,
        "settled_at": now,
        "outcome": "rolled_forward",
    }
    return replace(ledger, recovery_records={**ledger.recovery_records, sidecar.id: record})
