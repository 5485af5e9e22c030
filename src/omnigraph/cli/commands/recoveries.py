"""`omnigraph recoveries`: writes that had stopped half-way, and how they were ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.wire.bodies import recovery_output

if TYPE_CHECKING:
    from omnigraph.engine.commit.audit import Recovery
    from omnigraph.wire.shapes import RecoveryList


@command()
@URI_ARGUMENT
@JSON_OPTION
@click.pass_obj
def recoveries(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """List writes that had stopped half-way and how each was ended, oldest first."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = graph.recoveries()
    if is_json:
        output: RecoveryList = {"recoveries": [recovery_output(each) for each in found]}
        print_json(output)
        return
    for each in found:
        print_line(_line_of(each))
    if not found:
        print_line("no write has stopped half-way")


def _line_of(recovery: Recovery) -> str:
    moment = recovery.created_at.isoformat(timespec="seconds")
    actor = "" if recovery.actor is None else f" actor={recovery.actor}"
    moved = ", ".join(
        f"{each.table_key} {each.from_version} → {each.to_version}" for each in recovery.outcomes
    )
    told = f"{moment} {recovery.kind} {recovery.writer_kind} {recovery.operation_id}{actor}"
    return f"{told}: {moved}" if moved else told
