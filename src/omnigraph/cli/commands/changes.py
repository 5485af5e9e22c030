"""`omnigraph changes`: what each commit of a branch changed, one JSON object a line."""

from __future__ import annotations

import sys
import time
from itertools import count, islice
from typing import TYPE_CHECKING

import click
import orjson

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command, write_options
from omnigraph.cli.options import BRANCH_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_pieces
from omnigraph.cli.refusals import CommandError
from omnigraph.model.errors import FeedGapError
from omnigraph.model.limits import CHANGES_PER_PAGE_MAX
from omnigraph.wire.bodies import commit_changes_output, diff_output

if TYPE_CHECKING:
    from omnigraph.engine.changes import CommitChanges
    from omnigraph.wire.shapes import CommitChangesOutput

_PAUSE_S = 1.0


@command()
@URI_ARGUMENT
@BRANCH_OPTION
@click.option(
    "--start",
    metavar="now|beginning|after:COMMIT",
    help="Where to start; the beginning if nothing is said, or now with --follow.",
)
@click.option("--follow", "is_following", is_flag=True, help="Go on until interrupted.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N commits.")
@click.pass_obj
def changes(
    invocation: Invocation,
    *,
    uri: str | None,
    branch: str,
    start: str | None,
    is_following: bool,
    limit: int | None,
) -> None:
    """Print what each commit of a branch changed, oldest first, as lines of JSON.

    Each line has a `cursor`; --start takes it to go on after that commit.
    """
    target = invocation.target(uri)
    begin = start or ("now" if is_following else "beginning")
    printed = 0
    with invocation.open(target, read_only=True) as graph:
        feed = graph.changes(begin, branch)
        try:
            # Interrupting is how following ends.
            for _ in count() if is_following else range(1):
                left = sys.maxsize if limit is None else min(limit - printed, sys.maxsize)
                for found in islice(feed, left):
                    line = orjson.dumps(_whole_body(found), option=orjson.OPT_APPEND_NEWLINE)
                    print_pieces([line])
                    printed += 1
                if printed == limit:
                    return
                if is_following:
                    time.sleep(_PAUSE_S)
        except FeedGapError as error:
            options = write_options([("--branch", branch), ("--start", error.resume)])
            again = write_command("changes", *options, target=target)
            raise CommandError(
                f"what commit {error.commit_id} changed cannot be told any more: its rows were "
                f"cleaned up; `omnigraph export` has the rows as they are, and\n\n  {again}\n\n"
                "goes on behind them"
            ) from error
        except KeyboardInterrupt:
            if not is_following:
                raise


def _whole_body(found: CommitChanges) -> CommitChangesOutput:
    """A commit with all that it changed, however many pages that is."""
    body = commit_changes_output(found, limit=CHANGES_PER_PAGE_MAX)
    while body["next_page_token"] is not None:
        page = found.changes.page(body["next_page_token"], limit=CHANGES_PER_PAGE_MAX)
        body["changes"] += diff_output(found.changes, page)["changes"]
        body["next_page_token"] = page.next_token
    return body
