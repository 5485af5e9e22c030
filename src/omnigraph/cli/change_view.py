"""Differences as people read them: one line a node or an edge, with only what changed.

`+` is there now, `-` was there before, `~` is there with other values. Pure: it is given changes
and the terminal that they are for, and gives lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.display import clip, measure
from omnigraph.cli.terminal import Colour, Terminal
from omnigraph.cli.value_text import show_name, show_properties, show_value

if TYPE_CHECKING:
    from omnigraph.engine.changes import Change, ChangeStats

_ENDS = ("src", "dst")
_NARROWEST_VALUE = 8
_MARK_BY_OP = {"insert": "+", "update": "~", "delete": "-"}
_COLOUR_BY_OP = {"insert": Colour.GREEN, "update": Colour.YELLOW, "delete": Colour.RED}


@dataclass(frozen=True, slots=True)
class TypeCount:
    """How many changes of each sort a type has."""

    kind: str
    type: str
    inserts: int
    updates: int
    deletes: int


def view_changes(changes: Iterable[Change], terminal: Terminal) -> Iterator[str]:
    """The changes in their order, with an empty line between types."""
    last: tuple[str, str] | None = None
    for change in changes:
        if last not in (None, (change.kind, change.type)):
            yield ""
        last = (change.kind, change.type)
        colour = _COLOUR_BY_OP[change.op]
        for line in _lines_of(change, terminal):
            yield terminal.paint(line, colour)


def view_counts(counts: Iterable[TypeCount], terminal: Terminal) -> Iterator[str]:
    """One line a type: how many were inserted, updated and deleted."""
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
        f"{count} type{'s' * (count > 1)} changed: {stats.inserts:,} inserted, "
        f"{stats.updates:,} updated, {stats.deletes:,} deleted"
    )


def _lines_of(change: Change, terminal: Terminal) -> Iterator[str]:
    head = f"{_MARK_BY_OP[change.op]} {change.type} {show_name(change.id)}"
    image = change.after if change.after is not None else change.before or {}
    if change.kind == "edge":
        head += f"  {show_name(str(image['src']))} → {show_name(str(image['dst']))}"
    if change.before is None or change.after is None:
        yield terminal.cut(f"{head} {show_properties(_properties(change, image))}")
        return
    # An edge may have come to lead elsewhere, which its head does not tell of.
    names = [name for name in image if name != "id" and _differs(change, name)]
    whole = [f"{name}: {_arrow(change, name)}" for name in names]
    line = f"{head}  {', '.join(whole)}"
    if terminal.width is None or measure(line) <= terminal.width:
        yield line
        return
    yield terminal.cut(head)
    for name in names:
        yield _fitted(change, name, terminal.width)


def _properties(change: Change, image: Mapping[str, object]) -> dict[str, object]:
    hidden = ("id", *_ENDS) if change.kind == "edge" else ("id",)
    return {name: value for name, value in image.items() if name not in hidden}


def _differs(change: Change, name: str) -> bool:
    return _before(change, name) != _after(change, name)


def _arrow(change: Change, name: str) -> str:
    return f"{show_value(_before(change, name))} → {show_value(_after(change, name))}"


def _fitted(change: Change, name: str, width: int) -> str:
    """One property on a line of its own, both values cut so that something of each is seen."""
    head = f"    {name}: "
    old, new = show_value(_before(change, name)), show_value(_after(change, name))
    room = max(width - measure(head) - measure(" → "), 2 * _NARROWEST_VALUE)
    half = max(room // 2, room - measure(new), _NARROWEST_VALUE)
    shown = clip(old, half)
    return f"{head}{shown} → {clip(new, room - measure(shown))}"


def _before(change: Change, name: str) -> object:
    return (change.before or {}).get(name)


def _after(change: Change, name: str) -> object:
    return (change.after or {}).get(name)
