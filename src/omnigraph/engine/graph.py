"""The public `Graph` handle, and the functions that create or open a graph.

A handle is safe to share between threads. It is never stale: each call reads the current state of
its branch. Methods validate arguments, check permissions and delegate; the operations are
implemented in the packages below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import pyarrow as pa

from omnigraph.compiler.compile import compile_schema
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.commit.sidecar import WriterKind
from omnigraph.engine.context import GraphContext
from omnigraph.engine.executors import Engine, choose_engine, get_spark_module, parse_engine
from omnigraph.engine.graph_history import GraphHistory
from omnigraph.engine.graph_maintenance import GraphMaintenance
from omnigraph.engine.maintenance.repair import RelocationReport, relocate
from omnigraph.engine.ops import query
from omnigraph.engine.ops.create import create_graph, delete_graph, has_history, is_graph
from omnigraph.engine.ops.query import (
    QueryCall,
    ReadPath,
    analyze_query,
    explain_query,
    run_query,
)
from omnigraph.engine.ops.recorded_responses import make_request
from omnigraph.engine.ops.transaction import Transaction, transact
from omnigraph.engine.prepared import PreparedPlan, PreparedQuery
from omnigraph.engine.read.budget import CallLimits
from omnigraph.engine.read.plan import Plan
from omnigraph.engine.results import Blob, ExportReport, LoadResult, MutationResult, Result
from omnigraph.engine.settings import Settings, open_stores
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.schema_files import SOURCE_FILE
from omnigraph.model.errors import CorruptError, InvalidValueError
from omnigraph.model.limits import BUDGET_TOKENS, FOUND, HOPS
from omnigraph.model.names import MAIN, parse_branch_name, parse_word, require_text
from omnigraph.model.ports import Action, Phase
from omnigraph.model.runtime import lazy_module
from omnigraph.model.source import Source
from omnigraph.storage import row_files
from omnigraph.storage.ports import Stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.engine import graph_load
    from omnigraph.engine.analysis import algorithms
    from omnigraph.engine.analysis import requests as selections
    from omnigraph.engine.analysis.algorithms import Algorithms
    from omnigraph.engine.graph_load import BulkJob
    from omnigraph.engine.ops import embeddings, export, mutate
    from omnigraph.engine.ops.load import Progress
    from omnigraph.engine.retrieval import receipts, requests, results, retrieve
    from omnigraph.engine.retrieval.reads import Reads
    from omnigraph.engine.retrieval.results import Receipt, Retrieval
else:
    algorithms = lazy_module("omnigraph.engine.analysis.algorithms")
    selections = lazy_module("omnigraph.engine.analysis.requests")
    results = lazy_module("omnigraph.engine.retrieval.results")
    retrieve = lazy_module("omnigraph.engine.retrieval.retrieve")
    receipts = lazy_module("omnigraph.engine.retrieval.receipts")
    requests = lazy_module("omnigraph.engine.retrieval.requests")
    graph_load = lazy_module("omnigraph.engine.graph_load")
    export = lazy_module("omnigraph.engine.ops.export")
    mutate = lazy_module("omnigraph.engine.ops.mutate")
    embeddings = lazy_module("omnigraph.engine.ops.embeddings")


class Graph(GraphHistory, GraphMaintenance):
    """A graph in a file system or object store, opened by `omnigraph.init` or `omnigraph.open`."""

    def __init__(
        self, settings: Settings, stores: Stores, *, actor: str | None, is_read_only: bool
    ) -> None:
        self._open = GraphContext(settings, stores, actor=actor, is_read_only=is_read_only)

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
        """Close the graph; further calls are rejected, and closing it again has no effect."""
        self._open.life.end()

    def for_actor(self, actor: str) -> Graph:
        """A handle on the same open graph for another actor, which shares its caches.

        Creating the handle is cheap. Closing it does not close this graph; closing this graph also
        closes the handle.
        """
        made: Graph = copy(self)
        made._open = self._open.for_actor(actor)
        return made

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._open.settings.location.uri

    @property
    def schema_source(self) -> str:
        """The text of the accepted schema, without properties that a policy hides."""
        self._open.require_allowed(Action.READ, branch=None, target=None, actor=None)
        present = self._open.pin(MAIN)
        return self._open.restrict(
            present, Action.READ, branch=MAIN, present=present
        ).accepted_schema.source

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
        """Run a read query of a `.gq` text on a branch (default `main`) or at a commit.

        `limits` lowers the resource limits of the graph for this query and allows it to be
        cancelled. It does not apply to Spark, which has separate limits.
        """
        require_text(source, subject="source")
        chosen = parse_engine(engine, spark=spark)
        observer = self._open.settings.observer
        with observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        with observer.phase(Phase.COMPILE):
            plan = self._open.compiled.read(
                source, name=name, accepted_schema=basis.accepted_schema
            )
            values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        with observer.phase(Phase.RUN), self._open.guard(basis):
            if chosen is Engine.LOCAL:
                return run_query(call, basis=basis, path=self._read_path(limits))
            part = get_spark_module("query.run", settings=self._open.settings, action="run a query")
            result: Result = part.run_query(call, basis=basis, opened=self._open, spark=spark)
            return result

    def prepare(self, source: str, *, name: str | None = None) -> PreparedQuery:
        """Compile a read query of a `.gq` text, to be called often with different parameters.

        A call of the prepared query runs it in this process, as `query` does. It is compiled again
        when the schema changes.
        """
        require_text(source, subject="source")
        prepared = PreparedPlan(source, name=name, compiled=self._open.compiled)
        basis = self._open.at(None, None, action=Action.READ)
        ir = prepared.under(basis.accepted_schema).ir
        return PreparedQuery(ir.name, ir.parameters, partial(self._run_prepared, prepared))

    def _run_prepared(
        self,
        prepared: PreparedPlan,
        params: Mapping[str, object],
        *,
        branch: str | None,
        commit: str | None,
        limits: CallLimits | None,
    ) -> Result:
        observer = self._open.settings.observer
        with observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        with observer.phase(Phase.COMPILE):
            plan = prepared.under(basis.accepted_schema)
            values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        with observer.phase(Phase.RUN), self._open.guard(basis):
            return run_query(call, basis=basis, path=self._read_path(limits))

    def _read_path(self, limits: CallLimits | None) -> ReadPath:
        reads = self._open.reads
        if limits is None:
            return reads
        return replace(reads, allowance=reads.allowance.within(limits))

    def explain(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = "main",
        engine: str = "local",
        spark: object = None,
        analyze: bool = False,
        limits: CallLimits | None = None,
    ) -> str:
        """The plan of a read query on the current state of a branch, as text; nothing is run.

        With `engine="spark"`, the plan that Spark derives from it follows, which requires values
        for the parameters. With `analyze`, the query is run in this process, within `limits`, and
        each step is shown with its rows, its time, and the bytes that it read.
        """
        require_text(source, subject="source")
        chosen = parse_engine(engine, spark=spark)
        if analyze and chosen is Engine.SPARK:
            raise InvalidValueError(
                subject="analyze",
                expected='engine="local"',
                value=engine,
                problem="only a query that runs locally can be measured by step",
            )
        basis = self._open.at(parse_branch_name(branch), None, action=Action.READ)
        plan = self._open.compiled.read(source, name=name, accepted_schema=basis.accepted_schema)
        if analyze:
            return self._analyze(plan, params, basis, limits)
        steps = explain_query(plan, basis=basis, path=self._open.reads)
        if chosen is Engine.LOCAL and params is None:
            return steps
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        if chosen is Engine.LOCAL:
            return steps
        self._open.require_unrestricted(basis, "see how Spark runs a query")
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        part = get_spark_module("query.run", settings=self._open.settings, action="explain a query")
        return f"{steps}\n\n{part.explain_query(call, basis=basis, opened=self._open, spark=spark)}"

    def _analyze(
        self,
        plan: Plan,
        params: Mapping[str, object] | None,
        basis: Basis,
        limits: CallLimits | None,
    ) -> str:
        values = convert_parameters(plan.ir.parameters, params, numbers=NumberReading.EXACT)
        call = QueryCall(plan, values, self._open.settings.runtime.now())
        with self._open.settings.observer.phase(Phase.RUN), self._open.guard(basis):
            return analyze_query(call, basis=basis, path=self._read_path(limits))

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
        embed: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a `.gq` text as one commit, or change nothing.

        `if_commit` is the commit that the branch must be at. `idempotency_key` makes retries
        idempotent: a request that is repeated with the same key is executed once and returns the
        same result. If an embedding provider is configured, empty `@embed` properties are filled
        first, and those whose text changes are computed again; `embed="later"` leaves them empty,
        and `embed="now"` fills them or rejects the mutation.
        """
        self._open.require_writable("mutate")
        target = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=target, target=None, actor=actor)
        require_text(source, subject="source")
        settings, mode = self._open.settings, embeddings.parse_embed(embed)
        mutation = mutate.Mutation(
            source=source,
            name=name,
            params=params,
            branch=target,
            now=settings.runtime.now(),
            actor=self._open.actor_of(None),
            view=partial(self._open.visible_to_writer, branch=target),
            compiled=self._open.compiled,
            external=settings.external_blobs,
            vectors=embeddings.WriteVectors(
                embeddings.choose_policy(
                    mode, embedder=settings.embedder, embeds_on_write=settings.embeds_on_write
                )
            ),
            runtime=settings.runtime,
        )
        # A request without `embed` is encoded as it was before the option existed, so that it
        # matches responses that were recorded then.
        arguments = (source, name, params or {}, *(() if mode is None else (mode,)))
        request = make_request(idempotency_key, "mutate", *arguments)
        author = self._open.author(actor, WriterKind.MUTATION, expected_head=if_commit)
        with self._open.redacted_errors(None, target=target):
            return mutate.run_mutation(
                mutation, authorship=author.with_request(request), path=self._open.writes
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
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        embed: str | None = None,
    ) -> LoadResult:
        """Load rows of any number of types as one commit, or change nothing.

        With `base`, a branch that does not exist is first created from that one. `engine` selects
        where the rows are read and checked: `inline`, in this process; `spark`; or `auto`, which
        selects Spark for inputs that are too large for this process. With `on_error="quarantine"`,
        which requires Spark, rows that cannot be loaded are written to `quarantine` and skipped.
        `if_commit` is the commit that the branch, or the base of a new branch, must be at.
        `idempotency_key` makes retries idempotent: a request that is repeated with the same key is
        executed once and returns the same result. If an embedding provider is configured, empty
        `@embed` properties are filled first, on Spark by its executors; `embed="later"` leaves them
        empty for `Graph.embed`, and `embed="now"` fills them or rejects the load.
        """
        self._open.require_writable("load")
        call = graph_load.parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
            expected_head=if_commit,
            idempotency_key=idempotency_key,
            embed=embed,
        )
        self._open.require_allowed(Action.CHANGE, branch=call.target, target=None, actor=actor)
        graph_load.require_appending(call, self._open)
        return graph_load.load(data, call, engine=engine, opened=self._open)

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
        embed: str | None = None,
    ) -> BulkJob:
        """A block that collects rows of any number of types and loads them on Spark when it ends.

        The rows become one commit, or nothing changes. The arguments are those of `load`.
        """
        self._open.require_writable("load")
        call = graph_load.parse_call(
            mode=mode,
            branch=branch,
            base=base,
            actor=actor,
            progress=progress,
            spark=spark,
            on_error=on_error,
            quarantine=quarantine,
            expected_head=if_commit,
            idempotency_key=None,
            embed=embed,
        )
        self._open.require_allowed(Action.CHANGE, branch=call.target, target=None, actor=actor)
        graph_load.require_appending(call, self._open)
        return graph_load.BulkJob(call, self._open)

    def spark_views(
        self,
        spark: object = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        prefix: str = "",
    ) -> dict[str, DataFrame]:
        """Create a temporary Spark view for each type of a branch (default `main`) or commit.

        All views show the same commit, regardless of later writes. `prefix` is prepended to their
        names.
        """
        part = get_spark_module(
            "connector.source", settings=self._open.settings, action="make views of types"
        )
        views: dict[str, DataFrame] = part.make_views(
            self._open, spark=spark, branch=branch, commit=commit, prefix=prefix
        )
        return views

    def entity(
        self, type: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, object] | None:
        """One node or edge of a branch (default `main`) or commit; None if it does not exist."""
        require_text(type, subject="type")
        require_text(id, subject="id")
        basis = self._open.at(branch, commit, action=Action.READ)
        tables = basis.reader(self._open.stores.tables)
        with self._open.guard(basis):
            return query.find_entity(
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
        """A blob of a node or edge, or a range of it, on a branch (default `main`) or at a commit.

        Bytes outside the range are not read.
        """
        for subject, given in (("type", type), ("id", id), ("property", property)):
            require_text(given, subject=subject)
        blob_range = query.parse_range(start, length)
        basis = self._open.at(branch, commit, action=Action.READ)
        with self._open.guard(basis):
            return query.read_blob(
                type,
                id,
                property,
                requested=blob_range,
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
        """The rows of a branch or commit as NDJSON lines that `load` accepts."""
        basis = self._open.at(branch, commit, action=Action.EXPORT)
        tables = basis.reader(self._open.stores.tables)
        lines = export.export(basis.snapshot, catalog=basis.catalog, tables=tables, types=types)
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
        """Write the rows of a branch or commit to a new folder that `load` accepts.

        The folder contains one file per type, in the format `ndjson`, `parquet` or `arrow`; on
        Spark, one folder of part files per type.
        """
        chosen = parse_word(row_files.FileFormat, format, subject="format")
        target = row_files.parse_target(folder)
        basis = self._open.at(branch, commit, action=Action.EXPORT)
        is_large = partial(export.is_large_export, basis, types)
        runner = choose_engine(engine, spark=spark, is_large=is_large)
        with self._open.reading(basis, is_past=commit is not None):
            if runner is Engine.SPARK:
                self._open.require_unrestricted(basis, "export on Spark")
                part = get_spark_module("ops.export", settings=self._open.settings, action="export")
                report: ExportReport = part.export_files(
                    target, basis=basis, opened=self._open, format=chosen, types=types, spark=spark
                )
                return report
            return export.export_files(
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
        rows = export.export_batches(
            type,
            snapshot=basis.snapshot,
            catalog=basis.catalog,
            tables=basis.reader(self._open.stores.tables),
        )
        batches = self._while_reading(rows, basis, is_past=commit is not None)
        return pa.RecordBatchReader.from_batches(rows.schema, batches)

    # Transactions

    def transaction(
        self, branch: str = "main", *, actor: str | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose calls become one commit on a branch when it ends, or have no effect."""
        self._open.require_writable("begin a transaction")
        base = parse_branch_name(branch)
        self._open.require_allowed(Action.CHANGE, branch=base, target=None, actor=actor)
        return transact(self, base, actor=actor, path=self._open.writes)

    # Analysis and retrieval

    def algorithms(
        self,
        edges: str | Sequence[str],
        *,
        branch: str | None = None,
        commit: str | None = None,
        engine: str = "local",
        spark: object = None,
    ) -> Algorithms:
        """The algorithms over one or more edge types and all nodes of the types that they connect.

        They read the current state of a branch (default `main`), or a commit. `engine` selects
        where they run: `local`, in the memory of this process, or `spark`.
        """
        chosen = parse_engine(engine, spark=spark)
        basis = self._open.at(branch, commit, action=Action.READ)
        return algorithms.Algorithms(
            selections.parse_selection(edges, basis.catalog),
            basis=basis,
            is_past=commit is not None,
            engine=chosen,
            spark=spark,
            opened=self._open,
        )

    def retrieve(
        self,
        text: str,
        *,
        types: str | Sequence[str] | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        k: int = FOUND,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        vector: Sequence[float] | None = None,
        word_weight: float = 1.0,
        vector_weight: float = 1.0,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """The nodes of a branch (default `main`) or commit that match a text, for a prompt.

        Returns the `k` best nodes of the given types, ranked by words and vectors, and then their
        neighbours, as far as they fit into the token budget. `vector` replaces the embedding of the
        text. Tokens are estimated as a quarter of the bytes unless `count_tokens` counts them.
        `replay` reproduces the result from its receipt.
        """
        request = requests.parse_request(
            {
                "text": text,
                "types": types,
                "edges": edges,
                "hops": hops,
                "k": k,
                "budget_tokens": budget_tokens,
                "word_weight": word_weight,
                "vector_weight": vector_weight,
                "counted_by": results.BYTES_RULE if count_tokens is None else "caller",
            }
        )
        given = None if vector is None else requests.parse_vector(vector)
        reads = self._start_reads(branch, commit, limits)
        with self._open.guard(reads.basis):
            vectors = retrieve.find_vectors(request, reads, given=given)
            return retrieve.retrieve(
                request, vectors, reads=reads, count_tokens=count_tokens or results.count_bytes
            )

    def retrieve_by(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        hops: int = HOPS,
        edges: str | Sequence[str] | None = None,
        budget_tokens: int = BUDGET_TOKENS,
        branch: str | None = None,
        commit: str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """The nodes that a read query of a `.gq` text finds, and their neighbours, for a prompt.

        The nodes are those of the variable whose property the query returns first, in the order of
        its rows, without duplicates. Raises `CompileError` if the query returns no property of a
        node. Everything else is as for `retrieve`.
        """
        require_text(source, subject="source")
        options = requests.parse_options(
            {
                "edges": edges,
                "hops": hops,
                "budget_tokens": budget_tokens,
                "counted_by": results.BYTES_RULE if count_tokens is None else "caller",
            }
        )
        reads = self._start_reads(branch, commit, limits)
        with self._open.guard(reads.basis):
            return retrieve.retrieve_by(
                source,
                params,
                name=name,
                options=options,
                compiled=self._open.compiled,
                reads=reads,
                count_tokens=count_tokens or results.count_bytes,
            )

    def replay(
        self,
        receipt: Receipt | Mapping[str, object],
        *,
        count_tokens: Callable[[str], int] | None = None,
        limits: CallLimits | None = None,
    ) -> Retrieval:
        """Reproduce the retrieval of a receipt, or of its JSON form, without embedding any text.

        Raises `NotFoundError` if the commit of the receipt was cleaned up. Raises
        `InvalidValueError` if the result differs, because the receipt was modified or the caller
        sees a different part of the graph.
        """
        parsed = receipts.parse_receipt(receipt, count_tokens=count_tokens)
        reads = self._start_reads(None, parsed.commit_id, limits)
        count = count_tokens or results.count_bytes
        with self._open.guard(reads.basis):
            if isinstance(parsed.request, results.QueryRequest):
                retrieval = retrieve.retrieve_again(
                    parsed.request,
                    parsed.vectors,
                    compiled=self._open.compiled,
                    reads=reads,
                    count_tokens=count,
                )
            else:
                retrieval = retrieve.retrieve(
                    parsed.request, parsed.vectors, reads=reads, count_tokens=count
                )
        receipts.require_same(retrieval.receipt, parsed)
        return retrieval

    def _while_reading(self, parts: Iterable[T], basis: Basis, *, is_past: bool) -> Iterator[T]:
        with self._open.reading(basis, is_past=is_past):
            yield from parts

    def _start_reads(
        self, branch: str | None, commit: str | None, limits: CallLimits | None
    ) -> Reads:
        path, settings = self._open.reads, self._open.settings
        with settings.observer.phase(Phase.PIN):
            basis = self._open.at(branch, commit, action=Action.READ)
        path = replace(path, allowance=path.allowance.within(limits))
        now = settings.runtime.now()
        return retrieve.start_reads(basis, path=path, observer=settings.observer, now=now)


T = TypeVar("T")


def init_graph(settings: Settings, *, schema: str, is_forced: bool) -> Graph:
    """Create a graph and open it for writing."""
    require_text(schema, subject="schema")
    catalog = compile_schema(Source("<schema>", schema))
    stores = open_stores(settings)
    is_replacing = is_forced and is_graph(stores)
    if is_replacing:
        delete_graph(stores)
        stores = open_stores(settings)
    create_graph(
        uri=settings.location.uri,
        source=schema,
        catalog=catalog,
        stores=stores,
        runtime=settings.runtime,
        failpoints=settings.failpoints,
        is_replacing=is_replacing,
    )
    return Graph(settings, stores, actor=None, is_read_only=False)


def open_graph(settings: Settings, *, actor: str | None, is_read_only: bool) -> Graph:
    """Open a graph.

    Raises `NotFoundError` if it does not exist and `CorruptError` if it is damaged.
    """
    stores = open_stores(settings)
    if stores.objects.find(SOURCE_FILE) is None and has_history(stores):
        raise CorruptError(
            subject=f"the graph at {settings.location.uri}",
            problem=f"its {SOURCE_FILE} is missing; restore it from a copy",
        )
    graph = Graph(settings, stores, actor=actor, is_read_only=is_read_only)
    if is_read_only:
        # No call has been made yet, so no permission is checked either.
        graph._open.pin(MAIN)  # noqa: SLF001
    else:
        graph.refresh()
    return graph


def relocate_graph(settings: Settings) -> list[RelocationReport]:
    """Make the branches of a graph that was moved or copied refer to the graph's files.

    Does not open the graph, because interrupted writes on such a branch cannot be recovered yet.
    """
    stores = open_stores(settings)
    return list(relocate(settings.location, stores=stores, locking=settings.locking))
