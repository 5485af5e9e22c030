"""`omnigraph repair`: what something outside of OmniGraph wrote, shown and adopted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.targets import Target
from omnigraph.cli.terminal import waiting

if TYPE_CHECKING:
    from omnigraph.engine.graph import Graph
    from omnigraph.engine.ops.repair import RepairReport

_FOUND_BY_CLASSIFICATION = {
    "no_drift": "as it should be",
    "verified_maintenance": "laid out anew by something else, with the same rows",
    "suspicious": "changed by something else",
    "unverifiable": "changed by something else, and nobody can tell how",
}
_DONE_BY_ACTION = {
    "no_op": "",
    "preview": "",
    "healed": "; adopted",
    "forced": "; adopted, because it was forced",
    "refused": "; refused",
}


@command()
@URI_ARGUMENT
@click.option(
    "--confirm", "is_confirmed", is_flag=True, help="Adopt what only laid a type out anew."
)
@click.option("--force", "is_forced", is_flag=True, help="With --confirm: adopt whatever there is.")
@JSON_OPTION
@click.pass_obj
def repair(
    invocation: Invocation,
    *,
    uri: str | None,
    is_confirmed: bool,
    is_forced: bool,
    is_json: bool,
) -> None:
    """Show which types something outside of OmniGraph wrote to, and adopt it if asked.

    Before that, writes that stopped half-way are finished or undone. Exits with 1 if something is
    refused.
    """
    if is_forced and not is_confirmed:
        raise click.UsageError("--force needs --confirm as well")
    target = invocation.direct_target(uri)
    invocation.announce("repair", target)
    with (
        invocation.open_direct(target, read_only=False) as graph,
        waiting("repair", invocation.environment),
    ):
        graph.refresh()
        reports = graph.repair(confirm=is_confirmed, force=is_forced)
        version = _version_of(graph, reports)
    if is_json:
        tables = [_encode(each) for each in reports]
        print_json(
            {
                "uri": target.uri,
                "confirm": is_confirmed,
                "force": is_forced,
                "manifest_version": version,
                "tables": tables,
            }
        )
    else:
        for each in reports:
            print_line(_line_of(each))
    for line in _advise(reports, target):
        print_note(line)
    if any(each.action == "refused" for each in reports):
        sys.exit(1)


def _version_of(graph: Graph, reports: Sequence[RepairReport]) -> int | None:
    """The version that adopting made; None if nothing was adopted."""
    if not any(each.action in ("healed", "forced") for each in reports):
        return None
    return graph.snapshot().commit.manifest_version


def _encode(report: RepairReport) -> dict[str, object]:
    return {
        "table_key": report.table_key,
        "manifest_version": report.manifest_version,
        "lance_head_version": report.lance_head_version,
        "classification": report.classification.value,
        "action": report.action.value,
        "operations": list(report.operations),
        "error": report.error,
    }


def _line_of(report: RepairReport) -> str:
    done = _DONE_BY_ACTION[report.action]
    told = f"{report.table_key}: {_FOUND_BY_CLASSIFICATION[report.classification]}{done}"
    if report.operations:
        told += f" ({', '.join(report.operations)})"
    return told if report.error is None else f"{told}: {report.error}"


def _advise(reports: Sequence[RepairReport], target: Target) -> Iterator[str]:
    actions = {each.action for each in reports}
    if "refused" in actions:
        again = write_command("repair", "--confirm", "--force", target=target)
        yield "Error: repair refused to adopt what may have changed rows. To adopt it as it is:"
    elif "preview" in actions:
        again = write_command("repair", "--confirm", target=target)
        yield "Nothing was adopted. To adopt what only laid types out anew, type:"
    else:
        return
    yield f"\n  {again}"
