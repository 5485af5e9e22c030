"""`approve`: somebody agrees to a deletion that is planned now.

What is kept binds their word to the configuration and to the graph as both are at this moment.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.approvals import Approval, write_approval
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.findings import Findings, StoppedError, error_finding
from omnigraph.cluster.ledger import get_ledger
from omnigraph.cluster.plan import Operation
from omnigraph.cluster.planning import plan_changes, warn_pending
from omnigraph.cluster.reports import ApproveReport
from omnigraph.cluster.session import Session
from omnigraph.cluster.world import Cluster, World


def approve(folder: Path, world: World, *, resource: str, actor: str | None) -> ApproveReport:
    """Keep somebody's word that a graph may go; refused unless its deletion waits for one."""
    session = Session(folder, world, Findings())
    approval: Approval | None = None
    with session.findings.stopping():
        if actor is None:
            raise StoppedError(error_finding("actor_required", resource, _NOBODY))
        cluster, desired = session.open_desired()
        with session.holding("approve", is_locked=desired.config.is_locked, actor=actor):
            approval = _make(cluster, desired, resource, actor, session.findings)
            write_approval(approval, cluster.objects)
    facts = session.facts()
    heading = session.heading()
    return ApproveReport(heading, facts, approval if heading.is_ok else None)


_NOBODY = (
    "an approval needs somebody's name: --as <actor>, or `operator.actor` in the configuration; "
    "nothing was approved"
)


def _make(
    cluster: Cluster, desired: Desired, resource: str, actor: str, findings: Findings
) -> Approval:
    ledger = get_ledger(cluster.objects).ledger
    pending = warn_pending(cluster, findings)
    findings.require_no_errors()
    plan = plan_changes(cluster, desired, ledger, pending, findings)
    if resource not in {each.resource for each in plan.gates}:
        waiting = ", ".join(each.resource for each in plan.gates) or "nothing"
        raise StoppedError(
            error_finding(
                "approval_not_required",
                resource,
                f"no deletion of it waits for approval; waiting: {waiting}",
            )
        )
    return Approval(
        id=cluster.world.runtime.new_id(),
        resource=resource,
        operation=str(Operation.DELETE),
        config_digest=desired.config_digest,
        before_digest=ledger.find_digest(resource),
        after_digest=None,
        approved_by=actor,
        approved_at=cluster.now(),
        consumed_at=None,
    )
