"""Options that several commands have, each spelled and explained once."""

from __future__ import annotations

import click

JSON_OPTION = click.option("--json", "is_json", is_flag=True, help="Print the payload as JSON.")
URI_ARGUMENT = click.argument("uri", required=False)
URI_OPTION = click.option("--uri", metavar="URI", help="The storage of the graph.")
BRANCH_OPTION = click.option(
    "--branch", default="main", show_default=True, metavar="BRANCH", help="The branch."
)
READ_BRANCH_OPTION = click.option(
    "--branch", metavar="BRANCH", help="The branch to read; `main` if nothing is said."
)
SNAPSHOT_OPTION = click.option(
    "--snapshot", metavar="COMMIT", help="The commit, or the tag of one, to read instead."
)
IF_COMMIT_OPTION = click.option(
    "--if-commit", metavar="COMMIT", help="Write only if the branch is at this commit."
)
KEY_OPTION = click.option(
    "--idempotency-key", metavar="KEY", help="Asked again with the same key it is done once."
)
ENGINE_OPTION = click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where the query runs.",
)
