"""`omnigraph commit …`: the commits of a branch, and one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.display import make_harmless
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, JSON_OPTION, URI_ARGUMENT, URI_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.wire.bodies import commit_output
from omnigraph.wire.shapes import CommitList

if TYPE_CHECKING:
    from omnigraph.engine.state.history import Commit


@command()
@URI_ARGUMENT
@BRANCH_OPTION
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only commits with this actor=, branch= or since= (a date or a time). Repeatable.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@JSON_OPTION
@click.pass_obj
def list_all(
    invocation: Invocation,
    *,
    uri: str | None,
    branch: str,
    filters: tuple[str, ...],
    limit: int | None,
    is_json: bool,
) -> None:
    """List the commits of a branch, newest first; as JSON, oldest first."""
    tests = [_parse_filter(each) for each in filters]
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = _select(graph.commits(branch), tests, limit=limit)
    if is_json:
        output: CommitList = {"commits": [commit_output(each) for each in found]}
        print_json(output)
        return
    for commit in reversed(found):
        actor = "" if commit.actor is None else f" actor={make_harmless(commit.actor)}"
        print_line(f"{commit.id} branch={commit.branch} version={commit.manifest_version}{actor}")


@command()
@click.argument("id")
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def show(invocation: Invocation, *, id: str, uri: str | None, is_json: bool) -> None:
    """Show one commit, by its id or by a tag."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        commit = graph.commit(id)
    output = commit_output(commit)
    if is_json:
        print_json(output)
        return
    shown = {
        **output,
        "manifest_branch": commit.branch,
        "created_at": commit.created_at.isoformat(timespec="milliseconds"),
    }
    for name, value in shown.items():
        if value is not None:
            print_line(f"{name}: {value}")


def _select(
    commits: Sequence[Commit], tests: Sequence[Callable[[Commit], bool]], *, limit: int | None
) -> list[Commit]:
    found = [commit for commit in commits if all(test(commit) for test in tests)]
    return found if limit is None else found[-limit:]


def _parse_filter(written: str) -> Callable[[Commit], bool]:
    key, equals, value = written.partition("=")
    if equals and key == "actor":
        return lambda commit: commit.actor == value
    if equals and key == "branch":
        return lambda commit: commit.branch == value
    if equals and key == "since":
        moment = _parse_moment(value)
        return lambda commit: commit.created_at >= moment
    raise click.UsageError(f"--filter {written!r}: write actor=NAME, branch=NAME or since=TIME")


def _parse_moment(text: str) -> datetime:
    """A date or a time; without a zone it is of UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"--filter since={text}: write a date or a time, such as 2026-03-01 or "
            "2026-03-01T12:00:00Z"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
