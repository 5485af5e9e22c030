"""The calls of a graph about its upkeep: recovery, indexes, layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, choose_engine, find_part
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.requests import make_request
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.results import IndexReport, MigrationPlan, OptimizeReport, SchemaApplyResult
from omnigraph.engine.settings import open_stores, require_text
from omnigraph.engine.state.authority import Authority, Basis
from omnigraph.engine.state.contract import is_bare, write_derived_files
from omnigraph.model.deferred import defer
from omnigraph.model.errors import SchemaChangedError
from omnigraph.model.limits import (
    EMBEDDED_ROWS_MAX,
    RECONCILER_INTERVAL_S,
    REWRITTEN_BYTES_MAX,
    UPKEEP_ROWS_MAX,
)
from omnigraph.model.names import MAIN, BranchName, parse_branch_name
from omnigraph.model.policy import Action
from omnigraph.model.source import Source
from omnigraph.storage.table_layout import Workers

if TYPE_CHECKING:
    from omnigraph.engine import reconciler as reconciling
    from omnigraph.engine.commit import audit
    from omnigraph.engine.commit.audit import Recovery
    from omnigraph.engine.ops import cleanup as cleaning
    from omnigraph.engine.ops import embed as embedding
    from omnigraph.engine.ops import indexes as indexing
    from omnigraph.engine.ops import optimize as optimizing
    from omnigraph.engine.ops import repair as repairing
    from omnigraph.engine.ops import schema_apply as schemas
    from omnigraph.engine.ops import wear
    from omnigraph.engine.ops.cleanup import CleanupReport
    from omnigraph.engine.ops.doctor import examine as doctoring
    from omnigraph.engine.ops.doctor import scope as scopes
    from omnigraph.engine.ops.doctor.report import DoctorReport
    from omnigraph.engine.ops.embed import EmbedResult
    from omnigraph.engine.ops.repair import RepairReport
    from omnigraph.engine.reconciler import Reconciler
else:
    reconciling = defer("omnigraph.engine.reconciler")
    audit = defer("omnigraph.engine.commit.audit")
    cleaning = defer("omnigraph.engine.ops.cleanup")
    embedding = defer("omnigraph.engine.ops.embed")
    indexing = defer("omnigraph.engine.ops.indexes")
    optimizing = defer("omnigraph.engine.ops.optimize")
    repairing = defer("omnigraph.engine.ops.repair")
    schemas = defer("omnigraph.engine.ops.schema_apply")
    wear = defer("omnigraph.engine.ops.wear")
    doctoring = defer("omnigraph.engine.ops.doctor.examine")
    scopes = defer("omnigraph.engine.ops.doctor.scope")


class GraphUpkeep:
    """What keeps a graph whole and fast."""

    _open: OpenGraph

    def refresh(self) -> None:
        """Finish or undo what dead writers left, and look at the graph anew."""
        self._open.require_writable("refresh")
        if is_bare(self._open.stores.objects):
            self._restore_derived_files()
        root = self._open.writes.heal()
        sweep_transactions(root, path=self._open.writes)
        self._open.pin(MAIN)

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the accepted schema to another one; nothing is changed."""
        require_text(source, subject="source")
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        self._open.require_whole("plan a schema", branch=MAIN)
        accepted = self._open.pin(MAIN).catalog
        return schemas.plan_schema(
            Source("<schema>", source), accepted=accepted, allow_data_loss=allow_data_loss
        )

    def apply_schema(
        self,
        source: str,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Make a schema the graph's as one commit, or change nothing.

        What is dropped stays readable in earlier commits, unless `allow_data_loss` takes it from
        those too: then its type is written anew, and `engine` says where: `local`, `spark`, or
        `auto`, which takes Spark for more than a gigabyte, and with a session. Most changes write
        no row and need neither. `if_commit` names the commit that main must be at. What is asked
        again with the same `idempotency_key` is done once, and answered alike.
        """
        self._open.require_writable("apply a schema")
        self._open.require_allowed(Action.SCHEMA_APPLY, branch=None, target=MAIN, actor=actor)
        self._open.require_whole("apply a schema", branch=MAIN)
        require_text(source, subject="source")
        choose_engine(engine, spark=spark, is_large=lambda: False)

        def find_workers(size: int) -> Workers | None:
            is_large = size > REWRITTEN_BYTES_MAX
            chosen = choose_engine(engine, spark=spark, is_large=lambda: is_large)
            if chosen is Engine.LOCAL:
                return None
            return self._find_workers(spark, action="apply a schema")

        author = self._open.author(actor, WriterKind.SCHEMA_APPLY, expected_head=if_commit)
        asked = ("apply_schema", source, allow_data_loss)
        return schemas.apply_schema(
            Source("<schema>", source),
            allow_data_loss=allow_data_loss,
            find_workers=find_workers,
            authorship=author.answering(make_request(idempotency_key, *asked)),
            readers=self._open.readers,
            path=self._open.writes,
        )

    def ensure_indices(
        self,
        *,
        branch: str = "main",
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> list[IndexReport]:
        """Build the indexes that types should have and lack, as one commit, and report on all.

        `engine` says where: `local`, in this process; `spark`; or `auto`, which takes Spark for
        types of more than ten million rows, and when a session is given.
        """
        self._open.require_writable("build indexes")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=actor)
        name = parse_branch_name(branch)
        self._open.require_whole("build indexes", branch=name)
        authorship = self._open.author(actor, WriterKind.ENSURE_INDICES, expected_head=None)
        tables = self._open.stores.tables
        chosen = self._choose(
            engine,
            spark,
            name,
            measure=lambda basis: indexing.count_unindexed(basis, tables=tables),
        )
        with self._working(chosen, spark, name, action="build indexes") as path:
            return list(indexing.ensure_indexes(name, authorship=authorship, path=path))

    def optimize(
        self,
        *,
        branch: str = "main",
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> list[OptimizeReport]:
        """Join small files and let indexes know every row, as one commit, and report on all.

        `engine` says where: `local`, in this process; `spark`; or `auto`, which takes Spark where
        more than ten million rows are to be written or indexed, and when a session is given.
        """
        self._open.require_writable("optimize")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=actor)
        name = parse_branch_name(branch)
        self._open.require_whole("optimize", branch=name)
        authorship = self._open.author(actor, WriterKind.OPTIMIZE, expected_head=None)
        chosen = self._choose(
            engine,
            spark,
            name,
            measure=lambda basis: optimizing.count_moved(basis, path=self._open.writes),
        )
        with self._working(chosen, spark, name, action="optimize") as path:
            return list(optimizing.optimize(name, authorship=authorship, path=path))

    def embed(
        self,
        type: str,
        *,
        property: str | None = None,
        branch: str = "main",
        engine: str = "auto",
        spark: object = None,
        actor: str | None = None,
        only_missing: bool = True,
    ) -> EmbedResult:
        """Make vectors of the texts that `@embed` names, as one commit, and tell how many.

        Of one vector property, or all of the type. Rows that have a vector keep it unless
        `only_missing=False`, rows without a text always. `engine` says where: `local`, `spark`, or
        `auto`, which takes Spark for more than a hundred thousand rows, and with a session.
        """
        self._open.require_writable("embed")
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=name, target=None, actor=actor)
        self._open.require_whole("embed", branch=name)
        basis = self._open.pin(name)
        call = embedding.parse_call(
            type,
            property,
            catalog=basis.catalog,
            embedder=self._open.settings.embedder,
            is_only_missing=only_missing,
        )

        def is_large() -> bool:
            tables = self._open.stores.tables
            return embedding.count_embedded(call, basis, tables=tables) > EMBEDDED_ROWS_MAX

        workers = None
        if choose_engine(engine, spark=spark, is_large=is_large) is Engine.SPARK:
            workers = self._find_workers(spark, action="embed")
        with self._open.reading(basis, is_past=False):
            return embedding.embed(
                call,
                name,
                workers=workers,
                authorship=self._open.author(actor, WriterKind.MUTATION, expected_head=None),
                path=self._open.writes,
            )

    def cleanup(
        self,
        keep: int | None = None,
        older_than: timedelta | float | None = None,
        *,
        preview: bool = False,
    ) -> list[CleanupReport]:
        """Delete old versions of all types that nobody needs, and report on each type.

        A version goes if it is neither among the newest `keep` nor younger than `older_than`, a
        time or seconds. What a branch, a tag or a reader needs stays. A preview deletes nothing.
        """
        self._open.require_writable("clean up")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        reports = cleaning.cleanup(
            cleaning.parse_policy(keep, older_than),
            is_preview=preview,
            readers=self._open.readers,
            path=self._open.writes,
        )
        return list(reports)

    def repair(
        self,
        confirm: bool = False,  # noqa: FBT001, FBT002  # the published signature
        force: bool = False,  # noqa: FBT001, FBT002  # the published signature
    ) -> list[RepairReport]:
        """Show which types something outside of OmniGraph wrote to, and adopt it if asked.

        `confirm` adopts what only laid a type out anew, `force` with it whatever there is.
        """
        self._open.require_writable("repair")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        consent = repairing.parse_consent(confirm=confirm, force=force)
        return list(repairing.repair(consent, path=self._open.writes))

    def recoveries(self) -> list[Recovery]:
        """What was found half-way done and how it was ended, oldest first."""
        self._open.require_open()
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        return list(audit.list_recoveries(self._open.stores.tables))

    def doctor(self, *, deep: bool = True) -> DoctorReport:
        """Look at everything that is stored; tell what is wrong, and which call mends it.

        Writes nothing and heals nothing. `deep=False` leaves out the rows.
        """
        self._open.require_open()
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        self._open.require_whole_graph("examine it")
        settings = self._open.settings
        # Of its own: what an open graph remembers need not be what is stored.
        stores = open_stores(settings)
        scope = scopes.Scope(
            uri=settings.location.uri,
            stores=stores,
            authority=Authority(
                uri=settings.location.uri, objects=stores.objects, tables=stores.tables
            ),
            locks=self._open.writes.locks,
            now=settings.locking.clock.now(),
            is_deep=deep,
        )
        return doctoring.examine(scope)

    def reconciler(
        self,
        *,
        interval_s: float = RECONCILER_INTERVAL_S,
        keep: int | None = None,
        older_than: timedelta | float | None = None,
    ) -> Reconciler:
        """Upkeep that happens by itself once it is started: refresh, optimize, and clean up if
        `keep` or `older_than` say what for.

        It stops when it is told to, when the graph is closed, and with the program.
        """
        self._open.require_writable("keep up a graph")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        pause_s = reconciling.parse_interval(interval_s)
        has_policy = keep is not None or older_than is not None
        if has_policy:
            cleaning.parse_policy(keep, older_than)
        chores = reconciling.Chores(
            refresh=self.refresh,
            recoveries=self.recoveries,
            branches=lambda: list(self._open.authority.branches()),
            is_worn=lambda branch: wear.is_worn(
                self._open.pin(parse_branch_name(branch)), tables=self._open.stores.tables
            ),
            # Nobody has asked for a cluster who hears of it.
            optimize=lambda branch: self.optimize(branch=branch, engine="local"),
            trim=(lambda: self.cleanup(keep, older_than)) if has_policy else None,
        )
        made = reconciling.Reconciler(
            chores, interval_s=pause_s, clock=self._open.settings.locking.clock
        )
        self._open.stop_with(made)
        return made

    def _choose(
        self, engine: str, spark: object, branch: BranchName, *, measure: Callable[[Basis], int]
    ) -> Engine:
        """Where upkeep is done that is about so many rows of a branch."""

        def is_large() -> bool:
            basis = self._open.pin(branch)
            # Asking the storage is for those who have so many rows at all.
            return (
                sum(entry.row_count for entry in basis.snapshot) > UPKEEP_ROWS_MAX
                and measure(basis) > UPKEEP_ROWS_MAX
            )

        return choose_engine(engine, spark=spark, is_large=is_large)

    @contextmanager
    def _working(
        self, engine: Engine, spark: object, branch: BranchName, *, action: str
    ) -> Iterator[WritePath]:
        """The write path of a call, with Spark's workers if it is to have them."""
        if engine is Engine.LOCAL:
            yield self._open.writes
            return
        workers = self._find_workers(spark, action=action)
        # What they read must stay for as long as they do, whoever writes meanwhile.
        with self._open.reading(self._open.pin(branch), is_past=False):
            stores = self._open.stores
            manned = replace(stores, tables=stores.tables.with_workers(workers))
            yield replace(self._open.writes, stores=manned)

    def _find_workers(self, spark: object, *, action: str) -> Workers:
        part = find_part("upkeep.workers", settings=self._open.settings, action=action)
        found: Workers = part.open_workers(spark)
        return found

    def _restore_derived_files(self) -> None:
        if len(self._open.authority.branches()) > 1:
            raise SchemaChangedError(
                reason="the generated schema files are missing and there are branches besides "
                "main; restore the files from a copy"
            )
        accepted = self._open.authority.state(MAIN).head.schema_hash
        write_derived_files(self._open.stores.objects, accepted=accepted)
