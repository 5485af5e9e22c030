"""Rows as a table for people: columns side by side, cut or wrapped to the room that they get.

Takes texts that are harmless already. Without a width columns are as wide as what they hold, up to
a cap; with one, a line is no wider than it as long as each column keeps a few places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from omnigraph.cli.display import clip, fill, measure, split

_BETWEEN = " | "
_CROSSING = "-+-"
_CAP_MIN = 8
# So much of a column still says something.
_ROOM_MIN = 4


@dataclass(frozen=True, slots=True)
class Look:
    """How tables are drawn: the widest that a column gets, whether what is longer is wrapped, and
    the width of the terminal if there is one."""

    column_width_max: int
    is_wrapped: bool
    terminal_width: int | None


def draw_table(
    names: Sequence[str], columns: Sequence[Sequence[str]], *, look: Look
) -> Iterator[str]:
    """The lines of a table: names, a rule, rows."""
    cap = max(look.column_width_max, _CAP_MIN)
    rooms = [
        min(cap, max(map(measure, (name, *cells))))
        for name, cells in zip(names, columns, strict=True)
    ]
    if look.terminal_width is not None:
        rooms = fit_rooms(rooms, look.terminal_width - len(_BETWEEN) * (len(rooms) - 1))
    yield from _draw_row(names, rooms, look)
    yield _CROSSING.join("-" * room for room in rooms)
    for row in zip(*columns, strict=True):
        yield from _draw_row(row, rooms, look)


def fit_rooms(wanted: Sequence[int], available: int) -> list[int]:
    """The rooms of columns that have to share a width: narrow ones keep theirs, the wide are made
    equal."""
    if sum(wanted) <= available:
        return list(wanted)
    cap = max(wanted)
    while cap > _ROOM_MIN and sum(min(each, cap) for each in wanted) > available:
        cap -= 1
    rooms = [min(each, cap) for each in wanted]
    left = available - sum(rooms)
    for position, each in enumerate(wanted):
        if left > 0 and each > cap:
            rooms[position] += 1
            left -= 1
    return rooms


def _draw_row(cells: Sequence[str], rooms: Sequence[int], look: Look) -> Iterator[str]:
    if not look.is_wrapped:
        shown = (fill(clip(cell, room), room) for cell, room in zip(cells, rooms, strict=True))
        yield _BETWEEN.join(shown).rstrip()
        return
    pieces = [split(cell, room) for cell, room in zip(cells, rooms, strict=True)]
    for line in zip_longest(*pieces, fillvalue=""):
        shown = (fill(piece, room) for piece, room in zip(line, rooms, strict=True))
        yield _BETWEEN.join(shown).rstrip()
