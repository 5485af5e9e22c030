"""`omnigraph merge`: a branch into another, tried first, with decisions about conflicts."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.merging import MergeOrder, merge_and_tell
from omnigraph.cli.options import IF_COMMIT_OPTION, JSON_OPTION, KEY_OPTION, URI_OPTION


@command()
@click.argument("source")
@URI_OPTION
@click.option("--into", default="main", show_default=True, metavar="BRANCH", help="Where to.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Only say what would come of it.")
@click.option(
    "--granularity",
    type=click.Choice(["row", "property"]),
    default="row",
    show_default=True,
    help="Whether two changes of one row conflict, or only those of one property.",
)
@click.option(
    "--resolve", "resolve_path", metavar="FILE", help="Decisions about conflicts, YAML or JSON."
)
@click.option(
    "--write-decisions",
    "decisions_path",
    metavar="FILE",
    help="Write conflicts to a new file, for decisions to be filled in; `-` is stdout.",
)
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
@click.pass_obj
def merge(  # noqa: PLR0913  # one a flag
    invocation: Invocation,
    *,
    source: str,
    uri: str | None,
    into: str,
    is_dry_run: bool,
    granularity: str,
    resolve_path: str | None,
    decisions_path: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    is_json: bool,
) -> None:
    """Merge the branch SOURCE into another, or try it.

    Exits with 1 if there are conflicts, which nobody has decided: they are shown side by side, and
    nothing is merged.
    """
    order = MergeOrder(
        # This is `omnigraph branch merge` too.
        verb=click.get_current_context().command_path.partition(" ")[2],
        source=source,
        into=into,
        is_dry_run=is_dry_run,
        granularity=granularity,
        resolve_path=resolve_path,
        decisions_path=decisions_path,
        if_commit=if_commit,
        idempotency_key=idempotency_key,
        is_json=is_json,
    )
    merge_and_tell(invocation, order, uri=uri)
