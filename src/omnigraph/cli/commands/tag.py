"""`omnigraph tag …`: names for commits, which keep them readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.command import command
from omnigraph.cli.display import fill, measure
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_OPTION
from omnigraph.cli.output import print_json, print_line
from omnigraph.cli.value_text import show_name

if TYPE_CHECKING:
    from omnigraph.wire.shapes import TagDeleted, TagList, TagOutput


@command()
@click.argument("name")
@click.argument("commit", required=False)
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def create(
    invocation: Invocation, *, name: str, commit: str | None, uri: str | None, is_json: bool
) -> None:
    """Name COMMIT, or the head of main, for good: it stays readable while the tag is there."""
    target = invocation.target(uri)
    invocation.announce("tag create", target)
    with invocation.open(target, read_only=False) as graph:
        commit_id = graph.head() if commit is None else graph.commit(commit).id
        graph.tag(name, commit_id)
    output: TagOutput = {"name": name, "commit_id": commit_id}
    if is_json:
        print_json(output)
    else:
        print_line(f"created tag {show_name(name)} at {commit_id}")


@command()
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def list_all(invocation: Invocation, *, uri: str | None, is_json: bool) -> None:
    """List the tags by name, each with its commit."""
    with invocation.open(invocation.target(uri), read_only=True) as graph:
        found = graph.tags()
    output: TagList = {"tags": [{"name": name, "commit_id": found[name]} for name in sorted(found)]}
    if is_json:
        print_json(output)
        return
    width = max(map(measure, found), default=0)
    for each in output["tags"]:
        print_line(f"{fill(each['name'], width)}  {each['commit_id']}")


@command()
@click.argument("name")
@URI_OPTION
@JSON_OPTION
@click.pass_obj
def delete(invocation: Invocation, *, name: str, uri: str | None, is_json: bool) -> None:
    """Take a tag away; its commit stays."""
    target = invocation.target(uri)
    invocation.announce("tag delete", target)
    with invocation.open(target, read_only=False) as graph:
        graph.delete_tag(name)
    output: TagDeleted = {"name": name}
    if is_json:
        print_json(output)
    else:
        print_line(f"deleted tag {show_name(name)}")
