"""Ancestry of commits: common ancestors, first-parent chains, and fork points.

All functions are pure and work on commits that were read before. A merge commit records the
commits that it brings along, so the manifests of two branches describe the history of both, even
after merged branches were deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.engine.state.history import Ancestor, Commit

Ancestry = Mapping[str, Ancestor]
"""Known commits by id. A parent id that is absent marks the end of the known history."""


def gather_ancestry(commits: Iterable[Commit]) -> dict[str, Ancestor]:
    """The commits of a branch and those that its merges brought along, by id."""
    found: dict[str, Ancestor] = {}
    for commit in commits:
        for each in (*commit.notes.brought, as_ancestor(commit)):
            found[each.id] = each
    return found


def as_ancestor(commit: Commit) -> Ancestor:
    """A commit as an ancestor, with its first parent before its merged parent."""
    parents = (commit.parent_id, commit.merged_parent_id)
    known = tuple(each for each in parents if each is not None)
    return Ancestor(commit.id, commit.branch, commit.manifest_version, known)


@dataclass(frozen=True, slots=True)
class SharedPast:
    """The common ancestors of two commits, nearest first.

    `last` holds the common ancestors that are not the parent of another one, `earlier` the rest. An
    earlier one is not suitable as a merge base: changes that both sides have shared since would
    look new, and a row that one side removed would come back.
    """

    last: tuple[Ancestor, ...]
    earlier: tuple[Ancestor, ...]


def find_shared_past(source_id: str, target_id: str, *, known: Ancestry) -> SharedPast:
    """The common ancestors of two commits, which may include the commits themselves."""
    to_source, to_target = _distances(source_id, known), _distances(target_id, known)
    common = [known[each] for each in to_source.keys() & to_target.keys() if each in known]
    # Every common ancestor that precedes another one is the parent of a common ancestor.
    surpassed = {parent for each in common for parent in each.parent_ids}

    def rank(each: Ancestor) -> tuple[int, int, str]:
        return to_source[each.id] + to_target[each.id], -each.manifest_version, each.id

    ranked = sorted(common, key=rank)
    return SharedPast(
        last=tuple(each for each in ranked if each.id not in surpassed),
        earlier=tuple(each for each in ranked if each.id in surpassed),
    )


def find_common_ancestors(
    source_id: str, target_id: str, *, source: Ancestry, target: Ancestry
) -> SharedPast | None:
    """The common ancestors of two commits, or None if the known commits do not prove them.

    `source` and `target` may hold only the newest commits of each branch. Every path back from the
    source must reach the same commit of the target's past, and `target` must contain that commit.
    Then no other commit on these paths is in the target's past: the merge that brought it in would
    be newer, so `target` would contain it.
    """
    past = _distances(target_id, target).keys() & target.keys()
    cuts: set[str] = set()
    waiting, seen = [source_id], {source_id}
    while waiting:
        id = waiting.pop()
        if id in past:
            cuts.add(id)
        elif id not in source or not source[id].parent_ids:
            return None
        else:
            fresh = [each for each in source[id].parent_ids if each not in seen]
            seen.update(fresh)
            waiting += fresh
    return SharedPast((target[cuts.pop()],), ()) if len(cuts) == 1 else None


@dataclass(frozen=True, slots=True)
class FirstParentChain:
    """The first-parent chain of a head.

    `commits` are oldest first. `place_by_brought` maps every other commit of the head's past to the
    position in `commits` of the merge that brought it in.
    """

    commits: tuple[Ancestor, ...]
    place_by_brought: Mapping[str, int]


def follow_first_parents(head_id: str, *, known: Ancestry) -> FirstParentChain:
    """The first-parent chain of a head, with the merges that brought in the rest of its past."""
    line = []
    next_ids: tuple[str, ...] = (head_id,)
    while next_ids and next_ids[0] in known:
        line.append(known[next_ids[0]])
        next_ids = line[-1].parent_ids[:1]
    line.reverse()
    place_by_brought: dict[str, int] = {}
    own = {each.id for each in line}
    for place, commit in enumerate(line):
        waiting = [*commit.parent_ids[1:]]
        while waiting:
            id = waiting.pop()
            if id not in own and id not in place_by_brought and id in known:
                place_by_brought[id] = place
                waiting += known[id].parent_ids
    return FirstParentChain(tuple(line), place_by_brought)


def find_past(ids: Iterable[str], *, known: Ancestry) -> frozenset[str]:
    """The ancestors of some commits; a given commit is included only if it precedes another."""
    found = (_distances(each, known).keys() - {each} for each in ids)
    return frozenset().union(*found)


def list_brought(source_id: str, *, known: Ancestry, target: Ancestry) -> tuple[Ancestor, ...]:
    """The past of a commit down to the commits that a target knows, oldest first."""
    unknown = {id: each for id, each in known.items() if id not in target}
    past = _distances(source_id, unknown)
    missing = [unknown[each] for each in past if each in unknown]
    return tuple(sorted(missing, key=lambda each: (-past[each.id], each.id)))


def _distances(start: str, known: Ancestry) -> dict[str, int]:
    """The number of steps back to each ancestor; the commit itself has distance 0."""
    distance = {start: 0}
    waiting = deque([start])
    while waiting:
        id = waiting.popleft()
        each = known.get(id)
        for parent in each.parent_ids if each else ():
            if parent not in distance:
                distance[parent] = distance[id] + 1
                waiting.append(parent)
    return distance


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A commit with several heads in its future, no single child of which leads to all of them.

    The commit itself may be one of the heads.
    """

    commit: Ancestor
    head_ids: frozenset[str]


def find_fork_points(head_ids: Iterable[str], *, known: Ancestry) -> tuple[ForkPoint, ...]:
    """The fork points in the pasts of some heads, by id; a head that others descend from is one."""
    heads = sorted(set(head_ids))
    children = _find_children(heads, known)
    # A set of heads is an integer with one bit per head: histories are long, and heads may be many.
    reached = {id: 1 << place for place, id in enumerate(heads)}
    for id in _children_first(children):
        for child in children[id]:
            reached[id] = reached.get(id, 0) | reached[child]
    return tuple(
        ForkPoint(
            known[id],
            frozenset(head for place, head in enumerate(heads) if reached[id] >> place & 1),
        )
        for id in sorted(children)
        if id in known
        if reached[id].bit_count() > 1
        if all(reached[child] != reached[id] for child in children[id])
    )


def _find_children(heads: list[str], known: Ancestry) -> dict[str, list[str]]:
    """The children of every commit in the pasts of some heads."""
    children: dict[str, list[str]] = {id: [] for id in heads}
    waiting = list(heads)
    while waiting:
        id = waiting.pop()
        each = known.get(id)
        for parent in each.parent_ids if each else ():
            if parent not in children:
                children[parent] = []
                waiting.append(parent)
            children[parent].append(id)
    return children


def _children_first(children: dict[str, list[str]]) -> list[str]:
    parents: dict[str, list[str]] = {}
    for id, below in children.items():
        for child in below:
            parents.setdefault(child, []).append(id)
    left = {id: len(below) for id, below in children.items()}
    order = [id for id, count in left.items() if not count]
    for id in order:
        for parent in parents.get(id, ()):
            left[parent] -= 1
            if not left[parent]:
                order.append(parent)
    return order
