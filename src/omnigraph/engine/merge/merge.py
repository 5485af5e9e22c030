"""Branch merges, reverts and cherry-picks, each as one commit on the target branch.

The source of a merge is its head when the merge starts. If the target moves, the merge is computed
again on the new head. A merge commit has two parents, also when no row changes. A revert or a
cherry-pick is a three-way apply of one commit, and is rejected if the schemas of the two states
cannot represent the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from omnigraph.engine.commit.prepared_write import PreparedWrite
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.merge.apply import PreparedApply, ThreeWayApply, prepare_apply
from omnigraph.engine.merge.base import find_merge_ancestry, one_commit
from omnigraph.engine.merge.options import DEFAULT_OPTIONS, MergeOptions
from omnigraph.engine.ops.recorded_responses import MERGE_CODEC
from omnigraph.engine.ops.retry import Prepared, branch_guard, run_write
from omnigraph.engine.results import MergeOutcome, MergeResult
from omnigraph.engine.rows.snapshot_rows import SnapshotRows
from omnigraph.engine.state.ancestry import gather_ancestry
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.history import Commit, CommitNotes
from omnigraph.engine.state.manifest import ManifestState, Snapshot, table_key_of, type_name_of
from omnigraph.model.errors import InvalidValueError, MergeConflictError, NotFoundError
from omnigraph.model.names import MAIN, BranchName
from omnigraph.storage.failpoints import Failpoint
from omnigraph.storage.ports import TableReader
from omnigraph.storage.row_files import table_schema


class ApplyFunction(Protocol):
    """Computes the effect of a three-way apply on a state; conflicts are collected, not raised."""

    def __call__(
        self, apply: ThreeWayApply, *, onto: Basis, committed: SnapshotRows
    ) -> PreparedApply: ...


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge in progress, with the source as it was at the start."""

    source: Basis
    options: MergeOptions
    apply_function: ApplyFunction
    path: WritePath

    def prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[MergeResult]:
        """The write of the merge onto the current target.

        Raises `NotFoundError` if the source, or a branch that the base depends on, was deleted or
        recreated meanwhile.
        """
        branch_states = self.path.branch_states
        with branch_guard(
            self.source.state,
            basis.state,
            branch_states=branch_states,
            advice="nothing was merged",
            checks_result=True,
        ) as guarded:
            ancestry = find_merge_ancestry(
                self.source, basis, noted=guarded, branch_states=branch_states
            )
            if ancestry is None:
                unchanged = PreparedWrite({}, {}, frozenset(), is_strict=False)
                up_to_date = MergeResult(MergeOutcome.ALREADY_UP_TO_DATE, None, ())
                return Prepared(unchanged, up_to_date)
            apply = ThreeWayApply(
                base=ancestry.base,
                source=self.source.snapshot,
                options=self.options,
                merged_parent_id=self.source.head.id,
                notes=CommitNotes(brought=ancestry.brought),
            )
            prepared = self.apply_function(apply, onto=basis, committed=committed)
        outcome = MergeOutcome.FAST_FORWARD if ancestry.is_at_target else MergeOutcome.MERGED
        if prepared.conflicts:
            if not self.options.is_dry_run:
                raise MergeConflictError(conflicts=prepared.conflicts)
            outcome = MergeOutcome.CONFLICTS
        self.path.failpoints.maybe_fail(Failpoint.BRANCH_MERGE_POST_CANDIDATE_VALIDATION)
        return Prepared(prepared.write, MergeResult(outcome, None, prepared.conflicts))


def prepare_here(path: WritePath) -> ApplyFunction:
    """A apply_function that runs in this process."""
    return partial(prepare_apply, tables=path.stores.tables, runtime=path.runtime)


def merge_branch(
    source: BranchName,
    *,
    into: BranchName,
    options: MergeOptions,
    apply_function: ApplyFunction,
    authorship: Authorship,
    path: WritePath,
) -> MergeResult:
    """Merge one branch into another; `MergeConflictError` contains every conflict.

    A dry run changes nothing, and returns conflicts in its result.
    """
    if source == into:
        raise InvalidValueError(
            subject="merge",
            expected="two branches",
            value=source,
            problem=f"branch '{source}' cannot be merged into itself",
        )
    if not options.is_dry_run:
        # Recovery decides whether an interrupted write on the source is part of the source.
        path.recover()
    merge = _Merge(path.branch_states.pin(source), options, apply_function, path)
    if not options.is_dry_run:
        return _run(into, merge.prepare, authorship, path)
    basis = path.branch_states.pin(into)
    path.require_head(authorship.expected_head, basis.state)
    committed = SnapshotRows(basis.snapshot, tables=path.stores.tables)
    return merge.prepare(basis, committed).result


def _run(
    branch: BranchName,
    prepare: Callable[[Basis, SnapshotRows], Prepared[MergeResult]],
    authorship: Authorship,
    path: WritePath,
) -> MergeResult:
    done = run_write(
        branch, prepare=prepare, codec=MERGE_CODEC, inputs=None, authorship=authorship, path=path
    )
    return replace(done.result, commit_id=done.commit_id)


def require_same_types(one: Snapshot, other: Snapshot, *, onto: Basis, tables: TableReader) -> None:
    """Raise if a type in which two states differ, or its property, was dropped or renamed since."""
    declared_by_key = {table_key_of(each): each for each in onto.catalog.stored_types()}
    for key in sorted({*one.entries, *other.entries}):
        states = [each.entries[key] for each in (one, other) if key in each.entries]
        if len(states) == 2 and states[0].at == states[1].at:
            continue
        declared, known = declared_by_key.get(key), onto.snapshot.entries.get(key)
        if declared is None or known is None or any(each.path != known.path for each in states):
            raise _not_expressible(type_name_of(key), "that type was dropped or renamed since")
        stored = {name for each in states for name in tables.schema(each.at).names}
        missing = sorted(stored - set(table_schema(declared).names))
        if missing:
            raise _not_expressible(
                type_name_of(key), f"its property {missing[0]} was dropped or renamed since"
            )


def _not_expressible(type_name: str, reason: str) -> InvalidValueError:
    return InvalidValueError(
        subject="commit",
        expected="a commit that the current schema can express",
        value=type_name,
        problem=f"the commit changed rows of {type_name}, and {reason}; nothing was changed",
    )


def revert_commit(
    commit: Basis, *, branch: BranchName, authorship: Authorship, path: WritePath
) -> MergeResult:
    """Undo one commit of a branch's history; raises `MergeConflictError` on conflicts."""
    if commit.head.id not in gather_ancestry(path.branch_states.commits(branch)):
        raise InvalidValueError(
            subject="revert",
            expected="a commit of the branch",
            value=commit.head.id,
            problem=f"commit {commit.head.id} is not in the history of branch '{branch}'",
        )
    parent = _get_parent(commit.head, path.branch_states)
    operation = _CommitApply(commit.state, parent, CommitNotes(reverted_id=commit.head.id), path)
    return _run(branch, operation.prepare, authorship, path)


def cherry_pick_commit(
    commit: Basis, *, branch: BranchName, authorship: Authorship, path: WritePath
) -> MergeResult:
    """Apply the changes of one commit to a branch; raises `MergeConflictError` on conflicts."""
    parent = _get_parent(commit.head, path.branch_states)
    operation = _CommitApply(parent, commit.state, CommitNotes(picked_id=commit.head.id), path)
    return _run(branch, operation.prepare, authorship, path)


@dataclass(frozen=True, slots=True)
class _CommitApply:
    """A three-way apply of the changes from one state to its neighbour in history."""

    base: ManifestState
    source: ManifestState
    notes: CommitNotes
    path: WritePath

    def prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[MergeResult]:
        """The write of the apply onto a state; raises `MergeConflictError` on conflicts."""
        path, base, source = self.path, self.base.snapshot, self.source.snapshot
        require_same_types(base, source, onto=basis, tables=path.stores.tables)
        apply = ThreeWayApply(
            base=one_commit(base),
            source=source,
            options=DEFAULT_OPTIONS,
            merged_parent_id=None,
            notes=self.notes,
        )
        with branch_guard(
            self.base,
            self.source,
            basis.state,
            branch_states=path.branch_states,
            advice="nothing was changed",
            checks_result=True,
        ):
            prepared = prepare_here(path)(apply, onto=basis, committed=committed)
        if prepared.conflicts:
            raise MergeConflictError(conflicts=prepared.conflicts)
        is_change = prepared.write.is_commit
        outcome = MergeOutcome.MERGED if is_change else MergeOutcome.ALREADY_UP_TO_DATE
        return Prepared(prepared.write, MergeResult(outcome, None, ()))


def _get_parent(commit: Commit, branch_states: BranchStates) -> ManifestState:
    """The state before a commit; raises `InvalidValueError` if the commit changed the schema."""
    if commit.parent_id is None:
        raise InvalidValueError(
            subject="commit",
            expected="a commit with a parent",
            value=commit.id,
            problem=f"commit {commit.id} created the graph and has no parent",
        )
    parent = branch_states.find_commit(commit.parent_id)
    if parent is None:
        advice = "its branch was deleted"
        raise NotFoundError(kind="commit", name=commit.parent_id, advice=advice)
    state = branch_states.state_of(parent.id, branch=parent.branch, version=parent.manifest_version)
    # On other branches, the first commit after a schema change has a new schema hash but changes
    # rows.
    if commit.branch == MAIN and commit.schema_hash != state.head.schema_hash:
        raise InvalidValueError(
            subject="commit",
            expected="a commit of rows",
            value=commit.id,
            problem=f"commit {commit.id} changed the schema; apply the desired schema with "
            "`apply_schema` instead",
        )
    return state
