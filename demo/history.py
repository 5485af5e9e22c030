"""Draws a history as text: newest commit first, one lane per line of descent, main leftmost.

Pure: commits and names in, lines out. A commit is drawn below all of its descendants. A parent that
is not among the commits, such as one of a deleted branch, is not drawn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from omnigraph.engine.state.history import Commit

ID_LENGTH = 6
"""The number of characters of a commit id to show, from its end: ids start with their timestamp."""


def draw_history(commits: Iterable[Commit], *, names: Mapping[str, str]) -> list[str]:
    """Draw the commits as a graph; `names` maps branches and tags to the ids of their commits."""
    known = {commit.id: commit for commit in commits}
    rows = list(_draw(known, names))
    width = max((len(picture) for picture, _ in rows), default=0)
    return [f"{picture:{width}}  {text}".rstrip() for picture, text in rows]


def _draw(known: Mapping[str, Commit], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # The next commit of each lane; the first lane is reserved for main.
    lanes: list[str | None] = [None]
    for commit in _newest_first(known):
        own = 0 if commit.id == names.get("main") else _lane_of(commit.id, lanes)
        for lane in range(len(lanes) - 1, own, -1):
            if lanes[lane] == commit.id:
                lanes[lane] = None
                others = (at for at in range(lane) if lanes[at] == commit.id)
                yield _join(lanes, lane, max(others, default=own)), ""
        lanes[own : own + 1] = [commit.id]
        bars = _bars(lanes)
        yield bars[: 2 * own] + "*" + bars[2 * own + 1 :], _describe(commit, known, names)
        lanes[own] = commit.parent_id if commit.parent_id in known else None
        merged = commit.merged_parent_id
        if merged is not None and merged in known:
            yield _branch_off(lanes, own, merged), ""


def _newest_first(known: Mapping[str, Commit]) -> Iterator[Commit]:
    """The commits, newest first, each after all of its descendants."""
    children = Counter(each for commit in known.values() for each in _parents(commit, known))
    ready = [commit for commit in known.values() if not children[commit.id]]
    while ready:
        newest = max(ready, key=lambda commit: (commit.created_at, commit.id))
        ready.remove(newest)
        yield newest
        for parent in _parents(newest, known):
            children[parent] -= 1
            if not children[parent]:
                ready.append(known[parent])


def _parents(commit: Commit, known: Mapping[str, Commit]) -> list[str]:
    both = (commit.parent_id, commit.merged_parent_id)
    return [each for each in both if each is not None and each in known]


# Lanes


def _lane_of(id: str, lanes: list[str | None]) -> int:
    """The lane that leads to a commit, or the first free lane other than main's."""
    if id in lanes:
        return lanes.index(id)
    return next((at for at in range(1, len(lanes)) if lanes[at] is None), len(lanes))


def _bars(lanes: list[str | None]) -> str:
    return " ".join(" " if each is None else "|" for each in lanes)


def _join(lanes: list[str | None], lane: int, into: int) -> str:
    """Draw a lane that ends and joins a lane to its left, crossing the lanes between them."""
    picture = list(_bars(lanes))
    picture[2 * lane - 1] = "/"
    for at in range(2 * into + 1, 2 * lane - 1):
        picture[at] = "_" if picture[at] == " " else picture[at]
    return "".join(picture).rstrip()


def _branch_off(lanes: list[str | None], own: int, id: str) -> str:
    """Draw a new lane that starts to the right of another, and shift the lanes in between."""
    room = next((at for at in range(own + 1, len(lanes)) if lanes[at] is None), len(lanes))
    picture = list(_bars(lanes).ljust(2 * room))
    picture[2 * own + 1 : 2 * room] = " ".join("\\" * (room - own))
    lanes[own + 1 : room + 1] = [id, *lanes[own + 1 : room]]
    return "".join(picture).rstrip()


# Text


def _describe(commit: Commit, known: Mapping[str, Commit], names: Mapping[str, str]) -> str:
    labels = [name for name, id in names.items() if id == commit.id]
    parts = [
        commit.id[-ID_LENGTH:],
        f"({', '.join(labels)})" if labels else "",
        commit.actor or "-",
        "; ".join(_notes(commit, known)),
    ]
    return " ".join(part for part in parts if part)


def _notes(commit: Commit, known: Mapping[str, Commit]) -> Iterator[str]:
    if commit.merged_parent_id is not None:
        merged = known.get(commit.merged_parent_id)
        yield f"merges {merged.branch if merged else 'a deleted branch'}"
    for each in commit.notes.resolutions:
        yield f"{each.type} '{each.id}' as in the {each.choice}"
    if commit.notes.reverted_id is not None:
        yield f"reverts {commit.notes.reverted_id[-ID_LENGTH:]}"
    if commit.notes.picked_id is not None:
        yield f"picks {commit.notes.picked_id[-ID_LENGTH:]}"
