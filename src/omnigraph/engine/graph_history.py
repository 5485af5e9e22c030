"""The calls of a graph about its history: branches, tags, merges, undoing, commits, differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, choose_engine, find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.branch import create_branch, delete_branch
from omnigraph.engine.ops.change_feed import ChangeFeed, open_feed
from omnigraph.engine.ops.diff import diff, is_large_diff, list_pairs, parse_selection
from omnigraph.engine.ops.merge import merge_branch, replay_here
from omnigraph.engine.ops.standing import standing
from omnigraph.engine.ops.tags import create_tag, delete_tag, list_tags
from omnigraph.engine.ops.terms import parse_terms
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.ops.type_pairs import pair_types
from omnigraph.engine.ops.undo import cherry_pick_commit, revert_commit
from omnigraph.engine.results import MergeResult, TableState
from omnigraph.engine.state.history import Commit
from omnigraph.model.names import BranchName, parse_branch_name, parse_tag_name


class GraphHistory:
    """Git for a whole graph."""

    _open: OpenGraph

    def branches(self) -> list[str]:
        """The branches, `main` first, then by name."""
        self._open.require_open()
        return list(self._open.authority.branches())

    def create_branch(self, name: str, *, base: str = "main", actor: str | None = None) -> None:
        """Start a branch at the head of another; no rows are copied."""
        del actor  # recorded once branches have an audit of their own
        self._open.require_writable("create a branch")
        create_branch(parse_branch_name(name), base=parse_branch_name(base), path=self._open.writes)

    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and the commits that only it had."""
        del actor  # recorded once branches have an audit of their own
        self._open.require_writable("delete a branch")
        branch, path = parse_branch_name(name), self._open.writes
        # A transaction that died keeps the branch that it began on, until it is swept away.
        sweep_transactions(path.heal(), path=path)
        delete_branch(branch, path=path)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit, for good; it stays readable as long as the tag is there."""
        self._open.require_writable("tag a commit")
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
        return {tag.name: tag.commit_id for tag in list_tags(self._open.stores.objects)}

    def delete_tag(self, name: str) -> None:
        """Take a tag away; its commit stays."""
        self._open.require_writable("delete a tag")
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
    ) -> MergeResult:
        """Merge a branch into another as one commit, or change nothing.

        Conflicts are a `MergeConflictError`, or part of the result of a dry run; `resolve` decides
        them: `"source"`, `"target"` or a row for each (type, id).
        """
        terms = parse_terms(granularity=granularity, resolve=resolve, is_dry_run=dry_run)
        if not dry_run:
            self._open.require_writable("merge")
        self._open.require_open()
        branch, target = parse_branch_name(source), parse_branch_name(into)
        authorship = self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=None)
        is_large = partial(self._is_large_merge, branch, target)
        if choose_engine(engine, spark=spark, is_large=is_large) is Engine.LOCAL:
            return merge_branch(
                branch,
                into=target,
                terms=terms,
                replayer=replay_here(self._open.writes),
                authorship=authorship,
                path=self._open.writes,
            )
        part = find_part("upkeep.merge", settings=self._open.settings, action="merge")
        merged: MergeResult = part.merge(
            branch, into=target, terms=terms, authorship=authorship, opened=self._open, spark=spark
        )
        return merged

    def _is_large_merge(self, source: BranchName, target: BranchName) -> bool:
        """Whether two branches differ in more rows than one process should put together."""
        pairs = pair_types(self._open.pin(target), self._open.pin(source))
        return is_large_diff(pairs, self._open.stores.tables)

    def revert(self, commit: str, *, branch: str = "main", actor: str | None = None) -> MergeResult:
        """Undo one commit of a branch's history by a new one; later commits stay."""
        self._open.require_writable("revert")
        return revert_commit(
            self._open.at(None, commit),
            branch=parse_branch_name(branch),
            authorship=self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=None),
            path=self._open.writes,
        )

    def cherry_pick(
        self, commit: str, *, onto: str = "main", actor: str | None = None
    ) -> MergeResult:
        """Do on a branch what one commit did elsewhere."""
        self._open.require_writable("cherry-pick")
        return cherry_pick_commit(
            self._open.at(None, commit),
            onto=parse_branch_name(onto),
            authorship=self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=None),
            path=self._open.writes,
        )

    def commits(self, branch: str = "main") -> list[Commit]:
        """The commits of a branch, oldest first."""
        self._open.require_open()
        return list(self._open.authority.commits(parse_branch_name(branch)))

    def head(self, branch: str = "main") -> str:
        """The id of the commit that a branch is at."""
        return self._open.pin(parse_branch_name(branch)).head.id

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
        selection = parse_selection(catalogs, types=types, ops=ops)
        tables = self._open.stores.tables
        again = "compare again, with what is there now"
        with standing(authority=self._open.authority, otherwise=again) as noted:
            noted += [before.state, after.state]
            is_large = partial(is_large_diff, list_pairs(before, after, selection), tables)
            if choose_engine(engine, spark=spark, is_large=is_large) is Engine.LOCAL:
                return diff(before, after, selection=selection, tables=tables)
            part = find_part("upkeep.diff", settings=self._open.settings, action="compare")
            found: ChangeSet = part.diff(
                before, after, selection=selection, opened=self._open, spark=spark
            )
            return found

    def changes(self, start: str, branch: str = "main") -> ChangeFeed:
        """What each commit of a branch changed, from `now`, `beginning` or `after:<commit>` on."""
        return open_feed(start, branch=parse_branch_name(branch), path=self._open.feeds)

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The snapshot of a branch, for those who read it with other Lance tools."""
        root = self._open.settings.location.root
        return {
            entry.table_key: TableState(
                version=entry.version,
                branch=entry.branch,
                row_count=entry.row_count,
                path=f"{root}/{entry.path}" + (f"/tree/{entry.branch}" if entry.branch else ""),
            )
            for entry in self._open.pin(parse_branch_name(branch)).snapshot
        }
