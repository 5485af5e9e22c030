"""Mutations: runs IR operations against committed and pending rows, into a prepared write.

Reads, but writes nothing. Operations see the effects of earlier operations of the same query; each
id has one pending row version, the latest. The compiler ensures that a query does not combine
deletes with inserts or updates, so a table has rows to put or ids to remove, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compiler.ir import (
    Assignment,
    Comparator,
    Delete,
    Insert,
    MutationIR,
    ParameterValue,
    Update,
    Value,
)
from omnigraph.compiler.parameters import NumberReading, convert_parameters
from omnigraph.engine.commit.integrity.check import require_integrity
from omnigraph.engine.commit.prepared_write import PreparedWrite, StagingMode, TableChange
from omnigraph.engine.commit.protocol import Authorship, WritePath
from omnigraph.engine.input.batches import inline_reference, node_ids
from omnigraph.engine.ops.embeddings import VectorPolicy, WriteVectors, empty_stale
from omnigraph.engine.ops.query import QueryCache
from omnigraph.engine.ops.recorded_responses import MUTATION_CODEC
from omnigraph.engine.ops.retry import Prepared, run_write
from omnigraph.engine.results import MutationResult
from omnigraph.engine.row_security import writes
from omnigraph.engine.rows.comparisons import Inputs
from omnigraph.engine.rows.conditions import (
    BoundCondition,
    Column,
    Compare,
    bind,
    evaluate_mask,
    find_predicate,
)
from omnigraph.engine.rows.snapshot_rows import PendingRows, SnapshotRows
from omnigraph.engine.rows.values import column_of, repeat_value
from omnigraph.engine.state.branch_state import Basis
from omnigraph.engine.state.manifest import table_key_of
from omnigraph.model.catalog import Catalog, EdgeType, NodeType, TypeKind
from omnigraph.model.errors import InvalidValueError
from omnigraph.model.names import END_BY_ROLE, BranchName
from omnigraph.model.runtime import Runtime
from omnigraph.model.types import FLOATS, STRING, Scalar
from omnigraph.storage.external_files import ExternalBlobs
from omnigraph.storage.row_files import table_schema


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mutation of a `.gq` text on a branch, with its parameters and its timestamp.

    `view` returns the part of a state that the caller may see. `external` determines which
    references to blobs are followed, and `vectors` the treatment of empty vectors.
    """

    source: str
    name: str | None
    params: Mapping[str, object] | None
    branch: BranchName
    now: datetime
    actor: str | None
    view: Callable[[Basis], Basis]
    compiled: QueryCache
    external: ExternalBlobs
    vectors: WriteVectors
    runtime: Runtime

    def prepare(self, basis: Basis, committed: SnapshotRows) -> Prepared[MutationResult]:
        """The write of the mutation onto a state; a restricted caller may only add rows."""
        restricted = self.view(basis)
        ir = self.compiled.mutation(
            self.source, name=self.name, accepted_schema=restricted.accepted_schema
        )
        if restricted.visible is None:
            return self._prepare(ir, basis.catalog, committed)
        writes.require_inserts(ir, actor=self.actor)
        writes.require_insertable(
            ir, catalog=basis.catalog, seen=restricted.catalog, actor=self.actor
        )
        ir = self.compiled.mutation(
            self.source, name=self.name, accepted_schema=basis.accepted_schema
        )
        prepared = self._prepare(ir, basis.catalog, committed)
        writes.require_new_rows(prepared.write.changes, committed=committed)
        return prepared

    def _prepare(
        self, ir: MutationIR, catalog: Catalog, committed: SnapshotRows
    ) -> Prepared[MutationResult]:
        """Compute and check the write; `IntegrityError` contains every violation.

        A parameter that its property cannot store raises `InvalidValueError` before any row is
        read, so that the error does not depend on whether a row matches. If vectors are due
        afterwards, the mutation is incomplete.
        """
        values = convert_parameters(ir.parameters, self.params, numbers=NumberReading.EXACT)
        for operation in ir.operations:
            if isinstance(operation, Insert | Update):
                _require_storable(operation, values, catalog, self.vectors.policy)
        run = _Run(self, values, catalog, committed)
        for operation in ir.operations:
            match operation:
                case Insert():
                    run.insert(operation)
                case Update():
                    run.update(operation)
                case Delete():
                    run.delete(operation)
        changes = run.changes()
        changes = self.vectors.fill(changes)
        require_integrity(changes, catalog=catalog, committed=committed)
        write = PreparedWrite(
            changes=changes,
            placement=run.placement(),
            # Evaluated last, because the checks add to the read set.
            read_set=committed.read_set,
            is_strict=run.is_strict,
        )
        return Prepared(write, MutationResult(run.affected_nodes, run.affected_edges, None))


def run_mutation(mutation: Mutation, *, authorship: Authorship, path: WritePath) -> MutationResult:
    """Commit a mutation, or change nothing."""
    done = run_write(
        mutation.branch,
        prepare=mutation.prepare,
        codec=MUTATION_CODEC,
        inputs=mutation.vectors,
        authorship=authorship,
        path=path,
    )
    return replace(done.result, commit_id=done.commit_id)


class _Run:
    """The execution of one query."""

    def __init__(
        self,
        mutation: Mutation,
        values: Mapping[str, Value],
        catalog: Catalog,
        committed: SnapshotRows,
    ) -> None:
        now = mutation.now
        self._mutation = mutation
        self._inputs = Inputs(values, now.replace(microsecond=now.microsecond // 1000 * 1000))
        self._catalog = catalog
        self._committed = committed
        self._pending: dict[str, PendingRows] = {}
        self.is_strict = False
        self.affected_nodes = 0
        self.affected_edges = 0

    def insert(self, operation: Insert) -> None:
        """Put one row, new or in place of the row with its key."""
        declared = _declared_type(operation.kind, operation.type_name, self._catalog)
        values = {
            END_BY_ROLE.get(each.property, each.property): self._value(each, declared)
            for each in operation.assignments
        }
        rows = _make_row(declared, values, self._mutation.runtime)
        self._rows_of(declared).put(rows, replaces_committed=False)
        self._count(declared, 1)

    def update(self, operation: Update) -> None:
        """Assign to the rows that match the condition in their pending state."""
        declared = self._catalog.nodes[operation.type_name]
        pending = self._rows_of(declared)
        bound = bind(operation.condition, kind=TypeKind.NODE, inputs=self._inputs)
        stored = self._find(declared, bound, columns=table_schema(declared).names)
        pending_rows = pending.rows()
        stored = stored.filter(pc.invert(pc.is_in(stored["id"], value_set=_ids_of(pending_rows))))
        changed = pending_rows.filter(evaluate_mask(bound, pending_rows))
        self.is_strict = True
        for rows, is_committed in ((changed, False), (stored, True)):
            if rows.num_rows:
                assigned = self._assign(declared, rows, operation.assignments)
                pending.put(assigned, replaces_committed=is_committed)
                self._count(declared, rows.num_rows)

    def delete(self, operation: Delete) -> None:
        """Remove the rows that match the condition, and the edges of removed nodes."""
        declared = _declared_type(operation.kind, operation.type_name, self._catalog)
        bound = bind(operation.condition, kind=operation.kind, inputs=self._inputs)
        found = self._find(declared, bound, columns=["id"])
        self.is_strict = True
        removed = self._remove(declared, found["id"].combine_chunks())
        if isinstance(declared, NodeType) and len(removed):
            for edge in self._catalog.incident_edges(declared.name):
                self._cascade(edge, declared, removed)

    def changes(self) -> dict[str, TableChange]:
        """The changes of all operations, by table key."""
        return {
            table_key: TableChange(
                type=pending.declared,
                put=pending.rows(),
                removed=pending.removed,
                is_overwrite=False,
            )
            for table_key, pending in self._touched()
        }

    def placement(self) -> dict[str, StagingMode]:
        """The staging mode of each change."""
        return {key: self._placement_of(key, pending) for key, pending in self._touched()}

    def _touched(self) -> list[tuple[str, PendingRows]]:
        return [each for each in sorted(self._pending.items()) if not each[1].is_empty]

    def _find(
        self, declared: NodeType | EdgeType, bound: BoundCondition, *, columns: Sequence[str]
    ) -> pa.Table:
        """The committed rows that match a condition."""
        table_key = table_key_of(declared)
        ids = _named_ids(declared, bound)
        if ids is not None:
            return self._committed.find_rows(table_key, "id", ids, columns=columns)
        predicate = find_predicate(bound)
        return self._committed.select(table_key, predicate=predicate, columns=columns)

    def _cascade(self, edge: EdgeType, declared: NodeType, nodes: pa.Array) -> None:
        for column, end in edge.ends.items():
            if end == declared.name:
                found = self._committed.find_rows(table_key_of(edge), column, nodes, columns=["id"])
                self._remove(edge, found["id"].combine_chunks())

    def _remove(self, declared: NodeType | EdgeType, ids: pa.Array) -> pa.Array:
        fresh = self._rows_of(declared).remove(ids)
        self._count(declared, len(fresh))
        return fresh

    def _placement_of(self, table_key: str, pending: PendingRows) -> StagingMode:
        if len(pending.removed):
            return StagingMode.REMOVE
        if pending.replaces_committed:
            return StagingMode.MERGE
        if not (isinstance(pending.declared, NodeType) and pending.declared.key):
            return StagingMode.APPEND
        # An append needs no join with existing rows, so the lookup is worthwhile.
        known = self._committed.find_ids(table_key, _ids_of(pending.rows()))
        return StagingMode.MERGE if len(known) else StagingMode.APPEND

    def _assign(
        self, declared: NodeType, before: pa.Table, assignments: tuple[Assignment, ...]
    ) -> pa.Table:
        rows = before
        for each in assignments:
            values = repeat_value(
                self._value(each, declared),
                declared.properties[each.property].type,
                count=rows.num_rows,
                subject=f"{declared.name}.{each.property}",
            )
            position = rows.schema.get_field_index(each.property)
            rows = rows.set_column(position, table_schema(declared).field(position), values)
        if not self._mutation.vectors.policy.follows_text:
            return rows
        return empty_stale(declared, before, rows, assigned={each.property for each in assignments})

    def _rows_of(self, declared: NodeType | EdgeType) -> PendingRows:
        return self._pending.setdefault(table_key_of(declared), PendingRows(declared))

    def _value(self, assignment: Assignment, declared: NodeType | EdgeType) -> Value:
        value = self._inputs.value_of(assignment.value)
        assigned = declared.properties.get(assignment.property)
        is_blob = assigned is not None and assigned.type.element is Scalar.BLOB
        if not is_blob or not isinstance(value, str):
            return value
        try:
            return inline_reference(value, self._mutation.external)
        except ValueError as error:
            subject = f"{declared.name}.{assignment.property}"
            raise InvalidValueError(
                subject=subject, expected="Blob", value=value, problem=str(error)
            ) from error

    def _count(self, declared: NodeType | EdgeType, rows: int) -> None:
        if isinstance(declared, NodeType):
            self.affected_nodes += rows
        else:
            self.affected_edges += rows


def _declared_type(kind: TypeKind, name: str, catalog: Catalog) -> NodeType | EdgeType:
    return catalog.nodes[name] if kind is TypeKind.NODE else catalog.edges[name]


def _require_storable(
    operation: Insert | Update,
    values: Mapping[str, Value],
    catalog: Catalog,
    policy: VectorPolicy,
) -> None:
    """Raise unless the assigned parameters can be stored in their properties."""
    kind = operation.kind if isinstance(operation, Insert) else TypeKind.NODE
    declared = _declared_type(kind, operation.type_name, catalog)
    for each in operation.assignments:
        if not isinstance(each.value, ParameterValue):
            # The compiler has checked literals, and `now()` is valid wherever it is allowed.
            continue
        is_end = each.property in END_BY_ROLE and kind is TypeKind.EDGE
        type = STRING if is_end else declared.properties[each.property].type
        value = values[each.value.name]
        subject = f"{declared.name}.{each.property}"
        # A missing vector is filled before the mutation is complete.
        is_filled = (
            not is_end
            and declared.properties[each.property].embedding is not None
            and policy.embedder is not None
        )
        if value is None and not (type.is_nullable or is_filled):
            raise InvalidValueError(
                subject=f"param '{each.value.name}'",
                expected=str(type),
                value=None,
                problem=f"null is not accepted, because {subject} is required",
            )
        if not type.is_blob:
            column_of([value], type, subject=subject)


def _named_ids(declared: NodeType | EdgeType, bound: BoundCondition) -> pa.Array | None:
    """The ids of all rows that can match a condition, if it only compares a key for equality."""
    if not isinstance(declared, NodeType) or len(declared.key) != 1:
        return None
    (key,) = declared.key
    match bound:
        case Compare(Column(name, scalar), Comparator.EQ, value) if name == key:
            # Equal floats can have different encodings, because there are two zeros.
            if scalar not in FLOATS:
                named = column_of([value], declared.properties[key].type, subject=key)
                return node_ids(declared, pa.table({key: named}))
    return None


def _make_row(
    declared: NodeType | EdgeType, values: Mapping[str, Value], runtime: Runtime
) -> pa.Table:
    schema = table_schema(declared)
    columns = {
        name: column_of([values.get(name)], property.type, subject=f"{declared.name}.{name}")
        for name, property in declared.properties.items()
    }
    if isinstance(declared, NodeType) and declared.key:
        columns["id"] = node_ids(declared, pa.table(columns))
    else:
        columns["id"] = pa.array([runtime.new_id()])
    columns |= {end: pa.array([values[end]], pa.string()) for end in declared.ends}
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _ids_of(rows: pa.Table) -> pa.Array:
    return rows["id"].combine_chunks()
