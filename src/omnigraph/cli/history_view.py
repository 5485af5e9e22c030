"""Change sets and commit history as lines for a terminal.

A line describes one node or edge and shows only the properties that changed. Lines are cut and
coloured for the terminal that is passed in. The module prints nothing and does not know where the
lines go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.output import (
    Colour,
    Terminal,
    clip,
    measure,
    show_name,
    show_properties,
    show_value,
)
from omnigraph.drawing.history import History, Role, draw_text, make_history
from omnigraph.model.errors import plural

if TYPE_CHECKING:
    from omnigraph.client.remote import AnyGraph
    from omnigraph.engine.changes import Change, ChangeStats

_NARROWEST_VALUE = 8
_MARK_BY_OP = {"insert": "+", "update": "~", "delete": "-"}
_COLOUR_BY_OP = {"insert": Colour.GREEN, "update": Colour.YELLOW, "delete": Colour.RED}


@dataclass(frozen=True, slots=True)
class TypeCount:
    """The number of changes of each kind for one type."""

    kind: str
    type: str
    inserts: int
    updates: int
    deletes: int


def format_changes(changes: Iterable[Change], terminal: Terminal) -> Iterator[str]:
    """The changes in order, with an empty line between types."""
    last: tuple[str, str] | None = None
    for change in changes:
        if last not in (None, (change.kind, change.type)):
            yield ""
        last = (change.kind, change.type)
        colour = _COLOUR_BY_OP[change.op]
        for line in _lines_of(change, terminal):
            yield terminal.paint(line, colour)


def view_counts(counts: Iterable[TypeCount], terminal: Terminal) -> Iterator[str]:
    """One line per type: the number of inserts, updates and deletes."""
    listed = list(counts)
    width = max((measure(each.type) for each in listed), default=0)
    for each in listed:
        parts = (
            terminal.paint(f"+{each.inserts:,}", Colour.GREEN) if each.inserts else "",
            terminal.paint(f"~{each.updates:,}", Colour.YELLOW) if each.updates else "",
            terminal.paint(f"-{each.deletes:,}", Colour.RED) if each.deletes else "",
        )
        yield f"{each.kind} {each.type:<{width}}  {' '.join(part for part in parts if part)}"


def summarize(stats: ChangeStats) -> str:
    """All changes in one sentence."""
    count = len(stats.types_affected)
    if not count:
        return "no differences"
    return (
        f"{count} {plural(count, 'type')} changed: {stats.inserts:,} inserted, "
        f"{stats.updates:,} updated, {stats.deletes:,} deleted"
    )


def _lines_of(change: Change, terminal: Terminal) -> Iterator[str]:
    head = f"{_MARK_BY_OP[change.op]} {change.type} {show_name(change.id)}"
    properties = change.after if change.after is not None else change.before or {}
    if change.kind == "edge":
        head += f"  {show_name(str(properties['src']))} → {show_name(str(properties['dst']))}"
    if change.before is None or change.after is None:
        hidden = ("id", "src", "dst") if change.kind == "edge" else ("id",)
        shown = {name: value for name, value in properties.items() if name not in hidden}
        yield terminal.cut(f"{head} {show_properties(shown)}")
        return
    # The ends of an edge may have changed, and its first line shows only the new ones.
    values_by_name = {
        name: (show_value(change.before.get(name)), show_value(change.after.get(name)))
        for name in properties
        if name != "id" and change.before.get(name) != change.after.get(name)
    }
    whole = [f"{name}: {old} → {new}" for name, (old, new) in values_by_name.items()]
    line = f"{head}  {', '.join(whole)}"
    if terminal.width is None or measure(line) <= terminal.width:
        yield line
        return
    yield terminal.cut(head)
    for name, (old, new) in values_by_name.items():
        # Both values are cut so that a part of each is visible.
        start = f"    {name}: "
        room = max(terminal.width - measure(start) - measure(" → "), 2 * _NARROWEST_VALUE)
        start_of_old = clip(old, max(room // 2, room - measure(new), _NARROWEST_VALUE))
        yield f"{start}{start_of_old} → {clip(new, room - measure(start_of_old))}"


_COLOUR_BY_ROLE = {
    Role.ID: Colour.YELLOW,
    Role.BRANCH: Colour.GREEN,
    Role.TAG: Colour.CYAN,
    Role.TIME: Colour.FAINT,
    Role.LANES: Colour.BOLD,
}


def read_history(graph: AnyGraph, *, branches: Sequence[str], limit: int | None) -> History:
    """The newest commits of the given branches, or of all branches if none is given."""
    chosen = branches or graph.branches()
    return make_history(
        {branch: graph.commits(branch) for branch in chosen}, tags=graph.tags(), limit=limit
    )


def view_history(history: History, terminal: Terminal) -> Iterator[str]:
    """The history, line by line, as a terminal shows it."""
    for parts in draw_text(history):
        painted = (
            terminal.paint(part.text, colour)
            if (colour := _COLOUR_BY_ROLE.get(part.role)) is not None
            else part.text
            for part in parts
        )
        yield "".join(painted)
