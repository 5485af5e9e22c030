"""`omnigraph log`: the history of a graph, drawn as text, as a picture or as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.command import command
from omnigraph.cli.files import STANDARD_OUTPUT
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_ARGUMENT
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.query_inputs import require_one
from omnigraph.cli.shell.history_view import read_history, view_history
from omnigraph.cli.terminal import standard_output
from omnigraph.drawing.history import History
from omnigraph.drawing.history_svg import draw_svg
from omnigraph.wire.bodies import commit_output


@command()
@URI_ARGUMENT
@click.option(
    "--branch",
    "branches",
    metavar="BRANCH",
    multiple=True,
    help="A branch to draw, may be repeated; all of them if none is named.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="How many commits to draw.",
)
@click.option("--all", "is_all", is_flag=True, help="Draw all commits.")
@click.option("--svg", "picture", metavar="FILE", help="Write a picture; `-` is stdout.")
@JSON_OPTION
@click.pass_obj
def log(
    invocation: Invocation,
    *,
    uri: str | None,
    branches: tuple[str, ...],
    limit: int,
    is_all: bool,
    picture: str | None,
    is_json: bool,
) -> None:
    """Draw the commits of a graph, newest first, with lines to what they came from."""
    require_one({"--svg": picture, "--json": is_json})
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        history = read_history(graph, branches=branches, limit=None if is_all else limit)
    if is_json:
        print_json(_payload(history))
    elif picture == STANDARD_OUTPUT:
        print_line(draw_svg(history))
    elif picture is not None:
        Path(picture).write_text(draw_svg(history), encoding="utf-8")
    else:
        for line in view_history(history, standard_output(invocation.environment)):
            print_line(line)


def _payload(history: History) -> dict[str, object]:
    return {
        "commits": [
            {
                **commit_output(commit),
                "branches": list(history.branches.get(commit.id, ())),
                "tags": list(history.tags.get(commit.id, ())),
            }
            for commit in history.commits
        ],
        "older_commits": history.left_out,
    }
