"""`cluster apply`: create, migrate and delete graphs, and publish queries and policies.

The steps run in a fixed order: recover, plan, create, migrate, publish, delete, replace the state.
A change counts once the state is replaced, which happens at most once per apply. Each changed graph
has a sidecar until then, so the next apply recovers an interrupted one. After a failed graph change
the remaining graphs are left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from omnigraph.cluster.approvals import (
    Approval,
    list_approvals,
    mark_consumed,
    require_valid_approval,
)
from omnigraph.cluster.catalog import publish_blob
from omnigraph.cluster.commands import Session, plan_changes
from omnigraph.cluster.context import Absent, Cluster, ClusterContext, Live
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.plan import (
    Change,
    Disposition,
    Gate,
    Operation,
    Plan,
    block_dependents,
    with_disposition,
)
from omnigraph.cluster.recovery import MoveKind, Sidecar, arm, bury, retire, sweep, with_live
from omnigraph.cluster.reports import ApplyReport
from omnigraph.cluster.resources import (
    Findings,
    Kind,
    StoppedError,
    graph_address,
    graph_id_of,
    kind_of,
    name_of,
    schema_address,
)
from omnigraph.cluster.state import (
    APPLIED,
    ClusterState,
    ResourceStatus,
    Status,
    get_ledger,
    replace_ledger,
)
from omnigraph.model.errors import AlreadyExistsError, GraphError, MovedError, RequestError

_FAILED = {
    MoveKind.GRAPH_CREATE: "graph_create_failed",
    MoveKind.SCHEMA_APPLY: "schema_apply_failed",
    MoveKind.GRAPH_DELETE: "graph_delete_failed",
}
_SKIPPED = {
    MoveKind.GRAPH_CREATE: "graph_create_skipped",
    MoveKind.SCHEMA_APPLY: "schema_apply_skipped",
    MoveKind.GRAPH_DELETE: "graph_delete_skipped",
}


@dataclass(slots=True)
class GraphChanges:
    """The graph changes of one apply, and their results so far."""

    cluster: Cluster
    desired: Desired
    ledger: ClusterState
    cas: str
    actor: str | None
    approvals: tuple[Approval, ...]
    findings: Findings
    moved: list[Sidecar] = field(default_factory=list)
    reason_by_stuck: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False

    def create(self, id: str) -> None:
        """Create a graph."""
        desired = self.desired.graphs[id]
        sidecar = self._sidecar(MoveKind.GRAPH_CREATE, id, approval_id=None)
        if not self._may_go(sidecar):
            return
        with self._reporting_failure(sidecar):
            if not isinstance(self.cluster.graphs.observe(id), Absent):
                # The owner of the existing data is not known.
                advice = "`omnigraph cluster refresh` adds an existing graph to the state"
                raise AlreadyExistsError(kind="graph", name=id, advice=advice)
            arm(sidecar, self.cluster.objects)
            # A crash from here on is recovered by the next sweep.
            live = self.cluster.graphs.create(id, desired.schema)
            self.moved.append(sidecar)
            self._record(id, live)

    def apply_schema(self, id: str) -> None:
        """Apply the desired schema to a graph; an equivalent schema is only recorded."""
        desired = self.desired.graphs[id]
        sidecar = self._sidecar(MoveKind.SCHEMA_APPLY, id, approval_id=None)
        if not self._may_go(sidecar):
            return
        with self._reporting_failure(sidecar):
            before = self.cluster.graphs.observe(id)
            if isinstance(before, Live):
                if before.meaning == desired.schema_hash:
                    self._record(id, before)
                    return
                version = before.manifest_version
                sidecar = replace(sidecar, observed_version=version, expected_version=version + 1)
            arm(sidecar, self.cluster.objects)
            live = self.cluster.graphs.apply_schema(id, desired.schema, actor=self.actor)
            self.moved.append(sidecar)
            self._record(id, live)

    def delete(self, gate: Gate, id: str) -> None:
        """Delete a graph whose deletion was approved."""
        assert gate.approval is not None, "only approved deletions get here"
        sidecar = self._sidecar(MoveKind.GRAPH_DELETE, id, approval_id=gate.approval.id)
        if not self._may_go(sidecar):
            return
        with self._reporting_failure(sidecar):
            require_valid_approval(gate.approval, self.cluster.objects)
            arm(sidecar, self.cluster.objects)
            self.cluster.graphs.delete(id)
            self.moved.append(sidecar)
            self.ledger = bury(self.cluster, self.ledger, sidecar, self.approvals)

    def _record(self, id: str, live: Live) -> None:
        digest = self.desired.graphs[id].schema_digest
        self.ledger = with_live(self.ledger, id, live, digest=digest, status=APPLIED)

    def _may_go(self, sidecar: Sidecar) -> bool:
        if not self.has_failed:
            return True
        code = _SKIPPED[sidecar.kind]
        self.findings.warn(
            code,
            graph_address(sidecar.graph_id),
            "it was not changed, because a change of another graph failed",
        )
        self.reason_by_stuck[sidecar.graph_id] = code
        return False

    @contextmanager
    def _reporting_failure(self, sidecar: Sidecar) -> Iterator[None]:
        """A block that changes a graph; after an error, further graphs are left unchanged."""
        try:
            yield
        except (GraphError, StoppedError) as error:
            id, code, reason = sidecar.graph_id, _FAILED[sidecar.kind], str(error)
            self.has_failed = True
            self.reason_by_stuck[id] = code
            if isinstance(error, StoppedError):
                # The cause has a separate code.
                self.findings.add(error.findings)
            self.findings.error(code, graph_address(id), f"{sidecar.graph_uri}: {reason}")
            is_create = sidecar.kind is MoveKind.GRAPH_CREATE
            address = graph_address(id) if is_create else schema_address(id)
            if sidecar.kind is not MoveKind.GRAPH_DELETE:
                failed = ResourceStatus(Status.ERROR, (code,), reason)
                self.ledger = self.ledger.with_status(address, failed)
            # Only after a rejection is it certain that nothing was changed.
            is_refusal = isinstance(error, RequestError | MovedError)
            if is_refusal and sidecar.kind is MoveKind.SCHEMA_APPLY:
                retire(self.cluster, (sidecar,), self.findings)

    def _sidecar(self, kind: MoveKind, id: str, *, approval_id: str | None) -> Sidecar:
        desired = self.desired.graphs.get(id)
        return Sidecar(
            id=self.cluster.context.runtime.new_id(),
            started_at=self.cluster.now(),
            actor=self.actor,
            kind=kind,
            graph_id=id,
            graph_uri=self.cluster.graphs.uri_of(id),
            observed_version=None,
            expected_version=1 if kind is MoveKind.GRAPH_CREATE else None,
            desired_digest=None if desired is None else desired.schema_digest,
            desired_meaning=None if desired is None else desired.schema_hash,
            cas_base=self.cas,
            approval_id=approval_id,
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    changes: tuple[Change, ...]
    is_converged: bool
    is_written: bool


def apply(folder: Path, context: ClusterContext, *, actor: str | None) -> ApplyReport:
    """Apply the desired configuration of a folder to its cluster, as far as possible now."""
    session = Session(folder, context, Findings())
    outcome = _Outcome((), is_converged=False, is_written=False)
    with session.findings.stopping(), session.holding("apply", actor=actor) as (cluster, desired):
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
    moves = GraphChanges(cluster, desired, swept.ledger, stored.cas, actor, approvals, findings)
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
    is_new = ledger != stored.ledger
    if is_new:
        try:
            replace_ledger(ledger, over=stored, objects=cluster.objects)
        except StoppedError as error:
            findings.add(error.findings)
            return _Outcome(changes, is_converged=False, is_written=False)
    # The changes are in effect from here on; the next apply cleans up any leftovers.
    retire(cluster, (*swept.retired, *moves.moved), findings)
    try:
        approvals = list_approvals(cluster.objects, findings)
        mark_consumed(approvals, ledger.approval_records, cluster.objects)
    except StoppedError as error:
        findings.add_as_warnings(error.findings)
    return _Outcome(changes, is_converged=is_converged, is_written=is_new)


def _require_unchanged(desired: Desired, findings: Findings) -> None:
    for path in desired.sources.find_changed():
        findings.error(
            "resource_content_changed",
            path,
            "the file was edited while the command was running; nothing was applied; run it again",
        )
    findings.require_no_errors()


def _move_graphs(plan: Plan, moves: GraphChanges) -> None:
    """Create new graphs, then migrate the others."""
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


def _delete_graphs(plan: Plan, moves: GraphChanges) -> None:
    for gate in plan.gates:
        change = next(each for each in plan.changes if each.resource == gate.resource)
        if gate.approval is not None and change.disposition is Disposition.APPLIED:
            moves.delete(gate, name_of(gate.resource))


def _demote(changes: Iterable[Change], moves: GraphChanges) -> tuple[Change, ...]:
    """The changes, blocked where a graph that they depend on was not changed as needed."""
    demoted: list[Change] = []
    for each in changes:
        reason = moves.reason_by_stuck.get(each.graph_id or "")
        if reason is None or each.disposition is Disposition.BLOCKED:
            demoted.append(each)
            continue
        if kind_of(each.resource) not in (Kind.GRAPH, Kind.SCHEMA):
            reason = "dependency_not_applied"
        demoted.append(with_disposition(each, Disposition.BLOCKED, reason))
    return block_dependents(demoted, moves.desired, moves.ledger)


def _publish(
    cluster: Cluster, desired: Desired, changes: tuple[Change, ...], findings: Findings
) -> tuple[Change, ...]:
    """Store the contents that the new state references."""
    done = []
    for change in changes:
        resource = desired.resources.get(change.resource)
        is_going = change.disposition is Disposition.APPLIED
        if resource is not None and resource.content is not None and is_going:
            try:
                # A crash here leaves unreferenced contents.
                publish_blob(change.resource, resource.content, cluster.objects)
            except StoppedError as error:
                findings.add(error.findings)
                reason = error.findings[0].code
                done.append(with_disposition(change, Disposition.BLOCKED, reason))
                continue
        done.append(change)
    return tuple(done)


def _write_down(
    ledger: ClusterState, desired: Desired, changes: tuple[Change, ...], pending: frozenset[str]
) -> ClusterState:
    """The state with all applied changes and the status of every resource."""
    for change in changes:
        is_graph = kind_of(change.resource) in (Kind.GRAPH, Kind.SCHEMA)
        if change.disposition is not Disposition.APPLIED or is_graph:
            continue
        resource = desired.resources.get(change.resource)
        if resource is None:
            ledger = ledger.without(change.resource)
        else:
            ledger = ledger.having(change.resource, resource.entry, APPLIED)
    blocked = {each.resource: each for each in changes if _is_left(each)}
    for id in desired.config.graphs:
        address = graph_address(id)
        graph = ledger.resources.get(address)
        if graph is not None:
            provider = desired.resources[address].entry.embedding_provider
            if address in blocked:
                provider = graph.embedding_provider
            ledger = ledger.with_graph_digest(id, provider=provider)
    return _with_statuses(ledger, desired, blocked, pending)


def _with_statuses(
    ledger: ClusterState, desired: Desired, blocked: dict[str, Change], pending: frozenset[str]
) -> ClusterState:
    statuses: dict[str, ResourceStatus] = {}
    for address in sorted({*ledger.resources, *blocked}):
        known = ledger.statuses.get(address)
        change = blocked.get(address)
        if known is not None and known.status is Status.ERROR and change is not None:
            # The reason of the failure is more specific than the blocked status.
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


def _is_left(change: Change) -> bool:
    return change.disposition in (Disposition.BLOCKED, Disposition.DEFERRED)


def _warn_left(changes: tuple[Change, ...], findings: Findings) -> None:
    for each in changes:
        if each.reason == "approval_required" and kind_of(each.resource) is Kind.GRAPH:
            findings.warn(
                "approval_required",
                each.resource,
                "deleting it with its rows and history requires approval: "
                f"`omnigraph cluster approve {each.resource} --as <actor>`",
            )
        elif each.reason == "dependency_not_applied":
            findings.warn(
                "apply_dependency_blocked",
                each.resource,
                "it was not changed because its graph has a pending change",
            )
        elif each.reason == "apply_unsupported_kind":
            findings.warn(
                "apply_unsupported_change",
                each.resource,
                "a schema is deleted only with its graph; it was not changed",
            )
