"""The command group `cluster`, and its reports as text.

Text and JSON output are made from the same reports. A command exits with 1 if its report contains
an error. `validate` reads the files of a folder only; the other commands import the control plane,
and with it the engine, when they run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import (
    Colour,
    Terminal,
    print_note,
    show_count,
)
from omnigraph.cluster import reports
from omnigraph.cluster.config import CONFIG_FILE
from omnigraph.cluster.desired import read_desired
from omnigraph.cluster.plan import Change, Disposition, Operation
from omnigraph.cluster.resources import Finding, Findings
from omnigraph.cluster.state import ResourceStatus, Status
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Severity
from omnigraph.storage.environment import expand_home, make_storage_options

if TYPE_CHECKING:
    from omnigraph.cluster import apply as applying
    from omnigraph.cluster import commands, context
else:
    # Imported lazily: they import the engine, which `validate` does not need.
    applying = lazy_module("omnigraph.cluster.apply")
    commands = lazy_module("omnigraph.cluster.commands")
    context = lazy_module("omnigraph.cluster.context")

_SIGN = {Operation.CREATE: "+", Operation.UPDATE: "~", Operation.DELETE: "-"}
_COLOUR = {
    Operation.CREATE: Colour.GREEN,
    Operation.UPDATE: Colour.YELLOW,
    Operation.DELETE: Colour.RED,
}
_PAST = {Operation.CREATE: "created", Operation.UPDATE: "updated", Operation.DELETE: "deleted"}
_COLOUR_BY_STATUS = {Status.APPLIED: Colour.GREEN, Status.ERROR: Colour.RED}
_INDENT = "    "


def view_findings(findings: Iterable[Finding], terminal: Terminal) -> Iterator[str]:
    """One line per finding, errors first, then warnings."""
    for severity, word, colour in (
        (Severity.ERROR, "ERROR", Colour.RED),
        (Severity.WARNING, "WARN ", Colour.YELLOW),
    ):
        for each in findings:
            if each.severity is severity:
                messages = each.message.replace("\n", "\n       ")
                yield f"{terminal.paint(word, colour)}  {each.code} {each.path}: {messages}"


def view_validation(report: reports.ValidateReport, terminal: Terminal) -> Iterator[str]:
    """The resources that a folder declares."""
    if report.desired is None:
        return
    for each in report.desired.resources.values():
        path = "" if each.path is None else terminal.paint(f"  {each.path}", Colour.FAINT)
        yield f"  {each.address}{path}"
    yield f"{report.config_file} is valid: {show_count(len(report.desired.resources), 'resource')}"


def format_plan(report: reports.PlanReport, terminal: Terminal) -> Iterator[str]:
    """The changes of an apply."""
    plan = report.plan
    if plan is None:
        return
    if not plan.changes:
        yield "No changes: the applied state matches the declarations."
        return
    for change in plan.changes:
        yield from _view_change(change, terminal)
        affected = [each.affected for each in plan.reaches if each.resource == change.resource]
        for resources in affected:
            yield terminal.paint(f"{_INDENT}  affects {', '.join(resources)}", Colour.FAINT)
    yield f"Plan: {_describe_counts(plan.changes)}."
    for gate in plan.gates:
        if gate.approval is None:
            yield (
                f"{gate.resource} {gate.reason}: to approve, run "
                f"`omnigraph cluster approve {gate.resource} --as <actor>`"
            )


def view_apply(report: reports.ApplyReport, terminal: Terminal) -> Iterator[str]:
    """The changes that an apply made."""
    if report.facts is None or report.facts.ledger is None:
        return
    if not report.changes and not report.is_converged:
        # It failed before the changes; the findings have the reason.
        return
    for change in report.changes:
        yield from _view_change(change, terminal)
    revision = report.facts.ledger.revision
    if report.is_converged and not report.changes:
        yield f"No changes; revision {revision}."
    elif report.is_converged:
        done = Counter(each.operation for each in report.changes)
        counts = [f"{done[each]} {word}" for each, word in _PAST.items() if done[each]]
        yield f"Applied: {', '.join(counts)}; revision {revision}."
    else:
        yield (
            f"Not converged: {report.applied_count} applied, {report.deferred_count} left; "
            f"revision {revision}."
        )


def view_approval(report: reports.ApproveReport) -> Iterator[str]:
    """The approval, and its scope."""
    if report.approval is not None:
        given = report.approval
        yield f"{given.approved_by} approved to {given.operation} {given.resource} ({given.id})"
        yield "It is valid for the current declarations; `omnigraph cluster apply` uses it."


def view_state(report: reports.StateReport, terminal: Terminal) -> Iterator[str]:
    """The applied state and the lock, if it is held."""
    facts = report.facts
    if facts is None:
        return
    if facts.held is not None:
        age = "" if facts.held_s is None else f", {_describe_age(facts.held_s)} ago"
        yield f"locked: {facts.held.describe()}{age}; lock {facts.held.id}"
    if facts.ledger is None:
        yield "no state"
        return
    ledger = facts.ledger
    for address in sorted({*ledger.resources, *ledger.statuses}):
        found = ledger.statuses.get(address, ResourceStatus(Status.APPLIED, (), None))
        colour = _COLOUR_BY_STATUS.get(found.status, Colour.YELLOW)
        conditions = f" ({', '.join(found.conditions)})" if found.conditions else ""
        yield f"  {terminal.paint(f'{found.status:<8}', colour)} {address}{conditions}"
        if found.message and not any(
            found.message in each.message for each in report.heading.findings
        ):
            yield terminal.paint(f"{_INDENT}  {found.message}", Colour.FAINT)
    digest = ledger.config_digest
    applied = "not fully applied" if digest is None else f"configuration {digest[:12]}"
    resources = show_count(len(ledger.resources), "resource")
    yield f"revision {ledger.revision}: {resources}, {applied}"


def view_unlock(report: reports.UnlockReport) -> Iterator[str]:
    """The lock that was removed."""
    if report.removed is not None:
        yield f"unlocked: {report.removed.id}, which was held by {report.removed.describe()}"


def _view_change(change: Change, terminal: Terminal) -> Iterator[str]:
    sign = terminal.paint(_SIGN[change.operation], _COLOUR[change.operation])
    yield f"  {sign} {change.resource}{_describe_disposition(change)}"
    for step in () if change.migration is None else change.migration.described:
        yield f"{_INDENT}  {step}"
    if change.migration is not None and not change.migration.is_supported:
        yield f"{_INDENT}  not supported: an apply would reject it"
        yield from (f"{_INDENT}  blocked: {each}" for each in change.migration.blockers)


def _describe_disposition(change: Change) -> str:
    match change.disposition:
        case Disposition.BLOCKED | Disposition.DEFERRED:
            return f"  [{change.disposition}: {change.reason}]"
        case Disposition.DERIVED:
            return "  [through its parts]"
        case Disposition.APPLIED:
            return "  [bindings]" if change.is_binding_change else ""


def _describe_counts(changes: Sequence[Change]) -> str:
    going = Counter(
        each.operation
        for each in changes
        if each.disposition in (Disposition.APPLIED, Disposition.DERIVED)
    )
    counts = [f"{going[operation]} to {operation}" for operation in Operation]
    blocked = len(changes) - going.total()
    return ", ".join([*counts, *([f"{blocked} blocked"] if blocked else [])])


def _describe_age(seconds: int) -> str:
    for noun, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {noun}s"
    return show_count(seconds, "second")


_CONFIG_OPTION = click.option(
    "--config",
    "folder",
    metavar="DIR",
    default=".",
    show_default=True,
    callback=lambda _context, _parameter, value: expand_home(value),
    help="The folder with `cluster.yaml`.",
)


@command(_CONFIG_OPTION, JSON_OPTION)
def validate(invocation: Invocation, *, folder: Path) -> None:
    """Check the declarations of a folder: schemas, queries, policies and how they fit together."""
    findings = Findings()
    desired = None
    with findings.stopping():
        desired = read_desired(folder, findings)
    heading = reports.Heading(str(folder), tuple(findings))
    report = reports.ValidateReport(heading, str(folder / CONFIG_FILE), desired)
    _print_report(invocation, report, view_validation(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
def plan(invocation: Invocation, *, folder: Path) -> None:
    """Show what an apply would change, in which steps, and what that affects."""
    report = commands.plan(folder, _make_context(invocation))
    _print_report(invocation, report, format_plan(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
def apply(invocation: Invocation, *, folder: Path) -> None:
    """Apply the declarations of a folder to its cluster.

    Creates and migrates graphs, and publishes queries and policies. Changes that delete rows wait
    for an approval with `omnigraph cluster approve`. Safe to run again at any time.
    """
    with invocation.waiting("applying"):
        report = applying.apply(folder, _make_context(invocation), actor=invocation.actor)
    _print_report(invocation, report, view_apply(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
@click.argument("resource")
def approve(invocation: Invocation, *, resource: str, folder: Path) -> None:
    """Approve a pending deletion, such as that of `graph.old`."""
    report = commands.approve(
        folder, _make_context(invocation), resource=resource, actor=invocation.actor
    )
    _print_report(invocation, report, view_approval(report))


@command(_CONFIG_OPTION, JSON_OPTION)
def status(invocation: Invocation, *, folder: Path) -> None:
    """Show the applied state, the status of each resource, and the lock; changes nothing."""
    report = commands.status(folder, _make_context(invocation))
    _print_report(invocation, report, view_state(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
def refresh(invocation: Invocation, *, folder: Path) -> None:
    """Check graphs and stored contents again, and record their state."""
    report = commands.refresh(folder, _make_context(invocation), actor=invocation.actor)
    _print_report(invocation, report, view_state(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
def import_state(invocation: Invocation, *, folder: Path) -> None:
    """Initialize the state of a cluster, with the graphs that exist already."""
    report = commands.import_cluster(folder, _make_context(invocation), actor=invocation.actor)
    _print_report(invocation, report, view_state(report, invocation.terminal))


@command(_CONFIG_OPTION, JSON_OPTION)
@click.argument("lock_id")
def force_unlock(invocation: Invocation, *, lock_id: str, folder: Path) -> None:
    """Remove the lock with this id; use it only if the holder no longer runs."""
    report = commands.force_unlock(folder, _make_context(invocation), lock_id=lock_id)
    _print_report(invocation, report, view_unlock(report))


def _make_context(invocation: Invocation) -> context.ClusterContext:
    options = make_storage_options(invocation.environment, {})
    return context.make_context(storage_options=options, durability="full")


def _print_report(invocation: Invocation, report: reports.Report, lines: Iterable[str]) -> None:
    """Print a report; exit with 1 if it contains an error."""
    findings = view_findings(report.heading.findings, invocation.terminal)
    invocation.print_output(reports.encode_report(report), chain(lines, findings))
    if not report.heading.is_ok:
        if not invocation.is_json:
            verb = click.get_current_context().info_name
            print_note(f"Error: `cluster {verb}` failed; see the diagnostics above")
        sys.exit(1)
