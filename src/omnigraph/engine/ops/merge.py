"""Merging branches: what the source did since the two parted, done to the target as one commit.

The source is the commit that it is at when the merge starts; what is written there later does not
matter. The target may move meanwhile: the merge is then worked out anew, and the source must still
be there. A commit of a merge has
two parents, also where the target had done nothing, and where nothing is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from omnigraph.engine.commit.changes import PreparedWrite
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.ops.attempts import write_once
from omnigraph.engine.ops.parting import Parting, look_back
from omnigraph.engine.ops.replay import PreparedReplay, Replay, prepare_replay
from omnigraph.engine.ops.standing import standing
from omnigraph.engine.ops.terms import Terms
from omnigraph.engine.ops.told import merge_result
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import MergeOutcome, MergeResult
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import CommitNotes
from omnigraph.model.errors import Conflict, InvalidValueError, MergeConflictError
from omnigraph.model.names import BranchName
from omnigraph.storage.failpoints import Failpoint


class Replayer(Protocol):
    """Works out what a replay does to a state; conflicts are collected, not raised."""

    def __call__(
        self, replay: Replay, *, onto: Basis, committed: SnapshotRows
    ) -> PreparedReplay: ...


@dataclass(frozen=True, slots=True)
class _PreparedMerge:
    write: PreparedWrite
    outcome: MergeOutcome
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge under way: the source as it was at the start."""

    source: Basis
    terms: Terms
    replayer: Replayer
    path: WritePath

    def prepare(self, basis: Basis, committed: SnapshotRows) -> _PreparedMerge:
        """What the merge does to the target as it is now; `NotFoundError` if the source, or a
        branch that both have something from, is another by now."""
        authority = self.path.authority
        with standing(authority=authority, otherwise="nothing was merged") as noted:
            noted += [self.source.state, basis.state]
            parting = look_back(self.source, basis, noted=noted, authority=authority)
            if parting is None:
                nothing = PreparedWrite({}, {}, frozenset(), is_strict=False)
                return _PreparedMerge(nothing, MergeOutcome.ALREADY_UP_TO_DATE, ())
            prepared = self._replay(parting, basis, committed)
        outcome = MergeOutcome.FAST_FORWARD if parting.is_at_target else MergeOutcome.MERGED
        if prepared.conflicts:
            if not self.terms.is_dry_run:
                raise MergeConflictError(conflicts=prepared.conflicts)
            outcome = MergeOutcome.CONFLICTS
        self.path.failpoints.maybe_fail(Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION)
        return _PreparedMerge(prepared.write, outcome, prepared.conflicts)

    def _replay(self, parting: Parting, basis: Basis, committed: SnapshotRows) -> PreparedReplay:
        return self.replayer(
            Replay(
                base=parting.base,
                source=self.source.snapshot,
                terms=self.terms,
                merged_parent_id=self.source.head.id,
                notes=CommitNotes(brought=parting.brought),
            ),
            onto=basis,
            committed=committed,
        )


def replay_here(path: WritePath) -> Replayer:
    """What works out replays in this process."""
    return partial(prepare_replay, tables=path.stores.tables, runtime=path.runtime)


def merge_branch(
    source: BranchName,
    *,
    into: BranchName,
    terms: Terms,
    replayer: Replayer,
    authorship: Authorship,
    path: WritePath,
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
        merge = _start(source, terms, replayer, path)
        basis = path.authority.pin(into)
        path.require_head(authorship.expected_head, basis.state)
        committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
        prepared = merge.prepare(basis, committed)
        return MergeResult(prepared.outcome, None, prepared.conflicts)
    # What died on the source belongs to it or not; afterwards that is settled.
    path.heal()
    told = write_once(
        into,
        prepare=_start(source, terms, replayer, path).prepare,
        tell=lambda prepared: {"outcome": prepared.outcome},
        authorship=authorship,
        path=path,
    )
    return merge_result(told)


def _start(source: BranchName, terms: Terms, replayer: Replayer, path: WritePath) -> _Merge:
    basis = path.authority.pin(source)
    return _Merge(basis, terms, replayer, path)
