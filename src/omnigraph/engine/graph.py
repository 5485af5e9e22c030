"""The graph: what callers hold.

Every method is one story told in order; the chapters are in `ops`, `commit` and `state`. Safe to
share between threads. A handle is never stale by itself: each call looks at what is true now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.arguments import require_inline, require_local
from omnigraph.engine.changes import ChangeSet
from omnigraph.engine.commit.audit import Recovery, list_recoveries
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.branch import create_branch, delete_branch
from omnigraph.engine.ops.change_feed import ChangeFeed, open_feed
from omnigraph.engine.ops.diff import diff, parse_selection
from omnigraph.engine.ops.entity import find_entity
from omnigraph.engine.ops.export import export
from omnigraph.engine.ops.indexes import ensure_indexes
from omnigraph.engine.ops.load import LoadMode, PreparedLoad, parse_mode, prepare_load
from omnigraph.engine.ops.merge import merge_branch
from omnigraph.engine.ops.mutate import MutationCall, PreparedMutation, prepare_mutation
from omnigraph.engine.ops.query import QueryCall, explain_query, run_query
from omnigraph.engine.ops.reading.received import ReceivedRows
from omnigraph.engine.ops.reading.sources import receive
from omnigraph.engine.ops.tags import create_tag, delete_tag, list_tags
from omnigraph.engine.ops.terms import parse_terms
from omnigraph.engine.ops.transaction import Transaction, sweep_transactions, transact
from omnigraph.engine.ops.undo import cherry_pick_commit, revert_commit
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import (
    IndexReport,
    LoadResult,
    MergeResult,
    MutationResult,
    Result,
    TableState,
)
from omnigraph.engine.settings import Settings, require_text
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.contract import is_bare, write_derived_files
from omnigraph.engine.state.history import Commit
from omnigraph.model.errors import AlreadyExistsError, SchemaChangedError
from omnigraph.model.names import MAIN, BranchName, parse_branch_name, parse_tag_name
from omnigraph.storage.ports import Stores

Progress = Callable[[str, int, int | None], None]


class Graph:
    """A graph on a disk or an object store, opened by `omnigraph.init` or `omnigraph.open`."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self._open = OpenGraph(settings, stores, actor=actor, is_read_only=is_read_only)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r})"

    def close(self) -> None:
        """Let go of the graph; further calls are refused, closing again is fine."""
        self._open.close()

    @property
    def uri(self) -> str:
        """Where the graph is."""
        return self._open.settings.location.uri

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema."""
        return self._open.pin(MAIN).contract.source

    # Data

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        engine: str = "local",
        spark: object = None,
    ) -> Result:
        """Run the read of a `.gq` text on a branch, `main` if none is named, or at a commit."""
        require_text(source, subject="source")
        require_local(engine, spark)
        basis = self._open.at(branch, commit)
        plan = self._open.compiled.read(source, name=name, contract=basis.contract)
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        return run_query(call, basis=basis, path=self._open.reads)

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
    ) -> str:
        """How a read would be run on a branch now, step by step, as text; nothing is run."""
        require_text(source, subject="source")
        require_local(engine, None)
        basis = self._open.pin(parse_branch_name(branch))
        plan = self._open.compiled.read(source, name=name, contract=basis.contract)
        if params is not None:
            convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        return explain_query(plan, basis=basis, path=self._open.reads)

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run the mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` names the commit that the branch must be at.
        """
        self._open.require_writable("mutate")
        require_text(source, subject="source")
        now = self._open.settings.runtime.now()

        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedMutation:
            ir = self._open.compiled.mutation(source, name=name, contract=basis.contract)
            values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
            return prepare_mutation(
                MutationCall(ir, values, now.replace(microsecond=now.microsecond // 1000 * 1000)),
                catalog=basis.catalog,
                committed=committed,
                runtime=self._open.settings.runtime,
            )

        done, commit = write_on(
            parse_branch_name(branch),
            prepare=prepare,
            authorship=self._open.author(actor, WriterKind.MUTATION, expected_head=if_commit),
            path=self._open.writes,
        )
        return MutationResult(
            done.affected_nodes, done.affected_edges, commit.id if commit else None
        )

    def load(
        self,
        data: object,
        *,
        mode: str,
        branch: str = "main",
        base: str | None = None,
        engine: str = "auto",
        actor: str | None = None,
        progress: Progress | None = None,
        spark: object = None,
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        With `base` a branch that does not exist is started from that one first.
        """
        self._open.require_writable("load")
        target, load_mode = parse_branch_name(branch), parse_mode(mode)
        require_inline(engine, spark)
        source = None if base is None else parse_branch_name(base)
        is_missing = source is not None and target not in self._open.authority.branches()
        start = self._open.authority.capture(source if is_missing and source else target)
        received = receive(data, catalog=start.catalog, runtime=self._open.settings.runtime)
        row_count = sum(each.rows.num_rows for each in received.values())
        report = progress or _say_nothing
        report("read", row_count, row_count)
        is_new = False
        if is_missing and source is not None:
            # What is refused on the base would be refused on the branch: better before it exists.
            prepare_load(
                received, mode=load_mode, catalog=start.catalog, committed=self._open.rows_of(start)
            )
            is_new = self._ensure_branch(target, source)
        done, commit = self._load_received(received, load_mode, target, actor)
        report("commit", row_count, row_count)
        return LoadResult(
            nodes_loaded=done.nodes_loaded,
            edges_loaded=done.edges_loaded,
            commit_id=commit.id if commit else None,
            branch=target,
            base_branch=source,
            branch_created=is_new,
            engine="inline",
        )

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """One node or edge of a branch, `main` if none is named, or of a commit; None if it is
        not there."""
        require_text(type, subject="type")
        require_text(id, subject="id")
        basis = self._open.at(branch, commit)
        return find_entity(
            type,
            id,
            snapshot=basis.snapshot,
            catalog=basis.catalog,
            tables=self._open.stores.tables,
        )

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows of a branch or commit as NDJSON lines that `load` reads back."""
        basis = self._open.at(branch, commit)
        return export(
            basis.snapshot, catalog=basis.catalog, tables=self._open.stores.tables, types=types
        )

    # History

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
        delete_branch(parse_branch_name(name), path=self._open.writes)

    def tag(self, name: str, commit: str, *, actor: str | None = None) -> None:
        """Name a commit, for good; it stays readable as long as the tag is there."""
        self._open.require_writable("tag a commit")
        found, author = self._open.state_of(commit).head, self._open.actor_of(actor)
        create_tag(parse_tag_name(name), found, actor=author, path=self._open.writes)

    def tags(self) -> dict[str, str]:
        """The tags by name, each with the id of its commit."""
        self._open.require_open()
        return {tag.name: tag.commit_id for tag in list_tags(self._open.stores.objects)}

    def delete_tag(self, name: str) -> None:
        """Take a tag away; its commit stays."""
        self._open.require_writable("delete a tag")
        delete_tag(parse_tag_name(name), path=self._open.writes)

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit on a branch at its end, or leave no trace."""
        self._open.require_writable("begin a transaction")
        return transact(self, parse_branch_name(branch), actor=actor, path=self._open.writes)

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        actor: str | None = None,
        dry_run: bool = False,
        granularity: str = "row",
        resolve: Mapping[tuple[str, str], object] | None = None,
    ) -> MergeResult:
        """Merge a branch into another as one commit, or change nothing.

        Conflicts are a `MergeConflictError`, or part of the result of a dry run; `resolve` decides
        them: `"source"`, `"target"` or a row for each (type, id).
        """
        terms = parse_terms(granularity=granularity, resolve=resolve, is_dry_run=dry_run)
        if not dry_run:
            self._open.require_writable("merge")
        self._open.require_open()
        return merge_branch(
            parse_branch_name(source),
            into=parse_branch_name(into),
            terms=terms,
            authorship=self._open.author(actor, WriterKind.BRANCH_MERGE, expected_head=None),
            path=self._open.writes,
        )

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
    ) -> ChangeSet:
        """What changed from one branch, commit or tag to another, net."""
        before, after = self._open.state_named(old), self._open.state_named(new)
        selection = parse_selection(self._open.pin(MAIN).catalog, types=types, ops=ops)
        return diff(before, after, selection=selection, tables=self._open.stores.tables)

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

    # Upkeep

    def refresh(self) -> None:
        """Finish or undo what dead writers left, and look at the graph anew."""
        self._open.require_writable("refresh")
        if is_bare(self._open.stores.objects):
            self._restore_derived_files()
        root = self._open.writes.heal()
        sweep_transactions(root, path=self._open.writes)
        self._open.pin(MAIN)

    def ensure_indices(
        self, *, branch: str = "main", actor: str | None = None
    ) -> list[IndexReport]:
        """Build the indexes that types should have and lack, as one commit, and report on all."""
        self._open.require_writable("build indexes")
        reports = ensure_indexes(
            parse_branch_name(branch),
            authorship=self._open.author(actor, WriterKind.ENSURE_INDICES, expected_head=None),
            path=self._open.writes,
        )
        return list(reports)

    def recoveries(self) -> list[Recovery]:
        """What was found half-way done and how it was ended, oldest first."""
        self._open.require_open()
        return list(list_recoveries(self._open.stores.tables))

    # What the calls above share

    def _restore_derived_files(self) -> None:
        if len(self.branches()) > 1:
            raise SchemaChangedError(
                reason="the generated schema files are missing and there are branches besides "
                "main; restore the files from a copy"
            )
        accepted = self._open.authority.state(MAIN).head.schema_hash
        write_derived_files(self._open.stores.objects, accepted=accepted)

    def _ensure_branch(self, name: BranchName, base: BranchName) -> bool:
        """Whether a branch had to be made; somebody else may have made it meanwhile."""
        try:
            create_branch(name, base=base, path=self._open.writes)
        except AlreadyExistsError:
            return False
        return True

    def _load_received(
        self,
        received: Mapping[str, ReceivedRows],
        mode: LoadMode,
        branch: BranchName,
        actor: str | None,
    ) -> tuple[PreparedLoad, Commit | None]:
        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedLoad:
            return prepare_load(received, mode=mode, catalog=basis.catalog, committed=committed)

        return write_on(
            branch,
            prepare=prepare,
            authorship=self._open.author(actor, WriterKind.LOAD, expected_head=None),
            path=self._open.writes,
        )


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""
