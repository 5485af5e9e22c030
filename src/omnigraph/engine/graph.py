"""The graph: what callers hold.

Every method is one story told in order; the chapters are in `ops`, `commit` and `state`. Safe to
share between threads. A handle is never stale by itself: each call looks at what is true now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.commit.audit import Recovery, list_recoveries
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.commit.recover import Recoverer
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.compiled import CompiledQueries
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.branch import create_branch
from omnigraph.engine.ops.create import create_graph, delete_graph, has_history, is_graph
from omnigraph.engine.ops.export import export
from omnigraph.engine.ops.load import LoadMode, PreparedLoad, parse_mode, prepare_load
from omnigraph.engine.ops.mutate import MutationCall, PreparedMutation, prepare_mutation
from omnigraph.engine.ops.reading.received import ReceivedRows
from omnigraph.engine.ops.reading.sources import receive
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import LoadResult, MutationResult, TableState
from omnigraph.engine.settings import Settings, open_stores, require_text
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.contract import SOURCE_FILE, is_bare, write_derived_files
from omnigraph.engine.state.history import Commit
from omnigraph.engine.state.known_ids import KnownIds
from omnigraph.model.errors import (
    AlreadyExistsError,
    CorruptError,
    ForbiddenError,
    InvalidValueError,
    NotFoundError,
    SchemaChangedError,
)
from omnigraph.model.limits import WRITE_LOCK_TIMEOUT_S
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.model.source import Source
from omnigraph.storage.locks import open_write_locks
from omnigraph.storage.ports import Stores

Progress = Callable[[str, int, int | None], None]


def init_graph(settings: Settings, *, schema: str, is_forced: bool) -> Graph:
    """Create a graph and open it for writing."""
    require_text(schema, subject="schema")
    catalog = compile_schema(Source("<schema>", schema))
    stores = open_stores(settings)
    if is_forced and is_graph(stores):
        delete_graph(stores)
        stores = open_stores(settings)
    create_graph(
        uri=settings.location.uri,
        source=schema,
        catalog=catalog,
        stores=stores,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
    )
    return Graph(settings, stores, actor=None, is_read_only=False)


def open_graph(settings: Settings, *, actor: str | None, is_read_only: bool) -> Graph:
    """Open a graph; `NotFoundError` if there is none, `CorruptError` if it is damaged."""
    stores = open_stores(settings)
    if stores.objects.find(SOURCE_FILE) is None and has_history(stores):
        raise CorruptError(
            subject=f"the graph at {settings.location.uri}",
            problem=f"its {SOURCE_FILE} is missing; restore it from a copy",
        )
    graph = Graph(settings, stores, actor=actor, is_read_only=is_read_only)
    if is_read_only:
        graph.head()
    else:
        graph.refresh()
    return graph


class Graph:
    """A graph on a disk or an object store, opened by `omnigraph.init` or `omnigraph.open`."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._actor = actor
        self._is_read_only = is_read_only
        self._compiled = CompiledQueries()
        known_ids = KnownIds()
        self._authority = Authority(
            uri=settings.location.uri,
            objects=stores.objects,
            tables=stores.tables,
            known_ids=known_ids,
        )
        locks = open_write_locks(settings.location, timeout_s=WRITE_LOCK_TIMEOUT_S)
        recoverer = Recoverer(
            authority=self._authority,
            stores=stores,
            locks=locks,
            free_locks=open_write_locks(settings.location, timeout_s=0.0),
            runtime=settings.runtime,
            failpoints=settings.failpoints,
        )
        self._writes = WritePath(
            authority=self._authority,
            stores=stores,
            recoverer=recoverer,
            locks=locks,
            known_ids=known_ids,
            runtime=settings.runtime,
            failpoints=settings.failpoints,
        )
        self._is_closed = False

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
        self._is_closed = True

    @property
    def uri(self) -> str:
        """Where the graph is."""
        return self._settings.location.uri

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema."""
        return self._pin(MAIN).contract.source

    # Data

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
        self._require_writable("mutate")
        require_text(source, subject="source")
        now = self._settings.runtime.now()

        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedMutation:
            ir = self._compiled.mutation(source, name=name, contract=basis.contract)
            values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
            return prepare_mutation(
                MutationCall(ir, values, now.replace(microsecond=now.microsecond // 1000 * 1000)),
                catalog=basis.catalog,
                committed=committed,
                runtime=self._settings.runtime,
            )

        done, commit = write_on(
            parse_branch_name(branch),
            prepare=prepare,
            authorship=self._author(actor, WriterKind.MUTATION, if_commit),
            path=self._writes,
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
        self._require_writable("load")
        target, load_mode = parse_branch_name(branch), parse_mode(mode)
        _require_inline(engine, spark)
        source = None if base is None else parse_branch_name(base)
        is_missing = source is not None and target not in self._authority.branches()
        start = self._authority.capture(source if is_missing and source else target)
        received = receive(data, catalog=start.catalog, runtime=self._settings.runtime)
        row_count = sum(each.rows.num_rows for each in received.values())
        report = progress or _say_nothing
        report("read", row_count, row_count)
        is_new = False
        if is_missing and source is not None:
            # What is refused on the base would be refused on the branch: better before it exists.
            prepare_load(
                received, mode=load_mode, catalog=start.catalog, committed=self._rows_of(start)
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

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows of a branch or commit as NDJSON lines that `load` reads back."""
        basis = self._at(branch, commit)
        return export(
            basis.snapshot, catalog=basis.catalog, tables=self._stores.tables, types=types
        )

    # History

    def branches(self) -> list[str]:
        """The branches, `main` first, then by name."""
        self._require_open()
        return list(self._authority.branches())

    def create_branch(self, name: str, *, base: str = "main", actor: str | None = None) -> None:
        """Start a branch at the head of another; no rows are copied."""
        del actor  # recorded once branches have an audit of their own
        self._require_writable("create a branch")
        create_branch(parse_branch_name(name), base=parse_branch_name(base), path=self._writes)

    def commits(self, branch: str = "main") -> list[Commit]:
        """The commits of a branch, oldest first."""
        self._require_open()
        return list(self._authority.commits(parse_branch_name(branch)))

    def head(self, branch: str = "main") -> str:
        """The id of the commit that a branch is at."""
        return self._pin(parse_branch_name(branch)).head.id

    def tables(self, branch: str = "main") -> dict[str, TableState]:
        """The snapshot of a branch, for those who read it with other Lance tools."""
        root = self._settings.location.root
        return {
            entry.table_key: TableState(
                version=entry.version,
                branch=entry.branch,
                row_count=entry.row_count,
                path=f"{root}/{entry.path}" + (f"/tree/{entry.branch}" if entry.branch else ""),
            )
            for entry in self._pin(parse_branch_name(branch)).snapshot
        }

    # Upkeep

    def refresh(self) -> None:
        """Finish or undo what dead writers left, and look at the graph anew."""
        self._require_writable("refresh")
        if is_bare(self._stores.objects):
            self._restore_derived_files()
        self._writes.heal()
        self._pin(MAIN)

    def recoveries(self) -> list[Recovery]:
        """What was found half-way done and how it was ended, oldest first."""
        self._require_open()
        return list(list_recoveries(self._stores.tables))

    # What the calls above share

    def _restore_derived_files(self) -> None:
        if len(self.branches()) > 1:
            raise SchemaChangedError(
                reason="the generated schema files are missing and there are branches besides "
                "main; restore the files from a copy"
            )
        accepted = self._authority.state(MAIN).head.schema_hash
        write_derived_files(self._stores.objects, accepted=accepted)

    def _ensure_branch(self, name: BranchName, base: BranchName) -> bool:
        """Whether a branch had to be made; somebody else may have made it meanwhile."""
        try:
            create_branch(name, base=base, path=self._writes)
        except AlreadyExistsError:
            return False
        return True

    def _rows_of(self, basis: Basis) -> SnapshotRows:
        return SnapshotRows(
            basis.snapshot, tables=self._stores.tables, known_ids=self._writes.known_ids
        )

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
            authorship=self._author(actor, WriterKind.LOAD, None),
            path=self._writes,
        )

    def _author(self, actor: str | None, kind: WriterKind, expected_head: str | None) -> Authorship:
        name = actor or self._actor
        if name is not None:
            require_text(name, subject="actor")
        return Authorship(actor=name, kind=kind, expected_head=expected_head)

    def _at(self, branch: str | None, commit: str | None) -> Basis:
        if commit is None:
            return self._pin(parse_branch_name(branch or MAIN))
        if branch is not None:
            raise InvalidValueError(
                subject="branch and commit",
                expected="one of them",
                value=(branch, commit),
                problem="a read is at a branch or at a commit, not at both",
            )
        self._require_open()
        require_text(commit, subject="commit")
        found = self._authority.find_commit(commit)
        if found is None:
            raise NotFoundError(kind="commit", name=commit, advice="`commits` lists them")
        state = self._authority.state_at(BranchName(found.branch), found.manifest_version)
        if state.head.id != commit:
            raise NotFoundError(kind="commit", name=commit, advice="its branch was made anew")
        return Basis(state, self._pin(MAIN).contract)

    def _pin(self, branch: BranchName) -> Basis:
        self._require_open()
        return self._authority.pin(branch)

    def _require_open(self) -> None:
        if self._is_closed:
            raise ForbiddenError(actor=None, action="use this graph", reason="it was closed")

    def _require_writable(self, action: str) -> None:
        self._require_open()
        if self._is_read_only:
            raise ForbiddenError(
                actor=self._actor, action=action, reason="the graph was opened with read_only=True"
            )


def _require_inline(engine: str, spark: object) -> None:
    if engine in ("auto", "inline") and spark is None:
        return
    raise InvalidValueError(
        subject="engine",
        expected="auto or inline",
        value=engine,
        problem='this version loads in process only; leave `spark` out and use "inline"',
    )


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""
