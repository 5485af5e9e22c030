"""`omnigraph doctor`: what is wrong with what is stored, and what to type about it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.mending import find_command, rewrite
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.targets import StoreTarget, Target
from omnigraph.cli.terminal import Colour, Terminal, standard_output, waiting
from omnigraph.engine.ops.doctor.report import DoctorReport, Finding, Severity
from omnigraph.model.errors import GraphError, NotFoundError
from omnigraph.storage.environment import make_storage_options

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph

_COLOUR_BY_SEVERITY = {
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.YELLOW,
    Severity.NOTE: Colour.CYAN,
}


@command()
@URI_ARGUMENT
@click.option("--quick", "is_quick", is_flag=True, help="Do not look at rows.")
@JSON_OPTION
@click.pass_obj
def doctor(invocation: Invocation, *, uri: str | None, is_quick: bool, is_json: bool) -> None:
    """Look at everything that is stored, and say what is wrong and what mends it.

    Changes nothing. Exits with 1 if something is wrong.
    """
    target = invocation.direct_target(uri)
    with _open(invocation, target) as graph, waiting("examine", invocation.environment):
        report = graph.doctor(deep=not is_quick)
    if is_json:
        print_json(_encode(report, target))
    else:
        for line in _view(report, target, standard_output(invocation.environment)):
            print_line(line)
    if not report.is_healthy:
        sys.exit(1)


def _open(invocation: Invocation, target: StoreTarget) -> AbstractContextManager[Graph]:
    """The graph, even if it is too damaged for anybody else to open it."""
    try:
        return invocation.open_direct(target, read_only=True)
    except NotFoundError:
        raise
    except GraphError:
        # What is wrong is what a doctor is asked for. By their names, because help needs neither.
        graphs, stores = map(import_module, ("omnigraph.engine.graph", "omnigraph.engine.settings"))
        options = make_storage_options(invocation.environment, {})
        settings = stores.make_settings(target.uri, storage_options=options, durability="full")
        graph: Graph = graphs.Graph(
            settings, stores.open_stores(settings), actor=None, is_read_only=True
        )
        return graph


def _encode(report: DoctorReport, target: Target) -> dict[str, object]:
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
                "command": find_command(each.advice, target),
            }
            for each in report.findings
        ],
    }


def _view(report: DoctorReport, target: Target, terminal: Terminal) -> Iterator[str]:
    for finding in report.findings:
        yield from _view_finding(finding, target, terminal)
    counts = Counter(each.severity for each in report.findings)
    told = [f"{counts[each]} {each}{'s' * (counts[each] > 1)}" for each in Severity if counts[each]]
    state = "is healthy" if report.is_healthy else "is damaged"
    depth = "" if report.is_deep else "; rows were not looked at"
    colour = Colour.GREEN if report.is_healthy else Colour.RED
    summary = f"{target.uri} {state}{': ' if told else ''}{', '.join(told)}{depth}"
    yield terminal.paint(summary, colour)


def _view_finding(finding: Finding, target: Target, terminal: Terminal) -> Iterator[str]:
    mark = terminal.paint(
        f"{finding.severity}[{finding.code}]", _COLOUR_BY_SEVERITY[finding.severity]
    )
    yield f"{mark} {finding.subject}: {finding.message}"
    yield f"    -> {rewrite(finding.advice, target)}"
