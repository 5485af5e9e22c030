"""The graph: what callers hold.

Every method is one story told in order; the chapters are in `ops`, `commit` and `state`. Safe to
share between threads. A handle is never stale by itself: each call looks at what is true now.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import pyarrow as pa

from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.engines import Engine, choose_engine, find_part, parse_engine
from omnigraph.engine.graph_analysis import GraphAnalysis
from omnigraph.engine.graph_history import GraphHistory
from omnigraph.engine.graph_upkeep import GraphUpkeep
from omnigraph.engine.loads import BulkJob, Progress, load, parse_call
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.attempts import write_on
from omnigraph.engine.ops.blobs import parse_range, read_blob
from omnigraph.engine.ops.entity import find_entity
from omnigraph.engine.ops.export import export, export_batches
from omnigraph.engine.ops.export_files import export_files, is_large_export
from omnigraph.engine.ops.mutate import MutationCall, PreparedMutation, prepare_mutation
from omnigraph.engine.ops.query import QueryCall, explain_query, run_query
from omnigraph.engine.ops.transaction import Transaction, transact
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.results import Blob, ExportReport, LoadResult, MutationResult, Result
from omnigraph.engine.settings import Settings, require_text
from omnigraph.engine.state.authority import Basis
from omnigraph.model.names import MAIN, parse_branch_name
from omnigraph.storage.ports import Stores
from omnigraph.storage.row_files import parse_format, parse_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")


class Graph(GraphHistory, GraphUpkeep, GraphAnalysis):
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
        chosen = parse_engine(engine, spark=spark)
        basis = self._open.at(branch, commit)
        plan = self._open.compiled.read(source, name=name, contract=basis.contract)
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        if chosen is Engine.LOCAL:
            return run_query(call, basis=basis, path=self._open.reads)
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
        basis = self._open.pin(parse_branch_name(branch))
        plan = self._open.compiled.read(source, name=name, contract=basis.contract)
        steps = explain_query(plan, basis=basis, path=self._open.reads)
        if chosen is Engine.LOCAL and params is None:
            return steps
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        if chosen is Engine.LOCAL:
            return steps
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
    ) -> MutationResult:
        """Run the mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` names the commit that the branch must be at.
        """
        self._open.require_writable("mutate")
        require_text(source, subject="source")
        now = self._open.settings.runtime.now()
        to_the_millisecond = now.replace(microsecond=now.microsecond // 1000 * 1000)

        def prepare(basis: Basis, committed: SnapshotRows) -> PreparedMutation:
            ir = self._open.compiled.mutation(source, name=name, contract=basis.contract)
            values = convert_parameters(ir.parameters, params, numbers=NumberReading.EXACT)
            return prepare_mutation(
                MutationCall(ir, values, to_the_millisecond, self._open.settings.external_blobs),
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
        on_error: str = "raise",
        quarantine: str | os.PathLike[str] | None = None,
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        With `base` a branch that does not exist is started from that one first. `engine` says where
        the rows are read and checked: `inline`, here; `spark`; or `auto`, which takes Spark for
        what this process should not hold. With `on_error="quarantine"` rows that cannot be loaded
        are written to `quarantine` and left out, which Spark does.
        """
        self._open.require_writable("load")
        call = parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
        )
        return load(data, call, engine=engine, opened=self._open)

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
    ) -> BulkJob:
        """A block that collects rows of any number of types and loads them on Spark at its end.

        They become one commit, or nothing; the arguments are those of `load`.
        """
        self._open.require_writable("load")
        call = parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
        )
        return BulkJob(call, self._open)

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
        basis = self._open.at(branch, commit)
        return find_entity(
            type,
            id,
            snapshot=basis.snapshot,
            catalog=basis.catalog,
            tables=self._open.stores.tables,
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
        asked = parse_range(start, length)
        basis = self._open.at(branch, commit)
        return read_blob(
            type,
            id,
            property,
            asked=asked,
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
        lines = export(
            basis.snapshot, catalog=basis.catalog, tables=self._open.stores.tables, types=types
        )
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
        chosen, target = parse_format(format), parse_target(folder)
        basis = self._open.at(branch, commit)
        is_large = partial(is_large_export, basis, types)
        runner = choose_engine(engine, spark=spark, is_large=is_large)
        with self._open.reading(basis, is_past=commit is not None):
            if runner is Engine.SPARK:
                part = find_part("upkeep.export", settings=self._open.settings, action="export")
                report: ExportReport = part.export_files(
                    target, basis=basis, opened=self._open, format=chosen, types=types, spark=spark
                )
                return report
            return export_files(
                target,
                basis=basis,
                tables=self._open.stores.tables,
                format=chosen,
                types=types,
            )

    def export_batches(
        self, type: str, *, branch: str | None = None, commit: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows of one type of a branch or commit as a stream of Arrow batches."""
        require_text(type, subject="type")
        basis = self._open.at(branch, commit)
        rows = export_batches(
            type,
            snapshot=basis.snapshot,
            catalog=basis.catalog,
            tables=self._open.stores.tables,
        )
        kept = self._while_reading(rows, basis, is_past=commit is not None)
        return pa.RecordBatchReader.from_batches(rows.schema, kept)

    # Several calls as one

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit on a branch at its end, or leave no trace."""
        self._open.require_writable("begin a transaction")
        return transact(self, parse_branch_name(branch), actor=actor, path=self._open.writes)

    # What the calls above share

    def _while_reading(self, parts: Iterable[T], basis: Basis, *, is_past: bool) -> Iterator[T]:
        with self._open.reading(basis, is_past=is_past):
            yield from parts
