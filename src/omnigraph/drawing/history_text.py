"""A history as lines of text: `*` a commit, `|`, `/`, `\\` and `_` what leads to its parents.

Promises that a line of characters runs from every commit to its parents, and that nothing but
printable characters come out. Colours are the caller's: each part of a line says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.drawing.history import History, count_commits
from omnigraph.drawing.lanes import Line, Row
from omnigraph.engine.state.history import Commit


class Role(StrEnum):
    """What a part of a line is."""

    LANES = "lanes"
    ID = "id"
    BRANCH = "branch"
    TAG = "tag"
    TIME = "time"
    ACTOR = "actor"
    SUBJECT = "subject"
    SPACE = "space"


@dataclass(frozen=True, slots=True)
class Part:
    """Some text of a line, and what it is."""

    text: str
    role: Role


def draw_text(history: History) -> Iterator[tuple[Part, ...]]:
    """The history, line by line."""
    for row, commit in zip(history.rows, history.commits, strict=True):
        yield (Part(_commit_line(row), Role.LANES), *_describe(commit, history))
        if commit is not history.commits[-1]:
            for line in connecting_lines(row.lines):
                yield (Part(line, Role.LANES),)
    if history.left_out:
        yield (Part(f"... and {count_commits(history.left_out)} before", Role.SUBJECT),)


def plain_text(history: History) -> str:
    """The history as one text without colours."""
    lines = ("".join(part.text for part in line) for line in draw_text(history))
    return "".join(f"{line}\n" for line in lines)


def connecting_lines(lines: Sequence[Line]) -> list[str]:
    """The lines of text between two commits: none where every line goes straight down."""
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


def _first_apart(moves: Sequence[Line]) -> list[Line]:
    """Those of the moves that can stand on one line of text because they do not overlap."""
    together: list[Line] = []
    for move in moves:
        low, high = _span(move)
        if all(high <= _span(other)[0] or _span(other)[1] <= low for other in together):
            together.append(move)
    return together


def _span(move: Line) -> tuple[int, int]:
    return min(move.start, move.end), max(move.start, move.end)


def _draw_moves(moves: Sequence[Line], lanes: Sequence[int]) -> list[str]:
    """One line of text, or two where a move crosses a lane; `lanes` are those that stay."""
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


def _describe(commit: Commit, history: History) -> Iterator[Part]:
    yield Part(" ", Role.SPACE)
    yield Part(commit.id, Role.ID)
    names = [Part(name, Role.BRANCH) for name in history.branches.get(commit.id, ())]
    names += [Part(f"tag: {name}", Role.TAG) for name in history.tags.get(commit.id, ())]
    for place, name in enumerate(names):
        yield Part(", " if place else " (", Role.SPACE)
        yield name
    yield Part(f"{')' if names else ''} ", Role.SPACE)
    yield Part(f"{commit.created_at:%Y-%m-%d %H:%MZ}", Role.TIME)
    if commit.actor is not None:
        yield Part(" ", Role.SPACE)
        yield Part(_printable(commit.actor), Role.ACTOR)
    yield Part("  ", Role.SPACE)
    yield Part(_printable(history.subjects[commit.id]), Role.SUBJECT)


def _printable(text: str) -> str:
    """A text that leaves a terminal as it is, whoever chose it."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
