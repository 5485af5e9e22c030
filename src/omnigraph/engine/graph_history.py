"""The history methods of a graph: branches, tags, merges, reverts, commits and diffs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from omnigraph.engine.commit.audit import mark_recovered
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.executors import Engine, choose_engine, get_spark_module
from omnigraph.engine.ops.recorded_responses import MERGE_CODEC, make_request
from omnigraph.engine.ops.refs import (
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    list_tags,
)
from omnigraph.engine.ops.retry import branch_guard, find_recorded
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.results import MergeResult, SnapshotState, TableState
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.history import Commit, CommitLog
from omnigraph.model.names import (
    BranchName,
    PrivateBranchName,
    parse_branch_name,
    parse_tag_name,
    require_text,
)
from omnigraph.model.ports import Action
from omnigraph.model.runtime import lazy_module

if TYPE_CHECKING:
    from omnigraph.engine.changes import ChangeSet
    from omnigraph.engine.merge import merge, options
    from omnigraph.engine.merge.options import MergeOptions
    from omnigraph.engine.ops import change_feed, diff
    from omnigraph.engine.ops.change_feed import ChangeFeed
else:
    change_feed = lazy_module("omnigraph.engine.ops.change_feed")
    diff = lazy_module("omnigraph.engine.ops.diff")
    merge = lazy_module("omnigraph.engine.merge.merge")
    options = lazy_module("omnigraph.engine.merge.options")


class ApplyCommit(Protocol):
    """Applies or undoes one commit on a branch."""

    def __call__(
        self, commit: Basis, *, branch: BranchName, authorship: Authorship, path: WritePath
    ) -> MergeResult: ...


class GraphHistory:
    """Branches, tags, merges and commits, which apply to the whole graph."""

    _open: GraphContext

    @property
    def actor(self) -> str | None:
        """The actor of calls that do not name one; None if there is none."""
        return self._open.actor_of(None)

    def branches(self) -> list[str]:
        """The names of the branches, `main` first, then in alphabetical order."""
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        return list(self._open.branch_states.branches())

    def create_branch(
        self,
        name: str,
        *,
        base: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> None:
        """Create a branch at the head of another branch; no rows are copied.

        `if_commit` is the commit that the other branch must be at.
        """
        self._open.require_writable("create a branch")
        branch, start = parse_branch_name(name), parse_branch_name(base)
        self._open.require_allowed(Action.BRANCH_CREATE, branch=start, target=branch, actor=actor)
        create_branch(branch, base=start, if_head=if_commit, path=self._open.writes)

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        """Delete a branch and the commits that only it contains.

        `if_commit` is the commit that the branch must be at.
        """
        self._open.require_writable("delete a branch")
        branch, path = parse_branch_name(name), self._open.writes
        self._open.require_allowed(Action.BRANCH_DELETE, branch=None, target=branch, actor=actor)
        # An abandoned transaction prevents the deletion of the branch that it began on, until it is
        # swept.
        sweep_transactions(path.recover(), path=path)
        delete_branch(branch, if_head=if_commit, path=path)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Give a commit a permanent name; the commit stays readable as long as the tag exists."""
        self._open.require_writable("tag a commit")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=actor)
        create_tag(
            parse_tag_name(name),
            self._open.state_of(commit),
            actor=self._open.actor_of(actor),
            readers=self._open.readers,
            path=self._open.writes,
        )

    def tags(self) -> dict[str, str]:
        """The tags: a mapping from name to commit id."""
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        return {tag.name: tag.commit_id for tag in list_tags(self._open.stores.objects)}

    def delete_tag(self, name: str) -> None:
        """Delete a tag; its commit is not deleted."""
        self._open.require_writable("delete a tag")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        delete_tag(parse_tag_name(name), path=self._open.writes)

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        actor: str | None = None,
        dry_run: bool = False,
        granularity: str = "row",
        resolve: Mapping[tuple[str, str], object] | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit, or change nothing.

        Conflicts raise `MergeConflictError`; a dry run returns them in its result. `resolve` maps
        `(type, id)` to the resolution of that conflict: `"source"`, `"target"` or a row.
        `if_commit` is the commit that the target branch must be at. `idempotency_key` makes retries
        idempotent: a request that is repeated with the same key is executed once and returns the
        same result.
        """
        merge_options = options.parse_options(
            granularity=granularity, resolve=resolve, is_dry_run=dry_run
        )
        if not dry_run:
            self._open.require_writable("merge")
        branch, target = parse_branch_name(source), parse_branch_name(into)
        self._open.require_allowed(Action.BRANCH_MERGE, branch=branch, target=target, actor=actor)
        if not isinstance(branch, PrivateBranchName):
            for each in (branch, target):
                self._open.require_full_view("merge", branch=each)
        author = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=if_commit)
        arguments = (branch, merge_options.granularity, merge_options.resolve)
        authorship = author.with_request(make_request(idempotency_key, "merge", *arguments))
        # The source may have been deleted after it was merged.
        recorded = None if dry_run else self._find_recorded(target, authorship)
        if recorded is not None:
            return recorded

        def is_large() -> bool:
            pairs = diff.pair_types(self._open.pin(target), self._open.pin(branch))
            return diff.is_large_diff(pairs, self._open.stores.tables)

        chosen = choose_engine(engine, spark=spark, is_large=is_large)
        with self._open.redacted_errors(branch, target=target):
            done = self._merge_on(chosen, spark, branch, target, merge_options, authorship)
        shown = self._open.redact_conflicts(done.conflicts, source=branch, target=target)
        return replace(done, conflicts=shown)

    def _merge_on(
        self,
        engine: Engine,
        spark: object,
        source: BranchName,
        target: BranchName,
        merge_options: MergeOptions,
        authorship: Authorship,
    ) -> MergeResult:
        if engine is Engine.LOCAL:
            return merge.merge_branch(
                source,
                into=target,
                options=merge_options,
                apply_function=merge.prepare_here(self._open.writes),
                authorship=authorship,
                path=self._open.writes,
            )
        part = get_spark_module("ops.merge", settings=self._open.settings, action="merge")
        merged: MergeResult = part.merge(
            source,
            into=target,
            options=merge_options,
            authorship=authorship,
            opened=self._open,
            spark=spark,
        )
        return merged

    def _find_recorded(self, target: BranchName, authorship: Authorship) -> MergeResult | None:
        return find_recorded(
            target, codec=MERGE_CODEC, authorship=authorship, path=self._open.writes
        )

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Undo one commit of a branch's history with a new commit; later commits stay.

        `if_commit` and `idempotency_key` are as for `merge`.
        """
        return self._apply_commit(
            "revert", merge.revert_commit, commit, branch, actor, if_commit, idempotency_key
        )

    def cherry_pick(
        self,
        commit: str,
        *,
        onto: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Apply the changes of one commit to a branch.

        `if_commit` and `idempotency_key` are as for `merge`.
        """
        return self._apply_commit(
            "cherry-pick", merge.cherry_pick_commit, commit, onto, actor, if_commit, idempotency_key
        )

    def _apply_commit(
        self,
        action: str,
        run: ApplyCommit,
        commit: str,
        branch: str,
        actor: str | None,
        if_commit: str | None,
        idempotency_key: str | None,
    ) -> MergeResult:
        self._open.require_writable(action)
        # Without an id, the newest commit would be applied.
        require_text(commit, subject="commit")
        target = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=target, target=None, actor=actor)
        self._open.require_full_view(action, branch=target)
        author = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=if_commit)
        request = make_request(idempotency_key, action.replace("-", "_"), commit)
        authorship = author.with_request(request)
        # The branch of the commit may have been deleted since.
        recorded = self._find_recorded(target, authorship)
        if recorded is not None:
            return recorded
        found = self._open.at(None, commit, action=Action.READ)
        self._open.require_unrestricted(found, action)
        with self._open.redacted_errors(None, target=target):
            return run(found, branch=target, authorship=authorship, path=self._open.writes)

    def commits(self, branch: str = "main", *, actor: str | None = None) -> CommitLog:
        """The commits of a branch, oldest first; `actor` selects the commits of one actor.

        `omnigraph:recovery` selects every commit that a recovery published. A write that was rolled
        forward keeps the actor of its writer and is selected too.
        """
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.READ, branch=name, target=None, actor=None)
        shown = self._open.redact_commits(self._open.branch_states.commits(name), branch=name)
        marked = mark_recovered(shown, tables=self._open.stores.tables)
        return CommitLog(each for each in marked if actor is None or each.is_by(actor))

    def commit(self, id: str) -> Commit:
        """The commit with an id, or the commit that a tag names."""
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        state = self._open.state_of(id)
        shown = self._open.redact_commits([state.head], branch=state.branch)
        (marked,) = mark_recovered(shown, tables=self._open.stores.tables)
        return marked

    def head(self, branch: str = "main") -> str:
        """The id of the head commit of a branch."""
        return self._open.at(parse_branch_name(branch), None, action=Action.READ).head.id

    def diff(
        self,
        old: str,
        new: str,
        *,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> ChangeSet:
        """The net changes from one branch, commit or tag to another.

        On Spark, the changes are computed when they are first used.
        """
        before, after = self._open.named(old), self._open.named(new)
        catalogs = [after.catalog, before.catalog]
        selection = diff.parse_selection(catalogs, types=types, ops=ops)
        tables = self._open.stores.tables
        with branch_guard(
            before.state,
            after.state,
            branch_states=self._open.branch_states,
            advice="compare the current states",
            checks_result=True,
        ):

            def is_large() -> bool:
                if before.visible is not None or after.visible is not None:
                    # Spark does not apply row-level security.
                    return False
                return diff.is_large_diff(diff.list_pairs(before, after, selection), tables)

            if choose_engine(engine, spark=spark, is_large=is_large) is Engine.LOCAL:
                return diff.diff(before, after, selection=selection, tables=tables)
            for each in (before, after):
                self._open.require_unrestricted(each, "compare on Spark")
            part = get_spark_module("ops.diff", settings=self._open.settings, action="compare")
            found: ChangeSet = part.diff(
                before, after, selection=selection, opened=self._open, spark=spark
            )
            return found

    def changes(self, start: str, branch: str = "main") -> ChangeFeed:
        """The changes of each commit of a branch from `now`, `beginning` or `after:<commit>` on."""
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.READ, branch=name, target=None, actor=None)
        opened = self._open
        path = change_feed.FeedPath(
            opened.pin, opened.restrict, opened.branch_states, opened.stores.tables
        )
        return change_feed.open_feed(start, branch=name, path=path)

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The tables in the snapshot of a branch, for readers that use other Lance tools."""
        return dict(self.snapshot(branch).tables)

    def snapshot(self, branch: str = "main") -> SnapshotState:
        """The head commit of a branch, and the state of each type at that commit.

        A type of which the caller sees no row is left out, because its version counts the writes to
        it.
        """
        name = parse_branch_name(branch)
        basis = self._open.at(name, None, action=Action.READ)
        root = self._open.settings.location.root
        unseen = frozenset[str]() if basis.visible is None else basis.visible.unseen_keys
        tables = {
            entry.table_key: TableState(
                version=entry.version,
                branch=entry.branch,
                row_count=basis.snapshot.get(entry.table_key).row_count,
                path=f"{root}/{entry.path}" + (f"/tree/{entry.branch}" if entry.branch else ""),
            )
            for entry in basis.state.snapshot
            if entry.table_key not in unseen
        }
        (head,) = self._open.redact_commits([basis.head], branch=name)
        return SnapshotState(head, tables)
