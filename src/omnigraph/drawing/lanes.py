"""Where the commits of a history stand when it is drawn: one row each, in lanes side by side.

Promises that lines keep their lane but for the step below a commit and the one above another, that
no lane holds lines to two commits at once, and that one line of first parents, the trunk, has the
first lane to itself. Does not know what a commit is, nor how a line looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest

_TRUNK_LANE = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A piece of a line to a parent, from a lane of one row to a lane of the next."""

    start: int
    end: int
    parent_id: str


@dataclass(frozen=True, slots=True)
class Row:
    """A commit in its lane, and the pieces of lines between it and the next row."""

    id: str
    lane: int
    lines: tuple[Line, ...]

    @property
    def width(self) -> int:
        """How many lanes the row and what is below it take."""
        return 1 + max(self.lane, *(max(line.start, line.end) for line in self.lines), 0)


def lay_out(
    ids: Sequence[str], *, parents: Mapping[str, Sequence[str]], trunk: Collection[str]
) -> tuple[Row, ...]:
    """A row for each commit, children before their parents.

    The first lane is kept for the `trunk`: commits of which each is the first parent of the one
    before. Lines to parents that are not among the ids run on to the last row. Takes time in
    proportion to what there is to draw.
    """
    kept = frozenset(trunk)
    rows: list[Row] = []
    live: dict[int, str] = {}
    lane = _choose_lane(ids[0], live, kept) if ids else _TRUNK_LANE
    for id, following in zip_longest(ids, ids[1:]):
        passing = [(each, parent) for each, parent in live.items() if parent != id]
        leaving = [(lane, parent) for parent in dict.fromkeys(parents[id])]
        lane_by_parent = _lead_on(passing, leaving, kept)
        if following is None:
            next_lane = lane
        else:
            next_lane = _choose_lane(
                following, {each: parent for parent, each in lane_by_parent.items()}, kept
            )
            if following in lane_by_parent:
                lane_by_parent[following] = next_lane
        lines = [Line(each, lane_by_parent[parent], parent) for each, parent in passing + leaving]
        rows.append(Row(id, lane, tuple(sorted(lines, key=_place))))
        live = {parent_lane: parent for parent, parent_lane in lane_by_parent.items()}
        lane = next_lane
    return tuple(rows)


def _lead_on(
    passing: Sequence[tuple[int, str]], leaving: Sequence[tuple[int, str]], trunk: frozenset[str]
) -> dict[str, int]:
    """The lane of the line to each parent, below a commit that lines pass and leave.

    Lines to one parent become one as soon as there are two of them.
    """
    taken = {lane for lane, _ in passing} | ({_TRUNK_LANE} if trunk else set())
    lane_by_parent = {parent: lane for lane, parent in passing}
    for place, (lane, parent) in enumerate(leaving):
        if place == 0 and lane == _TRUNK_LANE and parent in trunk:
            lane_by_parent[parent] = _TRUNK_LANE
        elif parent not in lane_by_parent:
            chosen = lane if lane not in taken else _first_free(taken, above=lane)
            lane_by_parent[parent] = chosen
            taken.add(chosen)
    return lane_by_parent


def _choose_lane(id: str, live: Mapping[int, str], trunk: frozenset[str]) -> int:
    """The lane of a commit: where the line to it comes down, or a free one."""
    if id in trunk:
        return _TRUNK_LANE
    for lane, parent in live.items():
        if parent == id:
            return lane
    return _first_free({*live, _TRUNK_LANE} if trunk else live, above=-1)


def _first_free(taken: Collection[int], *, above: int) -> int:
    return next(lane for lane in count(above + 1) if lane not in taken)


def _place(line: Line) -> tuple[int, int]:
    return line.start, line.end
