"""The operation descriptor of a query for tools: what it returns, reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.compiler.ir import (
    Aggregate,
    AntiJoin,
    Bm25,
    Column,
    Constant,
    Delete,
    EntityId,
    Expand,
    Filter,
    Insert,
    MutationIR,
    MutationOperation,
    Nearest,
    NodeScan,
    Now,
    Operator,
    OptionalJoin,
    ParameterValue,
    PropertyValue,
    QueryIR,
    ReadIR,
    Rrf,
    Update,
)
from omnigraph.model.catalog import Catalog, TypeKind
from omnigraph.model.types import Scalar, Vector

KIND_BY_SCALAR = {
    Scalar.STRING: "string",
    Scalar.BLOB: "blob",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATETIME: "datetime",
    Scalar.DATE: "date",
}
"""The names of value types for tools."""


@dataclass(frozen=True, slots=True, order=True)
class TypeReference:
    """A node or edge type that a query uses; nodes sort before edges."""

    is_edge: bool
    type_name: str

    @property
    def kind(self) -> TypeKind:
        return TypeKind.EDGE if self.is_edge else TypeKind.NODE


@dataclass(frozen=True, slots=True)
class ResultField:
    """One field of a result: its name and the kind of its values."""

    name: str
    kind: str
    item_kind: str | None
    vector_dim: int | None
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class QueryDescriptor:
    """What a query returns, reads and writes."""

    result: tuple[ResultField, ...]
    reads: tuple[TypeReference, ...]
    writes: tuple[TypeReference, ...]


def describe_operation(ir: QueryIR, catalog: Catalog) -> QueryDescriptor:
    """The descriptor of a compiled query."""
    if isinstance(ir, ReadIR):
        fields = tuple(map(_describe_field, ir.columns))
        return QueryDescriptor(fields, _sorted(_pipeline_reads(ir.pipeline, catalog)), ())
    reads, writes = _mutation_touches(ir, catalog)
    return QueryDescriptor((), _sorted(reads), _sorted(writes))


def encode_operation(operation: QueryDescriptor) -> dict[str, object]:
    """Encode a descriptor as JSON; fields that do not apply are left out."""
    return {
        "result": [_encode_field(field) for field in operation.result],
        "reads": [_encode_reference(each) for each in operation.reads],
        "writes": [_encode_reference(each) for each in operation.writes],
    }


def _describe_field(column: Column) -> ResultField:
    name = column.name if column.is_aliased else _plain_name(column)
    # For tools a node variable is the whole entity, although a result shows its id.
    if isinstance(column.expression, EntityId):
        return ResultField(name, "object", None, None, column.type.is_nullable)
    is_nullable = column.type.is_nullable or isinstance(column.expression, Aggregate)
    element = column.type.element
    if isinstance(element, Vector):
        return ResultField(name, "vector", None, element.dimension, is_nullable)
    kind = KIND_BY_SCALAR[element]
    if column.type.is_list:
        return ResultField(name, "list", kind, None, is_nullable)
    return ResultField(name, kind, None, None, is_nullable)


def _plain_name(column: Column) -> str:
    """The name of a field without an alias, which is shorter than that of the column."""
    match column.expression:
        case PropertyValue(property=name):
            return name
        case Aggregate(function=function):
            return str(function)
        case Now():
            return "now"
        case EntityId() | ParameterValue() | Constant() | Nearest() | Bm25() | Rrf():
            return column.name


def _pipeline_reads(pipeline: Iterable[Operator], catalog: Catalog) -> Iterator[TypeReference]:
    for operator in pipeline:
        match operator:
            case NodeScan(type_name=name):
                yield _node(name)
            case Expand(edge_type=name):
                yield from _edge_with_ends(name, catalog)
            case AntiJoin(inner=inner) | OptionalJoin(inner=inner):
                yield from _pipeline_reads(inner, catalog)
            case Filter():
                pass


def _mutation_touches(
    ir: MutationIR, catalog: Catalog
) -> tuple[list[TypeReference], list[TypeReference]]:
    reads: list[TypeReference] = []
    writes: list[TypeReference] = []
    for operation in ir.operations:
        target = _target(operation)
        writes.append(target)
        reads.append(target)
        if isinstance(operation, Insert) and target.is_edge:
            reads.extend(_edge_with_ends(target.type_name, catalog))
        if isinstance(operation, Delete) and not target.is_edge:
            incident = [_edge(edge.name) for edge in catalog.incident_edges(target.type_name)]
            reads.extend(incident)
            writes.extend(incident)
    return reads, writes


def _target(operation: MutationOperation) -> TypeReference:
    if isinstance(operation, Update):
        return _node(operation.type_name)
    return TypeReference(operation.kind is TypeKind.EDGE, operation.type_name)


def _node(name: str) -> TypeReference:
    return TypeReference(is_edge=False, type_name=name)


def _edge(name: str) -> TypeReference:
    return TypeReference(is_edge=True, type_name=name)


def _edge_with_ends(name: str, catalog: Catalog) -> tuple[TypeReference, ...]:
    edge = catalog.edges[name]
    return _edge(name), _node(edge.source), _node(edge.target)


def _sorted(references: Iterable[TypeReference]) -> tuple[TypeReference, ...]:
    return tuple(sorted(set(references)))


def _encode_reference(reference: TypeReference) -> dict[str, object]:
    return {"kind": str(reference.kind), "type_name": reference.type_name}


def _encode_field(field: ResultField) -> dict[str, object]:
    optional = {"item_kind": field.item_kind, "vector_dim": field.vector_dim}
    present = {key: value for key, value in optional.items() if value is not None}
    return {"name": field.name, "kind": field.kind, **present, "nullable": field.is_nullable}
