"""Reads through Spark: pinned where a plan is made, taken apart there, read by many tasks.

A pin survives pickling and names one state, so every task of every action on a DataFrame reads the
same commit. A task keeps its rows from being cleaned up while it reads them; between the pin and
the task they are kept as those of any state that was true lately. Holds no session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.opened import OpenGraph
from omnigraph.engine.ops.query import QueryCall, run_query
from omnigraph.engine.ops.reading.type_names import get_stored_type
from omnigraph.engine.read.conditions import ALWAYS, NEVER, BoundCondition
from omnigraph.engine.read.predicates import render_predicate
from omnigraph.engine.read.row_conditions import settle
from omnigraph.engine.settings import Settings, make_settings, open_stores
from omnigraph.engine.state.authority import Basis
from omnigraph.engine.state.readers import Readers
from omnigraph.engine.state.snapshot import Entry, Snapshot, table_key_of
from omnigraph.model.catalog import EdgeType, NodeType
from omnigraph.model.errors import NotFoundError
from omnigraph.model.limits import (
    READER_GRACE_S,
    SPARK_BATCH_BYTES_MAX,
    SPARK_PART_BYTES_MAX,
    SPARK_PART_ROWS_MAX,
)
from omnigraph.model.policy import Action
from omnigraph.spark.format.options import (
    Place,
    QueryOptions,
    ReadOptions,
    TypeOptions,
    refuse_option,
)
from omnigraph.spark.format.pushdown import compile_condition, select_columns
from omnigraph.spark.types import result_schema, spark_schema, to_spark
from omnigraph.storage.lance_parts import scan_part
from omnigraph.storage.ports import TableStore, TransactionRecord
from omnigraph.storage.table_parts import TablePart

_TEXT_BYTES = 32
"""What a text or a list is taken to need in a row: only shares of work hang on it."""


@dataclass(frozen=True, slots=True)
class PinnedType:
    """The rows of a type in one state.

    `stored` are the columns that its version has. There is no entry where the state has no rows of
    it that are wanted. `made_by` tells the version from another one of its name; None on main,
    which nobody deletes.
    """

    place: Place
    schema: StructType
    snapshot: Snapshot
    entry: Entry | None
    stored: frozenset[str]
    predicate: str | None
    made_by: TransactionRecord | None
    pinned_at: datetime | None
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class PinnedQuery:
    """A query and the commit that answers it."""

    place: Place
    schema: StructType
    wanted: QueryOptions
    commit_id: str


PinnedRead = PinnedType | PinnedQuery


# Where a plan is made


def pin_read(options: ReadOptions) -> PinnedRead:
    """The state that is read now, and the columns that there will be."""
    settings = _settings_of(options.place)
    graph = OpenGraph(settings, open_stores(settings), actor=None, is_read_only=True)
    basis = graph.at(options.branch, options.commit, action=Action.READ)
    match options.wanted:
        case TypeOptions() as wanted:
            return _pin_type(wanted, options, graph, basis)
        case QueryOptions() as wanted:
            return _pin_query(wanted, options, graph, basis)


def pin_rows(
    declared: NodeType | EdgeType, condition: BoundCondition, *, graph: OpenGraph, basis: Basis
) -> PinnedType:
    """The rows of a type that a condition holds for, in whatever state the basis is."""
    entry = basis.snapshot.entries.get(table_key_of(declared))
    tables, location = graph.stores.tables, graph.settings.location
    stored = frozenset() if entry is None else frozenset(tables.schema(entry.at).names)
    settled = settle(condition, stored=stored)
    is_empty = settled == NEVER or entry is None or not entry.row_count
    is_main = entry is None or entry.branch is None
    return PinnedType(
        place=Place(location.uri, location.storage_options),
        schema=spark_schema(declared),
        snapshot=_only(entry, declared, basis.snapshot),
        entry=None if is_empty else entry,
        stored=stored,
        predicate=render_predicate(settled),
        made_by=None if is_main or entry is None else tables.find_transaction(entry.at),
        # Who knows that the state is the present may say when it was.
        pinned_at=None,
        is_read_only=graph.is_read_only,
    )


def split_type(pinned: PinnedType, schema: StructType) -> tuple[TablePart, ...]:
    """The rows in parts, one for a task; none if there are none."""
    tables = open_stores(_settings_of(pinned.place)).tables
    return split_rows(pinned, schema.fieldNames(), tables=tables)


def split_rows(
    pinned: PinnedType, columns: Iterable[str], *, tables: TableStore
) -> tuple[TablePart, ...]:
    """The rows in parts by what some of their columns weigh; a name without a column is none."""
    if pinned.entry is None:
        return ()
    rows = min(
        SPARK_PART_ROWS_MAX,
        SPARK_PART_BYTES_MAX // row_bytes(pinned.entry, columns, tables=tables),
        # No core of this machine is to be idle; how many others have is not known here.
        -(-pinned.entry.row_count // (os.cpu_count() or 1)),
    )
    return tables.parts(pinned.entry.at, rows_max=max(rows, 1))


def row_bytes(entry: Entry, columns: Iterable[str], *, tables: TableStore) -> int:
    """About how many bytes a row has in some columns, at least one."""
    stored = tables.schema(entry.at)
    fields = [stored.field(name) for name in columns if name in stored.names]
    return 1 + sum(_value_bytes(field, entry, tables) for field in fields)


def answer_query(pinned: PinnedQuery, schema: StructType) -> tuple[bytes, ...]:
    """The result in parts, each a stream of Arrow batches in Spark's form."""
    settings = _settings_of(pinned.place)
    graph = OpenGraph(settings, open_stores(settings), actor=None, is_read_only=True)
    basis = graph.at(None, pinned.commit_id, action=Action.READ)
    wanted = pinned.wanted
    plan = graph.compiled.read(wanted.text, name=wanted.name, contract=basis.contract)
    values = convert_parameters(plan.ir.parameters, wanted.params, numbers=NumberReading.EXACT)
    call = QueryCall(plan, values, settings.runtime.now())
    rows = run_query(call, basis=basis, path=graph.reads).to_arrow().combine_chunks()
    return tuple(
        _encode_rows(to_spark(each, schema)) for batch in rows.to_batches() for each in _cut(batch)
    )


# Where a part is read


def read_part(pinned: PinnedType, part: TablePart, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a part in Spark's form, a batch at a time; fails as `scan_pinned` does."""
    for batch in scan_pinned(pinned, part, schema.fieldNames()):
        yield to_spark(batch, schema)


def scan_pinned(
    pinned: PinnedType, part: TablePart, columns: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of a part as they are stored, with those of some columns that there are.

    `NotFoundError` means that they were cleaned up, or that their branch is gone.
    """
    assert pinned.entry is not None, "a type without rows has no parts"
    # Some column has to tell how many rows there are.
    stored = [name for name in dict.fromkeys(columns) if name in pinned.stored] or ["id"]
    settings = _settings_of(pinned.place)
    with _claimed(pinned, settings):
        found = scan_part(part, columns=stored, predicate=pinned.predicate, with_address=False)
        for batch in found:
            yield from _cut(batch)
    _require_same(pinned, settings)


def decode_rows(part: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of a part of a query's result."""
    with pa.ipc.open_stream(part) as stream:
        yield from stream


def _settings_of(place: Place) -> Settings:
    return make_settings(place.uri, storage_options=place.storage_options, durability="full")


def _pin_type(
    wanted: TypeOptions, options: ReadOptions, graph: OpenGraph, basis: Basis
) -> PinnedType:
    declared = get_stored_type(wanted.name, basis.catalog)
    schema = spark_schema(declared)
    now = graph.settings.runtime.now()
    condition: BoundCondition = ALWAYS
    if wanted.where is not None:
        condition = compile_condition(wanted.where, declared, catalog=basis.catalog, now=now)
    pinned = pin_rows(declared, condition, graph=graph, basis=basis)
    return replace(
        pinned,
        place=Place(pinned.place.uri, options.place.storage_options),
        schema=schema if wanted.columns is None else select_columns(schema, wanted.columns),
        pinned_at=now if options.commit is None else None,
        is_read_only=options.is_read_only,
    )


def _pin_query(
    wanted: QueryOptions, options: ReadOptions, graph: OpenGraph, basis: Basis
) -> PinnedQuery:
    plan = graph.compiled.read(wanted.text, name=wanted.name, contract=basis.contract)
    convert_parameters(plan.ir.parameters, wanted.params, numbers=NumberReading.EXACT)
    schema = result_schema(plan.ir.columns)
    names = schema.fieldNames()
    for name in names:
        if names.count(name) > 1:
            problem = f"it returns '{name}' twice; name one of them with `as`"
            raise refuse_option("query", problem)
    place = Place(graph.settings.location.uri, options.place.storage_options)
    return PinnedQuery(place, schema, wanted, basis.head.id)


def _only(entry: Entry | None, declared: NodeType | EdgeType, snapshot: Snapshot) -> Snapshot:
    """The snapshot without other types: a claim is on what is read."""
    entries = {} if entry is None else {table_key_of(declared): entry}
    return Snapshot(snapshot.branch, snapshot.manifest_version, entries)


def _value_bytes(field: pa.Field, entry: Entry, tables: TableStore) -> int:
    if pa.types.is_fixed_size_list(field.type):
        return int(field.type.list_size) * 4
    if pa.types.is_primitive(field.type):
        return int(field.type.bit_width) // 8
    if pa.types.is_struct(field.type) or pa.types.is_large_binary(field.type):
        return tables.stored_bytes(entry.at, field.name) // max(entry.row_count, 1)
    return _TEXT_BYTES


@contextmanager
def _claimed(pinned: PinnedType, settings: Settings) -> Iterator[None]:
    """Keep what is read from being cleaned up for the block."""
    if pinned.is_read_only:
        # Who may not write leaves no claim either; what was true lately is kept for a while.
        yield
        return
    clock = settings.locking.clock
    # A claim that is not made at once is made after half of the time that rows are kept.
    lately = timedelta(seconds=READER_GRACE_S / 4)
    is_past = pinned.pinned_at is None or clock.now() - pinned.pinned_at > lately
    readers = Readers(open_stores(settings).objects, clock)
    with readers.reading(pinned.snapshot, id=settings.runtime.new_id(), is_past=is_past):
        yield


def _require_same(pinned: PinnedType, settings: Settings) -> None:
    """Raise if the branch was deleted and made anew: its versions may have the same names."""
    if pinned.made_by is None or pinned.entry is None:
        return
    found = open_stores(settings).tables.find_transaction(pinned.entry.at)
    if found != pinned.made_by:
        raise NotFoundError(
            kind="branch",
            name=pinned.snapshot.branch,
            advice="it was deleted or made anew meanwhile; load the DataFrame again",
        )


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of about as many bytes as Spark is to be given at a time."""
    if batch.nbytes <= SPARK_BATCH_BYTES_MAX:
        yield batch
        return
    rows = max(1, batch.num_rows * SPARK_BATCH_BYTES_MAX // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        places = np.arange(start, min(start + rows, batch.num_rows))
        # A slice would keep its place among bytes that Arrow can count in 63 bits and Spark in 31.
        yield batch.take(pa.array(places))


def _encode_rows(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())
