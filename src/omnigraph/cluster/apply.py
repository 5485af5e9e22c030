"""`apply`: make a cluster what its folder asks for.

The story in order: settle what stopped on its way, plan, create graphs, migrate schemas, publish
contents, delete what somebody agreed to delete, and write the ledger once. Only that write makes
any of it count; before it each graph that moved has a sidecar, so whatever stops in between is
settled by the next apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.addresses import Kind, graph_id_of, kind_of, name_of
from omnigraph.cluster.approvals import list_approvals, mark_consumed
from omnigraph.cluster.catalog_blobs import publish_blob
from omnigraph.cluster.config import encode_profile
from omnigraph.cluster.desired import Desired, Resource
from omnigraph.cluster.findings import Findings, StoppedError
from omnigraph.cluster.ledger import (
    APPLIED,
    AppliedResource,
    Ledger,
    ResourceStatus,
    Status,
    StoredLedger,
    get_ledger,
    replace_ledger,
)
from omnigraph.cluster.moves import Moves
from omnigraph.cluster.plan import (
    Change,
    Disposition,
    Operation,
    Plan,
    block_dependents,
    with_disposition,
)
from omnigraph.cluster.planning import plan_changes
from omnigraph.cluster.reports import ApplyReport
from omnigraph.cluster.session import Session
from omnigraph.cluster.sweep import Swept, retire, sweep
from omnigraph.cluster.world import Cluster, World


@dataclass(frozen=True, slots=True)
class _Outcome:
    changes: tuple[Change, ...]
    is_converged: bool
    is_written: bool


def apply(folder: Path, world: World, *, actor: str | None) -> ApplyReport:
    """Make a cluster what its folder asks for, as far as that can be done now."""
    session = Session(folder, world, Findings())
    outcome = _Outcome((), is_converged=False, is_written=False)
    with session.findings.stopping():
        cluster, desired = session.open_desired()
        with session.holding("apply", is_locked=desired.config.is_locked, actor=actor):
            outcome = _apply(cluster, desired, actor, session.findings)
    facts = session.facts()
    return ApplyReport(
        heading=session.heading(),
        actor=actor,
        desired=session.desired,
        facts=facts,
        changes=outcome.changes,
        is_converged=outcome.is_converged,
        is_written=outcome.is_written,
    )


def _apply(cluster: Cluster, desired: Desired, actor: str | None, findings: Findings) -> _Outcome:
    stored = get_ledger(cluster.objects)
    approvals = list_approvals(cluster.objects, findings)
    swept = sweep(cluster, stored.ledger, approvals, findings)
    _require_unchanged(desired, findings)
    plan = plan_changes(cluster, desired, swept.ledger, swept.pending, findings)
    moves = Moves(cluster, desired, swept.ledger, stored.cas, actor, approvals, findings)
    _move_graphs(plan, moves)
    changes = _publish(cluster, desired, _demote(plan.changes, moves), findings)
    _delete_graphs(plan, moves)
    changes = _demote(changes, moves)
    ledger = _write_down(moves.ledger, desired, changes, swept.pending)
    is_converged = (
        not findings.has_errors
        and not swept.pending
        and not any(_is_left(each) for each in changes)
    )
    if is_converged:
        ledger = replace(ledger, config_digest=desired.config_digest)
    _warn_left(changes, findings)
    return _finish(
        cluster,
        stored,
        swept,
        ledger,
        moves,
        _Outcome(changes, is_converged=is_converged, is_written=False),
    )


def _finish(
    cluster: Cluster,
    stored: StoredLedger,
    swept: Swept,
    ledger: Ledger,
    moves: Moves,
    outcome: _Outcome,
) -> _Outcome:
    """Write the ledger if it says something new, and only then clear up."""
    is_new = ledger != stored.ledger
    if is_new:
        try:
            replace_ledger(ledger, over=stored, objects=cluster.objects)
        except StoppedError as error:
            moves.findings.add(error.findings)
            return replace(outcome, is_converged=False)
    # Everything counts from here on; what is left behind is cleared up by the next apply.
    retire(cluster, (*swept.retired, *moves.moved), moves.findings)
    try:
        approvals = list_approvals(cluster.objects, moves.findings)
        mark_consumed(approvals, ledger.approval_records, cluster.objects)
    except StoppedError as error:
        for each in error.findings:
            moves.findings.warn(each.code, each.path, each.message)
    return replace(outcome, is_written=is_new)


def _require_unchanged(desired: Desired, findings: Findings) -> None:
    for path in desired.sources.find_changed():
        findings.error(
            "resource_content_changed",
            path,
            "the file was edited while the command was running; nothing was applied; run it again",
        )
    findings.require_no_errors()


def _move_graphs(plan: Plan, moves: Moves) -> None:
    """Create graphs, then migrate the others."""
    going = [each for each in plan.changes if each.disposition is Disposition.APPLIED]
    created = {
        name_of(each.resource)
        for each in going
        if kind_of(each.resource) is Kind.GRAPH and each.operation is Operation.CREATE
    }
    for id in sorted(created):
        moves.create(id)
    for each in going:
        is_migrated = (
            kind_of(each.resource) is Kind.SCHEMA and name_of(each.resource) not in created
        )
        if is_migrated and each.operation is not Operation.DELETE:
            moves.apply_schema(name_of(each.resource))


def _delete_graphs(plan: Plan, moves: Moves) -> None:
    for gate in plan.gates:
        change = next(each for each in plan.changes if each.resource == gate.resource)
        if gate.approval is not None and change.disposition is Disposition.APPLIED:
            moves.delete(gate, name_of(gate.resource))


def _demote(changes: Iterable[Change], moves: Moves) -> tuple[Change, ...]:
    """The changes, blocked where a graph that they need did not become what they need."""
    stuck = (_demote_stuck(each, moves) for each in changes)
    return block_dependents(stuck, moves.desired, moves.ledger)


def _demote_stuck(change: Change, moves: Moves) -> Change:
    """A change of a graph that is stuck: its own reason, or that it depends on one that is."""
    reason = moves.reason_by_stuck.get(change.graph_id or "")
    if reason is None or change.disposition is Disposition.BLOCKED:
        return change
    is_own = kind_of(change.resource) in (Kind.GRAPH, Kind.SCHEMA)
    return with_disposition(
        change, Disposition.BLOCKED, reason if is_own else "dependency_not_applied"
    )


def _publish(
    cluster: Cluster, desired: Desired, changes: tuple[Change, ...], findings: Findings
) -> tuple[Change, ...]:
    """Store the contents that the ledger is going to name."""
    done = []
    for change in changes:
        resource = desired.resources.get(change.resource)
        is_going = change.disposition is Disposition.APPLIED
        if resource is not None and resource.content is not None and is_going:
            try:
                # A crash here leaves contents that nobody refers to.
                publish_blob(change.resource, resource.content, cluster.objects)
            except StoppedError as error:
                findings.add(error.findings)
                reason = error.findings[0].code
                done.append(with_disposition(change, Disposition.BLOCKED, reason))
                continue
        done.append(change)
    return tuple(done)


def _write_down(
    ledger: Ledger, desired: Desired, changes: tuple[Change, ...], pending: frozenset[str]
) -> Ledger:
    """The ledger with everything that was done and how all of it stands."""
    for change in changes:
        resource = desired.resources.get(change.resource)
        if change.disposition is Disposition.APPLIED and kind_of(change.resource) not in (
            Kind.GRAPH,
            Kind.SCHEMA,
        ):
            if resource is None:
                ledger = ledger.without(change.resource)
            else:
                ledger = ledger.having(change.resource, _applied(resource), APPLIED)
    blocked = {each.resource: each for each in changes if _is_left(each)}
    for id in desired.config.graphs:
        ledger = _with_derived(ledger, id, desired, blocked)
    return _with_statuses(ledger, desired, blocked, pending)


def _with_derived(ledger: Ledger, id: str, desired: Desired, blocked: dict[str, Change]) -> Ledger:
    address = f"graph.{id}"
    applied = ledger.resources.get(address)
    if applied is None:
        return ledger
    provider = desired.resources[address].embedding_provider
    is_stuck = address in blocked
    return ledger.with_graph_digest(
        id, provider=applied.embedding_provider if is_stuck else provider
    )


def _with_statuses(
    ledger: Ledger, desired: Desired, blocked: dict[str, Change], pending: frozenset[str]
) -> Ledger:
    statuses: dict[str, ResourceStatus] = {}
    for address in sorted({*ledger.resources, *blocked}):
        known = ledger.statuses.get(address)
        change = blocked.get(address)
        if known is not None and known.status is Status.ERROR and change is not None:
            # Why it failed says more than that it is blocked.
            statuses[address] = known
        elif (
            graph_id_of(address) in pending and known is not None and kind_of(address) is Kind.GRAPH
        ):
            statuses[address] = known
        elif change is not None:
            statuses[address] = ResourceStatus(Status.BLOCKED, (change.reason or "",), None)
        elif address in desired.resources:
            statuses[address] = APPLIED
        elif known is not None:
            statuses[address] = known
    return replace(ledger, statuses=statuses)


def _applied(resource: Resource) -> AppliedResource:
    profile = resource.embedding_profile
    return AppliedResource(
        digest=resource.digest,
        applies_to=resource.applies_to,
        embedding_provider=resource.embedding_provider,
        embedding_profile=None if profile is None else encode_profile(profile),
    )


def _is_left(change: Change) -> bool:
    return change.disposition in (Disposition.BLOCKED, Disposition.DEFERRED)


def _warn_left(changes: tuple[Change, ...], findings: Findings) -> None:
    for each in changes:
        if each.reason == "approval_required" and kind_of(each.resource) is Kind.GRAPH:
            findings.warn(
                "approval_required",
                each.resource,
                "it is to be deleted with its rows and history; somebody has to agree: "
                f"`omnigraph cluster approve {each.resource} --as <actor>`",
            )
        elif each.reason == "dependency_not_applied":
            findings.warn(
                "apply_dependency_blocked",
                each.resource,
                "it was left as it is until the graph that it belongs to is settled",
            )
        elif each.reason == "apply_unsupported_kind":
            findings.warn(
                "apply_unsupported_change",
                each.resource,
                "a schema is not deleted without its graph; it was left as it is",
            )
