"""The maintenance methods of a graph: recovery, schema changes, indexes, layout and cleanup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.engine.commit import audit
from omnigraph.engine.commit.protocol import WritePath
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.executors import Engine, choose_engine, get_spark_module
from omnigraph.engine.ops.recorded_responses import make_request
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.read.budget import CacheStats
from omnigraph.engine.results import IndexReport, MigrationPlan, OptimizeReport, SchemaApplyResult
from omnigraph.engine.settings import open_stores
from omnigraph.engine.state.branch_state import Basis, BranchStates
from omnigraph.engine.state.schema_files import is_bare, write_derived_files
from omnigraph.model.errors import SchemaChangedError
from omnigraph.model.limits import (
    EMBEDDED_ROWS_MAX,
    MAINTENANCE_ROWS_MAX,
    RECONCILER_INTERVAL_S,
    REWRITTEN_BYTES_MAX,
)
from omnigraph.model.names import MAIN, BranchName, parse_branch_name, require_text
from omnigraph.model.ports import Action
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Source
from omnigraph.storage.ports import Workers

if TYPE_CHECKING:
    from omnigraph.engine import schema_apply
    from omnigraph.engine.maintenance import (
        background,
        cleanup,
        doctor,
        doctor_tables,
        embed,
        optimize,
        repair,
    )
    from omnigraph.engine.maintenance.background import Reconciler
    from omnigraph.engine.maintenance.cleanup import CleanupReport
    from omnigraph.engine.maintenance.doctor_report import DoctorReport
    from omnigraph.engine.maintenance.embed import EmbedResult
    from omnigraph.engine.maintenance.repair import RepairReport
    from omnigraph.engine.state.history import Recovery
else:
    background = lazy_module("omnigraph.engine.maintenance.background")
    cleanup = lazy_module("omnigraph.engine.maintenance.cleanup")
    embed = lazy_module("omnigraph.engine.maintenance.embed")
    optimize = lazy_module("omnigraph.engine.maintenance.optimize")
    repair = lazy_module("omnigraph.engine.maintenance.repair")
    schema_apply = lazy_module("omnigraph.engine.schema_apply")
    doctor = lazy_module("omnigraph.engine.maintenance.doctor")
    doctor_tables = lazy_module("omnigraph.engine.maintenance.doctor_tables")


class GraphMaintenance:
    """Operations that keep a graph consistent and fast."""

    _open: GraphContext

    def refresh(self) -> None:
        """Finish or undo interrupted writes, and reread the state of the graph."""
        self._open.require_writable("refresh")
        if is_bare(self._open.stores.objects):
            if len(self._open.branch_states.branches()) > 1:
                raise SchemaChangedError(
                    reason="the generated schema files are missing and there are branches besides "
                    "main; restore the files from a copy"
                )
            accepted = self._open.branch_states.state(MAIN).head.schema_hash
            write_derived_files(self._open.stores.objects, accepted=accepted)
        root = self._open.writes.recover()
        sweep_transactions(root, path=self._open.writes)
        self._open.pin(MAIN)

    def plan_schema(self, source: str, *, allow_data_loss: bool = False) -> MigrationPlan:
        """The steps from the accepted schema to another one; nothing is changed."""
        require_text(source, subject="source")
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        self._open.require_full_view("plan a schema", branch=MAIN)
        accepted = self._open.pin(MAIN).catalog
        return schema_apply.plan_schema(
            Source("<schema>", source),
            accepted=accepted,
            allow_data_loss=allow_data_loss,
            path=self._open.writes,
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
        """Replace the schema of the graph as one commit, or change nothing.

        Dropped data stays readable in earlier commits, unless `allow_data_loss` removes it from
        those too. In that case the type is rewritten, and `engine` selects where: `local`, `spark`,
        or `auto`, which selects Spark for more than a gigabyte, or when a session is given. Most
        changes rewrite no rows and use neither. `if_commit` is the commit that `main` must be at.
        `idempotency_key` makes retries idempotent: a request that is repeated with the same key is
        executed once and returns the same result.
        """
        self._open.require_writable("apply a schema")
        self._open.require_allowed(Action.SCHEMA_APPLY, branch=None, target=MAIN, actor=actor)
        self._open.require_full_view("apply a schema", branch=MAIN)
        require_text(source, subject="source")
        choose_engine(engine, spark=spark, is_large=lambda: False)

        def find_workers(size: int) -> Workers | None:
            is_large = size > REWRITTEN_BYTES_MAX
            chosen = choose_engine(engine, spark=spark, is_large=lambda: is_large)
            if chosen is Engine.LOCAL:
                return None
            return self._find_workers(spark, action="apply a schema")

        author = self._open.author(actor, WriterKind.SCHEMA_APPLY, expected_head=if_commit)
        request = make_request(idempotency_key, "apply_schema", source, allow_data_loss)
        return schema_apply.apply_schema(
            Source("<schema>", source),
            allow_data_loss=allow_data_loss,
            find_workers=find_workers,
            authorship=author.with_request(request),
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
        """Build missing indexes as one commit, and report on all indexes that types should have.

        `engine` selects where they are built: `local`, in this process; `spark`; or `auto`, which
        selects Spark for types of more than ten million rows, or when a session is given.
        """
        self._open.require_writable("build indexes")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=actor)
        name = parse_branch_name(branch)
        self._open.require_full_view("build indexes", branch=name)
        authorship = self._open.author(actor, WriterKind.ENSURE_INDICES, expected_head=None)
        measure = partial(optimize.count_unindexed, tables=self._open.stores.tables)
        with self._working(engine, spark, name, measure, action="build indexes") as path:
            return list(optimize.ensure_indexes(name, authorship=authorship, path=path))

    def optimize(
        self,
        *,
        branch: str = "main",
        actor: str | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> list[OptimizeReport]:
        """Compact small files and extend indexes to all rows, as one commit; report on all types.

        `engine` selects where this is done: `local`, in this process; `spark`; or `auto`, which
        selects Spark if more than ten million rows have to be written or indexed, or when a session
        is given.
        """
        self._open.require_writable("optimize")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=actor)
        name = parse_branch_name(branch)
        self._open.require_full_view("optimize", branch=name)
        authorship = self._open.author(actor, WriterKind.OPTIMIZE, expected_head=None)
        measure = partial(optimize.count_moved, path=self._open.writes)
        with self._working(engine, spark, name, measure, action="optimize") as path:
            return list(optimize.optimize(name, authorship=authorship, path=path))

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
        """Embed the texts of `@embed` properties as one commit, and return the row counts.

        Computes the vectors of one property, or of all `@embed` properties of the type. Rows that
        have a vector keep it unless `only_missing=False`; rows without a text always keep theirs.
        `engine` selects where this is done: `local`, `spark`, or `auto`, which selects Spark for
        more than a hundred thousand rows, or when a session is given.
        """
        self._open.require_writable("embed")
        name = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=name, target=None, actor=actor)
        self._open.require_full_view("embed", branch=name)
        basis = self._open.pin(name)
        call = embed.parse_call(
            type,
            property,
            catalog=basis.catalog,
            embedder=self._open.settings.embedder,
            is_only_missing=only_missing,
        )

        def is_large() -> bool:
            tables = self._open.stores.tables
            return embed.count_embedded(call, basis, tables=tables) > EMBEDDED_ROWS_MAX

        workers = None
        if choose_engine(engine, spark=spark, is_large=is_large) is Engine.SPARK:
            workers = self._find_workers(spark, action="embed")
        with self._open.reading(basis, is_past=False):
            return embed.embed(
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
        trust_clock: bool = False,
    ) -> list[CleanupReport]:
        """Delete old versions that no branch, tag or reader needs, and report on each type.

        A version is deleted if it is neither among the newest `keep` versions nor younger than
        `older_than`, a duration or a number of seconds. A preview deletes nothing. If this
        machine's clock is more than a year ahead of the newest commit, the call is rejected unless
        `trust_clock` is true.
        """
        self._open.require_writable("clean up")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        reports = cleanup.cleanup(
            cleanup.parse_policy(keep, older_than),
            is_preview=preview,
            trusts_clock=trust_clock,
            readers=self._open.readers,
            path=self._open.writes,
        )
        return list(reports)

    def repair(
        self,
        confirm: bool = False,  # noqa: FBT001, FBT002  # the published signature
        force: bool = False,  # noqa: FBT001, FBT002  # the published signature
    ) -> list[RepairReport]:
        """List the types that were written to outside OmniGraph, and optionally adopt those writes.

        `confirm` adopts writes that only changed the layout of a type; `force` together with
        `confirm` adopts any write.
        """
        self._open.require_writable("repair")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        consent = repair.parse_consent(confirm=confirm, force=force)
        return list(repair.repair(consent, path=self._open.writes))

    def recoveries(self) -> list[Recovery]:
        """The recoveries of interrupted writes, with their outcomes, oldest first."""
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        return list(audit.list_recoveries(self._open.stores.tables))

    def stats(self) -> CacheStats:
        """The memory that this open graph uses for cached data, and how often reads found it there.

        The environment variable `OMNIGRAPH_CACHE_BYTES_MAX` bounds the memory.
        """
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        return self._open.reads.cache.stats()

    def doctor(self, *, deep: bool = True) -> DoctorReport:
        """Check all stored data, and report problems and the call that repairs each of them.

        Writes nothing and recovers nothing. `deep=False` skips the rows.
        """
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        self._open.require_full_views("examine it")
        settings = self._open.settings
        # Separate stores, because the caches of an open graph may differ from what is stored.
        stores = open_stores(settings)
        scope = doctor_tables.DoctorContext(
            uri=settings.location.uri,
            stores=stores,
            branch_states=BranchStates(
                uri=settings.location.uri, objects=stores.objects, tables=stores.tables
            ),
            locks=self._open.writes.locks,
            now=settings.locking.clock.now(),
            is_deep=deep,
        )
        return doctor.examine(scope)

    def reconciler(
        self,
        *,
        interval_s: float = RECONCILER_INTERVAL_S,
        keep: int | None = None,
        older_than: timedelta | float | None = None,
    ) -> Reconciler:
        """A background task that refreshes, optimizes and optionally cleans up once it is started.

        It waits `interval_s` seconds before each round, and cleans up if `keep` or `older_than` is
        given. It stops when it is stopped explicitly, when the graph is closed, and when the
        program ends.
        """
        self._open.require_writable("maintain a graph")
        self._open.require_allowed(Action.ADMIN, branch=None, target=None, actor=None)
        pause_s = background.parse_interval(interval_s)
        has_policy = keep is not None or older_than is not None
        if has_policy:
            cleanup.parse_policy(keep, older_than)
        chores = background.MaintenanceTasks(
            refresh=self.refresh,
            recoveries=self.recoveries,
            branches=lambda: list(self._open.branch_states.branches()),
            is_worn=lambda branch: optimize.needs_optimize(
                self._open.pin(parse_branch_name(branch)), tables=self._open.stores.tables
            ),
            # A background task does not start a Spark session, because no caller requested one.
            optimize=lambda branch: self.optimize(branch=branch, engine="local"),
            trim=(lambda: self.cleanup(keep, older_than)) if has_policy else None,
        )
        made = background.Reconciler(
            chores, interval_s=pause_s, clock=self._open.settings.locking.clock
        )
        self._open.life.stop_with(made)
        return made

    @contextmanager
    def _working(
        self,
        engine: str,
        spark: object,
        branch: BranchName,
        measure: Callable[[Basis], int],
        *,
        action: str,
    ) -> Iterator[WritePath]:
        """The write path for work on the measured number of rows, with workers if on Spark."""

        def is_large() -> bool:
            basis = self._open.pin(branch)
            # Reading the storage is only necessary if the branch has that many rows at all.
            return (
                sum(entry.row_count for entry in basis.snapshot) > MAINTENANCE_ROWS_MAX
                and measure(basis) > MAINTENANCE_ROWS_MAX
            )

        if choose_engine(engine, spark=spark, is_large=is_large) is Engine.LOCAL:
            yield self._open.writes
            return
        workers = self._find_workers(spark, action=action)
        # The files that the workers read must be retained while they run, regardless of concurrent
        # writes.
        with self._open.reading(self._open.pin(branch), is_past=False):
            stores = self._open.stores
            worker_stores = replace(stores, tables=stores.tables.with_workers(workers))
            yield replace(self._open.writes, stores=worker_stores)

    def _find_workers(self, spark: object, *, action: str) -> Workers:
        part = get_spark_module("jobs", settings=self._open.settings, action=action)
        found: Workers = part.open_workers(spark)
        return found
