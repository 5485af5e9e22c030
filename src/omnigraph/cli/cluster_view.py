"""What cluster commands say to people: plans as a difference, states as lists, findings as lines.

Made of the same reports as the JSON. Prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.cli.terminal import Colour, Terminal
from omnigraph.cluster.findings import Finding
from omnigraph.cluster.ledger import Ledger, ResourceStatus, Status
from omnigraph.cluster.plan import Change, Disposition, Operation, Plan
from omnigraph.cluster.reports import (
    ApplyReport,
    ApproveReport,
    PlanReport,
    StateReport,
    UnlockReport,
    ValidateReport,
)
from omnigraph.model.source import Severity

_SIGN = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-"}
_COLOUR = {
    Operation.CREATE: Colour.GREEN,
    Operation.UPDATE: Colour.YELLOW,
    Operation.DELETE: Colour.RED,
}
_PAST = {
    Operation.CREATE: "created",
    Operation.UPDATE: "updated",
    Operation.DELETE: "deleted",
}
_COLOUR_BY_STATUS = {Status.APPLIED: Colour.GREEN, Status.ERROR: Colour.RED}
_INDENT = "    "


def view_findings(findings: Iterable[Finding], terminal: Terminal) -> Iterator[str]:
    """Errors first, then warnings, a line each."""
    for severity, word, colour in (
        (Severity.ERROR, "ERROR", Colour.RED),
        (Severity.WARNING, "WARN ", Colour.YELLOW),
    ):
        for each in findings:
            if each.severity is severity:
                told = each.message.replace("\n", "\n       ")
                yield f"{terminal.paint(word, colour)}  {each.code} {each.path}: {told}"


def view_validation(report: ValidateReport, terminal: Terminal) -> Iterator[str]:
    """What a folder declares."""
    if report.desired is None:
        return
    for each in report.desired.resources.values():
        path = "" if each.path is None else terminal.paint(f"  {each.path}", Colour.FAINT)
        yield f"  {each.address}{path}"
    yield f"{report.config_file} is valid: {_count(len(report.desired.resources), 'resource')}"


def view_plan(report: PlanReport, terminal: Terminal) -> Iterator[str]:
    """What an apply would change."""
    plan = report.plan
    if plan is None:
        return
    if not plan.changes:
        yield "Nothing to change: what is applied is what is declared."
        return
    for change in plan.changes:
        yield from _view_change(change, terminal)
        yield from _view_reach(plan, change, terminal)
    yield f"Plan: {_tell_counts(plan.changes)}."
    for gate in plan.gates:
        if gate.approval is None:
            yield (
                f"{gate.resource} {gate.reason}: to agree, "
                f"`omnigraph cluster approve {gate.resource} --as <actor>`"
            )


def view_apply(report: ApplyReport, terminal: Terminal) -> Iterator[str]:
    """What an apply has changed."""
    if report.facts is None or report.facts.ledger is None:
        return
    if not report.changes and not report.is_converged:
        # It never came to the changes; why is among the findings.
        return
    for change in report.changes:
        yield from _view_change(change, terminal)
    revision = report.facts.ledger.revision
    if report.is_converged and not report.changes:
        yield f"Nothing to change; revision {revision}."
    elif report.is_converged:
        counts = ", ".join(
            f"{count} {word}"
            for operation, word in _PAST.items()
            if (count := sum(each.operation is operation for each in report.changes))
        )
        yield f"Applied: {counts}; revision {revision}."
    else:
        yield (
            f"Not converged: {report.applied_count} applied, {report.deferred_count} left; "
            f"revision {revision}."
        )


def view_approval(report: ApproveReport) -> Iterator[str]:
    """Who agreed to what."""
    if report.approval is not None:
        given = report.approval
        yield f"{given.approved_by} approved to {given.operation} {given.resource} ({given.id})"
        yield "It counts for the cluster as it is declared now; `omnigraph cluster apply` uses it."


def view_state(report: StateReport, terminal: Terminal) -> Iterator[str]:
    """What is applied, and who is at work."""
    facts = report.facts
    if facts is None:
        return
    if facts.held is not None:
        age = "" if facts.held_s is None else f", {_tell_age(facts.held_s)} ago"
        yield f"locked: {facts.held.describe()}{age}; lock {facts.held.id}"
    if facts.ledger is None:
        yield "no state"
        return
    told = [each.message for each in report.heading.findings]
    yield from _view_ledger(facts.ledger, told, terminal)
    digest = facts.ledger.config_digest
    applied = "not all applied yet" if digest is None else f"configuration {digest[:12]}"
    resources = _count(len(facts.ledger.resources), "resource")
    yield f"revision {facts.ledger.revision}: {resources}, {applied}"


def view_unlock(report: UnlockReport) -> Iterator[str]:
    """Which lock is gone."""
    if report.removed is not None:
        yield f"unlocked: {report.removed.id}, which was held for {report.removed.describe()}"


def _view_ledger(ledger: Ledger, told: list[str], terminal: Terminal) -> Iterator[str]:
    for address in sorted({*ledger.resources, *ledger.statuses}):
        found = ledger.statuses.get(address, ResourceStatus(Status.APPLIED, (), None))
        colour = _COLOUR_BY_STATUS.get(found.status, Colour.YELLOW)
        conditions = f" ({', '.join(found.conditions)})" if found.conditions else ""
        yield f"  {terminal.paint(f'{found.status:<8}', colour)} {address}{conditions}"
        if found.message and not any(found.message in each for each in told):
            yield terminal.paint(f"{_INDENT}  {found.message}", Colour.FAINT)


def _view_change(change: Change, terminal: Terminal) -> Iterator[str]:
    sign = terminal.paint(_SIGN[change.operation], _COLOUR[change.operation])
    yield f"  {sign} {change.resource}{_tell_disposition(change)}"
    for step in () if change.migration is None else change.migration.described:
        yield f"{_INDENT}  {step}"
    if change.migration is not None and not change.migration.is_supported:
        yield f"{_INDENT}  not supported: an apply would refuse it"


def _view_reach(plan: Plan, change: Change, terminal: Terminal) -> Iterator[str]:
    for reach in plan.reaches:
        if reach.resource == change.resource:
            yield terminal.paint(f"{_INDENT}  affects {', '.join(reach.affected)}", Colour.FAINT)


def _tell_disposition(change: Change) -> str:
    match change.disposition:
        case Disposition.BLOCKED | Disposition.DEFERRED:
            return f"  [{change.disposition}: {change.reason}]"
        case Disposition.DERIVED:
            return "  [by its parts]"
        case Disposition.APPLIED:
            return "  [bindings]" if change.is_binding_change else ""


def _tell_counts(changes: Iterable[Change]) -> str:
    going = [
        each for each in changes if each.disposition in (Disposition.APPLIED, Disposition.DERIVED)
    ]
    left = [
        each for each in changes if each.disposition in (Disposition.BLOCKED, Disposition.DEFERRED)
    ]
    counts = [
        f"{sum(each.operation is operation for each in going)} to {operation}"
        for operation in Operation
    ]
    return ", ".join([*counts, *([f"{len(left)} blocked"] if left else [])])


def _tell_age(seconds: int) -> str:
    for noun, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {noun}s"
    return _count(seconds, "second")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
