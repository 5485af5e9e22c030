"""The calls of a graph about its history: branches, tags, merges, undoing, commits, differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.engine.commit.protocol import Authorship
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, choose_engine, find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import find_told
from omnigraph.engine.ops.branch import create_branch, delete_branch
from omnigraph.engine.ops.requests import make_request
from omnigraph.engine.ops.standing import standing
from omnigraph.engine.ops.tags import create_tag, delete_tag, list_tags
from omnigraph.engine.ops.told import merge_result
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.results import MergeResult, SnapshotState, TableState
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.history import Commit, CommitLog
from omnigraph.model.arguments import require_text
from omnigraph.model.deferred import defer
from omnigraph.model.names import BranchName, PrivateBranchName, parse_branch_name, parse_tag_name
from omnigraph.model.policy import Action
from omnigraph.storage.ports import TableStore

if TYPE_CHECKING:
    from omnigraph.engine.changes import ChangeSet
    from omnigraph.engine.ops import change_feed, type_pairs, undo
    from omnigraph.engine.ops import diff as comparing
    from omnigraph.engine.ops import merge as merging
    from omnigraph.engine.ops import terms as merge_terms
    from omnigraph.engine.ops.change_feed import ChangeFeed
    from omnigraph.engine.ops.diff import Selection
    from omnigraph.engine.ops.terms import Terms
else:
    change_feed = defer("omnigraph.engine.ops.change_feed")
    type_pairs = defer("omnigraph.engine.ops.type_pairs")
    undo = defer("omnigraph.engine.ops.undo")
    comparing = defer("omnigraph.engine.ops.diff")
    merging = defer("omnigraph.engine.ops.merge")
    merge_terms = defer("omnigraph.engine.ops.terms")


class GraphHistory:
    """Git for a whole graph."""

    _open: OpenGraph

    @property
    def actor(self) -> str | None:
        """In whose name calls are made that name nobody; None for nobody's."""
        return self._open.actor_of(None)

    def branches(self) -> list[str]:
        """The branches, `main` first, then by name."""
        self._open.require_open()
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        return list(self._open.authority.branches())

    def create_branch(
        self,
        name: str,
        *,
        base: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> None:
        """Start a branch at the head of another; no rows are copied.

        `if_commit` names the commit that the other must be at.
        """
        self._open.require_writable("create a branch")
        branch, start = parse_branch_name(name), parse_branch_name(base)
        self._open.require_allowed(Action.BRANCH_CREATE, branch=start, target=branch, actor=actor)
        create_branch(branch, base=start, if_head=if_commit, path=self._open.writes)

    def delete_branch(
        self, name: str, *, actor: str | None = None, if_commit: str | None = None
    ) -> None:
        """Delete a branch and the commits that only it had.

        `if_commit` names the commit that it must be at.
        """
        self._open.require_writable("delete a branch")
        branch, path = parse_branch_name(name), self._open.writes
        self._open.require_allowed(Action.BRANCH_DELETE, branch=None, target=branch, actor=actor)
        # A transaction that died keeps the branch that it began on, until it is swept away.
        sweep_transactions(path.heal(), path=path)
        delete_branch(branch, if_head=if_commit, path=path)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit, for good; it stays readable as long as the tag is there."""
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
        """The tags by name, each with the id of its commit."""
        self._open.require_open()
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        return {tag.name: tag.commit_id for tag in list_tags(self._open.stores.objects)}

    def delete_tag(self, name: str) -> None:
        """Take a tag away; its commit stays."""
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

        Conflicts are a `MergeConflictError`, or part of the result of a dry run; `resolve` decides
        them: `"source"`, `"target"` or a row for each (type, id). `if_commit` names the commit that
        the other branch must be at. What is asked again with the same `idempotency_key` is done
        once, and answered alike.
        """
        terms = merge_terms.parse_terms(
            granularity=granularity, resolve=resolve, is_dry_run=dry_run
        )
        if not dry_run:
            self._open.require_writable("merge")
        self._open.require_open()
        branch, target = parse_branch_name(source), parse_branch_name(into)
        self._open.require_allowed(Action.BRANCH_MERGE, branch=branch, target=target, actor=actor)
        if not isinstance(branch, PrivateBranchName):
            for each in (branch, target):
                self._open.require_whole("merge", branch=each)
        author = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=if_commit)
        asked = ("merge", branch, terms.granularity, terms.resolve)
        authorship = author.answering(make_request(idempotency_key, *asked))
        # The source may have been deleted once it was merged.
        told = None if dry_run else find_told(target, authorship=authorship, path=self._open.writes)
        if told is not None:
            return merge_result(told)
        is_large = partial(self._is_large_merge, branch, target)
        chosen = choose_engine(engine, spark=spark, is_large=is_large)
        with self._open.telling_conflicts(branch, target=target):
            done = self._merge_on(chosen, spark, branch, target, terms, authorship)
        shown = self._open.tell_conflicts(done.conflicts, source=branch, target=target)
        return replace(done, conflicts=shown)

    def _merge_on(
        self,
        engine: Engine,
        spark: object,
        source: BranchName,
        target: BranchName,
        terms: Terms,
        authorship: Authorship,
    ) -> MergeResult:
        if engine is Engine.LOCAL:
            return merging.merge_branch(
                source,
                into=target,
                terms=terms,
                replayer=merging.replay_here(self._open.writes),
                authorship=authorship,
                path=self._open.writes,
            )
        part = find_part("upkeep.merge", settings=self._open.settings, action="merge")
        merged: MergeResult = part.merge(
            source, into=target, terms=terms, authorship=authorship, opened=self._open, spark=spark
        )
        return merged

    def _is_large_merge(self, source: BranchName, target: BranchName) -> bool:
        """Whether two branches differ in more rows than one process should put together."""
        pairs = type_pairs.pair_types(self._open.pin(target), self._open.pin(source))
        return comparing.is_large_diff(pairs, self._open.stores.tables)

    def revert(
        self,
        commit: str,
        *,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Undo one commit of a branch's history by a new one; later commits stay.

        `if_commit` and `idempotency_key` are those of `merge`.
        """
        self._open.require_writable("revert")
        # Nobody's commit would be taken for the newest one.
        require_text(commit, subject="commit")
        target = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=target, target=None, actor=actor)
        self._open.require_whole("revert", branch=target)
        author = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=if_commit)
        authorship = author.answering(make_request(idempotency_key, "revert", commit))
        told = find_told(target, authorship=authorship, path=self._open.writes)
        if told is not None:
            return merge_result(told)
        found = self._open.at(None, commit, action=Action.READ)
        self._open.require_seen_whole(found, "revert")
        with self._open.telling_conflicts(None, target=target):
            return undo.revert_commit(
                found,
                branch=target,
                authorship=authorship,
                path=self._open.writes,
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
        """Do on a branch what one commit did elsewhere.

        `if_commit` and `idempotency_key` are those of `merge`.
        """
        self._open.require_writable("cherry-pick")
        require_text(commit, subject="commit")
        target = parse_branch_name(onto)
        self._open.require_allowed(Action.CHANGE, branch=target, target=None, actor=actor)
        self._open.require_whole("cherry-pick", branch=target)
        author = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=if_commit)
        authorship = author.answering(make_request(idempotency_key, "cherry_pick", commit))
        # The branch that it is on may have been deleted since.
        told = find_told(target, authorship=authorship, path=self._open.writes)
        if told is not None:
            return merge_result(told)
        found = self._open.at(None, commit, action=Action.READ)
        self._open.require_seen_whole(found, "cherry-pick")
        with self._open.telling_conflicts(None, target=target):
            return undo.cherry_pick_commit(
                found,
                onto=target,
                authorship=authorship,
                path=self._open.writes,
            )

    def commits(self, branch: str = "main") -> CommitLog:
        """The commits of a branch, oldest first."""
        self._open.require_open()
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.READ, branch=name, target=None, actor=None)
        return CommitLog(self._open.tell(self._open.authority.commits(name), branch=name))

    def commit(self, id: str) -> Commit:
        """The commit of an id, or the one that a tag names."""
        self._open.require_open()
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        state = self._open.state_of(id)
        (told,) = self._open.tell([state.head], branch=state.branch)
        return told

    def head(self, branch: str = "main") -> str:
        """The id of the commit that a branch is at."""
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
        """What changed from one branch, commit or tag to another, net.

        On Spark the changes are found when they are asked for.
        """
        before, after = self._open.named(old), self._open.named(new)
        catalogs = [after.catalog, before.catalog]
        selection = comparing.parse_selection(catalogs, types=types, ops=ops)
        tables = self._open.stores.tables
        again = "compare again, with what is there now"
        with standing(authority=self._open.authority, otherwise=again) as noted:
            noted += [before.state, after.state]
            is_large = partial(_is_large, before, after, selection, tables)
            if choose_engine(engine, spark=spark, is_large=is_large) is Engine.LOCAL:
                return comparing.diff(before, after, selection=selection, tables=tables)
            for each in (before, after):
                self._open.require_seen_whole(each, "compare on Spark")
            part = find_part("upkeep.diff", settings=self._open.settings, action="compare")
            found: ChangeSet = part.diff(
                before, after, selection=selection, opened=self._open, spark=spark
            )
            return found

    def changes(self, start: str, branch: str = "main") -> ChangeFeed:
        """What each commit of a branch changed, from `now`, `beginning` or `after:<commit>` on."""
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.READ, branch=name, target=None, actor=None)
        return change_feed.open_feed(start, branch=name, path=self._open.feeds)

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The snapshot of a branch, for those who read it with other Lance tools."""
        return dict(self.snapshot(branch).tables)

    def snapshot(self, branch: str = "main") -> SnapshotState:
        """The commit that a branch is at, and its types as they are there."""
        name = parse_branch_name(branch)
        basis = self._open.at(name, None, action=Action.READ)
        root = self._open.settings.location.root
        tables = {
            entry.table_key: TableState(
                version=entry.version,
                branch=entry.branch,
                row_count=basis.snapshot.get(entry.table_key).row_count,
                path=f"{root}/{entry.path}" + (f"/tree/{entry.branch}" if entry.branch else ""),
            )
            for entry in basis.state.snapshot
        }
        (head,) = self._open.tell([basis.head], branch=name)
        return SnapshotState(head, tables)


def _is_large(before: Basis, after: Basis, selection: Selection, tables: TableStore) -> bool:
    """Whether two states differ in more rows than one process should compare."""
    if before.limited is not None or after.limited is not None:
        # Spark would have to be told which rows are seen.
        return False
    return comparing.is_large_diff(comparing.list_pairs(before, after, selection), tables)
