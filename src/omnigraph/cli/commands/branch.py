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
from omnigraph.cli.output import fill, measure, show_name
from omnigraph.http.encode import snapshot_output
from omnigraph.http.responses import BranchList

if TYPE_CHECKING:
    from omnigraph.http.responses import (
        BranchCreated,
        BranchDeleted,
        TagDeleted,
        TagList,
        TagOutput,
    )


@command(IF_COMMIT_OPTION, URI_OPTION, JSON_OPTION)
@click.argument("name")
@click.option("--from", "base", default="main", show_default=True, metavar="BASE")
def branch_create(invocation: Invocation, *, name: str, base: str, if_commit: str | None) -> None:
    """Create a branch at the head of another; no rows are copied."""
    target = invocation.target()
    with invocation.open_to_write("branch create", target) as graph:
        graph.create_branch(name, base=base, if_commit=if_commit)
        actor = graph.actor
    output: BranchCreated = {"uri": target.uri, "from": base, "name": name, "actor_id": actor}
    invocation.print_output(output, [f"created branch {name} from {base}"])


@command(URI_OPTION, JSON_OPTION)
def branch_list(invocation: Invocation) -> None:
    """List the branches by name."""
    with invocation.open_to_read() as graph:
        output: BranchList = {"branches": sorted(graph.branches())}
    invocation.print_output(output, output["branches"])


@command(IF_COMMIT_OPTION, URI_OPTION, JSON_OPTION)
@click.argument("name")
def branch_delete(invocation: Invocation, *, name: str, if_commit: str | None) -> None:
    """Delete a branch and the commits that only it contains."""
    target = invocation.target()
    invocation.confirm(f"delete branch '{name}'", target)
    with invocation.open_to_write("branch delete", target) as graph:
        graph.delete_branch(name, if_commit=if_commit)
        output: BranchDeleted = {"uri": target.uri, "name": name, "actor_id": graph.actor}
    invocation.print_output(output, [f"deleted branch {name}"])


@command(URI_OPTION, JSON_OPTION)
@click.argument("name")
@click.argument("commit", required=False)
def tag_create(invocation: Invocation, *, name: str, commit: str | None) -> None:
    """Tag COMMIT, or the head of main; it remains readable while the tag exists."""
    with invocation.open_to_write("tag create", invocation.target()) as graph:
        commit_id = graph.head() if commit is None else graph.commit(commit).id
        graph.tag(name, commit_id)
    output: TagOutput = {"name": name, "commit_id": commit_id}
    invocation.print_output(output, [f"created tag {show_name(name)} at {commit_id}"])


@command(URI_OPTION, JSON_OPTION)
def tag_list(invocation: Invocation) -> None:
    """List the tags by name, each with its commit."""
    with invocation.open_to_read() as graph:
        found = graph.tags()
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    width = max(map(measure, found), default=0)
    lines = [f"{fill(each['name'], width)}  {each['commit_id']}" for each in output["tags"]]
    invocation.print_output(output, lines)


@command(URI_OPTION, JSON_OPTION)
@click.argument("name")
def tag_delete(invocation: Invocation, *, name: str) -> None:
    """Delete a tag; its commit remains."""
    with invocation.open_to_write("tag delete", invocation.target()) as graph:
        graph.delete_tag(name)
    output: TagDeleted = {"name": name}
    invocation.print_output(output, [f"deleted tag {show_name(name)}"])


@command(URI_ARGUMENT, BRANCH_OPTION, JSON_OPTION)
def snapshot(invocation: Invocation, *, branch: str) -> None:
    """Show the types of a branch, each with its version and number of rows."""
    with invocation.open_to_read() as graph:
        output = snapshot_output(graph.snapshot(branch), branch=branch)
    lines = [f"branch: {output['branch']}", f"manifest_version: {output['manifest_version']}"]
    lines += [
        f"{table['table_key']} v{table['table_version']} "
        f"branch={table['table_branch'] or 'main'} rows={table['row_count']}"
        for table in output["tables"]
    ]
    invocation.print_output(output, lines)
