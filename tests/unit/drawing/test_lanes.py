"""The layout of a history in lanes: whatever the history, its lines can be followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.drawing.history_text import connecting_lines
from omnigraph.drawing.lanes import Line, Row, lay_out

Parents = Mapping[str, Sequence[str]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], Parents, set[str]]:
    """Commits newest first, with up to two parents each, and the trunk of one of them."""
    count = draw(st.integers(1, 25))
    ids = [f"c{place}" for place in range(count)]
    parents: dict[str, list[str]] = {}
    for place, id in enumerate(ids):
        older = st.sampled_from(ids[place + 1 :]) if place + 1 < count else st.nothing()
        wanted = draw(st.integers(0, 2)) if place + 1 < count else 0
        parents[id] = [draw(older) for _ in range(wanted)]
    trunk: set[str] = set()
    head = draw(st.sampled_from([None, *ids]))
    while head is not None:
        trunk.add(head)
        head = parents[head][0] if parents[head] else None
    return ids, parents, trunk


@given(histories())
def test_every_line_that_leaves_a_commit_arrives_at_its_parent(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = lay_out(ids, parents=parents, trunk=trunk)

    place_of = {row.id: place for place, row in enumerate(rows)}
    for place, row in enumerate(rows):
        for parent in set(parents[row.id]):
            lane = row.lane
            for passed in rows[place : place_of[parent]]:
                (line,) = [
                    each for each in passed.lines if (each.start, each.parent_id) == (lane, parent)
                ]
                lane = line.end
            assert lane == rows[place_of[parent]].lane


@given(histories())
def test_no_lane_holds_lines_to_two_commits(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = lay_out(ids, parents=parents, trunk=trunk)

    for above, below in pairwise(rows):
        held = {line.end: line.parent_id for line in above.lines}
        assert {(line.end, line.parent_id) for line in above.lines} == set(held.items())
        assert held.get(below.lane, below.id) == below.id


@given(histories())
def test_nothing_is_drawn_that_is_no_line_to_a_parent(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = lay_out(ids, parents=parents, trunk=trunk)

    live: set[tuple[int, str]] = set()
    for row in rows:
        leaving = {(row.lane, parent) for parent in parents[row.id]}
        passing = {(lane, parent) for lane, parent in live if parent != row.id}
        assert {(line.start, line.parent_id) for line in row.lines} == leaving | passing
        live = {(line.end, line.parent_id) for line in row.lines}


@given(histories())
def test_the_trunk_has_the_first_lane_to_itself(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = lay_out(ids, parents=parents, trunk=trunk)

    if trunk:
        assert {row.id for row in rows if row.lane == 0} == trunk


@given(histories())
def test_characters_lead_from_every_lane_to_where_its_line_ends(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = lay_out(ids, parents=parents, trunk=trunk)

    for row in rows:
        drawn = connecting_lines(row.lines)
        for line in row.lines:
            assert line.end in _reached(line.start, drawn), (row, drawn)


def test_a_branch_that_was_merged_leaves_the_trunk_and_comes_back() -> None:
    parents = {"merge": ["main", "side"], "main": ["start"], "side": ["start"], "start": []}

    rows = lay_out(["merge", "side", "main", "start"], parents=parents, trunk=_chain(parents))

    assert rows == (
        Row("merge", 0, (Line(0, 0, "main"), Line(0, 1, "side"))),
        Row("side", 1, (Line(0, 0, "main"), Line(1, 1, "start"))),
        Row("main", 0, (Line(0, 0, "start"), Line(1, 0, "start"))),
        Row("start", 0, ()),
    )


def test_a_history_of_ten_thousand_commits_takes_few_lanes() -> None:
    ids = [f"c{place}" for place in range(10_000)]
    parents = {id: [f"c{place + 1}"] if place < 9_999 else [] for place, id in enumerate(ids)}
    for place in range(0, 9_990, 5):
        parents[ids[place]].append(ids[place + 3])

    rows = lay_out(ids, parents=parents, trunk=set(ids))

    assert max(row.width for row in rows) == 2


def _chain(parents: Parents) -> set[str]:
    found, head = set(), "merge"
    while head:
        found.add(head)
        head = parents[head][0] if parents[head] else ""
    return found


def _reached(start: int, drawn: Sequence[str]) -> set[int]:
    """The lanes that one gets to from a lane along the characters of some lines of text."""
    places = {2 * start}
    for line in drawn:
        cells = dict(enumerate(line))
        reached = set()
        for place in places:
            if cells.get(place) == "|":
                reached.add(place)
            for sign, step in (("\\", 1), ("/", -1)):
                if cells.get(place + step) == sign:
                    reached.add(place + 2 * step)
                    reached |= _along(cells, place + 2 * step, step)
        # A line that has crossed others ends in a slope that begins between two lanes.
        places = reached
    return {place // 2 for place in places if place % 2 == 0}


def _along(cells: Mapping[int, str], place: int, step: int) -> set[int]:
    """Where a slope can go on to the side: along underscores, under the lanes that it crosses."""
    reached = set()
    while cells.get(place) in ("_", "|") and (
        cells.get(place) == "_" or cells.get(place + step) == "_"
    ):
        reached.add(place)
        place += step
    return reached | {place}
