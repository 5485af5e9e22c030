"""Merging branches: what the source did since the two parted, done to the target as one commit.

The source is the commit that it is at when the merge starts; what happens to it later does not
matter. The target may move meanwhile: the merge is then worked out anew. A commit of a merge has
two parents, also where the target had done nothing, and where nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.merge_base import Beside, MergeBase
from omnigraph.engine.ops.replay import Replay, prepare_replay
from omnigraph.engine.ops.terms import Terms
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import MergeOutcome, MergeResult
from omnigraph.engine.state.ancestry import (
    Ancestry,
    SharedPast,
    find_parting,
    find_shared_past,
    gather_ancestry,
    list_brought,
)
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import Ancestor, CommitNotes
from omnigraph.engine.state.snapshot import Snapshot
from omnigraph.model.errors import (
    Conflict,
    CorruptError,
    InvalidValueError,
    MergeConflictError,
    NotFoundError,
)
from omnigraph.model.limits import MERGE_BASE_VERSIONS
from omnigraph.model.names import BranchName
from omnigraph.storage.failpoints import Failpoint


@dataclass(frozen=True, slots=True)
class _PreparedMerge:
    write: PreparedWrite
    outcome: MergeOutcome
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class _Parting:
    """Where two branches parted, whether the target has stood still since, and which commits are
    new to it."""

    base: MergeBase
    is_at_target: bool
    brought: tuple[Ancestor, ...]


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge under way: the source as it was at the start."""

    source: Basis
    terms: Terms
    path: WritePath

    def prepare(self, basis: Basis, committed: SnapshotRows) -> _PreparedMerge:
        """What the merge does to the target as it is now."""
        parting = self._look_back(basis)
        if parting is None:
            nothing = PreparedWrite({}, {}, frozenset(), is_strict=False)
            return _PreparedMerge(nothing, MergeOutcome.ALREADY_UP_TO_DATE, ())
        prepared = prepare_replay(
            Replay(
                base=parting.base,
                source=self.source.snapshot,
                terms=self.terms,
                merged_parent_id=self.source.head.id,
                notes=CommitNotes(brought=parting.brought),
            ),
            onto=basis,
            committed=committed,
            tables=self.path.stores.tables,
            runtime=self.path.runtime,
        )
        outcome = MergeOutcome.FAST_FORWARD if parting.is_at_target else MergeOutcome.MERGED
        if prepared.conflicts:
            if not self.terms.is_dry_run:
                raise MergeConflictError(conflicts=prepared.conflicts)
            outcome = MergeOutcome.CONFLICTS
        self.path.failpoints.maybe_fail(Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION)
        return _PreparedMerge(prepared.write, outcome, prepared.conflicts)

    def _look_back(self, basis: Basis) -> _Parting | None:
        """Where the two branches parted; None if the target has all of the source already."""
        source_id, target_id = self.source.head.id, basis.head.id
        for version_count in (*MERGE_BASE_VERSIONS, None):
            source = self._read_past(self.source, version_count)
            target = self._read_past(basis, version_count)
            known = {**source, **target}
            if version_count is None:
                past: SharedPast | None = find_shared_past(source_id, target_id, known=known)
            else:
                past = find_parting(source_id, target_id, source=source, target=target)
            if past is None:
                continue
            last_ids = [each.id for each in past.last]
            if source_id in last_ids:
                return None
            base = self._open_base(past, known, basis)
            if base is not None:
                brought = list_brought(source_id, known=known, target=target)
                return _Parting(base, target_id in last_ids, brought)
        raise CorruptError(
            subject=f"the history of '{self.source.branch}' and '{basis.branch}'",
            problem="they have no commit in common that can be read",
        )

    def _read_past(self, basis: Basis, version_count: int | None) -> dict[str, Ancestor]:
        if version_count == 0:
            return gather_ancestry([basis.head])
        since = 0 if version_count is None else basis.state.at.version - version_count
        return gather_ancestry(self.path.authority.commits_at(basis.state, since=since))

    def _open_base(self, past: SharedPast, known: Ancestry, target: Basis) -> MergeBase | None:
        """What both sides have in common and can still be read."""
        opened = list(self._open_all(past.last, target))
        # A branch takes its commits with it when it is deleted; what came before them is left.
        first = next(iter(opened or self._open_all(past.earlier, target)), None)
        if first is None:
            return None
        beside = []
        for each, snapshot in opened[1:]:
            parted = find_shared_past(first[0].id, each.id, known=known)
            for _, parting in self._open_all((*parted.last, *parted.earlier), target):
                beside.append(Beside(snapshot, parting))
                break
        return MergeBase(first[1], tuple(beside))

    def _open_all(
        self, ancestors: Iterable[Ancestor], target: Basis
    ) -> Iterator[tuple[Ancestor, Snapshot]]:
        """Those of the commits that can still be read, one after the other."""
        for each in ancestors:
            if each.id == target.head.id:
                yield each, target.snapshot
                continue
            with suppress(NotFoundError):
                state = self.path.authority.state_of(
                    each.id, branch=each.branch, version=each.manifest_version
                )
                yield each, state.snapshot


def merge_branch(
    source: BranchName, *, into: BranchName, terms: Terms, authorship: Authorship, path: WritePath
) -> MergeResult:
    """Merge one branch into another; `MergeConflictError` holds every conflict.

    A dry run changes nothing, and tells conflicts in its result.
    """
    if source == into:
        raise InvalidValueError(
            subject="merge",
            expected="two branches",
            value=source,
            problem=f"branch '{source}' cannot be merged into itself",
        )
    if terms.is_dry_run:
        merge = _start(source, terms, path)
        basis = path.authority.pin(into)
        committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
        prepared = merge.prepare(basis, committed)
        return MergeResult(prepared.outcome, None, prepared.conflicts)
    # What died on the source belongs to it or not; afterwards that is settled.
    path.heal()
    prepared, commit = write_on(
        into, prepare=_start(source, terms, path).prepare, authorship=authorship, path=path
    )
    return MergeResult(prepared.outcome, commit.id if commit else None, ())


def _start(source: BranchName, terms: Terms, path: WritePath) -> _Merge:
    basis = path.authority.pin(source)
    return _Merge(basis, terms, path)
