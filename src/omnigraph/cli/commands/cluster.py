"""`omnigraph cluster …`: graphs, queries and policies as files, planned and applied."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import cluster_view
from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION
from omnigraph.cli.output import print_json, print_line, print_note
from omnigraph.cli.terminal import standard_output, waiting
from omnigraph.cluster import validating
from omnigraph.cluster.reports import Report, encode_report
from omnigraph.model.deferred import defer
from omnigraph.storage.environment import make_storage_options

if TYPE_CHECKING:
    from omnigraph.cluster import apply as applying
    from omnigraph.cluster import approving, planning, world
    from omnigraph.cluster import refresh as refreshing
    from omnigraph.cluster import status as looking
else:
    # They bring the engine with them, and `validate` does without.
    applying = defer("omnigraph.cluster.apply")
    approving = defer("omnigraph.cluster.approving")
    planning = defer("omnigraph.cluster.planning")
    refreshing = defer("omnigraph.cluster.refresh")
    looking = defer("omnigraph.cluster.status")
    world = defer("omnigraph.cluster.world")

_CONFIG_OPTION = click.option(
    "--config",
    "folder",
    metavar="DIR",
    default=".",
    show_default=True,
    help="The folder with `cluster.yaml`.",
)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def validate(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Check what a folder declares: schemas, queries, policies and how they fit."""
    report = validating.validate(Path(folder))
    lines = cluster_view.view_validation(report, standard_output(invocation.environment))
    _answer(invocation, "validate", report, lines, is_json=is_json)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def plan(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Show what an apply would change, by which steps, and what that affects."""
    report = planning.plan(Path(folder), _world(invocation))
    lines = cluster_view.view_plan(report, standard_output(invocation.environment))
    _answer(invocation, "plan", report, lines, is_json=is_json)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def apply(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Make the cluster what its folder declares.

    Graphs are created and migrated, queries and policies published. What deletes rows waits until
    somebody has agreed to it by `omnigraph cluster approve`. Safe to run again at any time.
    """
    with waiting("applying", invocation.environment):
        report = applying.apply(Path(folder), _world(invocation), actor=invocation.actor)
    lines = cluster_view.view_apply(report, standard_output(invocation.environment))
    _answer(invocation, "apply", report, lines, is_json=is_json)


@command()
@click.argument("resource")
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def approve(invocation: Invocation, *, resource: str, folder: str, is_json: bool) -> None:
    """Agree to a deletion that waits for it, such as that of `graph.old`."""
    report = approving.approve(
        Path(folder), _world(invocation), resource=resource, actor=invocation.actor
    )
    _answer(invocation, "approve", report, cluster_view.view_approval(report), is_json=is_json)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def status(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Show what is applied, how it stands, and who is at work; changes nothing."""
    report = looking.status(Path(folder), _world(invocation))
    lines = cluster_view.view_state(report, standard_output(invocation.environment))
    _answer(invocation, "status", report, lines, is_json=is_json)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def refresh(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Look at graphs and stored contents again, and write down what is there."""
    report = refreshing.refresh(Path(folder), _world(invocation), actor=invocation.actor)
    lines = cluster_view.view_state(report, standard_output(invocation.environment))
    _answer(invocation, "refresh", report, lines, is_json=is_json)


@command()
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def import_state(invocation: Invocation, *, folder: str, is_json: bool) -> None:
    """Begin a cluster's state, with the graphs that are there already."""
    report = refreshing.import_cluster(Path(folder), _world(invocation), actor=invocation.actor)
    lines = cluster_view.view_state(report, standard_output(invocation.environment))
    _answer(invocation, "import", report, lines, is_json=is_json)


@command()
@click.argument("lock_id")
@_CONFIG_OPTION
@JSON_OPTION
@click.pass_obj
def force_unlock(invocation: Invocation, *, lock_id: str, folder: str, is_json: bool) -> None:
    """Take away the lock with this id, when whoever held it no longer runs."""
    report = looking.force_unlock(Path(folder), _world(invocation), lock_id=lock_id)
    _answer(invocation, "force-unlock", report, cluster_view.view_unlock(report), is_json=is_json)


def _world(invocation: Invocation) -> world.World:
    options = make_storage_options(invocation.environment, {})
    return world.make_world(storage_options=options, durability="full")


def _answer(
    invocation: Invocation, verb: str, report: Report, lines: Iterable[str], *, is_json: bool
) -> None:
    """Print a report; the exit code is 1 if something is wrong."""
    if is_json:
        print_json(encode_report(report))
    else:
        for line in lines:
            print_line(line)
        findings = report.heading.findings
        for line in cluster_view.view_findings(findings, standard_output(invocation.environment)):
            print_line(line)
    if not report.heading.is_ok:
        if not is_json:
            print_note(f"Error: `cluster {verb}` did not succeed; what is wrong stands above")
        sys.exit(1)
