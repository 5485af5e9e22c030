"""`omnigraph optimize`: few files instead of many, and indexes that know every row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command
from omnigraph.cli.options import BRANCH_OPTION, JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.targets import Target
from omnigraph.cli.terminal import waiting

if TYPE_CHECKING:
    from omnigraph.engine.results import OptimizeReport

_DRIFTED = "drift_needs_repair"
_REASON_BY_SKIPPED = {
    _DRIFTED: "something outside of OmniGraph wrote to it",
    "inherited_from_another_branch": "the branch has not written to it",
    "blob_columns_unsupported_by_lance": "it has blobs, which cannot be moved",
}


@command()
@URI_ARGUMENT
@BRANCH_OPTION
@JSON_OPTION
@click.pass_obj
def optimize(invocation: Invocation, *, uri: str | None, branch: str, is_json: bool) -> None:
    """Join small files of a branch and bring its indexes up to date, as one commit.

    What queries answer stays the same; old files stay until they are cleaned up.
    """
    target = invocation.direct_target(uri)
    invocation.announce("optimize", target)
    with (
        invocation.open_direct(target, read_only=False) as graph,
        waiting("optimize", invocation.environment),
    ):
        reports = graph.optimize(branch=branch)
    if is_json:
        print_json({"uri": target.uri, "tables": [_encode(each) for each in reports]})
        return
    for report in reports:
        for line in _lines_of(report, target):
            print_line(line)


def _encode(report: OptimizeReport) -> dict[str, object]:
    return {
        "table_key": report.table_key,
        "fragments_removed": report.fragments_removed,
        "fragments_added": report.fragments_added,
        "committed": report.committed,
        "skipped": report.skipped,
        "manifest_version": report.manifest_version,
        "lance_head_version": report.lance_head_version,
        "pending_indexes": [
            {"column": each.column, "reason": each.reason} for each in report.pending_indexes
        ],
    }


def _lines_of(report: OptimizeReport, target: Target) -> Iterator[str]:
    if report.skipped is not None:
        reason = _REASON_BY_SKIPPED.get(report.skipped, report.skipped)
        yield f"{report.table_key}: left alone, because {reason}"
        if report.skipped == _DRIFTED:
            yield f"    to see what that was, type: {write_command('repair', target=target)}"
    elif report.fragments_removed:
        yield (
            f"{report.table_key}: {report.fragments_removed:,} files became "
            f"{report.fragments_added:,}"
        )
    else:
        yield f"{report.table_key}: {'indexes renewed' if report.committed else 'nothing to do'}"
    for each in report.pending_indexes:
        yield f"    no index of {each.column} yet: {each.reason}"
