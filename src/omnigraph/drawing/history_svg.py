"""A history as an SVG picture: a dot for each commit, curves to its parents, names beside them.

Promises a picture that stands alone, that screen readers find a title and a description in, and
that suits a light and a dark page. All text is escaped; nothing is fetched and nothing runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from omnigraph.drawing.history import History, count_commits, short_id
from omnigraph.drawing.lanes import Line, Row
from omnigraph.drawing.limits import PICTURE_NAME_CHARACTERS_MAX
from omnigraph.engine.state.history import Commit

_ROW_HEIGHT = 28
_LANE_WIDTH = 18
_MARGIN = 14
_RADIUS = 5
_CHARACTER_WIDTH = 7.3

# Text has the colour of the page that it stands on, and lanes have one that shows on white and on
# black: a page may be dark where the system is light, so that asking the system would be wrong.
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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="og" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">',
        "<title>History of the graph</title>",
        f"<desc>{escape(_summary(history))}</desc>",
        f"<style>{_STYLE}</style>",
        *(f'<path stroke="{_colour(lane)}" d="{path}"/>' for lane, path in _paths(history)),
    ]
    for place, (row, commit) in enumerate(zip(history.rows, history.commits, strict=True)):
        parts.append(_dot(row, commit, history, y=_y(place)))
        parts.append(f'<text x="{text_x}" y="{_y(place) + 4}">{captions[place][0]}</text>')
    if note:
        y = _y(len(history.rows)) + 4
        parts.append(f'<text class="quiet" x="{text_x}" y="{y}">{escape(note)}</text>')
    return "".join([*parts, "</svg>"])


def _paths(history: History) -> Iterator[tuple[int, str]]:
    """The lines, each with the lane that gives it its colour; straight runs are one path."""
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
                # What it leads to is not shown: the line goes on a little, to say so.
                yield line.start, f"M{_x(line.start)} {_y(place)}v{_MARGIN - 1}"
            elif not _is_straight(line):
                yield max(line.start, line.end), _curve(line.start, line.end, place)


def _is_straight(line: Line) -> bool:
    return line.start == line.end


def _curve(start: int, end: int, place: int) -> str:
    top, middle, bottom = _y(place), _y(place) + _ROW_HEIGHT // 2, _y(place + 1)
    return f"M{_x(start)} {top}C{_x(start)} {middle} {_x(end)} {middle} {_x(end)} {bottom}"


def _dot(row: Row, commit: Commit, history: History, *, y: int) -> str:
    told = f"{commit.id}: {history.subjects[commit.id]}, on {commit.branch}"
    return (
        f'<circle fill="{_colour(row.lane)}" cx="{_x(row.lane)}" cy="{y}" '
        f'r="{_RADIUS}"><title>{escape(told)}</title></circle>'
    )


def _caption(commit: Commit, history: History) -> tuple[str, int]:
    """What stands beside a commit, as SVG, and how many characters that is."""
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


def _summary(history: History) -> str:
    names: Mapping[str, None] = dict.fromkeys(
        name for each in history.commits for name in history.branches.get(each.id, ())
    )
    shown = count_commits(len(history.commits))
    return f"{shown}, newest first; branches: {', '.join(names) or 'none'}"


def _colour(lane: int) -> str:
    return _COLOURS[lane % len(_COLOURS)]


def _x(lane: int) -> int:
    return _MARGIN + lane * _LANE_WIDTH


def _y(place: int) -> int:
    return _MARGIN + place * _ROW_HEIGHT
