"""`omnigraph branch …`: branches listed, started, deleted and merged."""

from __future__ import annotations

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import IF_COMMIT_OPTION, JSON_OPTION, URI_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.wire.bodies import branch_created, branch_deleted
from omnigraph.wire.shapes import BranchList


@command()
@click.argument("name")
@click.option("--from", "base", default="main", show_default=True, metavar="BASE")
@IF_COMMIT_OPTION
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def create(
    invocation: Invocation,
    *,
    name: str,
    base: str,
    if_commit: str | None,
    uri: str | None,
    is_json: bool,
) -> None:
    """Start a branch at the head of another; no rows are copied."""
    target = invocation.target(uri)
    invocation.announce("branch create", target)
    with invocation.open(target, read_only=False) as graph:
        graph.create_branch(name, base=base, if_commit=if_commit)
        output = branch_created(uri=target.uri, base=base, name=name, actor=graph.actor)
    if is_json:
        print_json(output)
    else:
        print_line(f"created branch {name} from {base}")


@command()
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def list_all(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """List the branches by name."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        output: BranchList = {"branches": sorted(graph.branches())}
    if is_json:
        print_json(output)
        return
    for name in output["branches"]:
        print_line(name)


@command()
@click.argument("name")
@IF_COMMIT_OPTION
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def delete(
    invocation: Invocation, *, name: str, if_commit: str | None, uri: str | None, is_json: bool
) -> None:
    """Delete a branch and the commits that only it had."""
    target = invocation.target(uri)
    invocation.confirm(f"delete branch '{name}'", target, is_json=is_json)
    invocation.announce("branch delete", target)
    with invocation.open(target, read_only=False) as graph:
        graph.delete_branch(name, if_commit=if_commit)
        output = branch_deleted(uri=target.uri, name=name, actor=graph.actor)
    if is_json:
        print_json(output)
    else:
        print_line(f"deleted branch {name}")
