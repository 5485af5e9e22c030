"""Retention: which versions of tables somebody needs, whatever a caller wants to be rid of.

Needed is what any branch names now or named a while ago, those of transactions too; what a tag
names; and where branches part, because they are merged from there. Nothing has to be locked for
this: a version that nobody has named for a while is named by nobody later, as long as no branch
went away while the branches were read. Does not know who reads, nor what a caller wants kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.ops.tags import Tag, list_tags
from omnigraph.engine.state.ancestry import Ancestry, gather_ancestry
from omnigraph.engine.state.history import Ancestor, Commit
from omnigraph.engine.state.junctions import Junction, find_junctions
from omnigraph.engine.state.manifest import (
    GRAPH_COMMIT,
    STATE_COLUMNS,
    ManifestState,
    decode_commits,
)
from omnigraph.engine.state.snapshot import Snapshot, line_of
from omnigraph.model.errors import NotFoundError, UnavailableError
from omnigraph.model.limits import RETENTION_LOOKS_MAX
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.lance_literals import render_in
from omnigraph.storage.ports import TableRef, TableStore, TableVersion

Looked = TypeVar("Looked")


@dataclass(frozen=True, slots=True)
class Needs:
    """The versions that must stay: single ones, and all of a line from one on.

    `lines` are those that branches name, and `tags` those that were looked at.
    """

    versions: frozenset[TableVersion]
    first_by_line: Mapping[TableRef, int]
    lines: frozenset[TableRef]
    tags: frozenset[str]

    def has(self, at: TableVersion) -> bool:
        """Whether a version must stay."""
        first = self.first_by_line.get(at.ref)
        return at in self.versions or (first is not None and at.version >= first)


@dataclass(slots=True)
class _Gathered:
    versions: set[TableVersion] = field(default_factory=set)
    first_by_line: dict[TableRef, int] = field(default_factory=dict)
    lines: set[TableRef] = field(default_factory=set)

    def add(self, snapshot: Snapshot) -> None:
        self.versions |= {entry.at for entry in snapshot}

    def add_since(self, line: TableRef, version: int) -> None:
        self.first_by_line[line] = min(version, self.first_by_line.get(line, version))


def find_states(path: WritePath) -> dict[BranchName, ManifestState]:
    """What every branch says now, those of transactions under way too, main first."""
    return _look(_read_states, path)


def find_needs(*, since: datetime, path: WritePath) -> Needs:
    """What must stay of all tables, if what was named at a moment or later must."""

    def gather(path: WritePath) -> Needs:
        states = _read_states(path)
        needs = _gather(states, since, path)
        gone = states.keys() - {MAIN, *path.authority.others()}
        if gone:
            # What another took from it meanwhile may be known of neither.
            raise NotFoundError(kind="branch", name=min(gone), advice="")
        return needs

    return _look(gather, path)


def _look(read: Callable[[WritePath], Looked], path: WritePath) -> Looked:
    """What is read of all branches while none of them goes away."""
    for _ in range(RETENTION_LOOKS_MAX):
        # Nothing of the manifest is ever cleaned up: what is missing went with its branch.
        with suppress(NotFoundError):
            return read(path)
    raise UnavailableError(
        action="find out what is needed", reason="others keep deleting branches; try again"
    )


def _read_states(path: WritePath) -> dict[BranchName, ManifestState]:
    states = {}
    for branch in (MAIN, *path.authority.others()):
        path.failpoints.maybe_fail(Failpoint.CLEANUP_RESOLVE_BRANCH_SNAPSHOT)
        # With the types that came after it, of which it sees the first version.
        states[branch] = path.authority.capture(branch).state
    return states


def find_tagged_since(needs: Needs, path: WritePath) -> frozenset[TableVersion]:
    """What tags name that were given after a look at what is needed."""
    found = list_tags(path.stores.objects)
    return _find_tagged((tag for tag in found if tag.name not in needs.tags), path)


def _find_tagged(tags: Iterable[Tag], path: WritePath) -> frozenset[TableVersion]:
    found = (
        _find_snapshot(each.commit_id, each.branch, each.manifest_version, path) for each in tags
    )
    return frozenset(entry.at for snapshot in found if snapshot for entry in snapshot)


def _gather(states: Mapping[BranchName, ManifestState], since: datetime, path: WritePath) -> Needs:
    gathered = _Gathered()
    for state in states.values():
        gathered.add(state.snapshot)
        gathered.lines |= {entry.at.ref for entry in state.snapshot}
        _add_recent(gathered, state, since, path)
    tags = list_tags(path.stores.objects)
    gathered.versions |= _find_tagged(tags, path)
    _add_partings(gathered, states, path)
    return Needs(
        versions=frozenset(gathered.versions),
        first_by_line=dict(gathered.first_by_line),
        lines=frozenset(gathered.lines),
        tags=frozenset(tag.name for tag in tags),
    )


def _add_recent(
    gathered: _Gathered, state: ManifestState, since: datetime, path: WritePath
) -> None:
    """What a branch has named since a moment.

    Its own lines only grow, so that is all from the version it named then. Of the lines of others
    it names one version for as long as it does not write there.
    """
    version = path.stores.tables.find_version_before(state.at.ref, since)
    named: dict[TableRef, int] = {}
    if version is not None:
        past = path.authority.state_at(state.branch, version).snapshot
        gathered.add(past)
        named = {entry.at.ref: entry.version for entry in past}
    own = line_of(state.branch)
    for entry in state.snapshot:
        if entry.branch == own and entry.at.ref not in named:
            named[entry.at.ref] = 0
    for line, first in named.items():
        if line.branch == own:
            gathered.add_since(line, first)


def _add_partings(
    gathered: _Gathered, states: Mapping[BranchName, ManifestState], path: WritePath
) -> None:
    """The states that branches are merged from."""
    known = {
        id: each
        for state in states.values()
        for id, each in gather_ancestry(_read_own(state, path.stores.tables)).items()
    }
    lines_by_head: dict[str, set[TableRef]] = defaultdict(set)
    for state in states.values():
        own = line_of(state.branch)
        paths = state.path_by_table.values()
        lines_by_head[state.head.id] |= {TableRef(each, own) for each in paths}
    for junction in find_junctions((state.head.id for state in states.values()), known=known):
        commit = junction.commit
        snapshot = _find_snapshot(commit.id, commit.branch, commit.manifest_version, path)
        if snapshot is not None:
            gathered.add(snapshot)
        else:
            _add_ways_around(gathered, junction, known, lines_by_head, path)


def _add_ways_around(
    gathered: _Gathered,
    junction: Junction,
    known: Ancestry,
    lines_by_head: Mapping[str, Iterable[TableRef]],
    path: WritePath,
) -> None:
    """All that may tell of a commit that went with its branch: what came before it, and since."""
    for snapshot in _find_before(junction.commit, known, path):
        gathered.add(snapshot)
        for entry in snapshot:
            gathered.add_since(entry.at.ref, entry.version)
    for head_id in junction.head_ids:
        for line in lines_by_head[head_id]:
            if line.branch is not None:
                gathered.add_since(line, 0)


def _find_before(commit: Ancestor, known: Ancestry, path: WritePath) -> Iterator[Snapshot]:
    """The nearest states before a commit that can still be read, on every way back from it."""
    waiting, seen = [*commit.parent_ids], set(commit.parent_ids)
    while waiting:
        each = known.get(waiting.pop())
        if each is None:
            continue
        snapshot = _find_snapshot(each.id, each.branch, each.manifest_version, path)
        if snapshot is not None:
            yield snapshot
            continue
        fresh = [id for id in each.parent_ids if id not in seen]
        seen.update(fresh)
        waiting += fresh


def _find_snapshot(commit_id: str, branch: str, version: int, path: WritePath) -> Snapshot | None:
    try:
        return path.authority.state_of(commit_id, branch=branch, version=version).snapshot
    except NotFoundError:
        # It went with its branch; whatever named it cannot be followed any more.
        return None


def _read_own(state: ManifestState, tables: TableStore) -> tuple[Commit, ...]:
    """The commits made on a branch itself; those it inherited are another's own."""
    own = line_of(state.branch)
    is_own = "table_branch IS NULL" if own is None else render_in("table_branch", pa.array([own]))
    predicate = f"object_type = '{GRAPH_COMMIT}' AND {is_own}"
    return decode_commits(tables.scan(state.at, columns=STATE_COLUMNS, predicate=predicate))
