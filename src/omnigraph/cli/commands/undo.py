"""`omnigraph revert` and `omnigraph cherry-pick`: what one commit did, undone or done again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.conflict_view import view_conflicts
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command
from omnigraph.cli.options import (
    BRANCH_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    KEY_OPTION,
    URI_OPTION,
)
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.targets import Target
from omnigraph.cli.terminal import standard_error, waiting
from omnigraph.cli.value_text import show_name
from omnigraph.model.errors import MergeConflictError
from omnigraph.wire.bodies import replay_output

if TYPE_CHECKING:
    from omnigraph.engine.results import MergeResult


@command()
@click.argument("commit")
@URI_OPTION
@BRANCH_OPTION
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
@click.pass_obj
def revert(
    invocation: Invocation,
    *,
    commit: str,
    uri: str | None,
    branch: str,
    if_commit: str | None,
    idempotency_key: str | None,
    is_json: bool,
) -> None:
    """Undo what COMMIT did on a branch, by a new commit; later commits stay."""
    target = invocation.target(uri)
    invocation.announce("revert", target)
    with (
        invocation.open(target, read_only=False) as graph,
        _telling_conflicts(invocation, target, commit=commit, branch=branch),
    ):
        with waiting("revert", invocation.environment):
            done = graph.revert(
                commit, branch=branch, if_commit=if_commit, idempotency_key=idempotency_key
            )
        actor = graph.actor
    _tell("reverted", commit, done, branch=branch, actor=actor, is_json=is_json)


@command()
@click.argument("commit")
@URI_OPTION
@click.option("--onto", default="main", show_default=True, metavar="BRANCH", help="Where to.")
@IF_COMMIT_OPTION
@KEY_OPTION
@JSON_OPTION
@click.pass_obj
def cherry_pick(
    invocation: Invocation,
    *,
    commit: str,
    uri: str | None,
    onto: str,
    if_commit: str | None,
    idempotency_key: str | None,
    is_json: bool,
) -> None:
    """Do on a branch what COMMIT did elsewhere, by a new commit."""
    target = invocation.target(uri)
    invocation.announce("cherry-pick", target)
    with (
        invocation.open(target, read_only=False) as graph,
        _telling_conflicts(invocation, target, commit=commit, branch=onto),
    ):
        with waiting("cherry-pick", invocation.environment):
            done = graph.cherry_pick(
                commit, onto=onto, if_commit=if_commit, idempotency_key=idempotency_key
            )
        actor = graph.actor
    _tell("picked", commit, done, branch=onto, actor=actor, is_json=is_json)


def _tell(
    verb: str, commit: str, done: MergeResult, *, branch: str, actor: str | None, is_json: bool
) -> None:
    if is_json:
        print_json(replay_output(done, branch=branch, actor=actor))
        return
    print_line(f"{verb} {show_name(commit)} on {show_name(branch)}: {done.outcome}")
    if done.commit_id is not None:
        print_line(f"commit: {done.commit_id}")


@contextmanager
def _telling_conflicts(
    invocation: Invocation, target: Target, *, commit: str, branch: str
) -> Iterator[None]:
    """A block whose conflicts are shown side by side; nobody can decide them here."""
    try:
        yield
    except MergeConflictError as error:
        count = len(error.conflicts)
        print_note(
            f"Error: {count:,} row{'s' * (count > 1)} changed on {show_name(branch)} since; "
            f"{show_name(branch)} is unchanged"
        )
        print_note("")
        for line in view_conflicts(error.conflicts, standard_error(invocation.environment)):
            print_note(line)
        print_note("Correct these rows with `omnigraph mutate`. To see what came since, type:")
        print_note("")
        print_note(f"  {write_command('diff', commit, branch, target=target)}")
        raise click.exceptions.Exit(1) from error
