"""Reads of the data source: pinned to a commit, planned as partitions, scanned by tasks.

A pin can be pickled and names one commit, so every task of every action on a DataFrame reads the
same rows. A task protects its versions from cleanup while it reads. Conditions and columns are
pushed down by options, because the filter pushdown of Spark 4.3 leaks into later queries of the
same DataFrame. No Spark session is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from omnigraph.compiler.diagnostics import advise_name
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.context import GraphContext
from omnigraph.engine.ops.query import QueryCall, run_query
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import (
    ALWAYS,
    NEVER,
    BoundCondition,
    bind,
    compile_row_condition,
    find_predicate,
    fold_missing_columns,
)
from omnigraph.engine.settings import Settings, make_settings, open_stores
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import Entry, Snapshot, get_stored_type, table_key_of
from omnigraph.engine.state.readers import Readers
from omnigraph.model.catalog import Catalog, EdgeType, NodeType
from omnigraph.model.errors import InvalidValueError, NotFoundError
from omnigraph.model.limits import (
    READER_GRACE_S,
    SPARK_BATCH_BYTES_MAX,
    SPARK_PART_BYTES_MAX,
    SPARK_PART_ROWS_MAX,
)
from omnigraph.model.ports import Action
from omnigraph.spark.connector.options import (
    GraphLocation,
    QueryOptions,
    ReadOptions,
    TypeOptions,
    refuse_option,
)
from omnigraph.spark.types import result_schema, spark_schema, to_spark
from omnigraph.storage.ports import TablePart, TableReader, TransactionRecord
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.tables import scan_part


def compile_condition(
    text: str, declared: NodeType | EdgeType, *, catalog: Catalog, now: datetime
) -> BoundCondition:
    """Compile the text of a condition on the rows of a type; raises `CompileError`."""
    condition = compile_row_condition(text, declared, catalog=catalog, parameters="")
    return bind(condition, kind=declared.kind, inputs=Inputs({}, now))


def select_columns(schema: StructType, names: Iterable[str]) -> StructType:
    """Some columns of a type's rows, in the given order."""
    field_by_name = {each.name: each for each in schema}
    chosen: list[StructField] = []
    for name in names:
        if name not in field_by_name:
            advice = advise_name(name, list(field_by_name)) or ""
            raise NotFoundError(kind="column", name=name, advice=advice)
        chosen.append(field_by_name[name])
    return StructType(chosen)


def require_readable(request: StructType, schema: StructType) -> None:
    """Raise unless a schema given by the caller matches the types of the columns."""
    for given, there in zip(request, select_columns(schema, request.fieldNames()), strict=True):
        requested, stored_type = _describe(given), _describe(there)
        if given.dataType != there.dataType or (there.nullable and not given.nullable):
            raise InvalidValueError(
                subject=f"column '{given.name}'",
                expected=stored_type,
                value=requested,
                problem=f"it is {stored_type}, not {requested}; cast it after reading",
            )


def _describe(field: StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"


_TEXT_BYTES = 32
"""The assumed size of a text or a list in a row; it affects only how work is divided."""


@dataclass(frozen=True, slots=True)
class PinnedVersion:
    """One version of a type.

    The snapshot has no other type, because a task protects only what it reads. `made_by`
    distinguishes the version from another one with the same name; it is None on main, which cannot
    be deleted. `pinned_at` is None unless the version was current at that time.
    """

    place: GraphLocation
    snapshot: Snapshot
    made_by: TransactionRecord | None
    pinned_at: datetime | None
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class PinnedType:
    """The rows of a type in one state.

    `stored` are the columns of its version. `entry` is None if the state has no matching rows.
    """

    version: PinnedVersion
    schema: StructType
    entry: Entry | None
    stored: frozenset[str]
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class PinnedQuery:
    """A query and the commit that it reads."""

    place: GraphLocation
    schema: StructType
    request: QueryOptions
    commit_id: str


PinnedRead = PinnedType | PinnedQuery


# In the planning process


def pin_read(options: ReadOptions) -> PinnedRead:
    """Pin the current state and determine the columns of the result."""
    graph = _open(options.place)
    basis = graph.at(options.branch, options.commit, action=Action.READ)
    match options.request:
        case TypeOptions() as request:
            return _pin_type(request, options, graph, basis)
        case QueryOptions() as request:
            return _pin_query(request, options, graph, basis)


def pin_rows(
    declared: NodeType | EdgeType, condition: BoundCondition, *, graph: GraphContext, basis: Basis
) -> PinnedType:
    """The rows of a type that match a condition, in the state of the basis."""
    entry = basis.snapshot.entries.get(table_key_of(declared))
    tables = graph.stores.tables
    stored = frozenset() if entry is None else frozenset(tables.schema(entry.at).names)
    bound = fold_missing_columns(condition, stored=stored)
    is_empty = bound == NEVER or entry is None or not entry.row_count
    return PinnedType(
        version=pin_version(entry, graph.settings.location.uri, graph=graph, basis=basis),
        schema=spark_schema(declared),
        entry=None if is_empty else entry,
        stored=stored,
        predicate=find_predicate(bound),
    )


def pin_version(
    entry: Entry | None, uri: str, *, graph: GraphContext, basis: Basis
) -> PinnedVersion:
    """Pin the version of an entry of the basis for tasks, which find the graph at the URI."""
    snapshot = basis.snapshot
    is_main = entry is None or entry.branch is None
    find = graph.stores.tables.find_transaction
    return PinnedVersion(
        place=GraphLocation(uri, graph.settings.location.storage_options),
        snapshot=Snapshot(
            snapshot.branch,
            snapshot.manifest_version,
            {} if entry is None else {entry.table_key: entry},
        ),
        made_by=None if is_main or entry is None else find(entry.at),
        # A caller that knows the state to be current may set this time.
        pinned_at=None,
        is_read_only=graph.is_read_only,
    )


def split_type(pinned: PinnedType, schema: StructType) -> tuple[TablePart, ...]:
    """The rows in parts, one per task; empty if there are no rows."""
    tables = open_stores(_settings_of(pinned.version.place)).tables
    return split_rows(pinned, schema.fieldNames(), tables=tables)


def split_rows(
    pinned: PinnedType, columns: Iterable[str], *, tables: TableReader
) -> tuple[TablePart, ...]:
    """The rows in parts, sized by the given columns; names that are not columns are ignored."""
    if pinned.entry is None:
        return ()
    rows = min(
        SPARK_PART_ROWS_MAX,
        SPARK_PART_BYTES_MAX // row_bytes(pinned.entry, columns, tables=tables),
        # Use all cores of this machine; the core counts of other machines are not known here.
        -(-pinned.entry.row_count // (os.cpu_count() or 1)),
    )
    return tables.parts(pinned.entry.at, rows_max=max(rows, 1))


def row_bytes(entry: Entry, columns: Iterable[str], *, tables: TableReader) -> int:
    """The approximate size in bytes of some columns of a row, at least one."""
    stored = tables.schema(entry.at)
    fields = [stored.field(name) for name in columns if name in stored.names]
    return 1 + sum(_value_bytes(field, entry, tables) for field in fields)


def collect_query(pinned: PinnedQuery, schema: StructType) -> tuple[bytes, ...]:
    """The result in parts, each a stream of Arrow batches in Spark's form."""
    graph = _open(pinned.place)
    basis = graph.at(None, pinned.commit_id, action=Action.READ)
    request = pinned.request
    plan = graph.compiled.read(
        request.text, name=request.name, accepted_schema=basis.accepted_schema
    )
    values = convert_parameters(plan.ir.parameters, request.params, numbers=NumberReading.EXACT)
    call = QueryCall(plan, values, graph.settings.runtime.now())
    rows = run_query(call, basis=basis, path=graph.reads).to_arrow().combine_chunks()
    return tuple(
        encode_rows(to_spark(each, schema)) for batch in rows.to_batches() for each in _cut(batch)
    )


# In tasks


def read_part(pinned: PinnedType, part: TablePart, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a part in Spark's form, batch by batch; raises as `scan_pinned` does."""
    for batch in scan_pinned(pinned, part, schema.fieldNames()):
        yield to_spark(batch, schema)


def scan_pinned(
    pinned: PinnedType, part: TablePart, columns: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """The stored rows of a part, with those of the given columns that exist.

    Raises `NotFoundError` if the rows were cleaned up or their branch was deleted.
    """
    assert pinned.entry is not None, "a type without rows has no parts"
    # At least one column is needed to convey the number of rows.
    stored = [name for name in dict.fromkeys(columns) if name in pinned.stored] or ["id"]
    with read_claim(pinned.version, otherwise="load the DataFrame again"):
        found = scan_part(part, columns=stored, predicate=pinned.predicate, with_address=False)
        for batch in found:
            yield from _cut(batch)


def encode_rows(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as a stream of Arrow batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def decode_rows(content: bytes) -> pa.Table:
    """The rows of a stream of Arrow batches."""
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all()


def _settings_of(place: GraphLocation) -> Settings:
    return make_settings(place.uri, storage_options=place.storage_options, durability="full")


def _open(place: GraphLocation) -> GraphContext:
    settings = _settings_of(place)
    return GraphContext(settings, open_stores(settings), actor=None, is_read_only=True)


def _pin_type(
    request: TypeOptions, options: ReadOptions, graph: GraphContext, basis: Basis
) -> PinnedType:
    declared = get_stored_type(request.name, basis.catalog)
    schema = spark_schema(declared)
    now = graph.settings.runtime.now()
    condition: BoundCondition = ALWAYS
    if request.where is not None:
        condition = compile_condition(request.where, declared, catalog=basis.catalog, now=now)
    pinned = pin_rows(declared, condition, graph=graph, basis=basis)
    version = replace(
        pinned.version,
        place=replace(pinned.version.place, storage_options=options.place.storage_options),
        pinned_at=now if options.commit is None else None,
        is_read_only=options.is_read_only,
    )
    columns = schema if request.columns is None else select_columns(schema, request.columns)
    return replace(pinned, version=version, schema=columns)


def _pin_query(
    request: QueryOptions, options: ReadOptions, graph: GraphContext, basis: Basis
) -> PinnedQuery:
    plan = graph.compiled.read(
        request.text, name=request.name, accepted_schema=basis.accepted_schema
    )
    convert_parameters(plan.ir.parameters, request.params, numbers=NumberReading.EXACT)
    schema = result_schema(plan.ir.columns)
    names = schema.fieldNames()
    for name in names:
        if names.count(name) > 1:
            problem = f"it returns '{name}' twice; name one of them with `as`"
            raise refuse_option("query", problem)
    place = GraphLocation(graph.settings.location.uri, options.place.storage_options)
    return PinnedQuery(place, schema, request, basis.head.id)


def _value_bytes(field: pa.Field, entry: Entry, tables: TableReader) -> int:
    if pa.types.is_fixed_size_list(field.type):
        return int(field.type.list_size) * 4
    if pa.types.is_primitive(field.type):
        return int(field.type.bit_width) // 8
    if pa.types.is_struct(field.type) or pa.types.is_large_binary(field.type):
        return tables.stored_bytes(entry.at, field.name) // max(entry.row_count, 1)
    return _TEXT_BYTES


@contextmanager
def read_claim(pin: PinnedVersion, *, otherwise: str) -> Iterator[None]:
    """Protect a version from cleanup for the block.

    Raises `NotFoundError` if its branch was deleted or recreated, because versions may have the
    same names; `otherwise` is what to do then.
    """
    settings = _settings_of(pin.place)
    stores = open_stores(settings)
    if pin.is_read_only:
        # A read-only reader writes no claim; recently replaced versions are retained for a while
        # anyway.
        yield
    else:
        clock = settings.locking.clock
        # For a current snapshot the claim is written only after half of the grace period of
        # replaced versions.
        lately = timedelta(seconds=READER_GRACE_S / 4)
        is_past = pin.pinned_at is None or clock.now() - pin.pinned_at > lately
        readers = Readers(stores.objects, clock)
        with readers.reading(pin.snapshot, id=settings.runtime.new_id(), is_past=is_past):
            yield
    for entry in pin.snapshot:
        if pin.made_by is not None and stores.tables.find_transaction(entry.at) != pin.made_by:
            raise NotFoundError(
                kind="branch",
                name=pin.snapshot.branch,
                advice=f"it was deleted or recreated during the read; {otherwise}",
            )


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of about the number of bytes that Spark gets at a time."""
    if batch.nbytes <= SPARK_BATCH_BYTES_MAX:
        yield batch
        return
    rows = max(1, batch.num_rows * SPARK_BATCH_BYTES_MAX // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        places = np.arange(start, min(start + rows, batch.num_rows))
        # A slice would retain offsets that exceed the 31 bits that Spark supports.
        yield batch.take(pa.array(places))
