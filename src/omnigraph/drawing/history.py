"""The commit graph of some branches: order, lanes, and its drawing as text or SVG.

A commit comes before its parents, and the same commits always give the same drawing. Text contains
printable characters only, and each part carries a role from which the caller chooses a colour. SVG
is self-contained, escaped and accessible; it loads and runs nothing. Where the commits come from is
not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush
from html import escape
from itertools import count, islice, zip_longest

from omnigraph.engine.state.history import Commit
from omnigraph.model.errors import plural
from omnigraph.model.limits import PICTURE_NAME_CHARACTERS_MAX
from omnigraph.model.names import MAIN

_TRUNK_LANE = 0


@dataclass(frozen=True, slots=True)
class LaneEdge:
    """A segment of a line to a parent, from a lane of one row to a lane of the next."""

    start: int
    end: int
    parent_id: str


@dataclass(frozen=True, slots=True)
class Row:
    """A commit in its lane, and the line segments between it and the next row."""

    id: str
    lane: int
    lines: tuple[LaneEdge, ...]

    @property
    def width(self) -> int:
        """The number of lanes of the row and the segments below it."""
        return 1 + max(self.lane, *(max(line.start, line.end) for line in self.lines), 0)


def assign_lanes(
    ids: Sequence[str], *, parents: Mapping[str, Sequence[str]], trunk: Collection[str]
) -> tuple[Row, ...]:
    """A row for each commit, children before their parents.

    The first lane is reserved for the `trunk`: commits of which each is the first parent of the one
    before. Lines to parents that are not among the ids continue to the last row. The running time
    is proportional to the size of the drawing.
    """
    shown = frozenset(trunk)
    rows: list[Row] = []
    live: dict[int, str] = {}
    lane = _choose_lane(ids[0], live, shown) if ids else _TRUNK_LANE
    for id, following in zip_longest(ids, ids[1:]):
        passing = [(each, parent) for each, parent in live.items() if parent != id]
        leaving = [(lane, parent) for parent in dict.fromkeys(parents[id])]
        lane_by_parent = _lead_on(passing, leaving, shown)
        if following is None:
            next_lane = lane
        else:
            next_lane = _choose_lane(
                following, {each: parent for parent, each in lane_by_parent.items()}, shown
            )
            if following in lane_by_parent:
                lane_by_parent[following] = next_lane
        lines = [
            LaneEdge(each, lane_by_parent[parent], parent) for each, parent in passing + leaving
        ]
        rows.append(Row(id, lane, tuple(sorted(lines, key=lambda each: (each.start, each.end)))))
        live = {parent_lane: parent for parent, parent_lane in lane_by_parent.items()}
        lane = next_lane
    return tuple(rows)


def _lead_on(
    passing: Sequence[tuple[int, str]], leaving: Sequence[tuple[int, str]], trunk: frozenset[str]
) -> dict[str, int]:
    """The lane of the line to each parent below a commit, for passing and leaving lines.

    Lines to the same parent are merged immediately.
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
    """The lane of a commit: that of the line leading to it, or a free one."""
    if id in trunk:
        return _TRUNK_LANE
    for lane, parent in live.items():
        if parent == id:
            return lane
    return _first_free({*live, _TRUNK_LANE} if trunk else live, above=-1)


def _first_free(taken: Collection[int], *, above: int) -> int:
    return next(lane for lane in count(above + 1) if lane not in taken)


_SHORT_ID_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class History:
    """Commits in drawing order, each with its row.

    `left_out` is the number of older commits that are not shown; `branches` and `tags` are names by
    commit.
    """

    commits: tuple[Commit, ...]
    rows: tuple[Row, ...]
    left_out: int
    branches: Mapping[str, tuple[str, ...]]
    tags: Mapping[str, tuple[str, ...]]
    subjects: Mapping[str, str]


def make_history(
    commits_by_branch: Mapping[str, Sequence[Commit]],
    *,
    tags: Mapping[str, str],
    limit: int | None,
) -> History:
    """The newest commits of some branches, laid out in rows; None as `limit` means all.

    The commits of each branch are given oldest first.
    """
    known = {each.id: each for commits in commits_by_branch.values() for each in commits}
    heads = {branch: commits[-1].id for branch, commits in commits_by_branch.items() if commits}
    count = len(known) if limit is None else min(limit, len(known))
    shown = tuple(islice(_newest_first(known), count))
    parents = {each.id: parents_of(each, known) for each in shown}
    rows = assign_lanes(
        [each.id for each in shown], parents=parents, trunk=_trunk(heads.get(MAIN), known)
    )
    return History(
        commits=shown,
        rows=rows,
        left_out=len(known) - len(shown),
        branches=_names_by_commit(heads),
        tags=_names_by_commit(tags),
        subjects={each.id: _subject(each, known) for each in shown},
    )


def short_id(id: str) -> str:
    """The end of a commit's id, which is distinctive because an id begins with the time."""
    return id[-_SHORT_ID_CHARACTERS:]


def count_commits(count: int) -> str:
    """A number of commits as text."""
    return f"{count:,} {plural(count, 'commit')}"


def parents_of(commit: Commit, known: Mapping[str, Commit]) -> tuple[str, ...]:
    """The known parents of a commit; a parent on a deleted branch may be unknown."""
    parents = (commit.parent_id, commit.merged_parent_id)
    return tuple(each for each in parents if each is not None and each in known)


def _newest_first(known: Mapping[str, Commit]) -> Iterator[Commit]:
    """The commits, newest first, but each after all of its children."""
    children_left = dict.fromkeys(known, 0)
    for commit in known.values():
        for parent in parents_of(commit, known):
            children_left[parent] += 1
    ready = [_Newest(known[id]) for id, left in children_left.items() if left == 0]
    heapify(ready)
    while ready:
        commit = heappop(ready).commit
        yield commit
        for parent in parents_of(commit, known):
            children_left[parent] -= 1
            if children_left[parent] == 0:
                heappush(ready, _Newest(known[parent]))


@dataclass(frozen=True, slots=True)
class _Newest:
    """A commit that orders before the commits that were made earlier."""

    commit: Commit

    def __lt__(self, other: _Newest) -> bool:
        mine, others = self.commit, other.commit
        return (mine.created_at, mine.id) > (others.created_at, others.id)


def _trunk(head: str | None, known: Mapping[str, Commit]) -> set[str]:
    trunk: set[str] = set()
    while head is not None and head in known and head not in trunk:
        trunk.add(head)
        head = known[head].parent_id
    return trunk


def _names_by_commit(commit_by_name: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for name in sorted(commit_by_name, key=lambda each: (each != MAIN, each)):
        commit = commit_by_name[name]
        names[commit] = (*names.get(commit, ()), name)
    return names


def _subject(commit: Commit, known: Mapping[str, Commit]) -> str:
    """A short description of a commit, derived from its metadata."""
    if commit.notes.reverted_id is not None:
        return f"revert of {short_id(commit.notes.reverted_id)}"
    if commit.notes.picked_id is not None:
        return f"pick of {short_id(commit.notes.picked_id)}"
    if commit.merged_parent_id is not None:
        merged = known.get(commit.merged_parent_id)
        return f"merge of {merged.branch if merged else short_id(commit.merged_parent_id)}"
    if commit.parent_id is None:
        return "start"
    parent = known.get(commit.parent_id)
    if parent is not None and parent.schema_hash != commit.schema_hash:
        return "schema change"
    return "change"


_ROW_HEIGHT = 28
_LANE_WIDTH = 18
_MARGIN = 14
_RADIUS = 5
_CHARACTER_WIDTH = 7.3

# Text inherits the colour of the page, and lanes have colours that are visible on white and on
# black. The system's colour scheme is not used, because a page may be dark on a light system.
_COLOURS = ("#2f81f7", "#2a9d4a", "#d1720c", "#9a6cf0", "#e5484d", "#1b9aaa")
_STYLE = (
    ".og{font:12px ui-monospace,Menlo,Consolas,monospace;color-scheme:light dark}"
    ".og text{fill:currentColor}.og .quiet{opacity:.7}.og .tag{fill:#b87a00}"
    ".og .branch{font-weight:bold}.og path{fill:none;stroke-width:2}"
)


def draw_svg(history: History) -> str:
    """The history as the text of an SVG file."""
    lanes = max((row.width for row in history.rows), default=1)
    captions = [_caption(commit, history) for commit in history.commits]
    text_x = 2 * _MARGIN + (lanes - 1) * _LANE_WIDTH + _RADIUS
    longest = max((length for _, length in captions), default=0)
    note = f"and {count_commits(history.left_out)} before" if history.left_out else ""
    width = round(text_x + max(longest, len(note)) * _CHARACTER_WIDTH + _MARGIN)
    row_count = len(history.rows) + bool(note)
    height = _MARGIN * 2 + max(row_count - 1, 0) * _ROW_HEIGHT
    names = dict.fromkeys(
        name for each in history.commits for name in history.branches.get(each.id, ())
    )
    shown = count_commits(len(history.commits))
    summary = f"{shown}, newest first; branches: {', '.join(names) or 'none'}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="og" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">',
        "<title>History of the graph</title>",
        f"<desc>{escape(summary)}</desc>",
        f"<style>{_STYLE}</style>",
        *(f'<path stroke="{_colour(lane)}" d="{path}"/>' for lane, path in _paths(history)),
    ]
    for place, (row, commit) in enumerate(zip(history.rows, history.commits, strict=True)):
        title = f"{commit.id}: {history.subjects[commit.id]}, on {commit.branch}"
        parts += [
            f'<circle fill="{_colour(row.lane)}" cx="{_x(row.lane)}" cy="{_y(place)}" '
            f'r="{_RADIUS}"><title>{escape(title)}</title></circle>',
            f'<text x="{text_x}" y="{_y(place) + 4}">{captions[place][0]}</text>',
        ]
    if note:
        y = _y(len(history.rows)) + 4
        parts.append(f'<text class="quiet" x="{text_x}" y="{y}">{escape(note)}</text>')
    return "".join([*parts, "</svg>"])


def _paths(history: History) -> Iterator[tuple[int, str]]:
    """The SVG paths, each with the lane that determines its colour; straight runs are one path."""
    straight: dict[int, tuple[str, int]] = {}
    last = len(history.rows) - 1
    for place, row in enumerate(history.rows):
        ends_here = place == last
        here = {} if ends_here else {line.start: line for line in row.lines if _is_straight(line)}
        for lane, (parent, top) in list(straight.items()):
            if lane not in here or here[lane].parent_id != parent:
                yield lane, f"M{_x(lane)} {_y(top)}V{_y(place)}"
                del straight[lane]
        for lane, line in here.items():
            straight.setdefault(lane, (line.parent_id, place))
        for line in row.lines:
            if ends_here:
                # The parent is not shown, which a short continuation of the line indicates.
                yield line.start, f"M{_x(line.start)} {_y(place)}v{_MARGIN - 1}"
            elif not _is_straight(line):
                yield max(line.start, line.end), _curve(line.start, line.end, place)


def _is_straight(line: LaneEdge) -> bool:
    return line.start == line.end


def _curve(start: int, end: int, place: int) -> str:
    top, middle, bottom = _y(place), _y(place) + _ROW_HEIGHT // 2, _y(place + 1)
    return f"M{_x(start)} {top}C{_x(start)} {middle} {_x(end)} {middle} {_x(end)} {bottom}"


def _caption(commit: Commit, history: History) -> tuple[str, int]:
    """The caption of a commit as SVG, and its length in characters."""
    spans = [("", short_id(commit.id))]
    spans += [("branch", name) for name in history.branches.get(commit.id, ())]
    spans += [("tag", f"tag {name}") for name in history.tags.get(commit.id, ())]
    spans.append(("quiet", f"{commit.created_at:%Y-%m-%d %H:%MZ}"))
    if commit.actor is not None:
        spans.append(("quiet", commit.actor))
    spans.append(("", history.subjects[commit.id]))
    shown = [(role, _shorten(text)) for role, text in spans]
    markup = " ".join(
        f'<tspan class="{role}">{escape(text)}</tspan>' if role else escape(text)
        for role, text in shown
    )
    return markup, sum(len(text) + 1 for _, text in shown)


def _shorten(text: str) -> str:
    if len(text) <= PICTURE_NAME_CHARACTERS_MAX:
        return text
    return f"{text[:PICTURE_NAME_CHARACTERS_MAX]}…"


def _colour(lane: int) -> str:
    return _COLOURS[lane % len(_COLOURS)]


def _x(lane: int) -> int:
    return _MARGIN + lane * _LANE_WIDTH


def _y(place: int) -> int:
    return _MARGIN + place * _ROW_HEIGHT


class Role(StrEnum):
    """The role of a part of a line of text."""

    LANES = "lanes"
    ID = "id"
    BRANCH = "branch"
    TAG = "tag"
    TIME = "time"
    ACTOR = "actor"
    SUBJECT = "subject"
    SPACE = "space"


@dataclass(frozen=True, slots=True)
class StyledText:
    """A part of a line of text, and its role."""

    text: str
    role: Role


def draw_text(history: History) -> Iterator[tuple[StyledText, ...]]:
    """The history as lines of text."""
    for row, commit in zip(history.rows, history.commits, strict=True):
        yield (StyledText(_commit_line(row), Role.LANES), *_describe(commit, history))
        if commit is not history.commits[-1]:
            for line in connecting_lines(row.lines):
                yield (StyledText(line, Role.LANES),)
    if history.left_out:
        yield (StyledText(f"... and {count_commits(history.left_out)} before", Role.SUBJECT),)


def plain_text(history: History) -> str:
    """The history as one string without roles."""
    lines = ("".join(part.text for part in line) for line in draw_text(history))
    return "".join(f"{line}\n" for line in lines)


def connecting_lines(lines: Sequence[LaneEdge]) -> list[str]:
    """The lines of text between two commits; empty if every line is straight."""
    moves = [line for line in lines if line.start != line.end]
    lanes = [line.start for line in lines]
    drawn: list[str] = []
    while moves:
        together = _first_apart(moves)
        moves = [move for move in moves if move not in together]
        for move in together:
            lanes.remove(move.start)
        drawn += _draw_moves(together, lanes)
        lanes += [move.end for move in together]
    return drawn


def _first_apart(moves: Sequence[LaneEdge]) -> list[LaneEdge]:
    """The moves that fit on one line of text because they do not overlap."""
    together: list[LaneEdge] = []
    for move in moves:
        low, high = _span(move)
        if all(high <= _span(other)[0] or _span(other)[1] <= low for other in together):
            together.append(move)
    return together


def _span(move: LaneEdge) -> tuple[int, int]:
    return min(move.start, move.end), max(move.start, move.end)


def _draw_moves(moves: Sequence[LaneEdge], lanes: Sequence[int]) -> list[str]:
    """One line of text, or two if a move crosses a lane; `lanes` are those that do not move."""
    width = 2 * max(*(move.start for move in moves), *(move.end for move in moves), *lanes, 0) + 1
    upper, lower = [" "] * width, [" "] * width
    for lane in lanes:
        upper[2 * lane] = lower[2 * lane] = "|"
    for move in moves:
        low, high = _span(move)
        is_right = move.start < move.end
        upper[2 * low + 1 if is_right else 2 * high - 1] = "\\" if is_right else "/"
        if high - low == 1:
            lower[2 * move.end] = "|"
            continue
        for column in range(2 * low + 2, 2 * high - 1):
            if upper[column] == " ":
                upper[column] = "_"
        lower[2 * high - 1 if is_right else 2 * low + 1] = "\\" if is_right else "/"
    is_long = any(high - low > 1 for low, high in map(_span, moves))
    return ["".join(line).rstrip() for line in ((upper, lower) if is_long else (upper,))]


def _commit_line(row: Row) -> str:
    lanes = {line.start for line in row.lines} | {row.lane}
    cells = ["|" if lane in lanes else " " for lane in range(max(lanes) + 1)]
    cells[row.lane] = "*"
    return " ".join(cells)


def _describe(commit: Commit, history: History) -> Iterator[StyledText]:
    yield StyledText(" ", Role.SPACE)
    yield StyledText(commit.id, Role.ID)
    names = [StyledText(name, Role.BRANCH) for name in history.branches.get(commit.id, ())]
    names += [StyledText(f"tag: {name}", Role.TAG) for name in history.tags.get(commit.id, ())]
    for place, name in enumerate(names):
        yield StyledText(", " if place else " (", Role.SPACE)
        yield name
    yield StyledText(f"{')' if names else ''} ", Role.SPACE)
    yield StyledText(f"{commit.created_at:%Y-%m-%d %H:%MZ}", Role.TIME)
    if commit.actor is not None:
        yield StyledText(" ", Role.SPACE)
        yield StyledText(_printable(commit.actor), Role.ACTOR)
    yield StyledText("  ", Role.SPACE)
    yield StyledText(_printable(history.subjects[commit.id]), Role.SUBJECT)


def _printable(text: str) -> str:
    """The text without control characters, so that untrusted text cannot affect a terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
