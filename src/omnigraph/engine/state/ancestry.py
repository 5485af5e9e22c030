"""Ancestry: what two heads of history have in common.

Pure, over commits that were read already. A merge writes down which commits it brought along, so
the manifests of two branches are enough to know the whole past of both, whatever became of the
branches that were merged into them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.engine.state.history import Ancestor, Commit

Ancestry = Mapping[str, Ancestor]
"""Commits by id; a parent that is not among them is where knowledge ends."""


def gather_ancestry(commits: Iterable[Commit]) -> dict[str, Ancestor]:
    """The commits of a branch, and those that its merges brought along."""
    found: dict[str, Ancestor] = {}
    for commit in commits:
        for each in (*commit.notes.brought, as_ancestor(commit)):
            found[each.id] = each
    return found


def as_ancestor(commit: Commit) -> Ancestor:
    """A commit with its parents, the first one first."""
    parents = (commit.parent_id, commit.merged_parent_id)
    known = tuple(each for each in parents if each is not None)
    return Ancestor(commit.id, commit.branch, commit.manifest_version, known)


@dataclass(frozen=True, slots=True)
class SharedPast:
    """The common ancestors of two commits, the nearest first: the last ones, and those before.

    Measured from one that comes before another, what the two sides agreed on since would look new,
    and a row that one of them removed would come back.
    """

    last: tuple[Ancestor, ...]
    earlier: tuple[Ancestor, ...]


def find_shared_past(source_id: str, target_id: str, *, known: Ancestry) -> SharedPast:
    """What two commits have in common, themselves included."""
    to_source, to_target = _distances(source_id, known), _distances(target_id, known)
    common = [known[each] for each in to_source.keys() & to_target.keys() if each in known]
    # Whatever lies before a common ancestor is the parent of one.
    surpassed = {parent for each in common for parent in each.parent_ids}

    def rank(each: Ancestor) -> tuple[int, int, str]:
        return to_source[each.id] + to_target[each.id], -each.manifest_version, each.id

    ranked = sorted(common, key=rank)
    return SharedPast(
        last=tuple(each for each in ranked if each.id not in surpassed),
        earlier=tuple(each for each in ranked if each.id in surpassed),
    )


def find_parting(
    source_id: str, target_id: str, *, source: Ancestry, target: Ancestry
) -> SharedPast | None:
    """What two commits have in common, if the newest commits of both branches prove it.

    Every way back from the source must lead to the same commit of the target's past, one that the
    target's own commits tell of: whatever else of that way were in its past, they would tell of
    that too, because a merge that brought it came later.
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
class OwnLine:
    """The commits of a head by first parents, oldest first, and for each other commit of its past
    the place of the one that brought it."""

    commits: tuple[Ancestor, ...]
    place_by_brought: Mapping[str, int]


def follow_line(head_id: str, *, known: Ancestry) -> OwnLine:
    """The line of a head, and by which of its merges the rest of its past came in."""
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
    return OwnLine(tuple(line), place_by_brought)


def find_past(ids: Iterable[str], *, known: Ancestry) -> frozenset[str]:
    """The commits that come before some, without these unless one comes before another."""
    found = (_distances(each, known).keys() - {each} for each in ids)
    return frozenset().union(*found)


def list_brought(source_id: str, *, known: Ancestry, target: Ancestry) -> tuple[Ancestor, ...]:
    """The past of a commit down to what a target knows, oldest first."""
    unknown = {id: each for id, each in known.items() if id not in target}
    past = _distances(source_id, unknown)
    missing = [unknown[each] for each in past if each in unknown]
    return tuple(sorted(missing, key=lambda each: (-past[each.id], each.id)))


def _distances(start: str, known: Ancestry) -> dict[str, int]:
    """How many steps back each ancestor is, the commit itself included."""
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
