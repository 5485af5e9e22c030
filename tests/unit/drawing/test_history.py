"""Commit graph: lanes, text, SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.drawing.history import (
    History,
    LaneEdge,
    Row,
    assign_lanes,
    connecting_lines,
    draw_svg,
    make_history,
    plain_text,
)
from omnigraph.engine.state.history import Commit, CommitNotes

SVG = "{http://www.w3.org/2000/svg}"


def entry(place: int, *parents: str, branch: str = "main", actor: str | None = None) -> Commit:
    """The commit `c<place>`, made `place` minutes after midnight."""
    first, second = [*parents, None, None][:2]
    return Commit(
        id=f"c{place}",
        branch=branch,
        parent_id=first,
        merged_parent_id=second,
        actor=actor,
        created_at=datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=place),
        manifest_version=place,
        schema_hash="sha256:a",
    )


def reviewed() -> History:
    """A branch by ann that was merged into main, which had gone on meanwhile."""
    start, side, on_main = entry(1), entry(2, "c1", branch="side", actor="ann"), entry(3, "c1")
    merge = entry(4, "c3", "c2", actor="bob")
    return history([start, on_main, merge], side=[start, side])


def history(main: Sequence[Commit], **others: Sequence[Commit]) -> History:
    """All commits of some branches; a tag is on the newest of main."""
    return make_history({"main": main, **others}, tags={"v1": main[-1].id}, limit=None)


def test_a_merge_is_drawn_as_a_line_that_leaves_and_comes_back() -> None:
    drawn = plain_text(reviewed())

    assert drawn.splitlines() == [
        "* c4 (main, tag: v1) 2026-03-01 00:04Z bob  merge of side",
        "|\\",
        "* | c3 2026-03-01 00:03Z  change",
        "| * c2 (side) 2026-03-01 00:02Z ann  change",
        "|/",
        "* c1 2026-03-01 00:01Z  start",
    ]


def test_a_child_is_drawn_above_its_parents_whatever_their_clocks() -> None:
    late = replace(entry(1), created_at=datetime(2027, 1, 1, tzinfo=UTC))

    drawn = history([late, entry(2, "c1"), entry(3, "c2")])

    assert [commit.id for commit in drawn.commits] == ["c3", "c2", "c1"]


def test_only_the_newest_are_drawn_and_the_others_are_counted() -> None:
    commits = [entry(1), *(entry(place, f"c{place - 1}") for place in range(2, 9))]

    drawn = make_history({"main": commits}, tags={}, limit=2)

    assert plain_text(drawn).splitlines() == [
        "* c8 (main) 2026-03-01 00:08Z  change",
        "* c7 2026-03-01 00:07Z  change",
        "... and 6 commits before",
    ]


def test_commits_say_what_they_undid_picked_and_changed_of_the_schema() -> None:
    undone = replace(entry(2, "c1"), notes=CommitNotes(reverted_id="01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    picked = replace(entry(3, "c2"), notes=CommitNotes(picked_id="01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    changed = replace(entry(4, "c3"), schema_hash="sha256:b")
    merged = replace(entry(5, "c4", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), schema_hash="sha256:b")

    drawn = history([entry(1), undone, picked, changed, merged])

    assert [drawn.subjects[f"c{place}"] for place in range(1, 6)] == [
        "start",
        "revert of Q69G5FAV",
        "pick of Q69G5FAV",
        "schema change",
        "merge of Q69G5FAV",
    ]


def test_a_parent_of_a_deleted_branch_leaves_no_line_behind() -> None:
    drawn = history([entry(1), entry(2, "c1", "gone"), entry(3, "c2")])

    assert [line[:3] for line in plain_text(drawn).splitlines()] == ["* c", "* c", "* c"]


def test_the_text_of_an_actor_is_escaped_for_a_terminal() -> None:
    drawn = plain_text(history([entry(1, actor="\x1b[2Jann\n* c9")]))

    assert "\x1b" not in drawn
    assert len(drawn.splitlines()) == 1


def test_a_picture_has_a_dot_for_each_commit_and_words_for_those_who_cannot_see_it() -> None:
    picture = ElementTree.fromstring(draw_svg(reviewed()))

    dots = picture.findall(f"{SVG}circle")
    assert [dot.findtext(f"{SVG}title") for dot in dots] == [
        "c4: merge of side, on main",
        "c3: change, on main",
        "c2: change, on side",
        "c1: start, on main",
    ]
    assert picture.attrib["role"] == "img"
    assert picture.findtext(f"{SVG}title") == "History of the graph"
    assert picture.findtext(f"{SVG}desc") == "4 commits, newest first; branches: main, side"


def test_the_lines_of_a_picture_join_the_dots() -> None:
    picture = ElementTree.fromstring(draw_svg(reviewed()))

    dots = [(dot.attrib["cx"], dot.attrib["cy"]) for dot in picture.findall(f"{SVG}circle")]
    paths = [path.attrib["d"] for path in picture.findall(f"{SVG}path")]

    assert dots == [("14", "14"), ("14", "42"), ("32", "70"), ("14", "98")]
    assert sorted(paths) == [
        "M14 14C14 28 32 28 32 42",
        "M14 14V42",
        "M14 42V98",
        "M32 42V70",
        "M32 70C32 84 14 84 14 98",
    ]


def test_the_text_of_a_picture_is_text_whatever_it_says() -> None:
    hostile = entry(1, actor="<script>alert(1)</script>")

    drawn = draw_svg(make_history({"<b>": [hostile]}, tags={'"&': "c1"}, limit=None))

    ElementTree.fromstring(drawn)
    assert "<script>" not in drawn
    assert "<b>" not in drawn


def test_a_history_without_commits_is_an_empty_picture_and_no_text() -> None:
    nothing = make_history({}, tags={}, limit=None)

    assert plain_text(nothing) == ""
    assert ElementTree.fromstring(draw_svg(nothing)).findall(f"{SVG}circle") == []


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

    rows = assign_lanes(ids, parents=parents, trunk=trunk)

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

    rows = assign_lanes(ids, parents=parents, trunk=trunk)

    for above, below in pairwise(rows):
        held = {line.end: line.parent_id for line in above.lines}
        assert {(line.end, line.parent_id) for line in above.lines} == set(held.items())
        assert held.get(below.lane, below.id) == below.id


@given(histories())
def test_only_lines_to_parents_are_drawn(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = assign_lanes(ids, parents=parents, trunk=trunk)

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

    rows = assign_lanes(ids, parents=parents, trunk=trunk)

    if trunk:
        assert {row.id for row in rows if row.lane == 0} == trunk


@given(histories())
def test_characters_lead_from_every_lane_to_where_its_line_ends(
    history: tuple[list[str], Parents, set[str]],
) -> None:
    ids, parents, trunk = history

    rows = assign_lanes(ids, parents=parents, trunk=trunk)

    for row in rows:
        drawn = connecting_lines(row.lines)
        for line in row.lines:
            assert line.end in _reached(line.start, drawn), (row, drawn)


def test_a_branch_that_was_merged_leaves_the_trunk_and_comes_back() -> None:
    parents = {"merge": ["main", "side"], "main": ["start"], "side": ["start"], "start": []}

    rows = assign_lanes(["merge", "side", "main", "start"], parents=parents, trunk=_chain(parents))

    assert rows == (
        Row("merge", 0, (LaneEdge(0, 0, "main"), LaneEdge(0, 1, "side"))),
        Row("side", 1, (LaneEdge(0, 0, "main"), LaneEdge(1, 1, "start"))),
        Row("main", 0, (LaneEdge(0, 0, "start"), LaneEdge(1, 0, "start"))),
        Row("start", 0, ()),
    )


def test_a_history_of_ten_thousand_commits_takes_few_lanes() -> None:
    ids = [f"c{place}" for place in range(10_000)]
    parents = {id: [f"c{place + 1}"] if place < 9_999 else [] for place, id in enumerate(ids)}
    for place in range(0, 9_990, 5):
        parents[ids[place]].append(ids[place + 3])

    rows = assign_lanes(ids, parents=parents, trunk=set(ids))

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
