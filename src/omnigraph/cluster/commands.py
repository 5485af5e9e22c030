"""`cluster plan`, `approve`, `status`, `refresh`, `import` and `force-unlock`; migration previews.

Storage errors become findings of the report and are not raised. `plan` writes nothing but the lock
that it holds, and `status` takes no lock. `refresh` and `import` open graphs read-only and record
their actual state. An approval is valid for one configuration and one state of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from omnigraph.cluster.approvals import Approval, list_approvals, write_approval
from omnigraph.cluster.catalog import BadBlob, BlobFault, check_blob, has_blob
from omnigraph.cluster.config import ClusterConfig
from omnigraph.cluster.context import (
    Absent,
    Broken,
    Cluster,
    ClusterContext,
    ClusterGraphs,
    Live,
    UnfinishedGraph,
    open_configured,
)
from omnigraph.cluster.desired import Desired, read_config, read_desired
from omnigraph.cluster.lock import LOCK_PATH, Lock, break_lock, find_lock, hold_lock
from omnigraph.cluster.plan import Migration, Operation, Plan, make_plan
from omnigraph.cluster.recovery import Swept, list_sidecars, retire, sweep, with_live
from omnigraph.cluster.reports import (
    ApproveReport,
    Heading,
    PlanReport,
    StateFacts,
    StateReport,
    UnlockReport,
)
from omnigraph.cluster.resources import (
    Findings,
    StoppedError,
    graph_address,
    schema_address,
    stop_on_storage_error,
    stopped,
)
from omnigraph.cluster.state import (
    APPLIED,
    EMPTY,
    STATE_EXISTS,
    STATE_PATH,
    ClusterState,
    ResourceStatus,
    Status,
    StoredState,
    create_ledger,
    find_ledger,
    get_ledger,
    replace_ledger,
)
from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.migration import plan_migration
from omnigraph.compiler.migration_steps import describe_step, encode_step
from omnigraph.model.errors import GraphError
from omnigraph.model.source import Source


@dataclass(slots=True)
class Session:
    """What a command has opened and found so far; the fields are filled in as it runs."""

    folder: Path
    context: ClusterContext
    findings: Findings
    desired: Desired | None = None
    cluster: Cluster | None = None
    acquired: Lock | None = None

    def open(self) -> Cluster:
        """Open the cluster of the folder, reading no file but the configuration."""
        return self._open(read_config(self.folder, self.findings))

    @contextmanager
    def holding(self, operation: str, *, actor: str | None) -> Iterator[tuple[Cluster, Desired]]:
        """Open the cluster of the folder with its desired configuration, and hold its lock."""
        self.desired = read_desired(self.folder, self.findings)
        cluster = self._open(self.desired.config)
        lock = cluster.make_lock(operation, actor=actor) if self.desired.config.is_locked else None
        with hold_lock(lock, cluster.objects, self.findings):
            self.acquired = lock
            yield cluster, self.desired

    def heading(self) -> Heading:
        """The beginning of the report; must be called last, after all findings."""
        return Heading(str(self.folder), tuple(self.findings))

    def facts(self) -> StateFacts | None:
        """The current state and lock; None if the cluster could not be opened."""
        if self.cluster is None:
            return None
        root, objects = self.cluster.root.uri.rstrip("/"), self.cluster.objects
        stored: StoredState | None = None
        held: Lock | None = None
        with self.findings.stopping():
            stored = find_ledger(objects)
        with self.findings.stopping():
            held = find_lock(objects)
        return StateFacts(
            state_path=f"{root}/{STATE_PATH}",
            lock_path=f"{root}/{LOCK_PATH}",
            ledger=None if stored is None else stored.ledger,
            cas=None if stored is None else stored.cas,
            held=held,
            held_s=None if held is None else _age_of(held, self.context.runtime.now()),
            acquired=self.acquired,
        )

    def _open(self, config: ClusterConfig) -> Cluster:
        self.findings.require_no_errors()
        self.cluster = open_configured(config, self.folder, self.context)
        return self.cluster


def _age_of(lock: Lock, now: datetime) -> int | None:
    try:
        return max(0, int((now - datetime.fromisoformat(lock.created_at)).total_seconds()))
    except (ValueError, TypeError):
        return None


def preview_migrations(
    desired: Desired, ledger: ClusterState, graphs: ClusterGraphs, findings: Findings
) -> dict[str, Migration]:
    """The migration steps of each graph whose schema changes."""
    found: dict[str, Migration] = {}
    for id, graph in desired.graphs.items():
        applied = ledger.find_digest(schema_address(id))
        if applied is None or applied == graph.schema_digest:
            continue
        try:
            observed = graphs.observe(id)
            if isinstance(observed, Live):
                blockers = graphs.find_blockers(id, graph.schema)
                found[id] = plan_steps(observed.schema, graph.schema, blockers=blockers)
                continue
            reason = "the graph does not exist or cannot be opened"
        except GraphError as error:
            reason = str(error)
        findings.warn(
            "schema_preview_unavailable",
            schema_address(id),
            f"the steps are unknown: {reason}; run `omnigraph cluster refresh` to read the graph "
            "again",
        )
    for id, migration in found.items():
        if not migration.is_supported:
            reason = "; ".join(migration.blockers) or "a step is not supported"
            findings.warn(
                "apply_unsupported_change",
                schema_address(id),
                f"the schema of {graph_address(id)} cannot be migrated to this one; an apply would "
                f"reject it: {reason}",
            )
    return found


def plan_steps(accepted: str, desired: Source, *, blockers: tuple[str, ...]) -> Migration:
    """The migration steps from one schema to another."""
    plan = plan_migration(
        compile_schema(Source("<accepted>", accepted)),
        compile_schema(desired),
        source=desired,
        allow_data_loss=False,
    )
    return Migration(
        is_supported=plan.supported and not blockers,
        steps=tuple({**encode_step(each)} for each in plan.steps),
        described=tuple(describe_step(each) for each in plan.steps),
        blockers=blockers,
    )


def plan(folder: Path, context: ClusterContext) -> PlanReport:
    """Report what an apply would do; a cluster without a state counts as empty."""
    session = Session(folder, context, Findings())
    made: Plan | None = None
    with session.findings.stopping(), session.holding("plan", actor=None) as (cluster, desired):
        stored = find_ledger(cluster.objects)
        if stored is None:
            session.findings.warn(
                "state_missing",
                STATE_PATH,
                "the cluster has no state yet; `omnigraph cluster import` creates it, which an "
                "apply needs",
            )
        ledger = EMPTY if stored is None else stored.ledger
        pending = warn_pending(cluster, session.findings)
        made = plan_changes(cluster, desired, ledger, pending, session.findings)
    facts = session.facts()
    return PlanReport(session.heading(), session.desired, facts, made)


def plan_changes(
    cluster: Cluster,
    desired: Desired,
    ledger: ClusterState,
    pending: frozenset[str],
    findings: Findings,
) -> Plan:
    """The plan of the cluster in its current state, with warnings about stale approvals."""
    made = make_plan(
        desired,
        ledger,
        pending=pending,
        approvals=list_approvals(cluster.objects, findings),
        migrations=preview_migrations(desired, ledger, cluster.graphs, findings),
    )
    for each in made.stale:
        findings.warn(
            "approval_stale",
            each.path,
            f"{each.approved_by} approved to {each.operation} {each.resource} in an earlier state; "
            "it has changed since, so the approval is void; approve again",
        )
    return made


def warn_pending(cluster: Cluster, findings: Findings) -> frozenset[str]:
    """The graphs with an interrupted change, each with a warning."""
    sidecars, faults = list_sidecars(cluster.objects)
    findings.add(faults)
    for each in sidecars:
        findings.warn(
            "cluster_recovery_pending",
            graph_address(each.graph_id),
            f"`{each.kind}` of {each.started_at} was interrupted; `omnigraph cluster apply` "
            "recovers it first",
        )
    return frozenset(each.graph_id for each in sidecars)


def approve(
    folder: Path, context: ClusterContext, *, resource: str, actor: str | None
) -> ApproveReport:
    """Record an approval to delete a graph.

    Rejected unless the deletion of the graph is waiting for an approval.
    """
    session = Session(folder, context, Findings())
    approval: Approval | None = None
    with session.findings.stopping():
        if actor is None:
            raise stopped(
                "actor_required",
                resource,
                "an approval needs an actor: --as <actor>, or `operator.actor` in the "
                "configuration; nothing was approved",
            )
        with session.holding("approve", actor=actor) as (cluster, desired):
            approval = _make(cluster, desired, resource, actor, session.findings)
            write_approval(approval, cluster.objects)
    facts = session.facts()
    heading = session.heading()
    return ApproveReport(heading, facts, approval if heading.is_ok else None)


def _make(
    cluster: Cluster, desired: Desired, resource: str, actor: str, findings: Findings
) -> Approval:
    ledger = get_ledger(cluster.objects).ledger
    pending = warn_pending(cluster, findings)
    findings.require_no_errors()
    plan = plan_changes(cluster, desired, ledger, pending, findings)
    if resource not in {each.resource for each in plan.gates}:
        waiting = ", ".join(each.resource for each in plan.gates) or "nothing"
        raise stopped(
            "approval_not_required",
            resource,
            f"it has no deletion to approve; pending deletions: {waiting}",
        )
    return Approval(
        id=cluster.context.runtime.new_id(),
        resource=resource,
        operation=str(Operation.DELETE),
        config_digest=desired.config_digest,
        before_digest=ledger.find_digest(resource),
        after_digest=None,
        approved_by=actor,
        approved_at=cluster.now(),
        consumed_at=None,
    )


def status(folder: Path, context: ClusterContext) -> StateReport:
    """Report the state of a cluster; writes nothing and does not wait for the lock."""
    session = Session(folder, context, Findings())
    with session.findings.stopping():
        cluster = session.open()
        warn_pending(cluster, session.findings)
    facts = session.facts()
    if session.cluster is not None and facts is not None:
        if facts.ledger is not None:
            _warn_blobs(session.cluster, facts.ledger.digests, session.findings)
        elif facts.cas is None and not session.findings.has_errors:
            session.findings.warn(
                "state_missing",
                STATE_PATH,
                "the cluster has no state yet; `omnigraph cluster import` creates it",
            )
    return StateReport(session.heading(), None, facts)


def force_unlock(folder: Path, context: ClusterContext, *, lock_id: str) -> UnlockReport:
    """Delete the lock with exactly this id."""
    session = Session(folder, context, Findings())
    removed: Lock | None = None
    with session.findings.stopping():
        cluster = session.open()
        own = cluster.make_lock("force-unlock", actor=None)
        removed = break_lock(lock_id, own, cluster.objects)
    facts = session.facts()
    return UnlockReport(session.heading(), facts, removed)


def _warn_blobs(cluster: Cluster, digests: dict[str, str], findings: Findings) -> None:
    for address, digest in sorted(digests.items()):
        found = check_blob(address, digest, cluster.objects) if has_blob(address) else None
        if isinstance(found, BadBlob):
            code = (
                "catalog_payload_read_error"
                if found.fault is BlobFault.UNREADABLE
                else f"catalog_{found.fault}"
            )
            findings.warn(
                code, address, f"{found.message}; `omnigraph cluster refresh`, then `apply`"
            )


def refresh(folder: Path, context: ClusterContext, *, actor: str | None) -> StateReport:
    """Inspect every graph and content again, and write the results to the state."""
    session = Session(folder, context, Findings())
    with session.findings.stopping(), session.holding("refresh", actor=actor) as (cluster, desired):
        stored = get_ledger(cluster.objects)
        approvals = list_approvals(cluster.objects, session.findings)
        swept = sweep(cluster, stored.ledger, approvals, session.findings)
        ledger = _observe_graphs(cluster, desired, swept, session.findings)
        ledger = _check_blobs(cluster, ledger, session.findings)
        replace_ledger(ledger, over=stored, objects=cluster.objects)
        retire(cluster, swept.retired, session.findings)
    facts = session.facts()
    return StateReport(session.heading(), "refresh", facts)


def import_cluster(folder: Path, context: ClusterContext, *, actor: str | None) -> StateReport:
    """Write the first state of a cluster, with the actual state of existing graphs."""
    session = Session(folder, context, Findings())
    with session.findings.stopping(), session.holding("import", actor=actor) as (cluster, desired):
        if find_ledger(cluster.objects) is not None:
            raise StoppedError(STATE_EXISTS)
        swept = sweep(cluster, EMPTY, (), session.findings)
        ledger = _observe_graphs(cluster, desired, swept, session.findings)
        # If the state omitted an existing graph, an apply would try to create it again.
        session.findings.require_no_errors()
        create_ledger(replace(ledger, revision=1), cluster.objects)
        retire(cluster, swept.retired, session.findings)
    facts = session.facts()
    return StateReport(session.heading(), "import", facts)


def _observe_graphs(
    cluster: Cluster, desired: Desired, swept: Swept, findings: Findings
) -> ClusterState:
    ledger = swept.ledger
    for id in sorted({*desired.config.graphs, *ledger.graph_ids()} - swept.pending):
        address, uri = graph_address(id), cluster.graphs.uri_of(id)
        with stop_on_storage_error("graph_observation_error", address):
            found = cluster.graphs.observe(id)
        match found:
            case Absent():
                said = f"there is no graph at {uri}"
                findings.warn("graph_missing", address, f"{said}; an apply creates it")
                ledger = (
                    ledger.without(address, schema_address(id))
                    .with_status(address, ResourceStatus(Status.DRIFTED, ("graph_missing",), said))
                    .observing(address, {"kind": "graph", "exists": False})
                )
            case UnfinishedGraph(reason=reason) | Broken(reason=reason):
                findings.error(
                    "graph_observation_error", address, f"{uri} cannot be opened: {reason}"
                )
                failed = ResourceStatus(Status.ERROR, ("graph_unreadable",), reason)
                ledger = ledger.with_status(address, failed)
            case Live():
                ledger = _observe_live(id, ledger, found, findings)
    return ledger


def _observe_live(id: str, ledger: ClusterState, live: Live, findings: Findings) -> ClusterState:
    known = ledger.find_digest(schema_address(id))
    meaning = ledger.observations.get(graph_address(id), {}).get("schema_meaning")
    if known is None or live.is_of(known, meaning):
        return with_live(ledger, id, live, digest=known or live.digest, status=APPLIED)
    message = "the schema of the graph was changed directly; an apply changes it back"
    findings.warn("schema_drifted", schema_address(id), message)
    drifted = ResourceStatus(Status.DRIFTED, ("schema_changed",), message)
    return with_live(ledger, id, live, digest=live.digest, status=drifted)


def _check_blobs(cluster: Cluster, ledger: ClusterState, findings: Findings) -> ClusterState:
    for address, resource in ledger.resources.items():
        if not has_blob(address):
            continue
        found = check_blob(address, resource.digest, cluster.objects)
        if not isinstance(found, BadBlob):
            ledger = ledger.with_status(address, APPLIED)
            continue
        if found.fault is BlobFault.UNREADABLE:
            # The content may be intact: its applied version remains, and an operator has to check
            # it.
            findings.error("catalog_payload_read_error", address, found.message)
            failed = ResourceStatus(Status.ERROR, (str(found.fault),), found.message)
            ledger = ledger.with_status(address, failed)
            continue
        findings.warn(
            f"catalog_{found.fault}", address, f"{found.message}; an apply publishes it again"
        )
        drifted = ResourceStatus(Status.DRIFTED, (str(found.fault),), found.message)
        ledger = ledger.without(address).with_status(address, drifted)
    for id in ledger.graph_ids():
        applied = ledger.resources[graph_address(id)]
        ledger = ledger.with_graph_digest(id, provider=applied.embedding_provider)
    return ledger
