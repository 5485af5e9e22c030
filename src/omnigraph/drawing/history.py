"""A history that can be drawn: commits of several branches, newest first, and what they are called.

Promises that a child stands before its parents and that the same commits come in the same order.
Does not know how it is drawn, nor where the commits come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice

from omnigraph.drawing.lanes import Row, lay_out
from omnigraph.engine.state.history import Commit
from omnigraph.model.names import MAIN

_SHORT_ID_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class History:
    """Commits in the order in which they are drawn, each with its row.

    `left_out` is how many older ones there are; `branches` and `tags` are names by commit.
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
    """The newest commits of some branches, whose own are given oldest first, put in rows."""
    known = {each.id: each for commits in commits_by_branch.values() for each in commits}
    heads = {branch: commits[-1].id for branch, commits in commits_by_branch.items() if commits}
    count = len(known) if limit is None else min(limit, len(known))
    shown = tuple(islice(_newest_first(known), count))
    parents = {each.id: parents_of(each, known) for each in shown}
    rows = lay_out(
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
    """The part of a commit's id that tells it from its neighbours: an id begins with the time."""
    return id[-_SHORT_ID_CHARACTERS:]


def count_commits(count: int) -> str:
    """A number of commits in words."""
    return f"{count:,} commit{'s' * (count != 1)}"


def parents_of(commit: Commit, known: Mapping[str, Commit]) -> tuple[str, ...]:
    """The parents of a commit that are known; those of a branch that was deleted are not."""
    parents = (commit.parent_id, commit.merged_parent_id)
    return tuple(each for each in parents if each is not None and each in known)


def _newest_first(known: Mapping[str, Commit]) -> Iterator[Commit]:
    """The commits by time, but never one before all of its children."""
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
    """A commit that is less than those made before it."""

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
    """What a commit was, as far as it says so itself."""
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
