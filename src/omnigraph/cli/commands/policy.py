"""`omnigraph policy …`: what a policy says, before anybody is held to it."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.bundles import Chosen, open_applied_bundle, open_written_bundle
from omnigraph.cli.command import command
from omnigraph.cli.files import read_bytes
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.next_commands import write_command, write_options
from omnigraph.cli.output import print_line, print_note
from omnigraph.cli.refusals import CommandError
from omnigraph.policy import checking

_CONFIG_OPTION = click.option(
    "--config",
    metavar="PATH",
    help="The policy's file, a folder of such files, or one with `cluster.yaml`.",
)
_BUNDLE_OPTION = click.option("--bundle", metavar="NAME", help="Which policy of several.")


@command()
@_CONFIG_OPTION
@_BUNDLE_OPTION
@click.pass_obj
def validate(invocation: Invocation, *, config: str | None, bundle: str | None) -> None:
    """Check that a policy can be read, and that its rules make sense."""
    chosen = _open(invocation, config=config, bundle=bundle)
    for warning in chosen.warnings:
        print_note(f"warning: {warning}")
    known = "" if chosen.actors is None else f" [{len(chosen.actors)} actors]"
    print_line(f"policy valid: bundle '{chosen.name}'{known}")


@command()
@_CONFIG_OPTION
@_BUNDLE_OPTION
@click.option("--tests", "tests_path", required=True, metavar="FILE", help="The cases, YAML.")
@click.pass_obj
def test(
    invocation: Invocation, *, config: str | None, bundle: str | None, tests_path: str
) -> None:
    """Ask a policy for each case of a file, and compare with what is wanted.

    Exits with 1 if it decides a case otherwise.
    """
    chosen = _open(invocation, config=config, bundle=bundle)
    report = checking.run_cases(
        chosen.gate, checking.parse_cases(read_bytes(tests_path), name=tests_path)
    )
    if not report.mismatches:
        print_line(f"policy tests passed: {report.case_count} cases")
        return
    ids = ", ".join(each.case.id for each in report.mismatches)
    print_note(f"Error: {len(report.mismatches)} of {report.case_count} cases failed: {ids}")
    for each in report.mismatches:
        wanted = "allow" if each.case.is_to_be_allowed else "deny"
        print_note(f"    {each.case.id}: wanted {wanted}, but {each.decision.message}")
    asked = report.mismatches[0].case.asked
    options = write_options(
        [
            ("--config", config),
            ("--cluster", invocation.flags.cluster),
            ("--profile", invocation.flags.profile),
            ("--graph", invocation.flags.graph),
            ("--bundle", bundle),
            ("--actor", asked.actor),
            ("--action", asked.action.value),
            ("--branch", asked.branch),
            ("--target-branch", asked.target),
        ]
    )
    again = write_command("policy", "explain", *options, target=None)
    print_note(f"To look at the first again, type:\n\n  {again}")
    sys.exit(1)


@command()
@_CONFIG_OPTION
@_BUNDLE_OPTION
@click.option("--actor", required=True, metavar="ACTOR", help="Who asks.")
@click.option("--action", required=True, metavar="ACTION", help="For what, such as `change`.")
@click.option("--branch", metavar="BRANCH", help="The branch that is looked at or changed.")
@click.option("--target-branch", metavar="BRANCH", help="The branch that is merged into or made.")
@click.pass_obj
def explain(
    invocation: Invocation,
    *,
    config: str | None,
    bundle: str | None,
    actor: str,
    action: str,
    branch: str | None,
    target_branch: str | None,
) -> None:
    """Say whether somebody may do something, and by which rule."""
    chosen = _open(invocation, config=config, bundle=bundle)
    decision = checking.explain(
        chosen.gate, actor=actor, action=action, branch=branch, target=target_branch
    )
    for line in checking.describe(decision):
        print_line(line)


def _open(invocation: Invocation, *, config: str | None, bundle: str | None) -> Chosen:
    """The policy of the files that are named, else of the cluster."""
    flags = invocation.flags
    if config is not None and flags.cluster is not None:
        raise CommandError("--config and --cluster are mutually exclusive; leave one of them")
    if config is not None:
        return open_written_bundle(config, graph=flags.graph, bundle=bundle)
    scope = invocation.find_cluster_scope()
    if scope is None:
        raise CommandError(
            "name the cluster that has applied the policy with --cluster <dir|uri|name>; or its "
            "file, or the folder of several, with --config PATH"
        )
    return open_applied_bundle(scope, bundle=bundle, environment=invocation.environment)
