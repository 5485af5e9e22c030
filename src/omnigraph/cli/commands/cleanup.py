"""`omnigraph cleanup`: old versions that nobody needs, first shown and then deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.durations import Duration
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command, write_options
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.refusals import CommandError
from omnigraph.cli.terminal import waiting

if TYPE_CHECKING:
    from omnigraph.engine.ops.cleanup import CleanupReport


@command()
@URI_ARGUMENT
@click.option("--keep", type=int, metavar="N", help="Keep the newest N versions of each type.")
@click.option(
    "--older-than",
    type=Duration(),
    metavar="DUR",
    help="Keep what is younger, such as 30m, 12h, 7d or 2w.",
)
@click.option("--confirm", "is_confirmed", is_flag=True, help="Delete; without it, only look.")
@JSON_OPTION
@click.pass_obj
def cleanup(
    invocation: Invocation,
    *,
    uri: str | None,
    keep: int | None,
    older_than: timedelta | None,
    is_confirmed: bool,
    is_json: bool,
) -> None:
    """Delete old versions of types that no branch, tag or reader needs.

    What goes is neither among the newest nor young enough. Without --confirm nothing is deleted.
    """
    if keep is None and older_than is None:
        raise CommandError(
            "say what to keep: --keep 10 for the newest ten versions of each type, --older-than 7d "
            "for what is younger, or both; nothing was deleted"
        )
    target = invocation.direct_target(uri)
    if is_confirmed:
        invocation.confirm("delete old versions", target, is_json=is_json)
    invocation.announce("cleanup", target)
    with (
        invocation.open_direct(target, read_only=False) as graph,
        waiting("clean up", invocation.environment),
    ):
        reports = graph.cleanup(keep, older_than, preview=not is_confirmed)
    if not is_confirmed:
        for line in _view(reports, verb="would delete"):
            print_note(line)
        age = None if older_than is None else f"{older_than // timedelta(seconds=1)}s"
        kept = None if keep is None else str(keep)
        options = write_options([("--keep", kept), ("--older-than", age)])
        again = write_command("cleanup", *options, "--confirm", target=target)
        if any(each.old_versions_removed for each in reports):
            print_note(f"Nothing was deleted. To delete, type:\n\n  {again}")
    elif is_json:
        tables = [_encode(each) for each in reports]
        age_s = None if older_than is None else older_than // timedelta(seconds=1)
        print_json(
            {"uri": target.uri, "keep_versions": keep, "older_than_secs": age_s, "tables": tables}
        )
    else:
        for line in _view(reports, verb="deleted"):
            print_line(line)
    if any(each.error is not None for each in reports):
        sys.exit(1)


def _encode(report: CleanupReport) -> dict[str, object]:
    return {
        "table_key": report.table_key,
        "bytes_removed": report.bytes_removed,
        "old_versions_removed": report.old_versions_removed,
        "error": report.error,
    }


def _view(reports: Sequence[CleanupReport], *, verb: str) -> Iterator[str]:
    for each in reports:
        yield (
            f"{each.table_key}: {verb} {each.old_versions_removed:,} versions, "
            f"{each.bytes_removed:,} bytes"
        )
        if each.error is not None:
            yield f"    not all of it: {each.error}"
    versions = sum(each.old_versions_removed for each in reports)
    size = sum(each.bytes_removed for each in reports)
    yield f"{verb} {versions:,} versions in all, {size:,} bytes"
