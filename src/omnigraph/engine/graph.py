"""The graph: what callers hold.

Every method is one story told in order; the chapters are in `ops`, `commit` and `state`. Safe to
share between threads. A handle is never stale by itself: each call looks at what is true now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import pyarrow as pa

from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, choose_engine, find_part, parse_engine
from omnigraph.engine.graph_analysis import GraphAnalysis
from omnigraph.engine.graph_history import GraphHistory
from omnigraph.engine.graph_retrieval import GraphRetrieval
from omnigraph.engine.graph_upkeep import GraphUpkeep
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import write_once
from omnigraph.engine.ops.query import QueryCall, explain_query, run_query
from omnigraph.engine.ops.requests import make_request, parse_key
from omnigraph.engine.ops.told import mutation_result
from omnigraph.engine.ops.transaction import Transaction, transact
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import Blob, ExportReport, LoadResult, MutationResult, Result
from omnigraph.engine.settings import Settings, require_text
from omnigraph.engine.state.authority import Basis
from omnigraph.model.deferred import defer
from omnigraph.model.names import MAIN, parse_branch_name
from omnigraph.model.observer import Phase
from omnigraph.model.policy import Action
from omnigraph.storage.ports import Stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.engine import loads
    from omnigraph.engine.loads import BulkJob, Progress
    from omnigraph.engine.ops import blobs, export_files, limited_callers
    from omnigraph.engine.ops import entity as entities
    from omnigraph.engine.ops import export as exporting
    from omnigraph.engine.ops import mutate as mutating
    from omnigraph.engine.ops.mutate import PreparedMutation
    from omnigraph.storage import row_files
else:
    loads = defer("omnigraph.engine.loads")
    blobs = defer("omnigraph.engine.ops.blobs")
    export_files = defer("omnigraph.engine.ops.export_files")
    limited_callers = defer("omnigraph.engine.ops.limited_callers")
    entities = defer("omnigraph.engine.ops.entity")
    exporting = defer("omnigraph.engine.ops.export")
    mutating = defer("omnigraph.engine.ops.mutate")
    row_files = defer("omnigraph.storage.row_files")


T = TypeVar("T")


class Graph(GraphHistory, GraphUpkeep, GraphAnalysis, GraphRetrieval):
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

    def for_actor(self, actor: str) -> Graph:
        """The same open graph, for somebody else: what it remembers is shared.

        It takes no time to make. Closing it closes nothing else; it is closed with this one.
        """
        made: Graph = copy(self)
        made._open = self._open.for_actor(actor)
        return made

    @property
    def uri(self) -> str:
        """Where the graph is."""
        return self._open.settings.location.uri

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema; for whom a policy hides properties from, of the rest."""
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        present = self._open.pin(MAIN)
        return self._open.seen(present, Action.READ, branch=MAIN, present=present).contract.source

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
        limits: CallLimits | None = None,
    ) -> Result:
        """Run the read of a `.gq` text on a branch, `main` if none is named, or at a commit.

        `limits` make what the query may cost less than the graph allows, and let it be stopped;
        Spark has limits of its own.
        """
        require_text(source, subject="source")
        chosen = parse_engine(engine, spark=spark)
        observer = self._open.settings.observer
        with observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        with observer.phase(Phase.COMPILE):
            plan = self._open.compiled.read(source, name=name, contract=basis.contract)
            values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        with observer.phase(Phase.RUN), self._open.telling_gone(basis):
            if chosen is Engine.LOCAL:
                reads = self._open.reads
                allowance = reads.allowance.within(limits)
                return run_query(call, basis=basis, path=replace(reads, allowance=allowance))
            part = find_part("query.run", settings=self._open.settings, action="run a query")
            answered: Result = part.run_query(call, basis=basis, opened=self._open, spark=spark)
            return answered

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
        spark: object = None,
    ) -> str:
        """How a read would be run on a branch now, step by step, as text; nothing is run.

        For Spark the plan that it makes of the steps follows; it needs values for parameters.
        """
        require_text(source, subject="source")
        chosen = parse_engine(engine, spark=spark)
        basis = self._open.at(parse_branch_name(branch), None, action=Action.READ)
        plan = self._open.compiled.read(source, name=name, contract=basis.contract)
        steps = explain_query(plan, basis=basis, path=self._open.reads)
        if chosen is Engine.LOCAL and params is None:
            return steps
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        if chosen is Engine.LOCAL:
            return steps
        self._open.require_seen_whole(basis, "see how Spark runs a query")
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        part = find_part("query.run", settings=self._open.settings, action="explain a query")
        return f"{steps}\n\n{part.explain_query(call, basis=basis, opened=self._open, spark=spark)}"

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run the mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` names the commit that the branch must be at. What is asked again with the same
        `idempotency_key` is done once, and answered alike.
        """
        self._open.require_writable("mutate")
        target = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=target, target=None, actor=actor)
        require_text(source, subject="source")
        now = self._open.settings.runtime.now()
        to_the_millisecond = now.replace(microsecond=now.microsecond // 1000 * 1000)

        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedMutation:
            seen = self._open.seen_by_writer(basis, branch=target)
            ir = self._open.compiled.mutation(source, name=name, contract=seen.contract)
            if seen.limited is not None:
                limited_callers.require_inserts(ir, actor=self._open.actor_of(None))
                ir = self._open.compiled.mutation(source, name=name, contract=basis.contract)
            values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
            prepared = mutating.prepare_mutation(
                mutating.MutationCall(
                    ir, values, to_the_millisecond, self._open.settings.external_blobs
                ),
                catalog=basis.catalog,
                committed=committed,
                runtime=self._open.settings.runtime,
            )
            if seen.limited is not None:
                limited_callers.require_new_rows(prepared.write.changes, committed=committed)
            return prepared

        author = self._open.author(actor, WriterKind.MUTATION, expected_head=if_commit)
        request = make_request(idempotency_key, "mutate", source, name, params or {})
        with self._open.telling_no_rows(target):
            told = write_once(
                target,
                prepare=prepare,
                tell=mutating.tell_mutation,
                authorship=author.answering(request),
                path=self._open.writes,
            )
        return mutation_result(told)

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
        on_error: str = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        With `base` a branch that does not exist is started from that one first. `engine` says where
        the rows are read and checked: `inline`, here; `spark`; or `auto`, which takes Spark for
        what this process should not hold. With `on_error="quarantine"` rows that cannot be loaded
        are written to `quarantine` and left out, which Spark does. `if_commit` names the commit
        that the branch, or the base of a new one, must be at. What is asked again with the same
        `idempotency_key` is done once, and answered alike.
        """
        self._open.require_writable("load")
        call = loads.parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
        )
        self._open.require_allowed(Action.CHANGE, branch=call.target, target=None, actor=actor)
        loads.require_appending(call, self._open)
        call = replace(call, expected_head=if_commit, key=parse_key(idempotency_key))
        return loads.load(data, call, engine=engine, opened=self._open)

    def bulk(
        self,
        *,
        mode: str,
        branch: str = "main",
        base: str | None = None,
        spark: object = None,
        actor: str | None = None,
        progress: Progress | None = None,
        on_error: str = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        if_commit: str | None = None,
    ) -> BulkJob:
        """A block that collects rows of any number of types and loads them on Spark at its end.

        They become one commit, or nothing; the arguments are those of `load`.
        """
        self._open.require_writable("load")
        call = loads.parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
        )
        self._open.require_allowed(Action.CHANGE, branch=call.target, target=None, actor=actor)
        loads.require_appending(call, self._open)
        return loads.BulkJob(replace(call, expected_head=if_commit), self._open)

    def spark_views(
        self,
        spark: object = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        prefix: str = "",
    ) -> dict[str, DataFrame]:
        """Make every type of a branch, `main` if none is named, or of a commit a temporary view.

        All views show that one commit, whatever is written later; `prefix` stands before their
        names.
        """
        part = find_part("views", settings=self._open.settings, action="make views of types")
        views: dict[str, DataFrame] = part.make_views(
            self._open, spark=spark, branch=branch, commit=commit, prefix=prefix
        )
        return views

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """One node or edge of a branch, `main` if none is named, or of a commit; None if it is
        not there."""
        require_text(type, subject="type")
        require_text(id, subject="id")
        basis = self._open.at(branch, commit, action=Action.READ)
        tables = basis.reader(self._open.stores.tables)
        with self._open.telling_gone(basis):
            return entities.find_entity(
                type, id, snapshot=basis.snapshot, catalog=basis.catalog, tables=tables
            )

    def read_blob(
        self,
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        start: int = 0,
        length: int | None = None,
    ) -> Blob:
        """A blob of a node or edge, or a part of it, of a branch, `main` if none is named, or of a
        commit; no other bytes are read."""
        for subject, given in (("type", type), ("id", id), ("property", property)):
            require_text(given, subject=subject)
        asked = blobs.parse_range(start, length)
        basis = self._open.at(branch, commit, action=Action.READ)
        with self._open.telling_gone(basis):
            return blobs.read_blob(
                type,
                id,
                property,
                asked=asked,
                snapshot=basis.snapshot,
                catalog=basis.catalog,
                tables=basis.reader(self._open.stores.tables),
            )

    def export(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[str]:
        """The rows of a branch or commit as NDJSON lines that `load` reads back."""
        basis = self._open.at(branch, commit, action=Action.EXPORT)
        tables = basis.reader(self._open.stores.tables)
        lines = exporting.export(basis.snapshot, catalog=basis.catalog, tables=tables, types=types)
        return self._while_reading(lines, basis, is_past=commit is not None)

    def export_files(
        self,
        folder: str | os.PathLike[str],
        *,
        format: str = "ndjson",
        branch: str | None = None,
        commit: str | None = None,
        types: Sequence[str] | None = None,
        engine: str = "auto",
        spark: object = None,
    ) -> ExportReport:
        """Write the rows of a branch or commit into a new folder that `load` reads back.

        There is one file a type, as `ndjson`, `parquet` or `arrow`; on Spark, one folder of parts.
        """
        chosen, target = row_files.parse_format(format), row_files.parse_target(folder)
        basis = self._open.at(branch, commit, action=Action.EXPORT)
        is_large = partial(export_files.is_large_export, basis, types)
        runner = choose_engine(engine, spark=spark, is_large=is_large)
        with self._open.reading(basis, is_past=commit is not None):
            if runner is Engine.SPARK:
                self._open.require_seen_whole(basis, "export on Spark")
                part = find_part("upkeep.export", settings=self._open.settings, action="export")
                report: ExportReport = part.export_files(
                    target, basis=basis, opened=self._open, format=chosen, types=types, spark=spark
                )
                return report
            return export_files.export_files(
                target,
                basis=basis,
                tables=basis.reader(self._open.stores.tables),
                format=chosen,
                types=types,
            )

    def export_batches(
        self, type: str, *, branch: str | None = None, commit: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows of one type of a branch or commit as a stream of Arrow batches."""
        require_text(type, subject="type")
        basis = self._open.at(branch, commit, action=Action.EXPORT)
        rows = exporting.export_batches(
            type,
            snapshot=basis.snapshot,
            catalog=basis.catalog,
            tables=basis.reader(self._open.stores.tables),
        )
        kept = self._while_reading(rows, basis, is_past=commit is not None)
        return pa.RecordBatchReader.from_batches(rows.schema, kept)

    # Several calls as one

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit on a branch at its end, or leave no trace."""
        self._open.require_writable("begin a transaction")
        base = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=base, target=None, actor=actor)
        return transact(self, base, actor=actor, path=self._open.writes)

    # What the calls above share

    def _while_reading(self, parts: Iterable[T], basis: Basis, *, is_past: bool) -> Iterator[T]:
        with self._open.reading(basis, is_past=is_past):
            yield from parts
