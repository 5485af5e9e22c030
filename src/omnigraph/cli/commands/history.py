"""The commands `log`, `commit`, `changes` and `diff`.

All of them only read. A diff is printed page by page, so its JSON text is never in memory as a
whole. `changes` prints one JSON object per commit, with the cursor from which a later run
continues.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain, count, islice
from typing import TYPE_CHECKING

import click
import orjson

from omnigraph.cli.advice import write_command, write_options
from omnigraph.cli.command import command
from omnigraph.cli.history_view import (
    TypeCount,
    format_changes,
    read_history,
    summarize,
    view_counts,
    view_history,
)
from omnigraph.cli.inputs import STANDARD_OUTPUT, require_one
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import BRANCH_OPTION, JSON_OPTION, URI_ARGUMENT, URI_OPTION
from omnigraph.cli.output import (
    Colour,
    CommandError,
    Terminal,
    escape_control,
    print_json,
    print_line,
    print_pieces,
)
from omnigraph.drawing.history import draw_svg
from omnigraph.http.encode import commit_changes_output, commit_output, diff_output
from omnigraph.http.responses import CommitList
from omnigraph.model.errors import FeedGapError, NotFoundError
from omnigraph.model.limits import CHANGES_PER_PAGE_MAX
from omnigraph.storage.environment import expand_home

if TYPE_CHECKING:
    from omnigraph.engine.changes import ChangePage, ChangeSet, CommitChanges
    from omnigraph.engine.state.history import Commit
    from omnigraph.http.responses import CommitChangesOutput


@command(URI_ARGUMENT, JSON_OPTION)
@click.option(
    "--branch",
    "branches",
    metavar="BRANCH",
    multiple=True,
    help="A branch to show. Repeatable; the default is all branches.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Number of commits to show.",
)
@click.option("--all", "is_all", is_flag=True, help="Show all commits.")
@click.option("--svg", "picture", metavar="FILE", help="Write an SVG file; `-` is stdout.")
def log(
    invocation: Invocation,
    *,
    branches: tuple[str, ...],
    limit: int,
    is_all: bool,
    picture: str | None,
) -> None:
    """Draw the commits of a graph, newest first, with lines to their parents."""
    require_one({"--svg": picture, "--json": invocation.is_json})
    with invocation.open_to_read() as graph:
        history = read_history(graph, branches=branches, limit=None if is_all else limit)
    if picture == STANDARD_OUTPUT:
        print_line(draw_svg(history))
        return
    if picture is not None:
        expand_home(picture).write_text(draw_svg(history), encoding="utf-8")
        return
    commits = [
        {
            **commit_output(each),
            "branches": list(history.branches.get(each.id, ())),
            "tags": list(history.tags.get(each.id, ())),
        }
        for each in history.commits
    ]
    payload = {"commits": commits, "older_commits": history.left_out}
    lines = view_history(history, invocation.terminal)
    invocation.print_output(payload, lines)


@command(URI_ARGUMENT, JSON_OPTION)
@BRANCH_OPTION
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only commits with this actor=, branch= or since= (a date or a time). Repeatable. "
    "actor=omnigraph:recovery lists the commits published by recovery.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
def list_all(
    invocation: Invocation, *, branch: str, filters: tuple[str, ...], limit: int | None
) -> None:
    """List the commits of a branch, newest first; as JSON, oldest first."""
    tests = [_parse_filter(each) for each in filters]
    with invocation.open_to_read() as graph:
        found = [each for each in graph.commits(branch) if all(test(each) for test in tests)]
    found = found if limit is None else found[-limit:]
    output: CommitList = {"commits": [commit_output(each) for each in found]}
    invocation.print_output(output, map(_format_commit, reversed(found)))


def _format_commit(commit: Commit) -> str:
    actor = "" if commit.actor is None else f" actor={escape_control(commit.actor)}"
    recovery = "" if commit.recovery is None else f" recovery={escape_control(commit.recovery)}"
    place = f"branch={commit.branch} version={commit.manifest_version}"
    return f"{commit.id} {place}{actor}{recovery}"


@command(URI_OPTION, JSON_OPTION)
@click.argument("id")
def show(invocation: Invocation, *, id: str) -> None:
    """Show one commit, by its id or by a tag."""
    with invocation.open_to_read() as graph:
        commit = graph.commit(id)
    output = commit_output(commit)
    shown = {
        **output,
        "manifest_branch": commit.branch,
        "created_at": commit.created_at.isoformat(timespec="milliseconds"),
    }
    lines = [f"{name}: {value}" for name, value in shown.items() if value is not None]
    invocation.print_output(output, lines)


def _parse_filter(written: str) -> Callable[[Commit], bool]:
    key, equals, value = written.partition("=")
    if equals and key == "actor":
        return lambda commit: commit.is_by(value)
    if equals and key == "branch":
        return lambda commit: commit.branch == value
    if equals and key == "since":
        timestamp = _parse_timestamp(value)
        return lambda commit: commit.created_at >= timestamp
    raise click.UsageError(f"--filter {written!r}: expected actor=NAME, branch=NAME or since=TIME")


def _parse_timestamp(text: str) -> datetime:
    """A date or a timestamp; UTC if it has no time zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"--filter since={text}: expected a date or a time, such as 2026-03-01 or "
            "2026-03-01T12:00:00Z"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


_PAUSE_S = 1.0


@command(URI_ARGUMENT)
@BRANCH_OPTION
@click.option(
    "--start",
    metavar="now|beginning|after:COMMIT",
    help="Where to start; the default is `beginning`, or `now` with --follow.",
)
@click.option(
    "--follow", "is_following", is_flag=True, help="Wait for further commits until interrupted."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N commits.")
def changes(
    invocation: Invocation, *, branch: str, start: str | None, is_following: bool, limit: int | None
) -> None:
    """Print the changes of each commit of a branch as JSON lines, oldest first.

    Each line has a `cursor`; pass it to --start to continue after that commit.
    """
    target = invocation.target()
    begin = start or ("now" if is_following else "beginning")
    printed = 0
    with invocation.open(target, read_only=True) as graph:
        feed = graph.changes(begin, branch)
        try:
            # With --follow, the user ends the loop with an interrupt.
            for _ in count() if is_following else range(1):
                left = sys.maxsize if limit is None else min(limit - printed, sys.maxsize)
                for found in islice(feed, left):
                    line = orjson.dumps(_whole_body(found), option=orjson.OPT_APPEND_NEWLINE)
                    print_pieces([line])
                    printed += 1
                if printed == limit:
                    return
                if is_following:
                    time.sleep(_PAUSE_S)
        except FeedGapError as error:
            options = write_options([("--branch", branch), ("--start", error.resume)])
            again = write_command("changes", *options, target=target)
            raise CommandError(
                f"the changes of commit {error.commit_id} are no longer available, because its "
                "rows were cleaned up; export the current rows with `omnigraph export`, then "
                f"continue with\n\n  {again}"
            ) from error
        except KeyboardInterrupt:
            if not is_following:
                raise


def _whole_body(found: CommitChanges) -> CommitChangesOutput:
    """A commit with all its changes, from all pages."""
    body = commit_changes_output(found, limit=CHANGES_PER_PAGE_MAX)
    while body["next_page_token"] is not None:
        page = found.changes.page(body["next_page_token"], limit=CHANGES_PER_PAGE_MAX)
        body["changes"] += diff_output(found.changes, page)["changes"]
        body["next_page_token"] = page.next_token
    return body


_OPS = ("insert", "update", "delete")
_LINES_PRINTED = 512


@command(JSON_OPTION)
@click.argument("old")
@click.argument("new")
@URI_OPTION
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type. Repeatable.")
@click.option(
    "--op",
    "ops",
    multiple=True,
    type=click.Choice(_OPS),
    help="Only changes of this kind. Repeatable.",
)
@click.option("--stat", "is_stat", is_flag=True, help="Print only the counts of each type.")
def diff(  # one per flag
    invocation: Invocation,
    *,
    old: str,
    new: str,
    types: tuple[str, ...],
    ops: tuple[str, ...],
    is_stat: bool,
) -> None:
    """Show what changed from OLD to NEW, each a branch, a commit or a tag.

    `+` inserted, `-` deleted, `~` updated; a change that was later undone is not shown.
    """
    target = invocation.target()
    with invocation.open(target, read_only=True) as graph:
        with invocation.waiting("compare"):
            found = graph.diff(old, new, types=types or None, ops=ops or None)
            found.stats  # noqa: B018  # computed here, on Spark or by a server
        if invocation.is_json and is_stat:
            print_json(_count_body(found))
        elif invocation.is_json:
            print_pieces(_encode_pieces(found))
        else:
            _print_text(found, invocation.terminal, is_stat=is_stat)


def _print_text(found: ChangeSet, terminal: Terminal, *, is_stat: bool) -> None:
    changes = chain.from_iterable(page.changes for page in _pages(found))
    lines = view_counts(_count(found), terminal) if is_stat else format_changes(changes, terminal)
    # Lines are printed in batches, because a print takes longer than formatting a line.
    while batch := list(islice(lines, _LINES_PRINTED)):
        print_line("\n".join(batch))
    if len(found):
        print_line("")
    print_line(terminal.paint(summarize(found.stats), Colour.BOLD))


def _pages(found: ChangeSet) -> Iterator[ChangePage]:
    page = found.page(limit=CHANGES_PER_PAGE_MAX)
    yield page
    while page.next_token is not None:
        page = found.page(page.next_token, limit=CHANGES_PER_PAGE_MAX)
        yield page


def _encode_pieces(found: ChangeSet) -> Iterator[bytes]:
    """All pages as one document, whose text is never in memory as a whole."""
    bodies = (diff_output(found, page) for page in _pages(found))
    body = next(bodies)
    changes, body["changes"], body["next_page_token"] = body["changes"], [], None
    head, _, tail = _encode(body, margin=b"").rpartition(b"[]")
    yield head + b"["
    lead = b"\n    "
    for entries in chain([changes], (each["changes"] for each in bodies)):
        if entries:
            yield lead + b",\n    ".join(_encode(each, margin=b"    ") for each in entries)
            lead = b",\n    "
    yield (b"\n  ]" if len(found) else b"]") + tail + b"\n"


def _encode(value: object, *, margin: bytes) -> bytes:
    # A line break within a string is encoded as two characters, so these are all between values.
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n" + margin)


def _count_body(found: ChangeSet) -> dict[str, object]:
    whole = diff_output(found, found.page(limit=1))
    return {
        "old_commit_id": whole["old_commit_id"],
        "new_commit_id": whole["new_commit_id"],
        "stats": whole["stats"],
        "types": [asdict(each) for each in _count(found)],
    }


def _count(found: ChangeSet) -> Iterator[TypeCount]:
    for kind in ("node", "edge"):
        for name in found.stats.types_affected:
            try:
                ops = found.to_arrow(f"{kind}:{name}")["op"].value_counts().to_pylist()
            except NotFoundError:
                # The name belongs to a type of the other kind.
                continue
            count_by_op = {each["values"]: each["counts"] for each in ops}
            if count_by_op:
                yield TypeCount(kind, name, *(count_by_op.get(op, 0) for op in _OPS))
