"""The commands `optimize`, `cleanup`, `repair`, `doctor`, `recoveries` and `storage check`.

Without `--confirm`, `cleanup` deletes nothing and `repair` adopts nothing. `doctor` changes nothing
and also opens graphs that are too damaged for other commands. `storage check` needs no graph and
removes the objects that it writes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.advice import find_fix_command, format_fix, write_command, write_options
from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, JSON_OPTION, URI_ARGUMENT, Duration
from omnigraph.cli.output import (
    Colour,
    CommandError,
    Terminal,
    print_note,
)
from omnigraph.cli.targets import StoreTarget, Target
from omnigraph.engine.maintenance.doctor_report import DoctorReport, Severity
from omnigraph.http.encode import recovery_output
from omnigraph.model.errors import GraphError, NotFoundError, plural
from omnigraph.model.runtime import SystemRuntime
from omnigraph.storage.environment import make_storage_options

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.maintenance.cleanup import CleanupReport
    from omnigraph.engine.maintenance.repair import RepairReport
    from omnigraph.engine.results import OptimizeReport
    from omnigraph.engine.state.history import Recovery
    from omnigraph.http.responses import RecoveryList
    from omnigraph.storage.check import CheckReport

_DRIFTED = "drift_needs_repair"
_REASON_BY_SKIPPED = {
    _DRIFTED: "it was written outside OmniGraph",
    "inherited_from_another_branch": "the branch has not changed it",
    "blob_columns_unsupported_by_lance": "it has blobs, which cannot be moved",
}


@command(URI_ARGUMENT, BRANCH_OPTION, JSON_OPTION)
def optimize(invocation: Invocation, *, branch: str) -> None:
    """Compact small files of a branch and update its indexes, as one commit.

    Query results stay the same; old files remain until `omnigraph cleanup` deletes them.
    """
    target = invocation.direct_target()
    invocation.announce("optimize", target)
    with invocation.open_direct(target, read_only=False) as graph, invocation.waiting("optimize"):
        reports = graph.optimize(branch=branch)
    payload = {"uri": target.uri, "tables": [_encode_table(each) for each in reports]}
    lines = (line for each in reports for line in _lines_of(each, target))
    invocation.print_output(payload, lines)


def _encode_table(report: OptimizeReport | CleanupReport | RepairReport) -> dict[str, object]:
    """The fields of a report; a type is identified by its `table_key`."""
    return {name: value for name, value in asdict(report).items() if name != "type"}


def _lines_of(report: OptimizeReport, target: Target) -> Iterator[str]:
    if report.skipped is not None:
        reason = _REASON_BY_SKIPPED.get(report.skipped, report.skipped)
        yield f"{report.table_key}: skipped, because {reason}"
        if report.skipped == _DRIFTED:
            yield f"    to see the changes, run: {write_command('repair', target=target)}"
    elif report.fragments_removed:
        yield (
            f"{report.table_key}: {report.fragments_removed:,} "
            f"{plural(report.fragments_removed, 'file')} became "
            f"{report.fragments_added:,}"
        )
    else:
        yield f"{report.table_key}: {'indexes renewed' if report.committed else 'nothing to do'}"
    for each in report.pending_indexes:
        yield f"    no index of {each.column} yet: {each.reason}"


@command(URI_ARGUMENT, JSON_OPTION)
@click.option("--keep", type=int, metavar="N", help="Keep the newest N versions of each type.")
@click.option(
    "--older-than",
    type=Duration(),
    metavar="DUR",
    help="Keep versions younger than this, such as 30m, 12h, 7d or 2w.",
)
@click.option("--confirm", "is_confirmed", is_flag=True, help="Delete; without it, only report.")
@click.option(
    "--trust-clock",
    "trusts_clock",
    is_flag=True,
    help="Proceed even if the newest commit is more than a year older than the system clock.",
)
def cleanup(
    invocation: Invocation,
    *,
    keep: int | None,
    older_than: timedelta | None,
    is_confirmed: bool,
    trusts_clock: bool,
) -> None:
    """Delete old versions of types that no branch, tag or reader needs.

    A version is retained if it is among the newest (--keep) or young enough (--older-than). Without
    --confirm nothing is deleted.
    """
    if keep is None and older_than is None:
        raise CommandError(
            "specify what to keep: --keep 10 for the newest ten versions of each type, "
            "--older-than 7d for younger versions, or both; nothing was deleted"
        )
    target = invocation.direct_target()
    if is_confirmed:
        invocation.confirm("delete old versions", target)
    invocation.announce("cleanup", target)
    with invocation.open_direct(target, read_only=False) as graph, invocation.waiting("clean up"):
        reports = graph.cleanup(
            keep, older_than, preview=not is_confirmed, trust_clock=trusts_clock
        )
    age_s = None if older_than is None else older_than // timedelta(seconds=1)
    if is_confirmed:
        payload = {
            "uri": target.uri,
            "keep_versions": keep,
            "older_than_secs": age_s,
            "tables": [_encode_table(each) for each in reports],
        }
        invocation.print_output(payload, _format_cleanup(reports, verb="deleted"))
    else:
        for line in _format_cleanup(reports, verb="would delete"):
            print_note(line)
        if any(each.old_versions_removed for each in reports):
            retained = None if keep is None else str(keep)
            age = None if age_s is None else f"{age_s}s"
            options = write_options([("--keep", retained), ("--older-than", age)])
            again = write_command("cleanup", *options, "--confirm", target=target)
            print_note(f"Nothing was deleted. To delete, run:\n\n  {again}")
    if any(each.error is not None for each in reports):
        sys.exit(1)


def _format_cleanup(reports: Sequence[CleanupReport], *, verb: str) -> Iterator[str]:
    for each in reports:
        yield (
            f"{each.table_key}: {verb} {each.old_versions_removed:,} "
            f"{plural(each.old_versions_removed, 'version')}, "
            f"{each.bytes_removed:,} {plural(each.bytes_removed, 'byte')}"
        )
        if each.error is not None:
            yield f"    incomplete: {each.error}"
    versions = sum(each.old_versions_removed for each in reports)
    size = sum(each.bytes_removed for each in reports)
    yield (
        f"{verb} {versions:,} {plural(versions, 'version')} in all, {size:,} {plural(size, 'byte')}"
    )


_FOUND_BY_CLASSIFICATION = {
    "no_drift": "unchanged",
    "verified_maintenance": "rewritten outside OmniGraph, with the same rows",
    "suspicious": "changed outside OmniGraph",
    "unverifiable": "changed outside OmniGraph in an unknown way",
}
_DONE_BY_ACTION = {
    "no_op": "",
    "preview": "",
    "healed": "; adopted",
    "forced": "; adopted by --force",
    "refused": "; refused",
}


@command(URI_ARGUMENT, JSON_OPTION)
@click.option(
    "--confirm", "is_confirmed", is_flag=True, help="Adopt changes that left the rows unchanged."
)
@click.option(
    "--relocate",
    "is_relocating",
    is_flag=True,
    help="Make the branches of a moved or copied graph refer to its own files; nothing else.",
)
@click.option("--force", "is_forced", is_flag=True, help="With --confirm: adopt all changes.")
def repair(
    invocation: Invocation, *, is_confirmed: bool, is_forced: bool, is_relocating: bool
) -> None:
    """Show the types that were written outside OmniGraph; with --confirm, adopt the changes.

    Interrupted writes are completed or undone first. Exits with 1 if something is refused. A graph
    that was moved or copied with branches needs --relocate once.
    """
    if is_relocating and (is_confirmed or is_forced):
        raise click.UsageError("--relocate cannot be combined with --confirm or --force")
    if is_forced and not is_confirmed:
        raise click.UsageError("--force requires --confirm")
    target = invocation.direct_target()
    invocation.announce("repair", target)
    if is_relocating:
        _relocate(invocation, target)
        return
    with invocation.open_direct(target, read_only=False) as graph, invocation.waiting("repair"):
        graph.refresh()
        reports = graph.repair(confirm=is_confirmed, force=is_forced)
        actions = {each.action for each in reports}
        is_adopted = not actions.isdisjoint(("healed", "forced"))
        version = graph.snapshot().commit.manifest_version if is_adopted else None
    payload = {
        "uri": target.uri,
        "confirm": is_confirmed,
        "force": is_forced,
        "manifest_version": version,
        "tables": [_encode_table(each) for each in reports],
    }
    invocation.print_output(payload, map(_format_repair, reports))
    if "refused" in actions:
        again = write_command("repair", "--confirm", "--force", target=target)
        print_note(
            "Error: repair did not adopt changes that may affect rows. To adopt them, run:\n"
            f"\n  {again}"
        )
        sys.exit(1)
    if "preview" in actions:
        again = write_command("repair", "--confirm", target=target)
        print_note(
            f"Nothing was adopted. To adopt changes that left the rows unchanged, run:\n\n  {again}"
        )


def _relocate(invocation: Invocation, target: StoreTarget) -> None:
    invocation.reached, invocation.is_writing = target, True
    with invocation.waiting("relocate"):
        reports = omnigraph.relocate(target.uri)
    lines = [
        f"branch '{each.branch}': now refers to this graph, no longer to {each.old_place} "
        f"({each.rewritten_files} version {plural(each.rewritten_files, 'file')} rewritten)"
        for each in reports
    ]
    payload = {"uri": target.uri, "branches": [asdict(each) for each in reports]}
    nothing = ["every branch refers to this graph; nothing was rewritten"]
    invocation.print_output(payload, lines or nothing)


def _format_repair(report: RepairReport) -> str:
    done = _DONE_BY_ACTION[report.action]
    summary_line = f"{report.table_key}: {_FOUND_BY_CLASSIFICATION[report.classification]}{done}"
    if report.operations:
        summary_line += f" ({', '.join(report.operations)})"
    return summary_line if report.error is None else f"{summary_line}: {report.error}"


_COLOUR_BY_SEVERITY = {
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.YELLOW,
    Severity.NOTE: Colour.CYAN,
}


@command(URI_ARGUMENT, JSON_OPTION)
@click.option("--quick", "is_quick", is_flag=True, help="Do not check rows.")
def doctor(invocation: Invocation, *, is_quick: bool) -> None:
    """Check everything that is stored, and show problems and how to fix them.

    Changes nothing. Exits with 1 if something is wrong.
    """
    target = invocation.direct_target()
    with _open(invocation, target) as graph, invocation.waiting("examine"):
        report = graph.doctor(deep=not is_quick)
    lines = _format_doctor(report, target, invocation.terminal)
    invocation.print_output(_encode_doctor(report, target), lines)
    if not report.is_healthy:
        sys.exit(1)


def _open(invocation: Invocation, target: StoreTarget) -> AbstractContextManager[Graph]:
    """The graph, even if it is too damaged for other commands to open."""
    try:
        return invocation.open_direct(target, read_only=True)
    except NotFoundError:
        raise
    except GraphError:
        # `doctor` reports the damage itself. Imported by name, because help needs neither module.
        graphs, stores = map(import_module, ("omnigraph.engine.graph", "omnigraph.engine.settings"))
        options = make_storage_options(invocation.environment, {})
        settings = stores.make_settings(target.uri, storage_options=options, durability="full")
        graph: Graph = graphs.Graph(
            settings, stores.open_stores(settings), actor=None, is_read_only=True
        )
        return graph


def _encode_doctor(report: DoctorReport, target: Target) -> dict[str, object]:
    return {
        "uri": target.uri,
        "healthy": report.is_healthy,
        "deep": report.is_deep,
        "findings": [
            {
                "severity": each.severity.value,
                "code": each.code.value,
                "subject": each.subject,
                "message": each.message,
                "advice": each.advice,
                "command": find_fix_command(each.advice, target),
            }
            for each in report.findings
        ],
    }


def _format_doctor(report: DoctorReport, target: Target, terminal: Terminal) -> Iterator[str]:
    for each in report.findings:
        colour = _COLOUR_BY_SEVERITY[each.severity]
        mark = terminal.paint(f"{each.severity}[{each.code}]", colour)
        yield f"{mark} {each.subject}: {each.message}"
        yield f"    -> {format_fix(each.advice, target)}"
    counts = Counter(each.severity for each in report.findings)
    summary_line = [
        f"{counts[each]} {plural(counts[each], each)}" for each in Severity if counts[each]
    ]
    state = "is healthy" if report.is_healthy else "is damaged"
    depth = "" if report.is_deep else "; rows were not checked"
    colour = Colour.GREEN if report.is_healthy else Colour.RED
    summary = f"{target.uri} {state}{': ' if summary_line else ''}{', '.join(summary_line)}{depth}"
    yield terminal.paint(summary, colour)


@command(URI_ARGUMENT, JSON_OPTION)
def recoveries(invocation: Invocation) -> None:
    """List interrupted writes and how each was recovered, oldest first."""
    with invocation.open_to_read() as graph:
        found = graph.recoveries()
    output: RecoveryList = {"recoveries": [recovery_output(each) for each in found]}
    lines = [_format_recovery(each) for each in found] or ["no recoveries"]
    invocation.print_output(output, lines)


def _format_recovery(recovery: Recovery) -> str:
    timestamp = recovery.created_at.isoformat(timespec="seconds")
    actor = "" if recovery.actor is None else f" actor={recovery.actor}"
    moved = ", ".join(
        f"{each.table_key} {each.from_version} → {each.to_version}" for each in recovery.outcomes
    )
    summary_line = (
        f"{timestamp} {recovery.kind} {recovery.writer_kind} {recovery.operation_id}{actor}"
    )
    return f"{summary_line}: {moved}" if moved else summary_line


@command(URI_ARGUMENT, JSON_OPTION)
def check(invocation: Invocation) -> None:
    """Check that a folder or bucket can store a graph.

    Works below a new prefix, `__omnigraph_check/…`, and removes it afterwards; touches nothing
    else. No graph needs to exist. Exits with 1 if a check fails.
    """
    target = invocation.direct_target()
    # Imported by name, because help needs neither module.
    locations, checks = map(
        import_module, ("omnigraph.storage.locations", "omnigraph.storage.check")
    )
    options = make_storage_options(invocation.environment, {})
    with invocation.waiting("check the storage"):
        trial: CheckReport = checks.check_storage(
            locations.parse_location(target.uri, storage_options=options),
            id=SystemRuntime().new_id(),
            open_store=checks.open_durably,
        )
    lines = _format_storage_check(trial, invocation.terminal)
    probes = [
        {
            "probe": each.name,
            "ok": each.is_ok,
            "promise": each.promise,
            "problem": each.problem,
            "advice": each.advice,
        }
        for each in trial.probed
    ]
    payload = {
        "uri": trial.uri,
        "ok": trial.is_passed,
        "complete": trial.is_complete,
        "probes": probes,
    }
    invocation.print_output(payload, lines)
    if not trial.is_passed:
        sys.exit(1)


def _format_storage_check(trial: CheckReport, terminal: Terminal) -> Iterator[str]:
    width = max(len(each.name) for each in trial.probed)
    for each in trial.probed:
        name = each.name.ljust(width)
        if each.is_ok:
            yield f"{terminal.paint('OK', Colour.GREEN)}    {name}  {each.promise}"
            continue
        yield f"{terminal.paint('FAIL', Colour.RED)}  {name}  {each.problem}"
        yield f"      a graph needs that {each.promise}"
        yield f"      -> {each.advice}"
    if trial.is_passed:
        yield terminal.paint(f"{trial.uri} can store a graph", Colour.GREEN)
    elif trial.is_complete:
        yield terminal.paint(f"{trial.uri} cannot safely store a graph", Colour.RED)
    else:
        yield terminal.paint(
            f"{trial.uri} cannot be used; the other checks were skipped", Colour.RED
        )
