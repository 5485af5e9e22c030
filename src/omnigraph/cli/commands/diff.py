"""`omnigraph diff`: what differs between two branches, commits or tags."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

import click
import orjson

from omnigraph.cli.change_view import TypeCount, summarize, view_changes, view_counts
from omnigraph.cli.command import command
from omnigraph.cli.invocation import Invocation
from omnigraph.cli.options import JSON_OPTION, URI_OPTION
from omnigraph.cli.output import print_json, print_line, print_pieces
from omnigraph.cli.terminal import Colour, Terminal, standard_output, waiting
from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import CHANGES_PER_PAGE_MAX
from omnigraph.wire.bodies import diff_output

if TYPE_CHECKING:
    from omnigraph.engine.changes import ChangePage, ChangeSet

_OPS = ("insert", "update", "delete")
_LINES_PRINTED = 512


@command()
@click.argument("old")
@click.argument("new")
@URI_OPTION
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated."
)
@click.option(
    "--op",
    "ops",
    multiple=True,
    type=click.Choice(_OPS),
    help="Only such changes; may be repeated.",
)
@click.option("--stat", "is_stat", is_flag=True, help="Only count, for each type.")
@JSON_OPTION
@click.pass_obj
def diff(  # noqa: PLR0913  # one a flag
    invocation: Invocation,
    *,
    old: str,
    new: str,
    uri: str | None,
    types: tuple[str, ...],
    ops: tuple[str, ...],
    is_stat: bool,
    is_json: bool,
) -> None:
    """Show what changed from OLD to NEW, each a branch, a commit or a tag.

    `+` came, `-` went, `~` changed; what was changed and changed back is not shown.
    """
    target = invocation.target(uri)
    with invocation.open(target, read_only=True) as graph:
        with waiting("compare", invocation.environment):
            found = graph.diff(old, new, types=types or None, ops=ops or None)
            found.stats  # noqa: B018  # what is worked out on Spark, or asked for, is so now
        if is_json and is_stat:
            print_json(_count_body(found))
        elif is_json:
            print_pieces(_encode_pieces(found))
        else:
            _print_text(found, standard_output(invocation.environment), is_stat=is_stat)


def _print_text(found: ChangeSet, terminal: Terminal, *, is_stat: bool) -> None:
    changes = chain.from_iterable(page.changes for page in _pages(found))
    lines = view_counts(_count(found), terminal) if is_stat else view_changes(changes, terminal)
    # Some at a time, because each time takes longer than making a line.
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
    """All pages as one body, whose text is never held whole."""
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
    # A line break within a text is written as two characters, so these are all between values.
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n" + margin)


def _count_body(found: ChangeSet) -> dict[str, object]:
    whole = diff_output(found, found.page(limit=1))
    return {
        "old_commit_id": whole["old_commit_id"],
        "new_commit_id": whole["new_commit_id"],
        "stats": whole["stats"],
        "types": [
            {
                "kind": each.kind,
                "type": each.type,
                "inserts": each.inserts,
                "updates": each.updates,
                "deletes": each.deletes,
            }
            for each in _count(found)
        ],
    }


def _count(found: ChangeSet) -> Iterator[TypeCount]:
    for kind in ("node", "edge"):
        for name in found.stats.types_affected:
            try:
                ops = found.to_arrow(f"{kind}:{name}")["op"].value_counts().to_pylist()
            except NotFoundError:
                # The name is of a type of the other kind.
                continue
            count_by_op = {each["values"]: each["counts"] for each in ops}
            if count_by_op:
                yield TypeCount(kind, name, *(count_by_op.get(op, 0) for op in _OPS))
