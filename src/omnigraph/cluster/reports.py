"""The reports of cluster commands, and their JSON.

A report is complete on failure too: unknown parts are empty. This is the only module that knows the
names of the fields that programs read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from omnigraph.cluster.approvals import Approval
from omnigraph.cluster.desired import Desired
from omnigraph.cluster.lock import Lock
from omnigraph.cluster.plan import Change, Plan
from omnigraph.cluster.resources import Finding, kind_of
from omnigraph.cluster.state import ClusterState, encode_statuses, without_none
from omnigraph.model.source import Severity


@dataclass(frozen=True, slots=True)
class Heading:
    """The beginning of every report: the folder and the findings."""

    folder: str
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Whether there are no errors."""
        return not any(each.severity is Severity.ERROR for each in self.findings)


@dataclass(frozen=True, slots=True)
class StateFacts:
    """The state and the lock as found; `acquired` is the lock that the command itself held."""

    state_path: str
    lock_path: str
    ledger: ClusterState | None
    cas: str | None
    held: Lock | None
    held_s: int | None
    acquired: Lock | None


@dataclass(frozen=True, slots=True)
class ValidateReport:
    """The desired configuration of a folder, if it is valid."""

    heading: Heading
    config_file: str
    desired: Desired | None


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What an apply would do."""

    heading: Heading
    desired: Desired | None
    facts: StateFacts | None
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What an apply did."""

    heading: Heading
    actor: str | None
    desired: Desired | None
    facts: StateFacts | None
    changes: tuple[Change, ...]
    is_converged: bool
    is_written: bool

    @property
    def applied_count(self) -> int:
        """The number of changes made."""
        return sum(each.disposition == "applied" for each in self.changes)

    @property
    def deferred_count(self) -> int:
        """The number of changes not made."""
        return sum(each.disposition in ("deferred", "blocked") for each in self.changes)


@dataclass(frozen=True, slots=True)
class ApproveReport:
    """The approval that was recorded."""

    heading: Heading
    facts: StateFacts | None
    approval: Approval | None


@dataclass(frozen=True, slots=True)
class StateReport:
    """The current state; `operation` is the command that changed it, None if it was only read."""

    heading: Heading
    operation: str | None
    facts: StateFacts | None


@dataclass(frozen=True, slots=True)
class UnlockReport:
    """The lock that was deleted, if any."""

    heading: Heading
    facts: StateFacts | None
    removed: Lock | None


Report = ValidateReport | PlanReport | ApplyReport | ApproveReport | StateReport | UnlockReport


def encode_report(report: Report) -> dict[str, object]:
    """A report as the JSON object that programs read."""
    heading = report.heading
    return {
        "ok": heading.is_ok,
        "config_dir": heading.folder,
        **_encode_body(report),
        "diagnostics": [asdict(each) for each in heading.findings],
    }


def _encode_body(report: Report) -> dict[str, object]:
    match report:
        case ValidateReport(config_file=config_file, desired=desired):
            return {
                "config_file": config_file,
                "resource_digests": {} if desired is None else desired.digests,
                "resources": [
                    without_none(
                        {
                            "address": each.address,
                            "kind": kind_of(each.address),
                            "digest": each.entry.digest,
                            "path": each.path,
                        }
                    )
                    for each in ({} if desired is None else desired.resources).values()
                ],
                "dependencies": _encode_dependencies(desired),
            }
        case PlanReport(desired=desired, facts=facts, plan=plan):
            return {
                "desired_revision": _encode_revision(desired),
                "resource_digests": {} if desired is None else desired.digests,
                "dependencies": _encode_dependencies(desired),
                "state_observations": _encode_facts(facts),
                **_encode_plan(plan),
            }
        case ApplyReport(actor=actor, desired=desired, facts=facts, changes=changes):
            return {
                **without_none({"actor": actor}),
                "desired_revision": _encode_revision(desired),
                "state_observations": _encode_facts(facts),
                "changes": [encode_change(each) for each in changes],
                "applied_count": report.applied_count,
                "deferred_count": report.deferred_count,
                "converged": report.is_converged,
                "state_written": report.is_written,
                "resource_statuses": _encode_ledger_part(facts)["resource_statuses"],
            }
        case ApproveReport(facts=facts, approval=approval):
            given: dict[str, object] = {}
            if approval is not None:
                given = {
                    "approval_id": approval.id,
                    "resource": approval.resource,
                    "operation": approval.operation,
                    "approved_by": approval.approved_by,
                }
            return {**given, "state_observations": _encode_facts(facts)}
        case StateReport(operation=operation, facts=facts):
            return {
                **without_none({"operation": operation}),
                "state_observations": _encode_facts(facts),
                **_encode_ledger_part(facts),
            }
        case UnlockReport(facts=facts, removed=removed):
            return {
                "state_observations": _encode_facts(facts),
                "lock_removed": removed is not None,
            }


def _encode_plan(plan: Plan | None) -> dict[str, object]:
    if plan is None:
        return {"changes": [], "blast_radius": [], "approvals_required": []}
    return {
        "changes": [encode_change(each) for each in plan.changes],
        "blast_radius": [asdict(each) for each in plan.reaches],
        "approvals_required": [
            {
                "resource": each.resource,
                "reason": each.reason,
                "satisfied": each.approval is not None,
            }
            for each in plan.gates
        ],
    }


def encode_change(change: Change) -> dict[str, object]:
    """One change as a JSON object."""
    encoded = without_none(
        {
            "resource": change.resource,
            "operation": change.operation,
            "before_digest": change.before_digest,
            "after_digest": change.after_digest,
            "disposition": change.disposition,
            "reason": change.reason,
            "binding_change": True if change.is_binding_change else None,
            "metadata_change": change.metadata_change,
        }
    )
    if change.migration is not None:
        encoded["migration"] = {
            "supported": change.migration.is_supported,
            "steps": [dict(each) for each in change.migration.steps],
            "blockers": list(change.migration.blockers),
        }
    return encoded


def _encode_revision(desired: Desired | None) -> dict[str, object]:
    return {} if desired is None else {"config_digest": desired.config_digest}


def _encode_dependencies(desired: Desired | None) -> list[dict[str, object]]:
    dependencies = () if desired is None else desired.dependencies
    return [{"from": each.dependent, "to": each.needed} for each in dependencies]


def _encode_ledger_part(facts: StateFacts | None) -> dict[str, object]:
    ledger = None if facts is None else facts.ledger
    if ledger is None:
        return {"resource_digests": {}, "resource_statuses": {}, "observations": {}}
    return {
        "resource_digests": dict(sorted(ledger.digests.items())),
        "resource_statuses": encode_statuses(ledger.statuses),
        "observations": dict(sorted(ledger.observations.items())),
    }


def _encode_facts(facts: StateFacts | None) -> dict[str, object]:
    if facts is None:
        return {}
    ledger, held, acquired = facts.ledger, facts.held, facts.acquired
    lock = held if held is not None else acquired
    return without_none(
        {
            "state_path": facts.state_path,
            "lock_path": facts.lock_path,
            "state_found": ledger is not None,
            "applied_config_digest": None if ledger is None else ledger.config_digest,
            "state_revision": 0 if ledger is None else ledger.revision,
            "state_cas": facts.cas,
            "resource_count": 0 if ledger is None else len(ledger.resources),
            "locked": held is not None,
            "lock_id": None if held is None else held.id,
            "lock_acquired": acquired is not None,
            "acquired_lock_id": None if acquired is None else acquired.id,
            "lock_operation": None if lock is None else lock.operation,
            "lock_created_at": None if lock is None else lock.created_at,
            "lock_pid": None if lock is None else lock.process_id,
            "lock_age_seconds": facts.held_s,
        }
    )
