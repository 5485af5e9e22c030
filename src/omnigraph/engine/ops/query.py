"""Reads over one pinned snapshot: a compiled query or its plan, one entity, or one blob.

The cache of compiled queries is bounded and keyed by text and schema. A read sees exactly one
commit, because it never reads the branch again after the snapshot is pinned. A blob read transfers
only the requested bytes. Permissions and the choice of the snapshot belong to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TypeVar

import pyarrow as pa

from omnigraph.compiler.compile import compile_mutation, compile_read
from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.ir import Aggregate, MutationIR, ReadIR, Value
from omnigraph.engine.ops.export import read_entity
from omnigraph.engine.read.budget import Allowance, Budget, CacheMemory, LruCache, Profile
from omnigraph.engine.read.cache import ReadCache, Sources
from omnigraph.engine.read.expand import AccessRules, Expander
from omnigraph.engine.read.explain import Explainer, fill_in
from omnigraph.engine.read.filter import Filter
from omnigraph.engine.read.output import Output
from omnigraph.engine.read.pipeline import Matches, Pipeline
from omnigraph.engine.read.plan import Plan, plan_read
from omnigraph.engine.read.ranking import Ranker
from omnigraph.engine.read.table_scan import TableScanner, find_table_scan, is_worthwhile
from omnigraph.engine.results import Blob, Result, ResultColumn
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Snapshot, get_stored_type, table_key_of
from omnigraph.engine.state.schema_files import AcceptedSchema
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.model.errors import CorruptError, InvalidValueError, NotFoundError, plural
from omnigraph.model.limits import COMPILED_QUERIES_MAX
from omnigraph.model.ports import Embedder, Event, Observer
from omnigraph.model.source import Source
from omnigraph.model.types import Scalar
from omnigraph.storage.ports import RowReader, StoredBlob, TableReader

Q = TypeVar("Q")
T = TypeVar("T")


class QueryCache:
    """A bounded cache of the most recently used queries; safe to share between threads."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        # Bounded by number: one byte stands for one query.
        memory = CacheMemory(2 * COMPILED_QUERIES_MAX, None)
        self._mutations: LruCache[object, MutationIR] = LruCache(
            memory, name="mutations", size_of=lambda _: 1
        )
        self._reads: LruCache[object, Plan] = LruCache(memory, name="reads", size_of=lambda _: 1)

    def mutation(
        self, text: str, *, name: str | None, accepted_schema: AcceptedSchema
    ) -> MutationIR:
        """The IR of a mutation; raises `CompileError` with all diagnostics."""

        def compile() -> MutationIR:
            ir = compile_mutation(Source("<mutation>", text), accepted_schema.catalog, name=name).ir
            assert isinstance(ir, MutationIR)
            return ir

        return self._get(self._mutations, text, name, accepted_schema, compile)

    def read(self, text: str, *, name: str | None, accepted_schema: AcceptedSchema) -> Plan:
        """The plan of a read; raises `CompileError` with all diagnostics."""

        def compile() -> Plan:
            ir = compile_read(Source("<query>", text), accepted_schema.catalog, name=name).ir
            assert isinstance(ir, ReadIR)
            return plan_read(ir)

        return self._get(self._reads, text, name, accepted_schema, compile)

    def _get(
        self,
        cache: LruCache[object, Q],
        text: str,
        name: str | None,
        schema: AcceptedSchema,
        compile: Callable[[], Q],
    ) -> Q:
        # The schema of a past state may be read under current names.
        key = (text, name, schema.schema_hash, schema.names)
        is_known = key in cache
        self._observer.count(Event.COMPILED_HIT if is_known else Event.COMPILED_MISS)
        return cache.get(key, compile)


@dataclass(frozen=True, slots=True)
class ReadPath:
    """The dependencies of a read besides its snapshot; one per open graph."""

    tables: TableReader
    cache: ReadCache
    embedder: Embedder | None
    access: AccessRules
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class QueryCall:
    """A read with its parameter values and timestamp."""

    plan: Plan
    values: Mapping[str, Value]
    now: datetime


def run_query(call: QueryCall, *, basis: Basis, path: ReadPath) -> Result:
    """The result of a read at the commit of the basis."""
    plan = call.plan
    return Result(
        _read(call, basis, path, partial(_run, plan, path=path), is_profiled=False),
        columns=[
            ResultColumn(each.name, each.type, isinstance(each.expression, Aggregate))
            for each in plan.ir.columns
        ],
        query_name=plan.ir.name,
        branch=basis.branch,
        commit_id=basis.head.id,
    )


def analyze_query(call: QueryCall, *, basis: Basis, path: ReadPath) -> str:
    """The plan of a read as text, with what each step took when the read was run for it."""
    return _read(call, basis, path, partial(_analyze, call, basis, path), is_profiled=True)


def _analyze(call: QueryCall, basis: Basis, path: ReadPath, pipeline: Pipeline) -> str:
    profile = pipeline.profile
    assert profile is not None, "the caller requests a profile"
    with profile.step():
        lines = Explainer(pipeline.sources, pipeline.expander).lines(call.plan)
    _run(call.plan, pipeline, path=path)
    # The reads of a restricted caller include rows that the caller may not know of.
    return fill_in(lines, profile, shows_reads=basis.visible is None)


def _read(
    call: QueryCall,
    basis: Basis,
    path: ReadPath,
    run: Callable[[Pipeline], T],
    *,
    is_profiled: bool,
) -> T:
    open_pipeline = partial(_open_pipeline, call, basis, path, is_profiled=is_profiled)
    pipeline = open_pipeline(uses_bases=True)
    try:
        return run(pipeline)
    except (CorruptError, NotFoundError):
        if not pipeline.sources.has_bases:
            raise
    # A version that only the cache used may have been cleaned up. If not, this read fails too.
    path.cache.of(path.tables.generation()).deltas.clear()
    return run(open_pipeline(uses_bases=False))


def _run(plan: Plan, pipeline: Pipeline, *, path: ReadPath) -> pa.Table:
    if pipeline.profile is None:
        return _make_table(plan, pipeline, path, _match(plan, pipeline))
    matches = _match(plan, pipeline)
    with pipeline.profile.step() as measured:
        table = _make_table(plan, pipeline, path, matches)
        measured.rows = table.num_rows
    return table


def _match(plan: Plan, pipeline: Pipeline) -> Matches:
    """The rows that match the pattern of a read, or distinct ones with weights."""
    scan = find_table_scan(plan, pipeline.sources.catalog)
    if scan is None or not is_worthwhile(scan, pipeline.sources):
        return pipeline.run(plan.steps)
    scanner = TableScanner(pipeline.sources, pipeline.matcher, pipeline.budget)

    def scan_table() -> Matches:
        relation, index = scanner.run(scan)
        return Matches((relation,), {scan.variable: index})

    return pipeline.measure(scan_table)


def _make_table(plan: Plan, pipeline: Pipeline, path: ReadPath, matches: Matches) -> pa.Table:
    ranker = Ranker(pipeline.matcher, path.embedder, plan.type_by_variable)
    output = Output(plan, pipeline.matcher, ranker, pipeline.budget)
    return output.table(pipeline.join_all(matches), matches.indexes)


def explain_query(plan: Plan, *, basis: Basis, path: ReadPath) -> str:
    """The plan of a read on the current state, as text; nothing is run."""
    call = QueryCall(plan, {}, basis.head.created_at)
    pipeline = _open_pipeline(call, basis, path, uses_bases=True, is_profiled=False)
    return Explainer(pipeline.sources, pipeline.expander).explain(plan)


def _open_pipeline(
    call: QueryCall, basis: Basis, path: ReadPath, *, uses_bases: bool, is_profiled: bool
) -> Pipeline:
    profile = Profile(path.allowance.clock) if is_profiled else None
    tables = path.tables if profile is None else path.tables.metered(profile.note_read)
    cache = path.cache.of(path.tables.generation())
    budget = Budget(path.allowance)
    sources = Sources(
        basis.snapshot,
        catalog=basis.catalog,
        tables=basis.reader(tables),
        cache=cache,
        budget=budget,
        uses_bases=uses_bases,
    )
    matcher = Filter(sources, Inputs(call.values, call.now))
    properties = call.plan.properties
    expander = Expander(sources, matcher, budget, path.access, properties, profile)
    return Pipeline(sources, matcher, expander, budget, properties, profile)


def find_entity(
    type_name: str, id: str, *, snapshot: Snapshot, catalog: Catalog, tables: RowReader
) -> dict[str, object] | None:
    """The id, endpoints and properties of an entity, or None."""
    declared = get_stored_type(type_name, catalog)
    return read_entity(declared, id, snapshot=snapshot, tables=tables)


_ETAG_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class BlobRange:
    """The requested bytes: `length` bytes from `start` on, or all from there if it is None."""

    start: int
    length: int | None


def parse_range(start: object, length: object) -> BlobRange:
    """Parse the range that a caller requests."""
    from_byte = _parse_bytes(start, "start")
    return BlobRange(from_byte, None if length is None else _parse_bytes(length, "length"))


def read_blob(
    type_name: str,
    id: str,
    property_name: str,
    *,
    requested: BlobRange,
    snapshot: Snapshot,
    catalog: Catalog,
    tables: RowReader,
) -> Blob:
    """The requested bytes, the size of the blob and its `etag`.

    Raises `NotFoundError` if the type, property, node, edge or blob does not exist. A range may end
    past the end of the blob and start at its end, but not past it.
    """
    declared = get_stored_type(type_name, catalog)
    column = _get_blob(declared, property_name).name
    name = f"{declared.name} '{id}'"
    stored = _find(declared, id, column, requested, snapshot, tables)
    if stored is None:
        raise NotFoundError(kind=declared.name, name=id, advice="")
    if stored.size is None:
        full_name = f"{declared.name} {id}.{property_name}"
        raise NotFoundError(kind="blob", name=full_name, advice="the property is null")
    if requested.start > stored.size:
        raise InvalidValueError(
            subject="start",
            expected=f"0 to {stored.size}",
            value=requested.start,
            problem=f"{requested.start} is beyond the end of '{property_name}' of {name}, "
            f"which has {stored.size} {plural(stored.size, 'byte')}",
        )
    etag = sha256(stored.place.encode()).hexdigest()[:_ETAG_CHARACTERS]
    return Blob(stored.content, stored.size, etag)


def _parse_bytes(given: object, subject: str) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise InvalidValueError(
        subject=subject,
        expected="a number of bytes",
        value=given,
        problem=f"a number of bytes is needed, 0 or more, not {given!r}",
    )


def _get_blob(declared: NodeType | EdgeType, name: str) -> Property:
    found = declared.properties.get(name)
    if found is None:
        advice = advise_name(name, set(declared.properties)) or ""
        raise NotFoundError(kind=f"property of {declared.name}", name=name, advice=advice)
    if found.type.element is not Scalar.BLOB:
        raise InvalidValueError(
            subject=f"{declared.name}.{name}",
            expected="Blob",
            value=str(found.type),
            problem=f"it is not a blob but {found.type}; `entity` reads it",
        )
    return found


def _find(
    declared: NodeType | EdgeType,
    id: str,
    name: str,
    requested: BlobRange,
    snapshot: Snapshot,
    tables: RowReader,
) -> StoredBlob | None:
    entry = snapshot.entries.get(table_key_of(declared))
    if entry is None:
        return None
    if name not in tables.schema(entry.at).names:
        # The property was added after this version, so no row has a blob in it.
        is_there = tables.find_rows(entry.at, ids=pa.array([id]), columns=["id"]).num_rows
        return StoredBlob(b"", None, "") if is_there else None
    return tables.read_blob(
        entry.at, id=id, column=name, start=requested.start, length=requested.length
    )
