"""Plans: the changes from the applied state to the desired configuration.

Pure. For each change the plan records whether an apply would make it, which other resources it
affects, and whether it needs an approval. How a change is made is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.cluster.approvals import Approval
from omnigraph.cluster.desired import Desired, Resource, find_dependencies
from omnigraph.cluster.resources import Kind, graph_address, graph_id_of, kind_of, name_of
from omnigraph.cluster.state import AppliedResource, ClusterState


class Operation(StrEnum):
    """The operation on a resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Disposition(StrEnum):
    """What an apply does with a change."""

    APPLIED = "applied"
    DERIVED = "derived"
    DEFERRED = "deferred"
    BLOCKED = "blocked"


class MetadataChange(StrEnum):
    """The kind of change of a resource whose content stays the same."""

    POLICY_BINDINGS = "policy_bindings"
    EMBEDDING_PROFILE = "embedding_profile"


@dataclass(frozen=True, slots=True)
class Migration:
    """The steps from a graph's schema to the desired one, for programs and as text.

    `blockers` lists reasons other than unsupported steps for which an apply would be rejected.
    """

    is_supported: bool
    steps: tuple[Mapping[str, object], ...]
    described: tuple[str, ...]
    blockers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `reason` is why it is blocked or deferred."""

    resource: str
    operation: Operation
    before_digest: str | None
    after_digest: str | None
    disposition: Disposition
    reason: str | None
    is_binding_change: bool
    metadata_change: MetadataChange | None
    migration: Migration | None

    @property
    def graph_id(self) -> str | None:
        """The graph that the changed resource belongs to."""
        return graph_id_of(self.resource)


@dataclass(frozen=True, slots=True)
class Reach:
    """The other resources that a change affects: all that depend on the changed resource."""

    resource: str
    affected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A deletion that needs an approval; `approval` is None until one is given."""

    resource: str
    reason: str
    approval: Approval | None


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes, by resource, with their reach and gates."""

    changes: tuple[Change, ...]
    reaches: tuple[Reach, ...]
    gates: tuple[Gate, ...]
    stale: tuple[Approval, ...]


def make_plan(
    desired: Desired,
    ledger: ClusterState,
    *,
    pending: frozenset[str],
    approvals: Iterable[Approval],
    migrations: Mapping[str, Migration],
) -> Plan:
    """The necessary changes; `pending` are graphs with an interrupted change.

    `migrations` maps graphs whose schema changes to their steps, where those are known.
    """
    deleted = sorted(set(ledger.graph_ids()) - set(desired.config.graphs))
    gates, stale = _find_gates(deleted, desired, ledger, approvals)
    approved = frozenset(name_of(each.resource) for each in gates if each.approval is not None)
    changes = []
    for address in sorted({*desired.resources, *ledger.resources}):
        change = _compare(desired.resources.get(address), ledger.resources.get(address), address)
        if change is not None:
            changes.append(_dispose(change, pending, approved, frozenset(deleted)))
    disposed = tuple(
        replace(each, migration=migrations.get(name_of(each.resource)))
        if kind_of(each.resource) is Kind.SCHEMA and each.operation is Operation.UPDATE
        else each
        for each in block_dependents(changes, desired, ledger)
    )
    return Plan(
        changes=disposed,
        reaches=_find_reaches(disposed, desired, ledger),
        gates=gates,
        stale=stale,
    )


def with_disposition(change: Change, disposition: Disposition, reason: str | None) -> Change:
    """The change with another disposition."""
    return replace(change, disposition=disposition, reason=reason)


def block_dependents(
    changes: Iterable[Change], desired: Desired, ledger: ClusterState
) -> tuple[Change, ...]:
    """The changes, with those of policies and providers blocked that a stuck graph depends on.

    A policy waits for a graph that it will apply to, and still applies to a graph that has not been
    deleted yet.
    """
    listed = tuple(changes)
    blocked = [each for each in listed if each.disposition is Disposition.BLOCKED]
    moved = {
        graph_address(each.graph_id): each.operation is Operation.DELETE
        for each in blocked
        if each.graph_id is not None and kind_of(each.resource) is not Kind.QUERY
    }
    return tuple(
        with_disposition(each, Disposition.BLOCKED, "dependency_not_applied")
        if _needs_stuck(each, moved, desired, ledger)
        else each
        for each in listed
    )


def _needs_stuck(
    change: Change, is_going_by_stuck: Mapping[str, bool], desired: Desired, ledger: ClusterState
) -> bool:
    wanted, applied = desired.resources.get(change.resource), ledger.resources.get(change.resource)
    if kind_of(change.resource) is Kind.PROVIDER:
        return change.operation is Operation.DELETE and any(
            address in is_going_by_stuck and each.embedding_provider == change.resource
            for address, each in ledger.resources.items()
        )
    if kind_of(change.resource) is not Kind.POLICY:
        return False
    guarding = set(() if wanted is None else wanted.entry.applies_to or ())
    guarded = set(() if applied is None else applied.applies_to or ())
    awaited = {address for address, is_going in is_going_by_stuck.items() if not is_going}
    return bool(guarding & awaited or (guarded - guarding) & set(is_going_by_stuck))


def _compare(
    desired: Resource | None, applied: AppliedResource | None, address: str
) -> Change | None:
    operation, metadata, is_rebound = Operation.UPDATE, None, False
    if desired is None:
        operation = Operation.DELETE
    elif applied is None:
        operation = Operation.CREATE
    else:
        metadata = _compare_metadata(kind_of(address), desired.entry, applied)
        is_rebound = (
            metadata is MetadataChange.POLICY_BINDINGS
            or desired.entry.embedding_provider != applied.embedding_provider
        )
        if desired.entry.digest == applied.digest and metadata is None and not is_rebound:
            return None
    return Change(
        resource=address,
        operation=operation,
        before_digest=None if applied is None else applied.digest,
        after_digest=None if desired is None else desired.entry.digest,
        disposition=Disposition.APPLIED,
        reason=None,
        is_binding_change=is_rebound,
        metadata_change=metadata,
        migration=None,
    )


def _compare_metadata(
    kind: Kind, desired: AppliedResource, applied: AppliedResource
) -> MetadataChange | None:
    if kind is Kind.POLICY and desired.applies_to != applied.applies_to:
        return MetadataChange.POLICY_BINDINGS
    if kind is Kind.PROVIDER and desired.embedding_profile != applied.embedding_profile:
        return MetadataChange.EMBEDDING_PROFILE
    return None


def _dispose(
    change: Change,
    pending: frozenset[str],
    approved: frozenset[str],
    deleted: frozenset[str],
) -> Change:
    id = change.graph_id
    if id is not None and id in pending:
        return with_disposition(change, Disposition.BLOCKED, "cluster_recovery_pending")
    if id is not None and id in deleted:
        if id in approved:
            return change
        return with_disposition(change, Disposition.BLOCKED, "approval_required")
    kind = kind_of(change.resource)
    if kind is Kind.GRAPH and change.operation is Operation.UPDATE:
        return with_disposition(change, Disposition.DERIVED, None)
    if kind is Kind.SCHEMA and change.operation is Operation.DELETE:
        return with_disposition(change, Disposition.DEFERRED, "apply_unsupported_kind")
    return change


def _find_gates(
    deleted: Iterable[str], desired: Desired, ledger: ClusterState, approvals: Iterable[Approval]
) -> tuple[tuple[Gate, ...], tuple[Approval, ...]]:
    """One gate per graph to delete, and the stale approvals."""
    given = [
        each
        for each in approvals
        if each.consumed_at is None and each.id not in ledger.approval_records
    ]
    gates, stale = [], []
    for id in deleted:
        address = graph_address(id)
        ours = [each for each in given if each.resource == address]
        valid = [each for each in ours if _is_bound(each, desired, ledger)]
        stale += [each for each in ours if each not in valid]
        reason = "deletes the graph with its rows and history"
        gates.append(Gate(address, reason, valid[0] if valid else None))
    return tuple(gates), tuple(stale)


def _is_bound(approval: Approval, desired: Desired, ledger: ClusterState) -> bool:
    return (
        approval.operation == Operation.DELETE
        and approval.config_digest == desired.config_digest
        and approval.before_digest == ledger.find_digest(approval.resource)
        and approval.after_digest is None
    )


def _find_reaches(
    changes: Iterable[Change], desired: Desired, ledger: ClusterState
) -> tuple[Reach, ...]:
    """The resources that depend on the changed ones, directly or indirectly."""
    needed_by: dict[str, set[str]] = {}
    for each in (*desired.dependencies, *find_dependencies(ledger.resources)):
        needed_by.setdefault(each.needed, set()).add(each.dependent)
    found = []
    for change in changes:
        if change.disposition is Disposition.DERIVED and not change.is_binding_change:
            # Its parts change instead, and their reach is listed with them.
            continue
        affected: set[str] = set()
        waiting = [change.resource]
        while waiting:
            fresh = needed_by.get(waiting.pop(), set()) - affected
            affected |= fresh
            waiting += fresh
        if affected:
            found.append(Reach(change.resource, tuple(sorted(affected))))
    return tuple(found)
