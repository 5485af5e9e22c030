"""Mutations: operations of the IR, run against committed and pending rows, into a prepared write.

Pure but for reads: nothing is written here. Operations see what earlier ones of the same query
did; each id has one pending image, the latest. Inserts and updates never meet deletes in a query
(the compiler sees to that), so a table has rows to put or ids to remove, never both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import (
    Assignment,
    Comparator,
    Condition,
    Constant,
    Delete,
    Given,
    Insert,
    MutationIR,
    Now,
    ParameterValue,
    Update,
    Value,
)
from omnigraph.engine.commit.changes import Placement, PreparedWrite, TableChange
from omnigraph.engine.commit.integrity.evaluate import require_integrity
from omnigraph.engine.ops.pending import PendingRows
from omnigraph.engine.ops.reading.identity import node_ids
from omnigraph.engine.ops.reading.references import inline_reference
from omnigraph.engine.ops.told import Answer
from omnigraph.engine.read.conditions import BoundCondition, Column, Compare, bind
from omnigraph.engine.read.masks import mask
from omnigraph.engine.read.predicates import render_predicate
from omnigraph.engine.read.snapshot_rows import SnapshotRows
from omnigraph.engine.read.values import column_of, repeat_value
from omnigraph.engine.state.snapshot import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.runtime import Runtime
from omnigraph.model.types import FLOATS, Scalar
from omnigraph.storage.arrow_schema import table_schema
from omnigraph.storage.external_blobs import ExternalBlobs

_COLUMN_BY_ENDPOINT = {"from": "src", "to": "dst"}


@dataclass(frozen=True, slots=True)
class MutationCall:
    """What a caller asked for: the operations, the values of its parameters, the moment, and which
    references to blobs are followed."""

    ir: MutationIR
    values: Mapping[str, Value]
    now: datetime
    external: ExternalBlobs


@dataclass(frozen=True, slots=True)
class PreparedMutation:
    """What a mutation does, and how many nodes and edges its statements touched."""

    write: PreparedWrite
    affected_nodes: int
    affected_edges: int


def tell_mutation(done: PreparedMutation) -> Answer:
    """What the caller of a mutation is told of it."""
    return {"affected_nodes": done.affected_nodes, "affected_edges": done.affected_edges}


def prepare_mutation(
    call: MutationCall, *, catalog: Catalog, committed: SnapshotRows, runtime: Runtime
) -> PreparedMutation:
    """Work out and check what a mutation does; `IntegrityError` holds every broken rule."""
    run = _Run(call, catalog, committed, runtime)
    for operation in call.ir.operations:
        match operation:
            case Insert():
                run.insert(operation)
            case Update():
                run.update(operation)
            case Delete():
                run.delete(operation)
    changes = run.changes()
    require_integrity(changes, catalog=catalog, committed=committed)
    write = PreparedWrite(
        changes=changes,
        placement=run.placement(),
        # Last of all, because what the checks asked about belongs to it.
        read_set=committed.read_set,
        is_strict=run.is_strict,
    )
    return PreparedMutation(write, run.affected_nodes, run.affected_edges)


class _Run:
    """One query under way."""

    def __init__(
        self, call: MutationCall, catalog: Catalog, committed: SnapshotRows, runtime: Runtime
    ) -> None:
        self._call = call
        self._catalog = catalog
        self._committed = committed
        self._runtime = runtime
        self._pending: dict[str, PendingRows] = {}
        self.is_strict = False
        self.affected_nodes = 0
        self.affected_edges = 0

    def insert(self, operation: Insert) -> None:
        """Put one row, new or in place of the one with its key."""
        declared = self._declared(operation.kind, operation.type_name)
        values = {_column_name(each): self._value(each, declared) for each in operation.assignments}
        rows = _make_row(declared, values, self._runtime)
        self._rows_of(declared).put(rows, replaces_committed=False)
        self._count(declared, 1)

    def update(self, operation: Update) -> None:
        """Assign to the rows that the condition holds for, as they are by now."""
        declared = self._catalog.nodes[operation.type_name]
        pending = self._rows_of(declared)
        bound = self._bind(operation.condition, TypeKind.NODE)
        stored = self._find(declared, bound, columns=table_schema(declared).names)
        image = pending.image()
        stored = stored.filter(pc.invert(pc.is_in(stored["id"], value_set=_ids_of(image))))
        changed = image.filter(mask(bound, image))
        self.is_strict = True
        for rows, is_committed in ((changed, False), (stored, True)):
            if rows.num_rows:
                assigned = self._assign(declared, rows, operation.assignments)
                pending.put(assigned, replaces_committed=is_committed)
                self._count(declared, rows.num_rows)

    def delete(self, operation: Delete) -> None:
        """Remove the rows that the condition holds for, and the edges of removed nodes."""
        declared = self._declared(operation.kind, operation.type_name)
        bound = self._bind(operation.condition, operation.kind)
        found = self._find(declared, bound, columns=["id"])
        self.is_strict = True
        removed = self._remove(declared, found["id"].combine_chunks())
        if isinstance(declared, NodeType) and len(removed):
            for edge in self._catalog.incident_edges(declared.name):
                self._cascade(edge, declared, removed)

    def changes(self) -> dict[str, TableChange]:
        """What the operations amount to, by table key."""
        return {
            table_key: TableChange(
                type=pending.declared,
                put=pending.image(),
                removed=pending.removed,
                is_overwrite=False,
            )
            for table_key, pending in self._touched()
        }

    def placement(self) -> dict[str, Placement]:
        """How each of the changes reaches its table."""
        return {key: self._placement_of(key, pending) for key, pending in self._touched()}

    def _touched(self) -> list[tuple[str, PendingRows]]:
        return [each for each in sorted(self._pending.items()) if not each[1].is_empty]

    def _find(
        self, declared: NodeType | EdgeType, bound: BoundCondition, *, columns: Sequence[str]
    ) -> pa.Table:
        """The committed rows that a condition holds for."""
        table_key = table_key_of(declared)
        ids = _named_ids(declared, bound)
        if ids is not None:
            return self._committed.find_rows(table_key, "id", ids, columns=columns)
        predicate = render_predicate(bound)
        return self._committed.select(table_key, predicate=predicate, columns=columns)

    def _cascade(self, edge: EdgeType, declared: NodeType, nodes: pa.Array) -> None:
        for column, end in (("src", edge.source), ("dst", edge.target)):
            if end == declared.name:
                found = self._committed.find_rows(table_key_of(edge), column, nodes, columns=["id"])
                self._remove(edge, found["id"].combine_chunks())

    def _remove(self, declared: NodeType | EdgeType, ids: pa.Array) -> pa.Array:
        fresh = self._rows_of(declared).remove(ids)
        self._count(declared, len(fresh))
        return fresh

    def _placement_of(self, table_key: str, pending: PendingRows) -> Placement:
        if len(pending.removed):
            return Placement.REMOVE
        if pending.replaces_committed:
            return Placement.MERGE
        if not (isinstance(pending.declared, NodeType) and pending.declared.key):
            return Placement.APPEND
        # Adding rows needs no join with those that are there, so it is worth a look.
        known = self._committed.find_ids(table_key, _ids_of(pending.image()))
        return Placement.MERGE if len(known) else Placement.APPEND

    def _assign(
        self, declared: NodeType, rows: pa.Table, assignments: tuple[Assignment, ...]
    ) -> pa.Table:
        for each in assignments:
            values = repeat_value(
                self._value(each, declared),
                declared.properties[each.property].type,
                count=rows.num_rows,
                subject=f"{declared.name}.{each.property}",
            )
            position = rows.schema.get_field_index(each.property)
            rows = rows.set_column(position, table_schema(declared).field(position), values)
        return rows

    def _declared(self, kind: TypeKind, name: str) -> NodeType | EdgeType:
        types = self._catalog.nodes if kind is TypeKind.NODE else self._catalog.edges
        return types[name]

    def _rows_of(self, declared: NodeType | EdgeType) -> PendingRows:
        return self._pending.setdefault(table_key_of(declared), PendingRows(declared))

    def _bind(self, condition: Condition, kind: TypeKind) -> BoundCondition:
        return bind(condition, kind=kind, values=self._call.values, now=self._call.now)

    def _value(self, assignment: Assignment, declared: NodeType | EdgeType) -> Value:
        value = _read_given(assignment.value, self._call)
        assigned = declared.properties.get(assignment.property)
        if assigned is None or assigned.type.element is not Scalar.BLOB:
            return value
        return _inline(value, f"{declared.name}.{assigned.name}", self._call.external)

    def _count(self, declared: NodeType | EdgeType, rows: int) -> None:
        if isinstance(declared, NodeType):
            self.affected_nodes += rows
        else:
            self.affected_edges += rows


def _named_ids(declared: NodeType | EdgeType, bound: BoundCondition) -> pa.Array | None:
    """The ids of all rows that a condition can hold for, if it does no more than name a key."""
    if not isinstance(declared, NodeType) or len(declared.key) != 1:
        return None
    (key,) = declared.key
    match bound:
        case Compare(Column(name, scalar), Comparator.EQ, value) if name == key:
            # Equal floats may be written differently: there are two zeros.
            if scalar not in FLOATS:
                named = column_of([value], declared.properties[key].type, subject=key)
                return node_ids(declared, pa.table({key: named}))
    return None


def _read_given(given: Given, call: MutationCall) -> Value:
    match given:
        case ParameterValue(name):
            return call.values[name]
        case Constant(value):
            return value
        case Now():
            return call.now


def _inline(value: Value, subject: str, external: ExternalBlobs) -> Value:
    if not isinstance(value, str):
        return value
    try:
        return inline_reference(value, external)
    except ValueError as error:
        raise InvalidValueError(
            subject=subject, expected="Blob", value=value, problem=str(error)
        ) from error


def _column_name(assignment: Assignment) -> str:
    return _COLUMN_BY_ENDPOINT.get(assignment.property, assignment.property)


def _make_row(
    declared: NodeType | EdgeType, values: Mapping[str, Value], runtime: Runtime
) -> pa.Table:
    schema = table_schema(declared)
    columns = {
        name: column_of([values.get(name)], property.type, subject=f"{declared.name}.{name}")
        for name, property in declared.properties.items()
    }
    if isinstance(declared, EdgeType):
        columns |= {end: pa.array([values[end]], pa.string()) for end in ("src", "dst")}
        columns["id"] = pa.array([runtime.new_id()])
    elif declared.key:
        columns["id"] = node_ids(declared, pa.table(columns))
    else:
        columns["id"] = pa.array([runtime.new_id()])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _ids_of(rows: pa.Table) -> pa.Array:
    return rows["id"].combine_chunks()
