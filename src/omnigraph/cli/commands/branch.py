"""The commands `branch`, `tag` and `snapshot`.

They work on a served graph and on a graph in storage alike. They import the shapes of response
bodies only; the engine or the client is imported when a graph is opened. `branch merge` is
implemented with the other merge commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import (
    BRANCH_OPTION,
    IF_COMMIT_OPTION,
    JSON_OPTION,
    URI_ARGUMENT,
    URI_OPTION,
)
from omnigraph.cli.output import fill, measure, print_output, show_name
from omnigraph.http.encode import branch_created, branch_deleted, snapshot_output
from omnigraph.http.responses import BranchList

if TYPE_CHECKING:
    from omnigraph.http.responses import TagDeleted, TagList, TagOutput


@command()
@click.argument("name")
@click.option("--from", "base", default="main", show_default=True, metavar="BASE")
@IF_COMMIT_OPTION
@URI_OPTION
@JSON_OPTION
def branch_create(
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
    print_output(output, [f"created branch {name} from {base}"], is_json=is_json)


@command()
@URI_OPTION
@JSON_OPTION
def branch_list(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """List the branches by name."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        output: BranchList = {"branches": sorted(graph.branches())}
    print_output(output, output["branches"], is_json=is_json)


@command()
@click.argument("name")
@IF_COMMIT_OPTION
@URI_OPTION
@JSON_OPTION
def branch_delete(
    invocation: Invocation, *, name: str, if_commit: str | None, uri: str | None, is_json: bool
) -> None:
    """Delete a branch and the commits that only it had."""
    target = invocation.target(uri)
    invocation.confirm(f"delete branch '{name}'", target, is_json=is_json)
    invocation.announce("branch delete", target)
    with invocation.open(target, read_only=False) as graph:
        graph.delete_branch(name, if_commit=if_commit)
        output = branch_deleted(uri=target.uri, name=name, actor=graph.actor)
    print_output(output, [f"deleted branch {name}"], is_json=is_json)


@command()
@click.argument("name")
@click.argument("commit", required=False)
@URI_OPTION
@JSON_OPTION
def tag_create(
    invocation: Invocation, *, name: str, commit: str | None, uri: str | None, is_json: bool
) -> None:
    """Tag COMMIT, or the head of main; it stays readable while the tag exists."""
    target = invocation.target(uri)
    invocation.announce("tag create", target)
    with invocation.open(target, read_only=False) as graph:
        commit_id = graph.head() if commit is None else graph.commit(commit).id
        graph.tag(name, commit_id)
    output: TagOutput = {"name": name, "commit_id": commit_id}
    print_output(output, [f"created tag {show_name(name)} at {commit_id}"], is_json=is_json)


@command()
@URI_OPTION
@JSON_OPTION
def tag_list(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """List the tags by name, each with its commit."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = graph.tags()
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    width = max(map(measure, found), default=0)
    lines = [f"{fill(each['name'], width)}  {each['commit_id']}" for each in output["tags"]]
    print_output(output, lines, is_json=is_json)


@command()
@click.argument("name")
@URI_OPTION
@JSON_OPTION
def tag_delete(invocation: Invocation, *, name: str, uri: str | None, is_json: bool) -> None:
    """Take a tag away; its commit stays."""
    target = invocation.target(uri)
    invocation.announce("tag delete", target)
    with invocation.open(target, read_only=False) as graph:
        graph.delete_tag(name)
    output: TagDeleted = {"name": name}
    print_output(output, [f"deleted tag {show_name(name)}"], is_json=is_json)


@command()
@URI_ARGUMENT
@BRANCH_OPTION
@JSON_OPTION
def snapshot(invocation: Invocation, *, uri: str | None, branch: str, is_json: bool) -> None:
    """Show the types of a branch, each with its version and number of rows."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        output = snapshot_output(graph.snapshot(branch), branch=branch)
    lines = [f"branch: {output['branch']}", f"manifest_version: {output['manifest_version']}"]
    lines += [
        f"{table['table_key']} v{table['table_version']} "
        f"branch={table['table_branch'] or 'main'} rows={table['row_count']}"
        for table in output["tables"]
    ]
    print_output(output, lines, is_json=is_json)
