"""Where two branches parted: the base of their merge, as far as it can still be read.

A branch takes its commits with it when it is deleted. Those that others have in common are then
known by the merges that brought them, which are on lines that are still there. The newest commits
are looked at first; all of history is read only where these prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.engine.ops.merge_base import (
    Beside,
    Bringing,
    BroughtToBoth,
    MergeBase,
    PureBringing,
    one_commit,
)
from omnigraph.engine.state.ancestry import (
    Ancestry,
    SharedPast,
    find_parting,
    find_past,
    find_shared_past,
    follow_line,
    gather_ancestry,
    list_brought,
)
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.history import Ancestor
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.engine.state.snapshot import Snapshot
from omnigraph.model.errors import CorruptError, NotFoundError
from omnigraph.model.limits import MERGE_BASE_DEPTH, MERGE_BASE_VERSIONS
from omnigraph.model.names import BranchName


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two branches parted, whether the target has stood still since, and which commits are
    new to it."""

    base: MergeBase
    is_at_target: bool
    brought: tuple[Ancestor, ...]


def look_back(
    source: Basis, target: Basis, *, noted: list[ManifestState], authority: Authority
) -> Parting | None:
    """Where two branches parted; None if the target has all of the source already.

    The states that the base is made of are noted, so that they can be looked at again.
    """
    source_id, target_id = source.head.id, target.head.id
    states = _PastStates(target, authority, noted)
    for version_count in (*MERGE_BASE_VERSIONS, None):
        by_source = _read_past(source, version_count, authority)
        by_target = _read_past(target, version_count, authority)
        known = {**by_source, **by_target}
        if version_count is None:
            past: SharedPast | None = find_shared_past(source_id, target_id, known=known)
        else:
            past = find_parting(source_id, target_id, source=by_source, target=by_target)
        if past is None:
            continue
        last_ids = [each.id for each in past.last]
        if source_id in last_ids:
            return None
        ends = source_id, target_id
        found = _open_base(past, ends, known, states, depth=MERGE_BASE_DEPTH)
        # What takes the place of a lost commit is right only if all of history is known.
        if found is not None and not (found.has_lost and version_count is not None):
            brought = list_brought(source_id, known=known, target=by_target)
            return Parting(found.base, target_id in last_ids, brought)
    raise CorruptError(
        subject=f"the history of '{source.branch}' and '{target.branch}'",
        problem="they have no commit in common that can be read",
    )


def _read_past(
    basis: Basis, version_count: int | None, authority: Authority
) -> dict[str, Ancestor]:
    if version_count == 0:
        return gather_ancestry([basis.head])
    since = 0 if version_count is None else basis.state.at.version - version_count
    return gather_ancestry(authority.commits_at(basis.state, since=since))


@dataclass(frozen=True, slots=True)
class _PastStates:
    """What commits made true, as long as their branches are there."""

    target: Basis
    authority: Authority
    noted: list[ManifestState]
    gone: set[str] = field(default_factory=set)

    def find(self, commit: Ancestor) -> Snapshot | None:
        if commit.id == self.target.head.id:
            return self.target.snapshot
        state = self.find_state(commit)
        return None if state is None else state.snapshot

    def find_state(self, commit: Ancestor) -> ManifestState | None:
        if commit.branch in self.gone:
            return None
        try:
            state = self.authority.state_of(
                commit.id, branch=commit.branch, version=commit.manifest_version
            )
        except NotFoundError:
            if not self.authority.has_branch(BranchName(commit.branch)):
                self.gone.add(commit.branch)
            return None
        self.noted.append(state)
        return state


def _open_base(
    past: SharedPast, ends: tuple[str, str], known: Ancestry, states: _PastStates, *, depth: int
) -> _OpenedBase | None:
    """What two commits have in common and can still be read, and how.

    At no depth it is the nearest one commit; otherwise others are measured from bases of their own.
    """
    last, lost = _open_last(past, known, states)
    if not last:
        return None
    (first_id, first), *others = last
    if not depth:
        return _OpenedBase(one_commit(first), has_lost=bool(lost))
    beside = []
    for id, snapshot in others:
        parted = find_shared_past(first_id, id, known=known)
        parting = _open_base(parted, (first_id, id), known, states, depth=depth - 1)
        if parting is not None:
            beside.append(Beside(snapshot, parting.base))
    brought = _open_merges(lost, ends, first_id, known, states, depth=depth)
    return _OpenedBase(MergeBase(first, tuple(beside), brought), has_lost=bool(lost))


@dataclass(frozen=True, slots=True)
class _OpenedBase:
    """A base, and whether something else stands in it for what cannot be read."""

    base: MergeBase
    has_lost: bool


def _open_last(
    past: SharedPast, known: Ancestry, states: _PastStates
) -> tuple[list[tuple[str, Snapshot]], frozenset[str]]:
    """The last commits in common that can be read, the nearest first; and those that cannot and
    come before none of them."""
    opened: dict[str, Snapshot] = {}
    lost: set[str] = set()
    waiting = [each.id for each in past.last]
    while waiting:
        id = waiting.pop()
        if id in opened or id in lost or id not in known:
            continue
        snapshot = states.find(known[id])
        if snapshot is None:
            lost.add(id)
            waiting += known[id].parent_ids
        else:
            opened[id] = snapshot
    before = find_past(opened, known=known)
    nearest_first = [each.id for each in (*past.last, *past.earlier)]
    last = [(id, opened[id]) for id in nearest_first if id in opened and id not in before]
    return last, frozenset(lost - before)


def _open_merges(
    lost: frozenset[str],
    ends: tuple[str, str],
    first_id: str,
    known: Ancestry,
    states: _PastStates,
    *,
    depth: int,
) -> tuple[BroughtToBoth, ...]:
    """The merges by which two commits came to have what cannot be read, oldest first."""
    if not lost:
        return ()
    source, target = (follow_line(each, known=known) for each in ends)
    places = {
        id: (source.place_by_brought[id], target.place_by_brought[id])
        for id in lost
        if id in source.place_by_brought and id in target.place_by_brought
    }
    found = []
    for place in sorted(set(places.values())):
        commits = source.commits[place[0]], target.commits[place[1]]
        left, right = (_open_merge(each, known, states) for each in commits)
        if left is None or right is None:
            continue
        pure = []
        for merge, commit in zip((left, right), commits, strict=True):
            parent_id, merged_id = commit.parent_ids
            # One that merged a commit in common took nothing that is not in common.
            if places.get(merged_id) == place:
                past = find_shared_past(parent_id, merged_id, known=known)
                since = _open_base(past, (parent_id, merged_id), known, states, depth=depth - 1)
                is_ahead = first_id in find_past([merged_id], known=known)
                if since is not None:
                    pure.append(PureBringing(merge, since.base, is_ahead=is_ahead))
        found.append(BroughtToBoth(left, right, tuple(pure)))
    return tuple(found)


def _open_merge(merge: Ancestor, known: Ancestry, states: _PastStates) -> Bringing | None:
    after = states.find_state(merge)
    before = states.find(known[merge.parent_ids[0]])
    if after is None or before is None:
        return None
    decided = frozenset((each.type, each.id) for each in after.head.notes.resolutions)
    return Bringing(before, after.snapshot, decided)
