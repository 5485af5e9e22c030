"""The calls of a graph about its upkeep: recovery, indexes, layout."""

from __future__ import annotations

from datetime import timedelta

from omnigraph.engine.commit.audit import Recovery, list_recoveries
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.cleanup import CleanupReport, cleanup, parse_policy
from omnigraph.engine.ops.doctor.examine import examine
from omnigraph.engine.ops.doctor.report import DoctorReport
from omnigraph.engine.ops.doctor.scope import Scope
from omnigraph.engine.ops.indexes import ensure_indexes
from omnigraph.engine.ops.optimize import optimize
from omnigraph.engine.ops.repair import RepairReport, parse_consent, repair
from omnigraph.engine.ops.schema_apply import apply_schema, plan_schema
from omnigraph.engine.ops.transaction import sweep_transactions
from omnigraph.engine.ops.wear import is_worn
from omnigraph.engine.reconciler import Chores, Reconciler, parse_interval
from omnigraph.engine.results import IndexReport, MigrationPlan, OptimizeReport, SchemaApplyResult
from omnigraph.engine.settings import open_stores, require_text
from omnigraph.engine.state.authority import Authority
from omnigraph.engine.state.contract import is_bare, write_derived_files
from omnigraph.model.errors import SchemaChangedError
from omnigraph.model.limits import RECONCILER_INTERVAL_S
from omnigraph.model.names import MAIN, parse_branch_name
from omnigraph.model.source import Source


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
        accepted = self._open.pin(MAIN).catalog
        return plan_schema(
            Source("<schema>", source), accepted=accepted, allow_data_loss=allow_data_loss
        )

    def apply_schema(
        self, source: str, *, allow_data_loss: bool = False, actor: str | None = None
    ) -> SchemaApplyResult:
        """Make a schema the graph's as one commit, or change nothing.

        What is dropped stays readable in earlier commits, unless `allow_data_loss` takes it from
        those too.
        """
        self._open.require_writable("apply a schema")
        require_text(source, subject="source")
        return apply_schema(
            Source("<schema>", source),
            allow_data_loss=allow_data_loss,
            authorship=self._open.author(actor, WriterKind.SCHEMA_APPLY, expected_head=None),
            readers=self._open.readers,
            path=self._open.writes,
        )

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

    def optimize(self, *, branch: str = "main", actor: str | None = None) -> list[OptimizeReport]:
        """Join small files and let indexes know every row, as one commit, and report on all."""
        self._open.require_writable("optimize")
        reports = optimize(
            parse_branch_name(branch),
            authorship=self._open.author(actor, WriterKind.OPTIMIZE, expected_head=None),
            path=self._open.writes,
        )
        return list(reports)

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
        reports = cleanup(
            parse_policy(keep, older_than),
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
        consent = parse_consent(confirm=confirm, force=force)
        return list(repair(consent, path=self._open.writes))

    def recoveries(self) -> list[Recovery]:
        """What was found half-way done and how it was ended, oldest first."""
        self._open.require_open()
        return list(list_recoveries(self._open.stores.tables))

    def doctor(self, *, deep: bool = True) -> DoctorReport:
        """Look at everything that is stored; tell what is wrong, and which call mends it.

        Writes nothing and heals nothing. `deep=False` leaves out the rows.
        """
        self._open.require_open()
        settings = self._open.settings
        # Of its own: what an open graph remembers need not be what is stored.
        stores = open_stores(settings)
        scope = Scope(
            uri=settings.location.uri,
            stores=stores,
            authority=Authority(
                uri=settings.location.uri, objects=stores.objects, tables=stores.tables
            ),
            locks=self._open.writes.locks,
            now=settings.locking.clock.now(),
            is_deep=deep,
        )
        return examine(scope)

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
        pause_s = parse_interval(interval_s)
        has_policy = keep is not None or older_than is not None
        if has_policy:
            parse_policy(keep, older_than)
        chores = Chores(
            refresh=self.refresh,
            recoveries=self.recoveries,
            branches=lambda: list(self._open.authority.branches()),
            is_worn=lambda branch: is_worn(
                self._open.pin(parse_branch_name(branch)), tables=self._open.stores.tables
            ),
            optimize=lambda branch: self.optimize(branch=branch),
            trim=(lambda: self.cleanup(keep, older_than)) if has_policy else None,
        )
        made = Reconciler(chores, interval_s=pause_s, clock=self._open.settings.locking.clock)
        self._open.stop_with(made)
        return made

    def _restore_derived_files(self) -> None:
        if len(self._open.authority.branches()) > 1:
            raise SchemaChangedError(
                reason="the generated schema files are missing and there are branches besides "
                "main; restore the files from a copy"
            )
        accepted = self._open.authority.state(MAIN).head.schema_hash
        write_derived_files(self._open.stores.objects, accepted=accepted)
