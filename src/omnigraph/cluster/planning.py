"""`plan`: looking at what an apply would do.

Writes nothing but the lock that it holds while it looks.
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.cluster.addresses import graph_address
from omnigraph.cluster.approvals import list_approvals
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.findings import Findings
from omnigraph.cluster.ledger import EMPTY, STATE_PATH, Ledger, find_ledger
from omnigraph.cluster.plan import Plan, make_plan
from omnigraph.cluster.previews import preview_migrations
from omnigraph.cluster.recoveries import list_sidecars
from omnigraph.cluster.reports import PlanReport
from omnigraph.cluster.session import Session
from omnigraph.cluster.world import Cluster, World


def plan(folder: Path, world: World) -> PlanReport:
    """Tell what an apply would do; a cluster without a state is an empty one."""
    session = Session(folder, world, Findings())
    made: Plan | None = None
    with session.findings.stopping():
        cluster, desired = session.open_desired()
        with session.holding("plan", is_locked=desired.config.is_locked, actor=None):
            stored = find_ledger(cluster.objects)
            if stored is None:
                session.findings.warn(
                    "state_missing",
                    STATE_PATH,
                    "the cluster has no state yet; `omnigraph cluster import` makes one, which an "
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
    ledger: Ledger,
    pending: frozenset[str],
    findings: Findings,
) -> Plan:
    """The plan of a cluster as it is, with warnings about approvals that no longer count."""
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
            f"{each.approved_by} approved to {each.operation} {each.resource} as it was, and "
            "something has changed since; it counts for nothing; approve again",
        )
    return made


def warn_pending(cluster: Cluster, findings: Findings) -> frozenset[str]:
    """The graphs with a change that stopped on its way, each with a warning."""
    listed = list_sidecars(cluster.objects)
    findings.add(listed.faults)
    for each in listed.sidecars:
        findings.warn(
            "cluster_recovery_pending",
            graph_address(each.graph_id),
            f"`{each.kind}` of {each.started_at} was not finished; `omnigraph cluster apply` "
            "settles it first",
        )
    return frozenset(each.graph_id for each in listed.sidecars)
