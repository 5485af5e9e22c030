"""Undoing and repeating single commits: each is a replay of one step of history.

Reverting goes from a commit to its first parent, picking from the parent to the commit. Both are
worked out on the head of a branch and refuse, like a merge, what contradicts it.
"""

from __future__ import annotations

from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.ops.attempts import write_once
from omnigraph.engine.ops.merge_base import one_commit
from omnigraph.engine.ops.replay import PreparedReplay, Replay, prepare_replay
from omnigraph.engine.ops.same_types import require_same_types
from omnigraph.engine.ops.standing import standing
from omnigraph.engine.ops.terms import NO_TERMS
from omnigraph.engine.ops.told import Answer, merge_result
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import MergeOutcome, MergeResult
from omnigraph.engine.state.ancestry import gather_ancestry
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.history import Commit, CommitNotes
from omnigraph.engine.state.manifest import ManifestState
from omnigraph.model.errors import InvalidValueError, MergeConflictError, NotFoundError
from omnigraph.model.names import MAIN, BranchName


def revert_commit(
    made: Basis, *, branch: BranchName, authorship: Authorship, path: WritePath
) -> MergeResult:
    """Undo on a branch what one commit of its past did; `MergeConflictError` if it cannot be."""
    _require_past(made.head, branch, path.authority)
    parent = _get_parent(made.head, path.authority)
    _require_rows(made.head, parent.head)
    replay = Replay(
        base=one_commit(made.snapshot),
        source=parent.snapshot,
        terms=NO_TERMS,
        merged_parent_id=None,
        notes=CommitNotes(reverted_id=made.head.id),
    )
    return _replay(replay, branch, authorship, path, of=(made.state, parent))


def cherry_pick_commit(
    made: Basis, *, onto: BranchName, authorship: Authorship, path: WritePath
) -> MergeResult:
    """Do on a branch what one commit did elsewhere; `MergeConflictError` if it cannot be."""
    parent = _get_parent(made.head, path.authority)
    _require_rows(made.head, parent.head)
    replay = Replay(
        base=one_commit(parent.snapshot),
        source=made.snapshot,
        terms=NO_TERMS,
        merged_parent_id=None,
        notes=CommitNotes(picked_id=made.head.id),
    )
    return _replay(replay, onto, authorship, path, of=(made.state, parent))


def _replay(
    replay: Replay,
    branch: BranchName,
    authorship: Authorship,
    path: WritePath,
    *,
    of: tuple[ManifestState, ManifestState],
) -> MergeResult:
    def prepare(basis: Basis, committed: SnapshotRows) -> PreparedReplay:
        require_same_types(replay.base.first, replay.source, onto=basis, tables=path.stores.tables)
        with standing(authority=path.authority, otherwise="nothing was changed") as noted:
            noted += [*of, basis.state]
            prepared = prepare_replay(
                replay,
                onto=basis,
                committed=committed,
                tables=path.stores.tables,
                runtime=path.runtime,
            )
        if prepared.conflicts:
            raise MergeConflictError(conflicts=prepared.conflicts)
        return prepared

    told = write_once(branch, prepare=prepare, tell=_tell, authorship=authorship, path=path)
    return merge_result(told)


def _tell(prepared: PreparedReplay) -> Answer:
    has_anything = prepared.write.is_commit
    return {"outcome": MergeOutcome.MERGED if has_anything else MergeOutcome.ALREADY_UP_TO_DATE}


def _require_past(commit: Commit, branch: BranchName, authority: Authority) -> None:
    if commit.id not in gather_ancestry(authority.commits(branch)):
        raise InvalidValueError(
            subject="revert",
            expected="a commit of the branch",
            value=commit.id,
            problem=f"commit {commit.id} is no part of the history of branch '{branch}'",
        )


def _require_rows(commit: Commit, parent: Commit) -> None:
    # On other branches the first write after a change of schema says so, and is about rows.
    if commit.branch == MAIN and commit.schema_hash != parent.schema_hash:
        raise InvalidValueError(
            subject="commit",
            expected="a commit of rows",
            value=commit.id,
            problem=f"commit {commit.id} changed the schema; `apply_schema` with the text that is "
            "wanted changes it again",
        )


def _get_parent(commit: Commit, authority: Authority) -> ManifestState:
    if commit.parent_id is None:
        raise InvalidValueError(
            subject="commit",
            expected="a commit with a parent",
            value=commit.id,
            problem=f"commit {commit.id} made the graph; there is nothing before it",
        )
    parent = authority.find_commit(commit.parent_id)
    if parent is None:
        advice = "what came before went with its branch"
        raise NotFoundError(kind="commit", name=commit.parent_id, advice=advice)
    return authority.state_of(parent.id, branch=parent.branch, version=parent.manifest_version)
